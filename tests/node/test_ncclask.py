"""NCCL's own answer: from the real library where the package is installed, and from libraries that misbehave."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ncclrun.model import network as model
from ncclrun.node import ncclask, ncclchild
from tests.node.client import connected
from tests.node.conftest import OLDEST

OK = "int ncclGetVersion(int *v) { *v = 22705; return 0; }\n"


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
    path = tmp_path / "python"
    path.write_text(f'#!/bin/sh\nexec {OLDEST} -S "$@"\n')
    path.chmod(0o755)
    return path


def library(place: Path, source: str) -> Path:
    """A libnccl of this C source, laid where the pip package has its own; the path's first directory."""
    compiler = shutil.which("cc") or pytest.skip("no C compiler here")
    directory = place / "nvidia" / "nccl" / "lib"
    directory.mkdir(parents=True)
    argv = [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", str(directory / "libnccl.so.2")]
    subprocess.run(
        argv, input=f"#include <stdlib.h>\n#include <unistd.h>\n#include <stdio.h>\n{source}", text=True, check=True
    )
    return place


class TestTheRealLibrary:
    def test_it_says_which_interface_it_would_use(self, site: Path, loopback: dict[str, str]) -> None:
        with connected(OLDEST, {**loopback, "PYTHONPATH": str(site)}) as node:
            answer = node.call("nccl", python=sys.executable, env={}, defaults={}, unset=[])
        assert set(answer) - {"ok", "re"} == set(model.NcclAnswer.__dataclass_fields__)
        assert answer["library"] == str(site / "nvidia" / "nccl" / "lib" / "libnccl.so.2")
        assert (answer["interface"], answer["address"]) == ("lo", "127.0.0.1")
        assert (answer["result"], answer["error"]) == (0, "")
        assert answer["version"].startswith("2.")
        assert any("NCCL_SOCKET_IFNAME set by environment to =lo" in line for line in answer["lines"])

    def test_the_planned_environment_goes_over_the_logins(self, site: Path, env: dict[str, str]) -> None:
        login = {**env, "PYTHONPATH": str(site), "NCCL_SOCKET_IFNAME": "=no-such", "NCCL_COMM_ID": "203.0.113.1:1"}
        planned = {"NCCL_SOCKET_IFNAME": "=lo"}
        with connected(OLDEST, login) as node:
            answer = node.call("nccl", python=sys.executable, env=planned, defaults={}, unset=["NCCL_COMM_ID"])
        assert answer["interface"] == "lo"

    def test_a_filter_that_matches_nothing_has_a_result_and_no_interface(self, site: Path, env: dict[str, str]) -> None:
        answer = ncclask.ask(sys.executable, {**env, "PYTHONPATH": str(site), "NCCL_SOCKET_IFNAME": "=no-such"})
        assert answer["interface"] == answer["error"] == ""
        assert answer["result"] not in (0, None)
        assert any("no socket interface found" in line for line in answer["lines"])

    def test_ones_own_debug_settings_change_nothing(self, site: Path, loopback: dict[str, str], tmp_path: Path) -> None:
        conf = tmp_path / "nccl.conf"
        conf.write_text(f"NCCL_DEBUG=WARN\nNCCL_DEBUG_FILE={tmp_path}/from-conf\nNCCL_IB_DISABLE=1\n")
        own = {"NCCL_DEBUG": "VERSION", "NCCL_DEBUG_SUBSYS": "COLL", "NCCL_DEBUG_FILE": f"{tmp_path}/from-env"}
        answer = ncclask.ask(sys.executable, {**loopback, "PYTHONPATH": str(site), "NCCL_CONF_FILE": str(conf), **own})
        assert answer["interface"] == "lo"
        assert not list(tmp_path.glob("from-*"))
        assert answer["conf_files"][0]["path"] == str(conf)
        assert ["NCCL_IB_DISABLE", "1"] in answer["conf_files"][0]["settings"]


class TestLibrariesThatMisbehave:
    def ask(self, tmp_path: Path, bare: Path, env: dict[str, str], source: str) -> dict[str, object]:
        place = library(tmp_path / "site", source)
        answer = ncclask.ask(str(bare), {**env, "PYTHONPATH": str(place)})
        assert answer["library"] == str(place / "nvidia" / "nccl" / "lib" / "libnccl.so.2")
        return answer

    def test_a_crash_is_told_with_the_signal(self, tmp_path: Path, bare: Path, env: dict[str, str]) -> None:
        answer = self.ask(
            tmp_path, bare, env, OK + "int ncclGetUniqueId(void *id) { *(volatile int *)0 = 1; return 0; }"
        )
        assert answer["error"] == "it crashed by signal 11 (SIGSEGV)"
        assert (answer["version"], answer["result"]) == ("2.27.5", None)

    def test_a_hang_ends_at_the_limit_and_keeps_what_was_said(
        self, tmp_path: Path, bare: Path, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ncclask, "SECONDS", 2.0)
        said = 'fprintf(stderr, "n:1:1 [0] NCCL INFO Bootstrap : Using eth9:10.0.0.9<0>\\n"); for (;;) pause();'
        answer = self.ask(tmp_path, bare, env, OK + f"int ncclGetUniqueId(void *id) {{ {said} }}")
        assert answer["error"] == "it did not answer within 2 s"
        assert (answer["interface"], answer["address"]) == ("eth9", "10.0.0.9")

    def test_a_missing_symbol_is_told(self, tmp_path: Path, bare: Path, env: dict[str, str]) -> None:
        answer = self.ask(tmp_path, bare, env, OK)
        assert "it is no NCCL that we know" in str(answer["error"])
        assert "ncclGetUniqueId" in str(answer["error"])

    def test_many_long_lines_are_cut(self, tmp_path: Path, bare: Path, env: dict[str, str]) -> None:
        loop = 'for (int i = 0; i < 90; i++) fprintf(stderr, "NCCL INFO %0500d\\n", i);'
        answer = self.ask(tmp_path, bare, env, OK + f"int ncclGetUniqueId(void *id) {{ {loop} return 0; }}")
        assert isinstance(answer["lines"], list)
        assert [len(line) for line in answer["lines"]] == [ncclask.LONGEST_LINE] * ncclask.MOST_LINES

    def test_a_file_that_is_no_library_is_told(self, tmp_path: Path, bare: Path, env: dict[str, str]) -> None:
        directory = tmp_path / "nvidia" / "nccl" / "lib"
        directory.mkdir(parents=True)
        (directory / "libnccl.so.2").write_text("a pointer of a version control system\n")
        answer = ncclask.ask(str(bare), {**env, "PYTHONPATH": str(tmp_path)})
        assert answer["error"].startswith("it can't be loaded: ")

    def test_a_torch_with_nccl_inside_is_not_started_for_it(
        self, tmp_path: Path, bare: Path, env: dict[str, str]
    ) -> None:
        compiler = shutil.which("cc") or pytest.skip("no C compiler here")
        (tmp_path / "torch" / "lib").mkdir(parents=True)
        (tmp_path / "torch" / "__init__.py").write_text("raise SystemExit('imported')")
        cuda = tmp_path / "torch" / "lib" / "libtorch_cuda.so"
        subprocess.run([compiler, "-shared", "-x", "c", "-", "-o", str(cuda)], input="", text=True, check=True)
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


class TestConfFiles:
    """Which files NCCL reads differs by its version."""

    @pytest.fixture
    def env(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
        monkeypatch.setattr(ncclask, "ETC_CONF", tmp_path / "etc")
        monkeypatch.setattr(
            "ncclrun.node.ncclask.pwd.getpwuid", lambda _: type("Entry", (), {"pw_dir": str(tmp_path / "passwd")})
        )
        for place in ("passwd", "home"):
            (tmp_path / place).mkdir()
            (tmp_path / place / ".nccl.conf").write_text(f"PLACE={place}\n")
        (tmp_path / "etc").write_text("PLACE=etc\n")
        (tmp_path / "named").write_text("PLACE=named\n")
        return {"HOME": str(tmp_path / "home")}

    def places(self, version: str, env: dict[str, str]) -> list[str]:
        return [file["settings"][0][1] for file in ncclask.conf_files(version, env)]

    @pytest.mark.parametrize(
        ("version", "plain", "named"),
        [
            ("2.21.5", ["passwd", "etc"], ["passwd", "etc"]),
            ("2.23.4", ["passwd", "etc"], ["named", "etc"]),
            ("2.29.7", ["passwd", "etc"], ["named", "etc"]),
            ("2.30.3", ["home", "etc"], ["named", "etc"]),
        ],
    )
    def test_each_version_has_its_own(
        self, env: dict[str, str], tmp_path: Path, version: str, plain: list[str], named: list[str]
    ) -> None:
        assert self.places(version, env) == plain
        assert self.places(version, {**env, "NCCL_CONF_FILE": ""}) == plain
        assert self.places(version, {**env, "NCCL_CONF_FILE": str(tmp_path / "named")}) == named

    def test_values_stay_as_they_are(self) -> None:
        text = "# A=1\nNCCL_SOCKET_IFNAME=eth1  # card\nB = 2\nno setting\nC=x=y\r\n"
        told = [["NCCL_SOCKET_IFNAME", "eth1  # card"], ["B ", " 2"], ["C", "x=y\r"]]
        assert ncclask._settings(text, (2, 27, 5)) == told
        assert ncclask._settings(text, (2, 30, 3))[-1] == ["C", "x=y"]
