"""NCCL's own answer: from the real library where the package is installed, and from libraries that misbehave."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ncclrun.model import network as model
from ncclrun.nccl.lines import bootstrap_line
from ncclrun.node import ncclask, ncclchild
from tests.node.client import connected
from tests.node.conftest import OLDEST


@pytest.fixture(scope="session")
def site() -> Path:
    """The directory of the installed package with the real library."""
    spec = importlib.util.find_spec("nvidia.nccl") if importlib.util.find_spec("nvidia") else None
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("no libnccl here: pip install --no-deps nvidia-nccl-cu12")
    return Path(next(iter(spec.submodule_search_locations))).parents[1]


@pytest.fixture
def loopback(env: dict[str, str]) -> dict[str, str]:
    """An environment that leads NCCL to the loopback, which every machine has."""
    return {**env, "NCCL_SOCKET_IFNAME": "=lo", "NCCL_SOCKET_FAMILY": "AF_INET"}


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A Python that sees no package but those that PYTHONPATH names."""
    return program(tmp_path / "python", f'exec {OLDEST} -S "$@"\n')


def program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)
    return path


def packaged(place: Path) -> Path:
    """Where the pip package has its library."""
    directory = place / "nvidia" / "nccl" / "lib"
    directory.mkdir(parents=True)
    return directory / "libnccl.so.2"


def interface(answer: dict[str, Any]) -> str:
    """The one that NCCL names."""
    place = next(filter(None, map(bootstrap_line, answer["lines"])), None)
    return place.interface if place is not None else ""


class TestTheRealLibrary:
    def test_it_says_which_interface_it_would_use(self, site: Path, loopback: dict[str, str]) -> None:
        with connected(OLDEST, {**loopback, "PYTHONPATH": str(site)}) as node:
            answer = node.call("nccl", python=sys.executable, env={}, defaults={}, unset=[])
        assert set(answer) - {"ok", "re"} == set(model.NcclAnswer.__dataclass_fields__) - {"interface", "address"}
        assert answer["library"] == str(site / "nvidia" / "nccl" / "lib" / "libnccl.so.2")
        assert interface(answer) == "lo"
        assert (answer["result"], answer["error"]) == (0, "")
        assert answer["version"].startswith("2.")
        assert any("NCCL_SOCKET_IFNAME set by environment to =lo" in line for line in answer["lines"])

    def test_the_planned_environment_goes_over_the_logins(self, site: Path, env: dict[str, str]) -> None:
        login = {**env, "PYTHONPATH": str(site), "NCCL_SOCKET_IFNAME": "=no-such", "NCCL_COMM_ID": "203.0.113.1:1"}
        planned = {"NCCL_SOCKET_IFNAME": "=lo"}
        with connected(OLDEST, login) as node:
            answer = node.call("nccl", python=sys.executable, env=planned, defaults={}, unset=["NCCL_COMM_ID"])
        assert interface(answer) == "lo"

    def test_a_filter_that_matches_nothing_has_a_result_and_no_interface(self, site: Path, env: dict[str, str]) -> None:
        answer = ncclask.ask(sys.executable, {**env, "PYTHONPATH": str(site), "NCCL_SOCKET_IFNAME": "=no-such"})
        assert interface(answer) == answer["error"] == ""
        assert answer["result"] not in (0, None)
        assert any("no socket interface found" in line for line in answer["lines"])

    def test_ones_own_debug_settings_change_nothing(self, site: Path, loopback: dict[str, str], tmp_path: Path) -> None:
        conf = tmp_path / "nccl.conf"
        conf.write_text(f"NCCL_DEBUG=WARN\nNCCL_DEBUG_FILE={tmp_path}/from-conf\nNCCL_IB_DISABLE=1\n")
        own = {"NCCL_DEBUG": "VERSION", "NCCL_DEBUG_SUBSYS": "COLL", "NCCL_DEBUG_FILE": f"{tmp_path}/from-env"}
        answer = ncclask.ask(sys.executable, {**loopback, "PYTHONPATH": str(site), "NCCL_CONF_FILE": str(conf), **own})
        assert interface(answer) == "lo"
        assert not list(tmp_path.glob("from-*"))
        assert answer["conf_files"][0]["path"] == str(conf)
        assert answer["conf_files"][0]["text"] == conf.read_text()

    def test_a_conf_file_can_be_asked_about_before_there_is_one(self, site: Path, env: dict[str, str]) -> None:
        with connected(OLDEST, {**env, "PYTHONPATH": str(site)}) as node:
            asked: dict[str, Any] = {"python": sys.executable, "env": {}, "defaults": {}, "unset": []}
            answer = node.call("nccl", conf="NCCL_SOCKET_IFNAME==lo\nNCCL_SOCKET_FAMILY=AF_INET\n", **asked)
        assert interface(answer) == "lo"
        (named,) = (file for file in answer["conf_files"] if "named" in file["roles"])
        assert (named["path"], named["mode"], named["text"].split("\n")[0]) == (
            "nccl.conf",
            0o600,
            "NCCL_SOCKET_IFNAME==lo",
        )
        assert not list(Path(env["HOME"]).rglob("*.conf"))


class TestWhatGoesWrong:
    """A shell script stands for a Python whose libnccl, once found, misbehaves."""

    FOUND = (
        f"""echo '{ncclchild.MARK}{{"library": "/v/libnccl.so.2"}}'; echo '{ncclchild.MARK}{{"version": "2.27.5"}}'\n"""
    )

    def test_a_crash_is_told_with_the_signal(self, tmp_path: Path, env: dict[str, str]) -> None:
        answer = ncclask.ask(str(program(tmp_path / "python", self.FOUND + "kill -SEGV $$\n")), env)
        assert answer["error"] == "it crashed by signal 11 (SIGSEGV)"
        assert (answer["library"], answer["version"], answer["result"]) == ("/v/libnccl.so.2", "2.27.5", None)

    def test_a_hang_ends_at_the_limit_and_keeps_what_was_said(
        self, tmp_path: Path, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ncclask, "SECONDS", 1.0)
        said = "echo 'n:1:1 [0] NCCL INFO Bootstrap : Using eth9:10.0.0.9<0>' >&2; exec sleep 1000\n"
        answer = ncclask.ask(str(program(tmp_path / "python", self.FOUND + said)), env)
        assert answer["error"] == "it did not answer within 1 s"
        assert (answer["library"], interface(answer)) == ("/v/libnccl.so.2", "eth9")

    def test_a_python_that_can_not_run_the_question_says_why(self, tmp_path: Path, env: dict[str, str]) -> None:
        answer = ncclask.ask(str(program(tmp_path / "python", "echo SyntaxError: too old >&2; exit 1\n")), env)
        assert answer["error"] == "the program that asks it ended with exit code 1: SyntaxError: too old"

    def test_many_long_lines_are_cut(self, tmp_path: Path, env: dict[str, str]) -> None:
        loop = "for i in $(seq 90); do printf 'NCCL INFO %0500d\\n' $i >&2; done\n"
        answer = ncclask.ask(str(program(tmp_path / "python", self.FOUND + loop)), env)
        assert [len(line) for line in answer["lines"]] == [ncclask.LONGEST_LINE] * ncclask.MOST_LINES

    def test_the_line_that_is_asked_for_is_among_them(self, tmp_path: Path, env: dict[str, str]) -> None:
        loop = 'for i in $(seq 90); do echo "NCCL INFO a plugin says $i" >&2; done\n'
        loop += "echo 'n:1:1 [0] NCCL INFO Bootstrap : Using eth9:10.0.0.9<0>' >&2\n"
        answer = ncclask.ask(str(program(tmp_path / "python", self.FOUND + loop)), env)
        assert interface(answer) == "eth9"


class TestWhichLibrary:
    def test_one_that_is_no_nccl_is_told(self, tmp_path: Path, bare: Path, env: dict[str, str]) -> None:
        with Path("/proc/self/maps").open() as maps:
            libc = next(line.split()[-1] for line in maps if "libc.so.6" in line)
        packaged(tmp_path).symlink_to(libc)
        answer = ncclask.ask(str(bare), {**env, "PYTHONPATH": str(tmp_path)})
        assert answer["library"].startswith(str(tmp_path))
        assert "it is no NCCL that we know" in answer["error"]

    def test_a_file_that_is_no_library_is_told(self, tmp_path: Path, bare: Path, env: dict[str, str]) -> None:
        packaged(tmp_path).write_text("a pointer of a version control system\n")
        answer = ncclask.ask(str(bare), {**env, "PYTHONPATH": str(tmp_path)})
        assert answer["error"].startswith("it can't be loaded: ")

    def test_one_for_another_processor_is_told(self, tmp_path: Path, bare: Path, env: dict[str, str]) -> None:
        elf = bytearray(Path(sys.executable).resolve().read_bytes()[:4096])
        elf[18:20] = b"\xf3\x00"  # e_machine: RISC-V
        packaged(tmp_path).write_bytes(elf)
        answer = ncclask.ask(str(bare), {**env, "PYTHONPATH": str(tmp_path)})
        assert answer["error"].endswith("though it is there: is it for another processor?")

    def test_the_one_beside_torch_goes_before_the_others(self, tmp_path: Path, bare: Path, env: dict[str, str]) -> None:
        for place in ("first", "with-torch"):
            packaged(tmp_path / place).write_text("")
        (tmp_path / "with-torch" / "torch").mkdir()
        (tmp_path / "with-torch" / "torch" / "__init__.py").write_text("raise SystemExit('imported')")
        answer = ncclask.ask(str(bare), {**env, "PYTHONPATH": f"{tmp_path}/first:{tmp_path}/with-torch"})
        assert answer["library"].startswith(f"{tmp_path}/with-torch/")

    def test_a_torch_with_nccl_inside_is_not_started(self, tmp_path: Path, bare: Path, env: dict[str, str]) -> None:
        (tmp_path / "torch" / "lib").mkdir(parents=True)
        (tmp_path / "torch" / "__init__.py").write_text("raise SystemExit('imported')")
        cuda = tmp_path / "torch" / "lib" / "libtorch_cuda.so"
        shutil.copy(sys.executable, cuda)  # any ELF file that needs no libnccl
        answer = ncclask.ask(str(bare), {**env, "PYTHONPATH": str(tmp_path)})
        assert answer["library"] == ""
        assert answer["error"] == f"NCCL is inside torch ({cuda}): it can't be asked without starting torch"


def test_a_node_without_the_python_says_so(env: dict[str, str]) -> None:
    assert ncclask.ask("no-such-python", env)["error"] == "no-such-python is not on that host, or no program"


def test_the_needed_libraries_are_read_from_the_file() -> None:
    found = subprocess.run(["ldd", sys.executable], capture_output=True, text=True, check=True).stdout
    names = ncclchild.needed(Path(sys.executable))
    assert any(name.startswith("libc.so") for name in names)
    assert all(name in found for name in names)
