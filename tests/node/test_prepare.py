"""Preparing a run: everything is there, or nothing is left and the refusal says what mends it."""

from __future__ import annotations

import hashlib
import io
import json
import os
import socket
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

from ncclrun.node import prepare
from tests.node.client import SECONDS, TOKEN, Client, Refused, connected
from tests.node.conftest import OLDEST, again


def code(node: Client, **files: bytes) -> str:
    """Sends an archive of files; its sha256."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name.replace("__", "/") + ".py")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    data = buffer.getvalue()
    sha256 = hashlib.sha256(data).hexdigest()
    half = len(data) // 2
    node.call("put", data[:half], sha256=sha256, last=False)
    node.call("put", data[half:], sha256=sha256, last=True)
    return sha256


def refusal(node: Client, run_id: str = "r", **more: Any) -> Refused:
    with pytest.raises(Refused) as refused:
        node.prepare(run_id, **more)
    return refused.value


def nothing_in(runs: Path) -> bool:
    return not runs.exists() or list(runs.iterdir()) == []


def test_code_is_unpacked_and_the_script_hashed_and_run_there(node: Client) -> None:
    text = b"import os, pkg.other; print(os.getcwd(), pkg.other.X)\n"
    sha256 = code(node, train=text, pkg__other=b"X = 5\n")
    prepared = node.prepare("r", code=sha256, script="train.py")
    assert prepared["script_sha256"] == hashlib.sha256(text).hexdigest()
    assert prepared["cwd"] == prepared["dir"] + "/code"
    assert (prepared["port"], prepared["others"]) == (0, [])
    node.start("r", [sys.executable, "train.py"])
    node.call("follow", run_id="r", node_rank=0, offsets={}, tail=None)
    node.end()
    assert node.logs()["0.out"].decode() == f"{prepared['cwd']} 5\n"


def test_code_is_kept_for_the_next_run(node: Client, env: dict[str, str]) -> None:
    sha256 = code(node, train=b"pass\n")
    with again(env) as second:
        assert second.call("has", sha256=sha256)["has"] is True
        assert second.call("has", sha256="0" * 64)["has"] is False


def test_a_damaged_archive_is_not_kept(node: Client, home: Path) -> None:
    with pytest.raises(Refused) as refused:
        node.call("put", b"something else", sha256="0" * 64, last=True)
    assert refused.value.code == "corrupt"
    assert list((home / ".local/state/ncclrun/code").iterdir()) == []


@pytest.mark.parametrize("sha256", ["../../../etc/passwd", "", None, 5, "0" * 63, "0" * 64 + "\n"])
def test_only_a_sha256_names_an_archive(node: Client, sha256: object) -> None:
    with pytest.raises(Refused) as refused:
        node.call("has", sha256=sha256)
    assert refused.value.code == "bad_request"


@pytest.mark.parametrize("run_id", ["", "../x", "A", "a/b", "a\n", ".a", "-a", "a" * 65, "é", 5, None])
def test_only_a_run_id_names_a_run(node: Client, runs: Path, run_id: object) -> None:
    assert refusal(node, run_id).code == "bad_run_id"  # type: ignore[arg-type]  # wrong on purpose
    assert nothing_in(runs)


@pytest.mark.parametrize(
    "more",
    [
        {"node_rank": -1},
        {"node_rank": "0"},
        {"nproc": 0},
        {"nproc": True},
        {"launcher": "bash"},
        {"token": "short"},
        {"token": "a/b/c/d/e/f"},
        {"code": "../x"},
        {"workdir": "/x\0"},
        {"listen": {"address": "::1", "port": 70000}},
        {"listen": 5},
    ],
)
def test_a_malformed_request_is_refused(node: Client, runs: Path, more: dict[str, Any]) -> None:
    assert refusal(node, **more).code == "bad_request"
    assert nothing_in(runs)


def test_everything_that_is_missing_is_a_refusal_with_its_mending_and_leaves_nothing(
    node: Client, runs: Path, tmp_path: Path, home: Path
) -> None:
    sha256 = code(node, train=b"pass\n")
    (home / "no-torch").symlink_to("/usr/bin/env")
    cases: dict[str, list[dict[str, Any]]] = {
        "no_workdir": [
            {"workdir": "/no/such"},
            {"workdir": "relative"},
            {"workdir": "/etc/passwd"},
            {"workdir": "~/x"},
        ],
        "no_checkpoint_dir": [
            {"checkpoint_dir": "/etc/passwd"},
            {"checkpoint_dir": "/etc/passwd/x"},
            {"checkpoint_dir": "relative"},
        ],
        "no_script": [{"code": sha256, "script": "missing.py"}, {"workdir": str(tmp_path), "script": "missing.py"}],
        "no_code": [{"code": "1" * 64}],
        "no_python": [
            {"launcher": "torchrun", "python": "/no/python"},
            {"launcher": "torchrun", "python": "~/no-torch"},
        ],
        "bad_address": [{"listen": {"address": "192.0.2.77", "port": 0}}, {"listen": {"address": "x", "port": 0}}],
    }
    for word, requests in cases.items():
        for request in requests:
            found = refusal(node, **request)
            assert (found.code, bool(found.message)) == (word, True)
            assert found.fix or word == "bad_address"
            assert nothing_in(runs)


def test_a_python_without_torch_comes_with_the_pip_command(node: Client, runs: Path, every_python: str) -> None:
    probe = node.call("facts", python=every_python)["python"]
    if probe["torch"]:
        assert node.prepare("r", launcher="torchrun", python=every_python)["dir"]
        return
    found = refusal(node, launcher="torchrun", python=every_python)
    assert (found.code, found.fix) == ("no_torch", f"{every_python} -m pip install torch")
    assert nothing_in(runs)


def test_a_run_id_is_taken_once_on_a_machine(node: Client, env: dict[str, str]) -> None:
    node.prepare("r")
    with again(env) as second:
        for more in ({"token": "another-token"}, {"token": "another-token", "node_rank": 1}, {}):
            assert refusal(second, **more).code == "run_exists"
        assert second.prepare("r", node_rank=1)["dir"].rsplit("/", 1)[1].startswith("1-")
    node.start("r", ["true"])


def test_a_living_run_is_told_to_the_next(node: Client, env: dict[str, str]) -> None:
    node.launch("first", ["sleep", "1000"])
    assert node.prepare("second")["others"] == ["first"]
    node.call("stop", run_id="first", node_rank=0, how="kill", grace=0)
    node.end()
    assert node.prepare("third")["others"] == []


def test_directories_of_runs_that_cannot_be_read_stop_nothing(node: Client, runs: Path) -> None:
    for name, content in (("torn", "{"), ("emptied", None)):
        part = runs / name / "0-another-machine"
        part.mkdir(parents=True)
        if content is not None:
            (part / "run.json").write_text(content)
    assert node.prepare("r")["others"] == []


def test_a_command_must_be_there_before_anything_starts(node: Client, home: Path) -> None:
    (home / "run.sh").touch()
    assert refusal(node, program="no-such-program").code == "no_program"
    assert refusal(node, program="sh", search=str(home)).message == "sh is not in PATH"
    assert "./nowhere is not there" in refusal(node, program="./nowhere", workdir=str(home)).message
    assert "./run.sh may not be executed" in refusal(node, program="./run.sh", workdir=str(home)).message
    (home / "run.sh").chmod(0o755)
    node.prepare("a", program="./run.sh", workdir=str(home))
    node.prepare("b", program="run.sh", search=str(home))
    node.prepare("c", program="/bin/sh")


def test_what_cannot_be_removed_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "no-directory").touch()
    prepare.scrap(tmp_path / "no-directory")
    assert (tmp_path / "no-directory").exists()


def test_a_closed_umask_of_the_login_closes_nothing_to_us(env: dict[str, str], runs: Path) -> None:
    shell = ("/bin/sh", "-c", "umask 0777; exec /bin/sh -s")
    with connected(OLDEST, env, shell) as node:
        node.launch("r", ["/bin/sh", "-c", "umask"])
        assert node.end()["reason"] == "finished"
        assert node.logs()["0.out"].strip() == b"0777"
    assert {path.stat().st_mode & 0o700 for path in runs.parent.rglob("*") if path.is_dir()} == {0o700}


@pytest.mark.parametrize("way", ["hang up", "nonsense", "discard"])
def test_what_was_prepared_and_not_started_goes_with_the_channel(node: Client, runs: Path, way: str) -> None:
    port = node.prepare("r", listen={"address": "127.0.0.1", "port": 0})["port"]
    if way == "hang up":
        node.hang_up()
    elif way == "nonsense":
        node.write(b"\xff" * 64)
        node.process.wait(SECONDS)
    else:
        node.call("discard", run_id="r", node_rank=0, token=TOKEN)
    assert nothing_in(runs)
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_a_port_that_was_opened_before_the_refusal_is_free_again(node: Client) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    nowhere = {"address": "192.0.2.77", "port": 0}
    assert refusal(node, listen={"address": "127.0.0.1", "port": port}, lifeline=nowhere).code == "bad_address"
    assert node.prepare("r", listen={"address": "127.0.0.1", "port": port})["port"] == port


def test_a_channel_that_breaks_at_any_moment_of_prepare_leaves_nothing(env: dict[str, str], runs: Path) -> None:
    for step in range(8):
        with again(env) as client:
            if step == 0:
                sha256 = code(client, train=b"pass\n" * 100_000)
            client.send("prepare", run_id="r", token=TOKEN, node_rank=0, nproc=8, launcher="exec", code=sha256)
            time.sleep(step * 0.01)
            client.hang_up()
        assert nothing_in(runs), step


def test_discard_spares_what_is_anothers_or_was_started(node: Client) -> None:
    node.prepare("r")
    for token, word in (("another-token", "wrong_token"), (TOKEN, "started")):
        if word == "started":
            node.start("r", ["true"])
        with pytest.raises(Refused) as refused:
            node.call("discard", run_id="r", node_rank=0, token=token)
        assert refused.value.code == word


def test_what_was_never_started_is_not_followed(node: Client) -> None:
    node.prepare("r")
    with pytest.raises(Refused) as refused:
        node.call("follow", run_id="r", node_rank=0, offsets={}, tail=None)
    assert refused.value.code == "not_started"


def test_what_a_host_prepared_before_its_power_cut_goes_with_the_next_run(node: Client, runs: Path) -> None:
    node.prepare("old")
    (part,) = (runs / "old").iterdir()
    facts = json.loads((part / "run.json").read_text())
    node.prepare("ended")
    node.start("ended", ["true"], token=TOKEN)
    for run in ("old", "ended"):
        (part,) = (runs / run).iterdir()
        (part / "run.json").write_text(json.dumps({**facts, "run_id": run, "boot_id": "another"}))
    node.prepare("new")
    assert sorted(path.name for path in runs.iterdir()) == ["ended", "new"]


def test_an_unknown_run_is_a_refusal(node: Client) -> None:
    for do in ("follow", "stop", "start", "discard"):
        with pytest.raises(Refused) as refused:
            node.call(do, run_id="r", node_rank=0, how="term", token=TOKEN)
        assert refused.value.code == "unknown_run"
    with pytest.raises(Refused) as refused:
        node.call("dance")
    assert refused.value.code == "bad_request"


def test_the_run_directory_is_private_whatever_the_umask(node: Client, runs: Path) -> None:
    node.launch("r", ["sh", "-c", "echo x"])
    node.end()
    (part,) = runs.glob("r/*")
    assert part.stat().st_mode & 0o777 == 0o700
    assert runs.parent.stat().st_mode & 0o777 == 0o700
    assert not [path for path in (part / "logs").iterdir() if path.stat().st_mode & 0o077]


def test_a_workdir_is_used_as_it_is(node: Client, home: Path) -> None:
    (home / "job").mkdir()
    (home / "job" / "train.py").write_bytes(b"x")
    prepared = node.prepare("r", workdir="~/job", script="train.py")
    assert prepared["cwd"] == str(home / "job")
    assert prepared["script_sha256"] == hashlib.sha256(b"x").hexdigest()
    assert os.listdir(prepared["dir"] + "/code") == []  # noqa: PTH208  # a text, not a path
