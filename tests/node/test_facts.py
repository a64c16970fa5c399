"""Facts: interfaces, GPUs and the training's Python, whatever is missing or broken."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from ncclrun.model import facts as model
from ncclrun.model.settings import NodeSettings
from ncclrun.node import commands, getifaddrs, gpus, interfaces, netlink, pythons
from tests.node.client import Client, connected
from tests.node.conftest import OLDEST


def program(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_the_answer_has_the_fields_of_the_model(node: Client) -> None:
    answer = node.call("facts", python=sys.executable)
    fields = set(model.NodeFacts.__dataclass_fields__) - {"clock_offset", "round_trip"}
    assert set(answer) - {"ok", "re"} == fields
    assert set(answer["python"]) == set(model.PythonFacts.__dataclass_fields__)
    for link in answer["interfaces"]:
        assert set(link) == set(model.Interface.__dataclass_fields__)
        assert all(set(address) == set(model.Address.__dataclass_fields__) for address in link["addresses"])


def test_it_beats_while_it_looks_for_long(env: dict[str, str], tmp_path: Path) -> None:
    program(
        tmp_path / "nvidia-smi",
        "#!/bin/sh\ncase $* in *apps*) exit ;; esac; sleep 3; echo '0, H200, GPU-1, 143771, 570.1, 0'\n",
    )
    with connected(OLDEST, {**env, "PATH": f"{tmp_path}:{env['PATH']}"}) as node:
        number = node.send("facts", python="")
        node.event("beat")
        assert node.call("clock")["time"] > 0
        assert number not in node.answers
        assert node.answer(number)["gpus"] == [
            {"index": 0, "name": "H200", "uuid": "GPU-1", "memory": 143771, "used": 0}
        ]


def test_misleading_variables_of_the_login_environment_are_named(env: dict[str, str]) -> None:
    login = {"RANK": "0", "MASTER_ADDR": "x", "PET_NNODES": "2", "NCCL_SOCKET_IFNAME": "eth0", "RANKING": "1"}
    with connected(OLDEST, {**env, **login}) as node:
        answer = node.call("facts", python="")
    assert answer["stale"] == ["MASTER_ADDR", "PET_NNODES", "RANK"]
    assert answer["settings"]["login"] == {"HOME": env["HOME"], "NCCL_SOCKET_IFNAME": "eth0"}


def test_what_the_node_itself_says_to_nccl_is_told(env: dict[str, str], home: Path) -> None:
    (home / ".nccl.conf").write_text("NCCL_IB_HCA=mlx5_0  # mine\n")
    (home / ".bashrc").write_text("export NCCL_DEBUG=INFO\n")
    with connected(OLDEST, {**env, "NCCL_DEBUG": "INFO"}) as node:
        settings = node.call("facts", python="")["settings"]
    assert set(settings) == set(NodeSettings.__dataclass_fields__)
    assert {file["path"]: file["text"] for file in settings["conf_files"]}[
        f"{home}/.nccl.conf"
    ] == "NCCL_IB_HCA=mlx5_0  # mine\n"
    assert {"file": f"{home}/.bashrc", "line": 1, "name": "NCCL_DEBUG", "text": "export NCCL_DEBUG=INFO"} in settings[
        "mentions"
    ]


def test_who_sets_variables_is_not_looked_for_where_there_are_none(node: Client, home: Path) -> None:
    (home / ".bashrc").write_text("export NCCL_DEBUG=INFO\n")
    assert node.call("facts", python="")["settings"]["mentions"] == []


class TestInterfaces:
    def test_netlink_and_getifaddrs_agree(self) -> None:
        def shape(links: list[dict[str, Any]]) -> dict[str, Any]:
            return {
                link["name"]: {key: value for key, value in link.items() if key not in ("addresses", "kind")}
                for link in links
            }

        def addresses(links: list[dict[str, Any]]) -> set[tuple[str, str, int, str]]:
            return {(li["name"], a["address"], a["prefix"], a["scope"]) for li in links for a in li["addresses"]}

        kernel, libc = netlink.links(), getifaddrs.find()
        assert shape(kernel) == shape(libc)
        assert addresses(kernel) == addresses(libc)

    def test_loopback_is_there_and_virtual(self) -> None:
        (loopback,) = (link for link in interfaces.find([]) if link["loopback"])
        assert loopback["index"] == socket.if_nametoindex(loopback["name"])
        assert loopback["virtual"]
        assert {"address": "127.0.0.1", "prefix": 8, "scope": "host"} in loopback["addresses"]


class TestGpus:
    SMI = "#!/bin/sh\ncase $* in *--query-gpu=*) ;; *) exit 9 ;; esac\n"

    @pytest.fixture(autouse=True)
    def path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        monkeypatch.setattr(gpus, "PROC_GPUS", tmp_path / "proc")

    def test_nvidia_smi_on_path_is_asked(self, tmp_path: Path) -> None:
        rows = ("0, NVIDIA H200, GPU-aa, 143771, 570.124.06, 4", "1, NVIDIA A, GPU-bb, [N/A], 570.124.06, [N/A]")
        lines = "".join(f"echo '{row}'\n" for row in rows)
        program(tmp_path / "nvidia-smi", self.SMI + lines)
        found = gpus.find()
        assert found.driver == "570.124.06"
        assert found.gpus == [
            {"index": 0, "name": "NVIDIA H200", "uuid": "GPU-aa", "memory": 143771, "used": 4},
            {"index": 1, "name": "NVIDIA A", "uuid": "GPU-bb", "memory": None, "used": None},
        ]

    def test_no_devices_is_no_gpu(self, tmp_path: Path) -> None:
        program(tmp_path / "nvidia-smi", "#!/bin/sh\necho 'No devices were found'\n")
        assert gpus.find().gpus == []

    @pytest.mark.parametrize("smi", ["exec sleep 1000", "exit 9", "kill -9 $$", "echo '0, x'"])
    def test_a_broken_nvidia_smi_leaves_proc(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, smi: str) -> None:
        monkeypatch.setattr(gpus, "SMI_SECONDS", 0.3)
        program(tmp_path / "nvidia-smi", f"#!/bin/sh\n{smi}\n")
        for bus, uuid in (("0000:01:00.0", "GPU-x"), ("0000:02:00.0", "GPU-y")):
            (tmp_path / "proc" / bus).mkdir(parents=True)
            text = f"Model: \t\t NVIDIA H200\nIRQ:   \t\t 16\nGPU UUID: \t {uuid}\n"
            (tmp_path / "proc" / bus / "information").write_text(text)
        found = gpus.find().gpus
        assert [(gpu["index"], gpu["name"], gpu["uuid"]) for gpu in found] == [
            (0, "NVIDIA H200", "GPU-x"),
            (1, "NVIDIA H200", "GPU-y"),
        ]

    @pytest.mark.parametrize("words", ["x86_64 Kernel Module", "Open Kernel Module for x86_64", "Kernel Module"])
    def test_the_drivers_version_is_read_from_proc(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
    ) -> None:
        monkeypatch.setattr(gpus, "PROC_VERSION", tmp_path / "version")
        (tmp_path / "version").write_text(
            f"NVRM version: NVIDIA UNIX {words}  580.159.04  Release\nGCC version: 13.3\n"
        )
        assert gpus._from_proc().driver == "580.159.04"

    @pytest.mark.parametrize(
        ("setting", "count"),
        [
            (None, 3),
            ("", 0),
            ("0", 1),
            ("2,0", 2),
            ("0,7,1", 1),
            ("GPU-a", 1),
            ("GPU-", 0),
            ("-1", 0),
            ("NoDevFiles", 0),
        ],
    )
    def test_cuda_visible_devices_counts_as_cuda_counts(self, setting: str | None, count: int) -> None:
        three = [{"uuid": f"GPU-{letter}"} for letter in "abc"]
        assert gpus.visible(three, setting) == count


class TestPythons:
    def test_each_interpreter_tells_its_version(self, every_python: str) -> None:
        found = pythons.probe(every_python)
        assert (found["executable"], found["error"]) == (every_python, "")
        assert found["version"].startswith("3.")

    def test_a_torch_is_read_from_its_files_not_imported(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "torch").mkdir()
        (tmp_path / "torch" / "__init__.py").write_text("raise SystemExit('imported')")
        (tmp_path / "torch" / "version.py").write_text(
            "from typing import Optional\n__all__ = ['__version__']\n__version__ = '2.7.1+cu128'\ndebug = False\n"
            "cuda: Optional[str] = '12.8'\ngit_version = 'e2d1'\nhip: Optional[str] = None\n"
        )
        for name, version in (("nvidia_nccl_cu12", "2.26.2"), ("nvidia_nccl_cu11", "2.19.0")):
            info = tmp_path / f"{name}-{version}.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(
                f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n"
            )
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        found = pythons.probe(sys.executable)
        assert (found["torch"], found["cuda"], found["nccl"]) == ("2.7.1+cu128", "12.8", "2.26.2")

    @pytest.mark.parametrize("version", ["2.7.18", "3.6.15", "3.7.16"])
    def test_an_old_python_is_named_as_such(self, version: str) -> None:
        paths = sorted((Path.home() / ".pyenv" / "versions" / version / "bin").glob("python[23].[0-9]"))
        if not paths:
            pytest.skip(f"no Python {version} here")
        found = pythons.probe(str(paths[0]))
        assert found["version"] == version
        assert "too old" in found["error"]

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("#!/bin/sh\necho broken >&2; exit 3\n", "exit code 3: broken"),
            ("#!/bin/sh\nkill -SEGV $$\n", "signal 11 (SIGSEGV)"),
            ("#!/no/such/interpreter\n", "No such file"),
            ("\x7fELF", "Exec format error"),
            ("#!/bin/sh\nsleep 1000\n", "did not answer"),
            ("#!/bin/sh\necho hello\n", "exit code 0"),
        ],
    )
    def test_a_broken_python_says_how(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
    ) -> None:
        monkeypatch.setattr(pythons, "SECONDS", 0.5)
        found = pythons.probe(program(tmp_path / "python", text))
        assert found["version"] == ""
        assert words in found["error"]

    def test_a_missing_python_is_told(self) -> None:
        assert "not on that host" in pythons.probe("no-such-python")["error"]


def test_a_program_that_hangs_does_not_hang_us(tmp_path: Path) -> None:
    output = commands.ask([program(tmp_path / "p", "#!/bin/sh\ntrap '' TERM\nsleep 1000 & sleep 1000\n")], 0.2)
    assert output.code is None


def test_what_a_program_said_before_it_hung_is_kept_though_a_child_of_its_own_holds_the_pipes(tmp_path: Path) -> None:
    text = "#!/bin/sh\necho said\nsetsid sleep 3 &\nsleep 1000\n"
    output = commands.ask([program(tmp_path / "p", text)], 0.3)
    assert (output.code, output.out) == (None, "said\n")


def test_of_a_program_that_never_stops_talking_the_beginning_is_kept(tmp_path: Path) -> None:
    output = commands.ask([program(tmp_path / "p", "#!/bin/sh\necho first\nexec cat /dev/zero\n")], 0.5)
    assert output.code is None
    assert output.out.startswith("first\n")
    assert len(output.out) == commands.MOST_BYTES


def test_a_program_that_closes_its_streams_is_waited_for(tmp_path: Path) -> None:
    text = "#!/bin/sh\necho said\nexec >&- 2>&-\nsleep 0.2; exit 7\n"
    assert commands.ask([program(tmp_path / "p", text)], 10) == (7, "said\n", "")
