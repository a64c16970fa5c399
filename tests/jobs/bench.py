"""Runs the real command line against a test cluster, and looks from outside at what it did to the hosts."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.host import Host, end
from tests.jobs import warm

ROOT = Path(__file__).parents[2]
COMMAND = (
    sys.executable,
    "-c",
    f"import sys; sys.path.insert(0, {str(ROOT)!r}); from ncclrun.cli.main import main; main()",
)
"""The tree that the tests stand in, whatever is installed."""
NODE_STATE = "/root/.local/state/ncclrun"
COOKIE = "NCCLRUN_COOKIE="
SMI = """#!/bin/sh
case "$*" in
*--query-gpu=*) for i in 0 1; do echo "$i, FAKE, GPU-$(hostname)-$i, 81559, 570.1, 5"; done ;;
*--query-compute-apps=*) cat /run/gpu-apps 2>/dev/null ;;
esac
"""
"""An nvidia-smi that tells of two GPUs."""
Event = dict[str, Any]
Word = str | bytes


def eventually(true: Callable[[], object], seconds: float = 30) -> bool:
    """Waits for what comes about by itself; False if it has not by then."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def hear_signals() -> None:
    """Commands started from here hear Ctrl-C and the terminal's end, though a background shell ignores both."""
    for number, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, default)


@dataclass(frozen=True)
class Done:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str

    @property
    def events(self) -> list[Event]:
        """The lines of ``--json``."""
        return [json.loads(line) for line in self.out.splitlines()]

    def of(self, kind: str) -> list[Event]:
        """The events of that kind."""
        return [event for event in self.events if event["event"] == kind]

    @property
    def end(self) -> Event:
        """The last event."""
        return self.events[-1]

    @property
    def lines(self) -> dict[int, list[str]]:
        """Each rank's lines on stdout, by global rank."""
        found: dict[int, list[str]] = {}
        for event in self.of("log"):
            if event["rank"] is not None and event["stream"] == "out":
                found.setdefault(event["rank"], []).append(event["text"])
        return found


class Running:
    """A command that runs; what it says goes to files, so that no pipe ever fills."""

    def __init__(
        self,
        argv: list[Word],
        cwd: Path,
        env: Mapping[Any, Any],
        directory: Path,
        stdin: int = subprocess.DEVNULL,
        *,
        piped: bool = False,
        cold: bool = False,
    ) -> None:
        self._out, self._err = directory / "stdout", directory / "stderr"
        self.reader: subprocess.Popen[bytes] | None = None
        """Where it is ``piped``: what reads its stdout."""
        self.process: subprocess.Popen[bytes] | warm.Process
        with self._out.open("wb") as out, self._err.open("wb") as err, Path(os.devnull).open("rb") as nothing:
            to = out.fileno()
            if piped:
                self.reader = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=out)
                assert self.reader.stdin is not None
                to = self.reader.stdin.fileno()
            # Either way it gets a session of its own: a Ctrl-C for the tests is none for the command.
            if not cold and stdin == subprocess.DEVNULL and warm.fits(argv, env):
                files = (nothing.fileno(), to, err.fileno())
                self.process = warm.source().start(argv, cwd, env, files)
            else:
                self.process = subprocess.Popen(
                    argv, cwd=cwd, env=env, stdin=stdin, stdout=to, stderr=err, start_new_session=True
                )
            if self.reader is not None and self.reader.stdin is not None:
                self.reader.stdin.close()

    def end_reader(self) -> None:
        """What reads its output goes away."""
        assert self.reader is not None
        self.reader.kill()
        self.reader.wait()

    def so_far(self) -> Done:
        """What it said until now."""
        code = self.process.poll()
        out, err = (path.read_text("utf-8", "surrogateescape") for path in (self._out, self._err))
        return Done(-1000 if code is None else code, out, err)

    def events(self, kind: str) -> list[Event]:
        """The whole events of that kind until now."""
        whole = self.so_far().out.rpartition("\n")[0]
        return [event for event in map(json.loads, whole.splitlines()) if event["event"] == kind]

    def printed(self) -> list[Event]:
        """What ranks have printed until now; torchrun and its libraries say more, on stderr, on a slow machine."""
        return [event for event in self.events("log") if event["rank"] is not None and event["stream"] == "out"]

    def until(self, true: Callable[[], object], seconds: float = 60) -> None:
        """Waits for something that comes about while the command runs; fails with all that it said if it does not."""
        came = eventually(lambda: true() or self.process.poll() is not None, seconds)
        assert came and true(), f"it did not come about: {self.so_far()}"

    def until_said(self, text: str, times: int = 1) -> None:
        """Waits for a text on stdout or stderr."""
        self.until(lambda: (said := self.so_far(), (said.out + said.err).count(text) >= times)[1])

    def press(self, number: signal.Signals = signal.SIGINT) -> None:
        """Ctrl-C, or another signal, to the command alone."""
        self.process.send_signal(number)

    def wait(self, timeout: float = 120) -> Done:
        """How it ended; one that never does is killed and told about."""
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"it did not end: {self.so_far()}") from None
        return self.so_far()


class Bench:
    """A cluster, an empty directory to type commands in, and a state directory of its own."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self.work = directory / "work"
        self.state = directory / "state"
        self.env: dict[str, str] = {**os.environ, "XDG_STATE_HOME": str(self.state)}
        self.cold = False
        """Whether each command is a new Python, and not a fork of one that has all imported."""
        self.commands: list[Running] = []
        """All that were started, in order."""
        self.work.mkdir()
        self.yaml()

    def yaml(self, **extra: Any) -> Path:
        """Writes the cluster file that the next commands take; ``extra`` as in ``cluster_yaml``."""
        return self.cluster.write_yaml(self.directory, **extra)

    @property
    def file(self) -> str:
        """Path of the cluster file."""
        return str(self.directory / "cluster.yaml")

    def script(self, text: str, name: str = "worker.py") -> str:
        """Puts a program into the working directory, from where it travels."""
        (self.work / name).write_text(text)
        return name

    def start(
        self,
        *words: Word,
        env: Mapping[Any, Any] | None = None,
        stdin: int = subprocess.DEVNULL,
        piped: bool = False,
    ) -> Running:
        """Starts ``ncclrun WORDS``."""
        directory = self.directory / f"command{len(self.commands)}"
        directory.mkdir()
        environment = {**self.env, **(env or {})}
        self.commands.append(
            Running([*COMMAND, *words], self.work, environment, directory, stdin, piped=piped, cold=self.cold)
        )
        return self.commands[-1]

    def run(self, *words: Word, env: Mapping[Any, Any] | None = None, timeout: float = 120) -> Done:
        """``ncclrun WORDS`` from start to end."""
        return self.start(*words, env=env).wait(timeout)

    def _exec(self, words: Sequence[Word], options: Sequence[Word], nproc: int) -> list[Word]:
        """``launch`` of any command, once a rank, with events as JSON."""
        own: list[Word] = ["launch", "--json", "--launcher", "exec", "--nproc-per-node", str(nproc)]
        return [*own, *options, self.file, *words]

    def exec(
        self,
        *words: Word,
        options: tuple[Word, ...] = (),
        nproc: int = 1,
        env: Mapping[Any, Any] | None = None,
        timeout: float = 120,
    ) -> Done:
        """Runs any command once a rank, to its end."""
        return self.run(*self._exec(words, options, nproc), env=env, timeout=timeout)

    def start_exec(
        self,
        *words: Word,
        options: tuple[Word, ...] = (),
        nproc: int = 1,
        env: Mapping[Any, Any] | None = None,
    ) -> Running:
        """Starts any command once a rank."""
        return self.start(*self._exec(words, options, nproc), env=env)

    def sh(self, text: str, **options: Any) -> Done:
        """Runs a line of shell once a rank."""
        return self.exec("/bin/sh", "-c", text, **options)

    def start_sh(self, text: str, **options: Any) -> Running:
        """Starts a line of shell once a rank."""
        return self.start_exec("/bin/sh", "-c", text, **options)

    def runs_here(self) -> list[Path]:
        """Directories of runs on this machine."""
        return sorted((self.state / "ncclrun/runs").glob("*"))

    def close(self) -> None:
        """Ends what a failed test left running."""
        for running in self.commands:
            if running.process.poll() is None:
                running.process.kill()
                running.process.wait()
            if running.reader is not None:
                running.end_reader()


def strangers(host: Host) -> list[str]:
    """Commands of all that lives on a host beside its sshd, cookie or not."""
    return [process.command for process in host.processes() if not process.command.startswith("sshd")]


def make_empty(host: Host) -> None:
    """Ends whatever another test left behind and removes all runs, so that one failure is not many."""
    for process in host.processes():
        if not process.command.startswith("sshd"):
            end(process.pid)
    forget_runs(host)


def run_directories(host: Host, state: str = NODE_STATE) -> list[Path]:
    """Every node's part of every run on the host, drafts included."""
    return sorted(host.path(f"{state}/runs").glob("*/*"))


def unfinished(host: Host, state: str = NODE_STATE) -> list[str]:
    """Run directories without an end."""
    return [path.name for path in run_directories(host, state) if not (path / "exit.json").exists()]


def forget_runs(host: Host) -> None:
    """Removes all runs of a host."""
    shutil.rmtree(host.path(NODE_STATE), ignore_errors=True)


def nothing_lives(cluster: Cluster) -> bool:
    """Whether no host has a process beside its sshd."""
    return not any(strangers(host) for host in cluster.hosts)


def assert_nothing_is_left(cluster: Cluster) -> None:
    """No process of any run on any host, whatever it did to hide, and no half-made run."""
    # The node part ends when its channel does, a moment after the command: that is what may be waited for.
    eventually(lambda: nothing_lives(cluster), 10)
    assert {host.name: strangers(host) for host in cluster.hosts} == {host.name: [] for host in cluster.hosts}
    assert {host.name: unfinished(host) for host in cluster.hosts} == {host.name: [] for host in cluster.hosts}


def assert_nothing_was_started(bench: Bench, done: Done, code: int) -> None:
    """The launch was given up before the start: no run anywhere, here or there."""
    assert done.code == code, done.out[-2000:] + done.err
    assert done.end["exit_code"] == code
    assert bench.runs_here() == []
    assert done.of("node") == []
