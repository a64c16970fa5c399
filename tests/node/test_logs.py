"""Logs: every byte once, whoever reads how slowly, and the training never waits for it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ncclrun.node import wire
from tests.node.client import SECONDS, Client, connected
from tests.node.conftest import OLDEST, again

BINARY = "import os,sys\nfor i in range(400): os.write(1, bytes(range(256)) * 40 + b'%d' % i)\n"


def binary() -> bytes:
    return b"".join(bytes(range(256)) * 40 + b"%d" % number for number in range(400))


def follow(node: Client, offsets: dict[str, int] | None = None, tail: int | None = None) -> None:
    node.call("follow", run_id="r", node_rank=0, offsets=offsets or {}, tail=tail)


def test_binary_output_arrives_as_it_was(node: Client) -> None:
    node.launch("r", [sys.executable, "-c", BINARY])
    node.end()
    assert node.logs()["0.out"] == binary()


@pytest.mark.parametrize("offset", [0, 1, 12345, 400_000, len(binary()) - 1, len(binary())])
def test_a_reader_goes_on_at_its_offset(node: Client, offset: int) -> None:
    node.launch("r", [sys.executable, "-c", BINARY])
    node.end()
    node.events.clear()
    follow(node, {"0.out": offset})
    node.end()
    assert node.logs().get("0.out", b"") == binary()[offset:]


@pytest.mark.parametrize(
    ("text", "lines", "wanted"),
    [
        (b"a\nb\nc\n", 2, b"b\nc\n"),
        (b"a\nb\nc", 2, b"b\nc"),
        (b"a\nb\nc\n", 0, b""),
        (b"a\nb\nc\n", 3, b"a\nb\nc\n"),
        (b"a\nb\nc\n", 99, b"a\nb\nc\n"),
        (b"\n\n\n", 2, b"\n\n"),
        (b"x" * 70_000 + b"\n" + b"y" * 70_000 + b"\n", 1, b"y" * 70_000 + b"\n"),
        (b"x" * 65_535 + b"\n" + b"y" * 65_535 + b"\n", 1, b"y" * 65_535 + b"\n"),
    ],
)
def test_the_last_lines_are_the_last_lines(
    node: Client, tmp_path: Path, text: bytes, lines: int, wanted: bytes
) -> None:
    (tmp_path / "text").write_bytes(text)
    node.launch("r", ["cat", str(tmp_path / "text")])
    node.end()
    node.events.clear()
    follow(node, tail=lines)
    node.end()
    assert node.logs().get("0.out", b"") == wanted


def test_a_line_comes_while_the_run_goes_on_with_its_time(node: Client) -> None:
    before = time.time()
    node.launch("r", ["sh", "-c", "echo first; read never < /dev/zero & sleep 1000"])
    header, body = node.event("log", stream="0.out")
    assert body == b"first\n"
    assert before - 1 <= header["time"] <= time.time() + 1
    node.call("stop", run_id="r", node_rank=0, how="kill", grace=0)
    node.end()


def test_a_flood_of_one_stream_does_not_hide_another(node: Client) -> None:
    node.launch("r", ["sh", "-c", "head -c 50000000 /dev/zero; echo end >&2"], ["sh", "-c", "echo quiet"])
    node.event("log", stream="1.out")
    node.end()
    assert sum(len(body) for header, body in node.events if header.get("stream") == "0.out") == 50_000_000


def rss(pid: int) -> int:
    """Peak resident memory in KiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


def test_a_long_line_without_a_line_feed_leaves_memory_flat_and_its_end_on_the_disk(
    node: Client, runs: Path, env: dict[str, str]
) -> None:
    size = 200_000_000
    node.prepare("r")
    pid = node.start("r", ["sh", "-c", f"head -c {size} /dev/zero; echo end; echo >&2; sleep 1000"], log_limit=1 << 20)
    follow(node, {"0.out": size + 4})
    node.event("log", stream="0.err")
    assert rss(pid["pid"]) < 60_000
    node.call("stop", run_id="r", node_rank=0, how="kill", grace=0)
    record = node.end()
    assert record["lost_bytes"] == {}
    (log,) = runs.glob("r/*/logs/0.out.log")
    assert log.stat().st_size == size + 4
    assert log.stat().st_blocks * 512 < 4 << 20
    with again(env) as late:
        late.call("follow", run_id="r", node_rank=0, offsets={"0.out": 1000}, tail=None)
        header, body = late.event("log", stream="0.out")
        late.end()
    dropped = record["dropped_bytes"]["0.out"]
    assert (header["offset"], header["missing"]) == (dropped, dropped - 1000)
    assert body + late.logs()["0.out"] == bytes(size - dropped) + b"end\n"


def test_a_reader_that_sleeps_slows_nobody_and_costs_no_memory(node: Client, env: dict[str, str]) -> None:
    with again(env) as idle:
        serving = idle.process.pid
        node.prepare("r")
        node.start("r", ["sh", "-c", "head -c 200000000 /dev/zero; echo end"])
        idle.call("follow", run_id="r", node_rank=0, offsets={}, tail=None)
        # `idle` reads nothing from here on, while `node` sees the run through.
        follow(node, {"0.out": 190_000_000})
        assert node.end()["ranks"][0]["code"] == 0
        assert rss(serving) < 60_000
        idle.end()
        assert hashlib.sha256(idle.logs()["0.out"]).digest() == hashlib.sha256(bytes(200_000_000) + b"end\n").digest()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 66 MiB, most of it to be filled by the test."""
    if os.getuid() != 0:
        pytest.skip("mounting a small disk needs root")
    path = tmp_path / "disk"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=66m", "none", str(path)], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def test_a_full_disk_costs_log_bytes_and_neither_the_training_nor_its_end(
    small_disk: Path, env: dict[str, str]
) -> None:
    with connected(OLDEST, {**env, "XDG_STATE_HOME": str(small_disk)}) as node:
        tail = "for i in 1 2 3 4 5 6 7 8 9; do head -c 500 /dev/zero | tr '\\0' é >&2; done"
        node.prepare("r")
        node.start("r", ["sh", "-c", f"head -c 200000000 /dev/zero; {tail}; echo last >&2; exit 9"])
        follow(node)
        record = node.end()
        assert record["ranks"][0]["code"] == 9
        assert record["ranks"][0]["tail"].endswith("last\n")
        kept = len(node.logs()["0.out"])
        assert 0 < kept < 67 << 20
        assert record["lost_bytes"]["0.out"] == 200_000_000 - kept
        assert os.statvfs(small_disk).f_bavail < 64


def test_an_almost_full_disk_is_refused(small_disk: Path, env: dict[str, str]) -> None:
    (small_disk / "filler").write_bytes(bytes(10 << 20))
    with connected(OLDEST, {**env, "XDG_STATE_HOME": str(small_disk)}) as node, pytest.raises(Exception) as refused:
        node.prepare("r")
    assert getattr(refused.value, "code", "") == "disk_full"
    assert not list(small_disk.glob("ncclrun/runs/*"))


def test_it_goes_when_it_hears_nonsense_and_the_run_stays(node: Client, env: dict[str, str]) -> None:
    node.launch("r", ["sh", "-c", "sleep 1; exit 6"])
    node.write(b"\xff" * 64)
    assert node.process.wait(SECONDS) != 0
    with again(env) as second:
        second.call("follow", run_id="r", node_rank=0, offsets={}, tail=None)
        assert second.end()["ranks"][0]["code"] == 6


def test_it_beats_when_it_has_nothing_to_say(node: Client) -> None:
    node.write(wire.encode({"do": "beat"}))
    assert node.event("beat")[1] == b""
    assert node.answers == {}


def test_a_removed_directory_costs_who_follows_nothing_and_others_what_was_there(
    node: Client, runs: Path, tmp_path: Path, env: dict[str, str]
) -> None:
    go = tmp_path / "go"
    node.launch(
        "r", ["sh", "-c", f"echo before; until [ -e {go} ]; do echo x >&2; sleep 0.1; done; echo after; exit 5"]
    )
    assert node.event("log", stream="0.out")[1] == b"before\n"
    shutil.rmtree(runs / "r")
    deadline = time.monotonic() + SECONDS
    while not list(runs.glob("r/*/control")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    go.touch()
    record = node.end()
    assert (record["reason"], record["lost_bytes"]["0.out"]) == ("failed", len("before\n"))
    assert node.logs()["0.out"] == b"after\n"
    with again(env) as late:
        late.call("follow", run_id="r", node_rank=0, offsets={}, tail=None)
        assert late.end()["ranks"][0]["code"] == 5
        assert late.event("log", stream="0.out")[0]["missing"] == len("before\n")


def test_a_file_size_limit_costs_log_bytes_and_neither_the_training_nor_its_end(env: dict[str, str]) -> None:
    limited = ("/bin/sh", "-c", 'ulimit -f 2000; exec /bin/sh "$@"', "sh")
    with connected(OLDEST, env, limited) as node:
        node.prepare("r")
        node.start("r", ["sh", "-c", "head -c 5000000 /dev/zero; sleep 0.5; echo last >&2; exit 9"])
        follow(node)
        record = node.end()
        assert (record["reason"], record["ranks"][0]["code"]) == ("failed", 9)
        assert record["lost_bytes"]["0.out"] == 5_000_000 - len(node.logs()["0.out"]) > 0
