"""The start of the conversation: shells, interpreters, and what a bare host lacks."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.node.client import NODE, NONCE, Client, connected, package
from tests.node.conftest import OLDEST

SHELLS = [
    pytest.param(shell, id=" ".join(shell))
    for shell in (("dash",), ("bash",), ("bash", "--posix"), ("busybox", "ash"), ("busybox", "sh"), ("zsh",), ("mksh",))
    if shutil.which(shell[0])
]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_hands_over_to_python(shell: tuple[str, ...], env: dict[str, str]) -> None:
    with connected("", env, shell) as client:
        assert client.call("clock")["time"] > 0


@pytest.mark.parametrize("shell", SHELLS)
def test_nothing_of_what_follows_the_package_is_swallowed(shell: tuple[str, ...], env: dict[str, str]) -> None:
    client = Client(OLDEST, env, shell)
    numbers = [client.send("clock") for _ in range(50)]  # before anybody has said that the frames begin
    try:
        client.hello()
        assert all(client.answer(number)["ok"] for number in numbers)
    finally:
        client.close()


def test_each_interpreter_serves(every_python: str, env: dict[str, str], tmp_path: Path) -> None:
    with connected(every_python, env) as client:
        facts = client.call("facts", python=sys.executable)
        assert any(link["loopback"] for link in facts["interfaces"])
        client.launch("r", ["sh", "-c", "echo out; echo err >&2; kill -9 $$"])
        assert client.end()["ranks"][0]["signal"] == 9
        assert client.logs() == {"0.out": b"out\n", "0.err": b"err\n"}


def test_the_named_python_is_taken(env: dict[str, str], tmp_path: Path) -> None:
    named = tmp_path / "a python"
    named.symlink_to(OLDEST)
    client = Client(str(named), env)
    try:
        assert client.hello()["executable"] == str(named)
    finally:
        client.close()


def test_a_home_relative_python_is_found(env: dict[str, str], home: Path) -> None:
    (home / "my python").symlink_to(OLDEST)
    client = Client("~/my python", env)
    try:
        assert client.hello()["executable"] == str(home / "my python")
    finally:
        client.close()


@pytest.mark.parametrize("content", ["#!/bin/sh\nexit 1\n", "no program", "#!/missing/interpreter\n"])
def test_a_named_python_that_does_not_work_is_passed_over(content: str, env: dict[str, str], tmp_path: Path) -> None:
    named = tmp_path / "python"
    named.write_text(content)
    named.chmod(0o755)
    client = Client(str(named), env)
    try:
        assert client.hello()["executable"] != str(named)
    finally:
        client.close()


@pytest.mark.parametrize("change", [{"HOME": ""}, {"HOME": None}, {"HOME": "relative"}, {"IFS": "x"}, {"ENV": "/x"}])
def test_an_odd_environment_is_no_obstacle(change: dict[str, str | None], env: dict[str, str], tmp_path: Path) -> None:
    merged = {**env, **change}
    odd = {name: value for name, value in merged.items() if value is not None}
    with connected(OLDEST, {**odd, "XDG_STATE_HOME": str(tmp_path / "state")}) as client:
        assert client.call("clock")["ok"]


def test_without_any_python_it_says_what_was_tried(tmp_path: Path) -> None:
    if Path("/usr/bin/python3").exists() or Path("/usr/local/bin/python3").exists():
        script = (NODE / "boot.sh").read_text().replace("/usr/", "/nowhere/").replace("/opt/", "/nowhere/")
    else:
        script = (NODE / "boot.sh").read_text()
    process = subprocess.Popen(
        ["/bin/sh", "-s"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"PATH": str(tmp_path)}, bufsize=0
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(script.encode())
    assert process.stdout.readline() == b"ncclrun: shell ready\n"
    process.stdin.write(f"{NONCE}\n/no/such/python\n".encode())
    said = process.stdout.read()
    process.stdin.close()
    process.stdout.close()
    assert said.startswith(f"{NONCE} no-python /no/such/python python3 ".encode())
    assert process.wait() == 127


def test_a_package_that_ends_early_ends_it(env: dict[str, str]) -> None:
    process = subprocess.Popen(
        ["/bin/sh", "-s"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        bufsize=0,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write((NODE / "boot.sh").read_bytes())
    assert process.stdout.readline() == b"ncclrun: shell ready\n"
    process.stdin.write(f"{NONCE}\n{OLDEST}\n".encode() + package()[:-100])
    process.stdin.close()
    assert b"ended early" in process.stderr.read()
    assert process.wait() == 1
    process.stdout.close()
    process.stderr.close()


def test_the_login_environment_reaches_the_training_unchanged(env: dict[str, str], home: Path) -> None:
    named = {"python": "mine", "found": "mine", "try": "mine", "IFS": "ab", "nonce": "mine"}
    with connected(OLDEST, {**env, **named}) as client:
        client.launch("r", ["sh", "-c", "echo $python $found $try $nonce"])
        client.end()
        assert client.logs()["0.out"] == b"mine mine mine mine\n"
