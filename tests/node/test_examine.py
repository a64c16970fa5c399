"""The examination: what its parts read of real programs' words, and that one which hangs costs itself alone."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from ncclrun.model import health as model
from ncclrun.node import (
    commands,
    examine,
    firewall,
    framechild,
    gpuhealth,
    gpus,
    kernellog,
    libraries,
    loginshell,
    pcie,
    system,
)
from tests.node.client import Client, connected
from tests.node.conftest import OLDEST

H200 = (Path(__file__).parent / "recorded" / "h200.xml").read_text("utf-8")


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


class TestWhole:
    def test_the_answer_has_the_fields_of_the_model(self, node: Client) -> None:
        answer = node.call("examine", python=OLDEST)
        told = {name: value for name, value in answer.items() if name not in ("ok", "re")}
        assert set(told) | set(told["unknown"]) == set(model.Examination.__dataclass_fields__)
        found = TypeAdapter(model.Examination).validate_python(told, strict=False)
        assert found.installed is not None
        assert set(told["installed"]) == set(model.Installed.__dataclass_fields__)
        assert found.shell is not None
        assert found.shell.path.startswith("/")

    def test_the_system_stands_in_the_facts(self, node: Client) -> None:
        told = node.call("facts", python="")["system"]
        assert set(told) == set(model.System.__dataclass_fields__)
        found = TypeAdapter(model.System).validate_python(told)
        assert found.memory.total is not None
        assert found.shared_memory is not None
        assert set(found.limits) == {"memlock", "nofile", "address_space"}

    def test_what_fails_is_unknown_with_the_reason_and_the_rest_is_told(
        self, env: dict[str, str], tmp_path: Path
    ) -> None:
        program(tmp_path / "nvidia-smi", "echo 'No devices were found'; exit 6")
        with connected(OLDEST, {**env, "PATH": f"{tmp_path}:{env['PATH']}"}) as node:
            answer = node.call("examine", python=OLDEST)
        assert answer["unknown"]["health"] == "nvidia-smi ended with exit code 6: No devices were found"
        assert "health" not in answer
        assert "installed" in answer

    def test_nothing_else_runs_while_the_login_shell_is_timed(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        torch = tmp_path / "torch"

        def start(*_: object) -> dict[str, Any]:
            torch.mkdir()
            return {}

        def log_in() -> dict[str, Any]:
            time.sleep(0.3)
            return {"disturbed": torch.exists()}

        monkeypatch.setattr(loginshell, "find", log_in)
        monkeypatch.setattr(libraries, "find", start)
        told = examine.find("", {})
        assert told["shell"] == {"disturbed": False}
        assert torch.exists()


class TestGpus:
    """nvidia-smi's report, as a real driver gives it."""

    def test_none_at_all_is_no_failure_with_exit_code_0(self) -> None:
        assert gpus.failure(commands.Output(0, "\n", "")) == "nvidia-smi prints nothing"
        assert gpus.failure(commands.Output(0, "hello\n", "")) == "nvidia-smi does not print what it should: hello"
        assert gpus.failure(commands.Output(6, "No devices\n", "")) == "nvidia-smi ended with exit code 6: No devices"

    def test_a_sound_one(self) -> None:
        (gpu,) = gpuhealth.parse(H200)
        assert set(gpu) == set(model.GpuHealth.__dataclass_fields__)
        assert gpu == {
            "index": 0,
            "uuid": "GPU-11111111-2222-3333-4444-555555555555",
            "bus": "00000000:00:06.0",
            "ecc": "Enabled",
            "uncorrected": 0,
            "remap_pending": False,
            "remap_failed": False,
            "recovery": "",
            "refusal": "",
            "persistence": "Enabled",
            "mig": "Disabled",
            "compute_mode": "Default",
            "width": 16,
            "widest": 16,
            "slow": [],
            "temperature": 37,
            "fabric": "",
        }

    @pytest.mark.parametrize(
        ("old", "new", "field", "value"),
        [
            ("<dram_uncorrectable>0<", "<dram_uncorrectable>2<", "uncorrected", 2),
            ("<remapped_row_pending>No<", "<remapped_row_pending>Yes<", "remap_pending", True),
            ("<remapped_row_failure>No<", "<remapped_row_failure>Yes<", "remap_failed", True),
            ("<current_mig>Disabled<", "<current_mig>Enabled<", "mig", "Enabled"),
            ("<current_link_width>16x<", "<current_link_width>8x<", "width", 8),
            (
                "thermal_slowdown>Not Active<",
                "thermal_slowdown>Active<",
                "slow",
                ["hw_thermal_slowdown", "sw_thermal_slowdown"],
            ),
            ("<state>N/A</state>", "<state>In Progress</state>", "fabric", "In Progress"),
        ],
    )
    def test_each_fault_shows(self, old: str, new: str, field: str, value: Any) -> None:
        assert old in H200
        assert gpuhealth.parse(H200.replace(old, new))[0][field] == value

    def test_fields_that_an_old_driver_lacks_are_unknown(self) -> None:
        (gpu,) = gpuhealth.parse("<nvidia_smi_log><gpu id='0:6'><uuid>GPU-1</uuid></gpu></nvidia_smi_log>")
        assert (gpu["uncorrected"], gpu["width"], gpu["ecc"], gpu["remap_pending"]) == (None, None, "", False)

    def test_what_is_no_report_is_refused(self) -> None:
        with pytest.raises(ValueError, match="can't be read"):
            gpuhealth.parse("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")


LSPCI = """\
0000:00:01.0 PCI bridge: Intel Corporation Device 352a (rev 30) (prog-if 00 [Normal decode])
	Capabilities: [220 v1] Access Control Services
		ACSCap:	SrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
		ACSCtl:	SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
0000:00:02.0 PCI bridge: Intel Corporation Device 352b (rev 30) (prog-if 00 [Normal decode])
		ACSCtl:	SrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-
0000:00:03.0 PCI bridge: Intel Corporation Device 352c (rev 30) (prog-if 00 [Normal decode])
		ACSCtl:	SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
0000:01:00.0 Ethernet controller: Mellanox Technologies MT2892 Family [ConnectX-6 Dx]
		ACSCtl:	SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
"""


class TestBridges:
    """By lspci, with a GPU below the first of them."""

    @pytest.fixture(autouse=True)
    def bus(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        device = tmp_path / "sys/pci0000:00/0000:00:01.0/0000:3b:00.0"
        device.mkdir(parents=True)
        (device / "vendor").write_text("0x10de\n")
        (device / "class").write_text("0x030200\n")
        (tmp_path / "devices").mkdir()
        (tmp_path / "devices/0000:3b:00.0").symlink_to(device)
        monkeypatch.setattr(pcie, "DEVICES", tmp_path / "devices")
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        return tmp_path

    def test_those_that_redirect_are_told_from_others(self) -> None:
        assert pcie.parse(LSPCI) == ["0000:00:01.0", "0000:00:03.0"]

    def test_one_with_neither_gpu_nor_rdma_below_matters_to_nobody(self, bus: Path) -> None:
        program(bus / "lspci", f"test \"$1\" = -D && cat <<'END'\n{LSPCI}\nEND")
        assert pcie.find() == {"redirecting": ["0000:00:01.0"]}

    def test_what_is_shown_to_root_alone_is_unknown(self, bus: Path) -> None:
        program(bus / "lspci", "echo '0000:00:01.0 PCI bridge: x'; echo '	Capabilities: <access denied>'")
        with pytest.raises(OSError, match="root alone"):
            pcie.find()


class TestKernelLog:
    def test_of_all_its_lines_those_that_tell_of_trouble(self, monkeypatch: pytest.MonkeyPatch) -> None:
        lines = [(1.0, "usb 1-1: new device"), (2.0, "NVRM: Xid (PCI:0000:00:06): 79, pid=1, off the bus")]
        monkeypatch.setattr(kernellog, "_records", lambda: iter(lines))
        (line,) = kernellog.find()["lines"]
        assert "Xid" in line["text"]
        assert line["age"] > 0

    def test_what_comes_by_the_thousand_hides_nothing_and_is_counted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rare = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
        loud = [(5.0 + n, f"NVRM: Xid (PCI:0000:3b:00): 31, pid={n}, name=python, MMU Fault") for n in range(2000)]
        killed = (9000.0, "Out of memory: Killed process 77 (python) total-vm:9kB, anon-rss:1kB")
        monkeypatch.setattr(kernellog, "_records", lambda: iter([(4.0, rare), *loud, killed]))
        found = kernellog.find()["lines"]
        assert [(line["text"], line["many"]) for line in found] == [(rare, 1), (loud[-1][1], 2000), (killed[1], 1)]
        assert set(found[0]) == set(model.KernelLine.__dataclass_fields__)

    @pytest.mark.parametrize(
        "text",
        [
            "NVRM: Xid (PCI:0000:07:00 GPU-I:05): 13, pid=9, name=python, Graphics SM Warp Exception",
            "nvidia-nvswitch3: SXid (PCI:0000:c3:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
            "Killed process 123 (python) total-vm:1kB",
            "Memory cgroup out of memory: Killed process 9 (pt_data_worker) total-vm:1kB",
            "nfs: server fs1 not responding, still trying",
            "mlx5_core 0000:5e:00.0: poll_health:801:(pid 0): device's health compromised - reached miss count",
            "mce: [Hardware Error]: Machine check events logged",
        ],
    )
    def test_each_kind_of_trouble_is_kept(self, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
        monkeypatch.setattr(kernellog, "_records", lambda: iter([(1.0, text)]))
        assert [line["text"] for line in kernellog.find()["lines"]] == [text]

    def test_a_record_that_was_overwritten_meanwhile_ends_nothing(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        (tmp_path / "kmsg").write_text("4,7,2500000,-;NVRM: Xid (PCI:0000:00:06): 79, x\n")
        monkeypatch.setattr(kernellog, "KMSG", tmp_path / "kmsg")
        reads = iter([BrokenPipeError()])
        read = os.read

        def lost_once(fd: int, size: int) -> bytes:
            for error in reads:
                raise error
            return read(fd, size)

        monkeypatch.setattr(os, "read", lost_once)
        assert ["Xid" in line["text"] for line in kernellog.find()["lines"]] == [True]

    def test_a_closed_one_is_no_empty_one(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(kernellog, "KMSG", tmp_path / "none")
        program(tmp_path / "journalctl", "echo 'No journal files were opened' >&2; exit 1")
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(OSError, match=r"closed to this user.*No journal files"):
            kernellog.find()

    def test_the_journal_stands_in(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(kernellog, "KMSG", tmp_path / "none")
        program(tmp_path / "journalctl", "echo '[    3.500000] gpu1 kernel: NVRM: Xid (PCI:0000:00:06): 48, x'")
        monkeypatch.setenv("PATH", str(tmp_path))
        assert ["Xid" in line["text"] for line in kernellog.find()["lines"]] == [True]


class TestLibraries:
    def test_nccl_s_version_stands_in_its_own_text(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        library = tmp_path / "libnccl.so.2"
        monkeypatch.setattr(libraries, "PIECE", 300)
        library.write_bytes(b"\0" * 290 + b"NCCL version 2.27.5+cuda12.9\0" + b"\0" * 900)
        assert libraries.version_of(str(library)) == ("2.27.5", "12.9")
        library.write_bytes(b"nothing of the kind")
        assert libraries.version_of(str(library)) == ("", "")

    def test_every_one_is_found_by_its_ways(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        library = tmp_path / "libnccl.so.2"
        library.write_bytes(b"NCCL version 2.18.3+cuda11.8")
        (tmp_path / "libnccl.so").symlink_to(library)
        program(tmp_path / "ldconfig", f"echo '1 libs'; echo '	libnccl.so.2 (libc6,x86-64) => {library}'")
        program(tmp_path / "python3", "exit 3")
        monkeypatch.setenv("PATH", str(tmp_path))
        told = libraries.find("python3", {"LD_LIBRARY_PATH": str(tmp_path)})
        (found,) = [one for one in told["libraries"] if one["path"].startswith(str(tmp_path))]
        assert found["ways"] == ["LD_LIBRARY_PATH", "ldconfig"]
        assert found["names"] == ["libnccl.so", "libnccl.so.2"]
        assert (found["version"], found["cuda"]) == ("2.18.3", "11.8")
        assert told["frameworks"] == {"trouble": "it ended with exit code 3"}

    def test_what_was_said_before_torch_crashed_is_kept(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        said = framechild.MARK + json.dumps({"packages": [{"name": "torch", "version": "2.5", "files": []}]})
        program(tmp_path / "python3", 'echo "$SAID"; kill -SEGV $$')
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        told = libraries.find("python3", {"SAID": said})["frameworks"]
        assert told["packages"][0]["name"] == "torch"
        assert "SIGSEGV" in told["trouble"]


def test_the_login_shell_is_timed_and_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".bashrc").write_text("echo Welcome to the lab\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("pwd.getpwuid", lambda _: type("Entry", (), {"pw_shell": "/bin/bash"}))
    told = loginshell.find()
    assert set(told) == set(model.LoginShell.__dataclass_fields__)
    assert told["printed"] == "Welcome to the lab"


class TestFirewall:
    """By the programs that list its rules."""

    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setattr(commands, "USUAL_PATH", str(tmp_path))
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(firewall, "UFW", tmp_path / "ufw.conf")
        monkeypatch.setattr(firewall, "OLD_TABLES", tmp_path / "tables")
        monkeypatch.setattr("ncclrun.node.processes.every", dict)
        return tmp_path

    def test_one_whose_rules_are_closed_is_no_absent_one(self, place: Path) -> None:
        program(place / "nft", "echo 'Operation not permitted (you must be root)' >&2; exit 1")
        with pytest.raises(OSError, match=r"can't be read \(nft: Operation not permitted"):
            firewall.find()
        (place / "ufw.conf").write_text("# on at start\nENABLED=yes\nLOGLEVEL=low\n")
        told = firewall.find()
        assert (told["services"], told["by"], told["rules"]) == (["ufw"], "", "")
        assert told["closed"] == "nft: Operation not permitted (you must be root)"

    def test_where_no_program_could_make_rules_there_are_none(self, place: Path) -> None:
        assert firewall.find() == {"services": [], "by": "", "rules": "", "closed": ""}
        assert list(place.iterdir()) == []

    def test_rules_of_the_old_kind_stand_beside_those_of_nft(self, place: Path) -> None:
        program(place / "nft", "echo 'table inet filter {'; echo '}'")
        program(place / "iptables-legacy", "echo '-P INPUT DROP'")
        assert firewall.find()["by"] == "nft"  # asking would have made the kernel load them
        (place / "tables").write_text("filter\n")
        told = firewall.find()
        assert told["by"] == "nft and iptables"
        assert "-P INPUT DROP" in told["rules"]

    def test_rules_that_are_too_many_are_not_judged_by_their_first_part(self, place: Path) -> None:
        program(place / "nft", "printf '%300000s' '}'")
        (place / "ufw.conf").write_text("ENABLED=yes\n")
        told = firewall.find()
        assert (told["rules"], told["closed"]) == ("", "nft: more than 256 KiB of rules")

    def test_iptables_alone(self, place: Path) -> None:
        program(place / "iptables", "echo '-P INPUT ACCEPT'")
        assert firewall.find()["by"] == "iptables"


def mounted(kind: str, layers: str) -> str:
    """The line of the root directory in mountinfo, after those of others."""
    others = (
        "22 27 0:21 / /proc rw - proc proc rw\n30 27 0:9 / /var/lib/docker rw - overlay overlay rw,lowerdir=/docker\n"
    )
    return f"{others}27 1 0:50 / / rw,relatime - {kind} {kind} rw,lowerdir={layers},workdir=/w\n"


class TestSystem:
    def test_the_limits(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "self").mkdir()
        (tmp_path / "self" / "limits").write_text(
            "Limit                     Soft Limit           Hard Limit           Units     \n"
            "Max open files            1024                 1048576              files     \n"
            "Max locked memory         unlimited            unlimited            bytes     \n"
            "Max address space         3072000000           unlimited            bytes     \n"
        )
        monkeypatch.setattr(system, "PROC", tmp_path)
        assert system.limits() == {
            "memlock": {"soft": None, "hard": None},
            "nofile": {"soft": 1024, "hard": 1048576},
            "address_space": {"soft": 3072000000, "hard": None},
        }

    @pytest.mark.parametrize(
        ("place", "text", "limit"),
        [
            ("memory.max", "17179869184", 16 << 30),
            ("memory.max", "max", None),
            ("memory/memory.limit_in_bytes", "17179869184", 16 << 30),
            ("memory/memory.limit_in_bytes", "9223372036854771712", None),
        ],
    )
    def test_a_container_s_share_of_memory(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, text: str, limit: int | None
    ) -> None:
        file = tmp_path / "fs/cgroup" / place
        file.parent.mkdir(parents=True)
        file.write_text(f"{text}\n")
        monkeypatch.setattr(system, "SYS", tmp_path)
        assert system.find("")["memory"]["limit"] == limit

    def test_cards_on_the_bus(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, vendor, kind in (
            ("0", "0x10de", "0x030200"),
            ("its sound card", "0x10de", "0x040300"),
            ("a slice of it for a virtual machine", "0x10de", "0x030200"),
            ("another's", "0x8086", "0x030000"),
        ):
            device = tmp_path / name
            device.mkdir()
            (device / "vendor").write_text(f"{vendor}\n")
            (device / "class").write_text(f"{kind}\n")
            if "slice" in name:
                (device / "physfn").symlink_to("../0")
        monkeypatch.setattr(pcie, "DEVICES", tmp_path)
        assert system.find("")["cards"] == 1

    @pytest.mark.parametrize(
        ("files", "kind"),
        [
            ({}, ""),
            ({"1/cgroup": "12:memory:/docker/4f0c\n"}, "docker"),
            ({"self/cgroup": "11:cpu:/kubepods/burstable/pod1/4f0c\n"}, "kubernetes"),
            (
                {"self/mountinfo": mounted("overlay", "/var/lib/docker/overlay2/l/A:/var/lib/docker/overlay2/l/B")},
                "docker",
            ),
            (
                {"self/mountinfo": mounted("overlay", "/var/lib/containerd/io.containerd.snapshotter/1/fs")},
                "containerd",
            ),
            ({"self/mountinfo": mounted("overlay", "/home/a/.local/share/containers/storage/overlay/l/A")}, "podman"),
            ({"self/mountinfo": mounted("overlay", "/run/live/rootfs")}, ""),
            ({"self/mountinfo": mounted("ext4", "/dev/mapper/docker-root")}, ""),
            ({"1/cgroup": "0::/init.scope\n", "self/cgroup": "0::/user.slice/session-3.scope\n"}, ""),
        ],
    )
    def test_a_container_of_either_kind_of_cgroup(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], kind: str
    ) -> None:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        monkeypatch.setattr(system, "PROC", tmp_path)
        monkeypatch.setattr(system, "MARKS", {})
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        assert system.container() == kind

    def test_the_distribution(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        release = tmp_path / "os-release"
        release.write_text('ID="rocky"\nID_LIKE="rhel centos"\nVERSION_ID="9.4"\nPRETTY_NAME="Rocky Linux 9.4"\n')
        monkeypatch.setattr(system, "OS_RELEASE", (tmp_path / "none", release))
        assert system.distribution() == {
            "id": "rocky",
            "like": "rhel centos",
            "version": "9.4",
            "name": "Rocky Linux 9.4",
        }


def test_a_torch_that_can_not_be_imported_names_the_file_that_raised(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import half_installed\n")
    (tmp_path / "half_installed.py").write_text("\nraise RuntimeError('of an earlier setup')\n")
    told = libraries.find(sys.executable, {**os.environ, "PYTHONPATH": str(tmp_path)})["frameworks"]
    assert told["torch_error"] == f"RuntimeError: of an earlier setup ({tmp_path}/half_installed.py:2)"


@pytest.mark.torch
def test_a_real_torch_says_what_it_is() -> None:
    pytest.importorskip("torch")
    told = libraries.find(sys.executable, dict(os.environ))["frameworks"]
    assert told["trouble"] == ""
    assert "torch" in [package["name"] for package in told["packages"]]
    assert told["torch_seconds"] > 0
