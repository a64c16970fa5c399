"""Conf files by the node's requests: which file, staged to finished, and put back whatever ends before."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ncclrun.node import commands, conffiles, confrequests
from ncclrun.node.confkept import digest
from ncclrun.node.refusal import Refusal
from tests.node.client import Client, Refused, connected
from tests.node.conftest import OLDEST

THEIRS, OURS = b"A=1\xff\n", b"A=1\xff\nNCCL_SOCKET_IFNAME==eth1\n"
WHICH: dict[str, Any] = {"deliver": "user", "home": "home"}
"""A version that looks in $HOME, for the passwd entry's home is none of a test's."""


def sent(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def stage(node: Client, expect: bytes | None, **more: Any) -> dict[str, Any]:
    about = {"expect": digest(expect), "data": sent(OURS), "original": sent(expect), "mode": None}
    return node.call("conf_stage", **{**WHICH, **about, "push_id": "p1", "node_rank": 0, **more})


def push(node: Client, expect: bytes | None) -> None:
    stage(node, expect)
    node.call("conf_commit", **WHICH)
    node.call("conf_finish", **WHICH)


def soon(condition: Any) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def conf(home: Path) -> Path:
    """The file of a home."""
    return home / ".nccl.conf"


def beside(conf: Path) -> list[str]:
    return sorted(path.name for path in conf.parent.glob(".nccl.conf*ncclrun*"))


def test_a_push_and_its_way_back(node: Client, conf: Path) -> None:
    conf.write_bytes(THEIRS)
    seen = node.call("conf_look", **WHICH)
    assert (seen["path"], seen["file"]["sha256"], seen["state"]) == (str(conf), digest(THEIRS), "none")
    assert "home" in seen["file"]["roles"]
    staged = stage(node, THEIRS)
    assert (staged["path"], staged["unchanged"], staged["sha256"]) == (str(conf), False, digest(OURS))
    assert node.call("conf_look", **WHICH)["holder"]["push_id"] == "p1"
    node.call("conf_commit", **WHICH)
    node.call("conf_finish", **WHICH)
    assert conf.read_bytes() == OURS
    seen = node.call("conf_look", **WHICH)
    assert (seen["state"], seen["restores"], seen["holder"]) == ("ours", {"data": sent(THEIRS)}, None)
    node.call("conf_restore", **WHICH, expect=digest(OURS), keep_edits=False, push_id="p2", node_rank=0)
    node.call("conf_commit", **WHICH)
    node.call("conf_finish", **WHICH)
    assert (conf.read_bytes(), beside(conf)) == (THEIRS, [])


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("way", ["asked", "channel", "killed"])
def test_what_is_not_finished_is_put_back(node: Client, conf: Path, way: str, committed: bool) -> None:
    conf.write_bytes(THEIRS)
    stage(node, THEIRS)
    if committed:
        node.call("conf_commit", **WHICH)
        assert conf.read_bytes() == OURS
    if way == "asked":
        assert node.call("conf_rollback", **WHICH)["rolled_back"]
    elif way == "channel":
        assert node.hang_up() == 0
    else:
        node.process.kill()
    soon(lambda: not beside(conf))
    assert conf.read_bytes() == THEIRS


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_the_program_itself_may_be_ended(node: Client, conf: Path, number: signal.Signals) -> None:
    conf.write_bytes(THEIRS)
    stage(node, THEIRS)
    os.kill(node.call("conf_look", **WHICH)["holder"]["pid"], number)
    with pytest.raises(Refused) as refused:
        node.call("conf_finish", **WHICH)
    assert refused.value.code == "internal"
    with pytest.raises(Refused) as refused:
        node.call("conf_commit", **WHICH)
    assert refused.value.code == "not_staged"
    assert conf.read_bytes() == THEIRS
    push(node, THEIRS)
    assert conf.read_bytes() == OURS


def test_two_nodes_with_one_home_see_each_other(node: Client, env: dict[str, str], conf: Path) -> None:
    stage(node, None)
    with connected(OLDEST, env) as second:
        number = second.send("conf_stage", **WHICH, expect=None, data=sent(OURS), push_id="p1", node_rank=1)
        with pytest.raises(Refused) as refused:
            second.answer(number)
        assert refused.value.code == "busy"
        assert refused.value.details["push_id"] == "p1"
        assert refused.value.details["node_rank"] == 0
        node.call("conf_commit", **WHICH)
        node.call("conf_finish", **WHICH)
        assert stage(second, None)["unchanged"]
        second.call("conf_finish", **WHICH)
    assert conf.read_bytes() == OURS


def test_a_refusal_leaves_nothing_and_the_next_push_is_free(node: Client, conf: Path) -> None:
    conf.write_bytes(THEIRS)
    with pytest.raises(Refused) as refused:
        stage(node, b"something else")
    assert (refused.value.code, refused.value.details) == ("changed", {"sha256": digest(THEIRS)})
    assert not node.call("conf_rollback", **WHICH)["rolled_back"]
    push(node, THEIRS)
    assert conf.read_bytes() == OURS


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"deliver": "env"}, "bad_request"),
        ({"home": "/etc"}, "bad_request"),
        ({"push_id": "a b"}, "bad_request"),
        ({"node_rank": None}, "bad_request"),
        ({"data": "no base64!"}, "bad_request"),
        ({"data": sent(b"#" * (65 << 10))}, "too_long"),
        ({"mode": 0o4755}, "bad_request"),
    ],
)
def test_what_no_request_says_is_refused(node: Client, conf: Path, more: dict[str, Any], code: str) -> None:
    with pytest.raises(Refused) as refused:
        stage(node, None, **more)
    assert refused.value.code == code
    assert not conf.exists()


def test_a_file_is_staged_once(node: Client, conf: Path) -> None:
    stage(node, None)
    with pytest.raises(Refused) as refused:
        stage(node, None)
    assert refused.value.code == "bad_request"
    node.call("conf_rollback", **WHICH)
    assert not conf.exists()


def test_it_works_on_every_python(every_python: str, env: dict[str, str], conf: Path) -> None:
    with connected(every_python, env) as node:
        push(node, None)
    assert conf.read_bytes() == OURS


class TestWhichFile:
    @pytest.fixture(autouse=True)
    def homes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", "/h")
        monkeypatch.setattr(conffiles, "passwd_home", lambda: "/p")

    @pytest.mark.parametrize(("role", "home"), [("home", "/h"), ("passwd_home", "/p")])
    def test_is_in_the_home_that_is_meant(self, role: str, home: str) -> None:
        found = confrequests._which({"deliver": "user", "home": role})
        assert found == (Path(home) / ".nccl.conf", [role], False)

    def test_is_in_the_one_that_there_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("HOME")
        found = confrequests._which({"deliver": "user", "home": "home"})
        assert found == (Path("/p/.nccl.conf"), ["passwd_home"], False)

    def test_without_a_home_there_is_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("HOME")
        monkeypatch.setattr(conffiles, "passwd_home", lambda: "")
        with pytest.raises(Refusal) as refused:
            confrequests._which({"deliver": "user", "home": "home"})
        assert refused.value.code == "no_home"

    @pytest.mark.parametrize(("uid", "root"), [(0, False), (1000, True)])
    def test_the_systems_needs_root(self, monkeypatch: pytest.MonkeyPatch, uid: int, root: bool) -> None:
        monkeypatch.setattr("os.geteuid", lambda: uid)
        assert confrequests._which({"deliver": "system"}) == (Path("/etc/nccl.conf"), ["system"], root)


class TestSudo:
    """A script stands for sudo."""

    def ask(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> dict[str, Any]:
        """Looks at a file by the program, in a process of its own as in the node part."""
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        (tmp_path / "sudo").write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "sudo").chmod(0o755)
        child = confrequests.Child(tmp_path / "nccl.conf", root=True)
        try:
            return child.ask({"do": "look", "roles": ["system"]}, first=True)
        finally:
            child.close()
            assert child.ended(10)

    def test_it_asks_for_no_password(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        text = '[ "$1 $2" = "-n --" ] || exit 9; shift 2; exec "$@"'
        assert self.ask(tmp_path, monkeypatch, text)["path"] == str(tmp_path / "nccl.conf")

    def test_a_warning_of_its_own_is_passed_over(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        text = 'echo "sudo: unable to resolve host gpu1" >&2; shift 2; exec "$@"'
        assert self.ask(tmp_path, monkeypatch, text)["ok"]

    def test_its_refusal_is_told_in_its_words(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(Refusal) as refused:
            self.ask(tmp_path, monkeypatch, "echo 'sudo: a password is required' >&2; exit 1")
        assert refused.value.code == "no_sudo"
        assert "sudo: a password is required" in refused.value.message
        assert "without a password" in refused.value.fix

    def test_where_there_is_none_that_is_said(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(commands, "locate", lambda _name: None)
        with pytest.raises(Refusal) as refused:
            confrequests.Child(tmp_path / "nccl.conf", root=True)
        assert refused.value.code == "no_sudo"


def test_what_sudo_writes_down_is_short() -> None:
    assert len(confrequests.PROGRAM) < 300
    compiled = subprocess.run([sys.executable, "-c", confrequests.PROGRAM], input=b"", capture_output=True, check=False)
    assert b"JSONDecodeError" in compiled.stderr
