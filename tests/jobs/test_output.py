"""Every rank's output comes home: whole lines, streams apart, every byte once, harmless on a terminal."""

from __future__ import annotations

import hashlib
import os
import pty
import re
import subprocess
import sys
import threading

import pytest

from tests.jobs.bench import COMMAND, Bench, Done

pytestmark = pytest.mark.cluster

MANY = """
import os, sys
rank = os.environ["RANK"]
for n in range(2000):
    sys.stdout.write(f"{rank} out {n} " + "o" * (n % 150) + "\\n")
    sys.stderr.write(f"{rank} err {n} " + "e" * (n % 70) + "\\n")
    if n % 100 == 0:
        sys.stdout.flush()
"""


def expected(rank: int, stream: str) -> bytes:
    """What MANY writes."""
    width = 150 if stream == "out" else 70
    return "".join(f"{rank} {stream} {n} {stream[0] * (n % width)}\n" for n in range(2000)).encode()


def kept(bench: Bench, name: str) -> bytes:
    """A stream of the only run, as it lies on this machine."""
    (run,) = bench.runs_here()
    return (run / "logs" / name).read_bytes()


def test_six_ranks_at_once_no_two_on_one_line_and_every_byte_kept(bench: Bench) -> None:
    bench.script(MANY)
    words = ("launch", "--launcher", "exec", "--nproc-per-node", "2", bench.file, sys.executable, "worker.py")
    done = bench.run(*words)
    assert done.code == 0, done.err
    shown: dict[int, dict[str, list[str]]] = {rank: {"out": [], "err": []} for rank in range(6)}
    for line in done.out.splitlines():
        label, _, text = line.partition(" | ")
        who, stream, _ = text.split(" ", 2)
        assert label.split() == [f"node{int(who) // 2}", who]
        shown[int(who)][stream].append(text)
    for rank in range(6):
        for stream in ("out", "err"):
            whole = expected(rank, stream)
            assert shown[rank][stream] == whole.decode().splitlines()
            here = kept(bench, f"rank{rank}.{stream}")
            assert hashlib.sha256(here).hexdigest() == hashlib.sha256(whole).hexdigest()


def test_stdout_and_stderr_are_apart_here_and_on_the_node(bench: Bench) -> None:
    done = bench.sh("echo good; echo bad >&2")
    assert done.code == 0
    assert {(event["rank"], event["stream"], event["text"]) for event in done.of("log")} == {
        (rank, stream, text) for rank in range(3) for stream, text in (("out", "good"), ("err", "bad"))
    }
    for rank, host in enumerate(bench.cluster.hosts):
        assert kept(bench, f"rank{rank}.out") == b"good\n"
        assert kept(bench, f"rank{rank}.err") == b"bad\n"
        (logs,) = host.path("/root/.local/state/ncclrun/runs").glob("*/*/logs")
        assert ((logs / "0.out.log").read_bytes(), (logs / "0.err.log").read_bytes()) == (b"good\n", b"bad\n")


def test_a_last_line_without_a_line_feed_is_kept_and_stands_alone(bench: Bench) -> None:
    words = ("launch", "--launcher", "exec", bench.file, "/bin/sh", "-c", "printf 'first\\nlast of %s' $RANK")
    done = bench.run(*words)
    assert sorted(done.out.splitlines()) == sorted(
        line for rank in range(3) for line in (f"node{rank} {rank} | first", f"node{rank} {rank} | last of {rank}")
    )
    assert kept(bench, "rank1.out") == b"first\nlast of 1"


def test_a_progress_bar_shows_in_a_pipe_as_it_ended_and_lies_in_the_file_as_it_was(bench: Bench) -> None:
    bar = "for n in 1 2 3; do printf '\\r%s/3' $n; sleep 0.2; done; printf '\\n'; echo after"
    done = bench.run("launch", "--launcher", "exec", "--nodes", "0", bench.file, "/bin/sh", "-c", bar)
    assert done.out.splitlines() == ["node0 0 | 3/3", "node0 0 | after"]
    assert kept(bench, "rank0.out") == b"\r1/3\r2/3\r3/3\nafter\n"


def test_any_bytes_are_kept_and_shown_without_harm(bench: Bench) -> None:
    raw = bytes(range(256)) * 3
    bench.script(f"import sys; sys.stdout.buffer.write({raw!r})")
    done = bench.run("launch", "--launcher", "exec", "--nodes", "0", bench.file, sys.executable, "worker.py")
    assert done.code == 0
    assert kept(bench, "rank0.out") == raw
    assert {character for character in done.out if not character.isprintable()} <= {"\t", "\n"}


def test_a_selection_of_ranks_is_shown_and_all_are_kept(bench: Bench) -> None:
    words = ("launch", "--launcher", "exec", "--nproc-per-node", "2", "--ranks", "0,4-5")
    done = bench.run(*words, bench.file, "/bin/sh", "-c", "echo $RANK")
    assert sorted(done.out.splitlines()) == ["node0 0 | 0", "node2 4 | 4", "node2 5 | 5"]
    assert [kept(bench, f"rank{rank}.out") for rank in range(6)] == [b"%d\n" % rank for rank in range(6)]


def on_a_terminal(bench: Bench, *words: str, term: str = "xterm-256color") -> tuple[int, bytes]:
    """Exit code and every byte that ncclrun writes to a terminal."""
    ours, its = pty.openpty()
    read: list[bytes] = []

    def listen() -> None:
        while True:
            try:
                data = os.read(ours, 1 << 16)
            except OSError:  # EIO: nobody has the other end any more
                return
            read.append(data)

    thread = threading.Thread(target=listen)
    thread.start()
    env = {**bench.env, "TERM": term, "COLUMNS": "100"}
    env.pop("NO_COLOR", None)
    command = [*COMMAND, *words]
    with subprocess.Popen(command, cwd=bench.work, env=env, stdin=its, stdout=its, stderr=its) as process:
        os.close(its)
        code = process.wait(60)
    thread.join(10)
    os.close(ours)
    return code, b"".join(read)


HARM = {
    "title": "\x1b]0;pwned\x07",
    "clipboard": "\x1b]52;c;cm0gLXJm\x07",
    "clear": "\x1b[2J\x1b[H",
    "up": "\x1b[5A",
    "alternate screen": "\x1b[?1049h",
    "device status": "\x1b[6n",
    "DCS": "\x1bP+q544e\x1b\\",
    "C1": "\x9b2J\x9d0;pwned\x9c",
    "backspaces": "\x08\x08\x08",
    "reset": "\x1bc",
    "reverse": "\u202etxt.exe",
}


def test_hostile_escape_sequences_are_harmless_on_a_terminal(bench: Bench) -> None:
    bench.script(f"[print('<' + s + '>', flush=True) for s in {list(HARM.values())!r}]; print('the end')")
    words = ("launch", "--launcher", "exec", "--nodes", "1", bench.file, sys.executable, "worker.py")
    code, seen = on_a_terminal(bench, *words)
    text = seen.decode()
    assert code == 0, text
    assert "the end" in text
    assert [name for name, sequence in HARM.items() if f"<{sequence}>" in text] == []
    introducers = (
        "\x1b]",
        "\x1bP",
        "\x1bc",
        "\x1b[2J",
        "\x1b[5A",
        "\x1b[6n",
        "\x1b[?1049",
        "\x9b",
        "\x9d",
        "\x08",
        "\u202e",
    )
    assert [introducer for introducer in introducers if introducer in text] == []


def test_a_terminal_gets_colours_for_nodes_and_a_dumb_one_gets_plain_lines(bench: Bench) -> None:
    words = ("launch", "--launcher", "exec", bench.file, "/bin/sh", "-c", "echo x$RANK")
    code, seen = on_a_terminal(bench, *words)
    assert code == 0
    colours = {node: colour for colour, node in re.findall(rb"\x1b\[38;5;(\d+)m(node\d) \d \|\x1b\[0m x\d", seen)}
    assert set(colours) == {b"node0", b"node1", b"node2"}
    assert len(set(colours.values())) == 3
    code, plain = on_a_terminal(bench, *words, term="dumb")
    assert code == 0
    assert b"\x1b" not in plain
    assert plain.count(b" | x") == 3


class TestLogsCommand:
    @pytest.fixture
    def ran(self, bench: Bench) -> Bench:
        """A run that has ended: six ranks, 10 lines each on stdout and one on stderr."""
        text = "for n in 0 1 2 3 4 5 6 7 8 9; do echo r$RANK n$n; done; echo e$RANK >&2"
        assert bench.sh(text, nproc=2, options=("--run-id", "first")).code == 0
        return bench

    @staticmethod
    def said(done: Done) -> set[str]:
        assert done.code == 0, done
        return {line.partition(" | ")[2] for line in done.out.splitlines()}

    @staticmethod
    def lines(*ranks: int, first: int = 0, err: bool = True, out: bool = True) -> set[str]:
        found = {f"r{rank} n{n}" for rank in ranks for n in range(first, 10) if out}
        return found | {f"e{rank}" for rank in ranks if err}

    def test_the_last_run_whole_by_default_as_it_was_shown(self, ran: Bench) -> None:
        done = ran.run("logs")
        assert self.said(done) == self.lines(*range(6))
        assert len(done.out.splitlines()) == 66
        assert "node1 3 | r3 n0" in done.out

    def test_selections(self, ran: Bench) -> None:
        every = range(6)
        for words, wanted in (
            (("--node", "1"), self.lines(2, 3)),
            (("--node", "node2"), self.lines(4, 5)),
            (("--rank", "3"), self.lines(3)),
            (("--rank", "0-2,!1"), self.lines(0, 2)),
            (("--tail", "2"), self.lines(*every, first=8)),
            (("--stream", "err"), self.lines(*every, out=False)),
            (("--stream", "out", "--rank", "5", "--tail", "1"), self.lines(5, first=9, err=False)),
            (("first", "-f", "--node", "0"), self.lines(0, 1)),
        ):
            assert (words, self.said(ran.run("logs", *words))) == (words, wanted)

    def test_a_rank_or_node_that_there_is_not_is_an_error(self, ran: Bench) -> None:
        for words in (("--node", "7"), ("--rank", "6"), ("--stream", "in")):
            done = ran.run("logs", *words)
            assert done.code == 2, done
            assert done.err.startswith("error: ")

    def test_a_reader_that_leaves_is_no_error_to_speak_of(self, ran: Bench) -> None:
        with subprocess.Popen([*COMMAND, "logs"], env=ran.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as logs:
            assert logs.stdout is not None
            assert logs.stderr is not None
            logs.stdout.close()
            said = logs.stderr.read()
        assert b"Traceback" not in said
        assert b"BrokenPipe" not in said

    def test_while_it_runs_from_another_terminal(self, bench: Bench) -> None:
        job = bench.start_sh("echo begun; while ! test -e /root/go; do sleep 0.1; done; echo gone on")
        job.until(lambda: len(job.events("log")) == 3)
        now = bench.run("logs")
        assert self.said(now) == {"begun"}
        follower = bench.start("logs", "-f")
        follower.until_said("begun", 3)
        for host in bench.cluster.hosts:
            host.write("/root/go", "")
        assert job.wait().code == 0
        done = follower.wait(30)
        for host in bench.cluster.hosts:
            host.path("/root/go").unlink()
        assert sorted(done.out.splitlines()) == sorted(
            f"node{rank} {rank} | {text}" for rank in range(3) for text in ("begun", "gone on")
        )
