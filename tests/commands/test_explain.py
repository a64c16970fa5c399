"""`ncclrun explain`: runs, files of every kind and standard input come to one diagnosis."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import socket
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ncclrun.commands import endlogs, reading
from ncclrun.commands import explain as command
from ncclrun.commands.control import Control
from ncclrun.commands.endlogs import with_finding
from ncclrun.commands.explain import explain
from ncclrun.commands.history import RunDir
from ncclrun.commands.member import Member
from ncclrun.model.endevents import Cause, Ended
from ncclrun.model.errors import UsageError
from ncclrun.model.events import Event, Warn
from ncclrun.model.explainevents import Explained, FindingPage
from tests.commands.test_logs import ERR0, NODES, OUT0, OUT2, NoTransport, make_run, write

OOM = b"Traceback (most recent call last):\ntorch.OutOfMemoryError: CUDA out of memory\n"
LOST = b"x\nncclRemoteError: A call failed possibly due to a network error\n"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDir:
    """Rank 0 on a ran out of memory, rank 2 on b lost it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    run = make_run("r")
    run.write(
        "end.json",
        {"exit_code": 1, "reason": "failed", "ended_at": 1.0, "cause": "rank 0 on a: exit code 1", "complete": True},
    )
    write(run, (OUT0, b"hello\n"), (ERR0, OOM), (OUT2, LOST))
    return run


@pytest.fixture
def quiet(run: RunDir) -> RunDir:
    """One that has no logs and no end yet."""
    return make_run("quiet")


def told(*targets: object, stdin: bytes = b"") -> list[Event]:
    with tempfile.TemporaryFile() as stream:
        stream.write(stdin)
        stream.seek(0)
        return list(explain([str(one) for one in targets], NoTransport(), Control(), stream.fileno()))


def diagnosis(events: list[Event]) -> Explained:
    return next(event for event in events if isinstance(event, Explained))


def code(events: list[Event]) -> int:
    assert isinstance(events[-1], Ended)
    return events[-1].exit_code


class TestARun:
    def test_is_the_last_one_by_default_and_its_ranks_and_nodes_are_known(self, run: RunDir) -> None:
        events = told()
        found = diagnosis(events)
        assert found.found is not None
        assert (found.found.id, found.found.hosts, found.found.ranks) == ("gpu-oom", ("a",), "0")
        assert [(line.file, line.line) for line in found.found.evidence] == [("rank0.err", 2)]
        assert [fault.id for fault in found.consequences] == ["remote-error"]
        assert (found.run_id, found.files, found.hosts, found.ranks) == ("r", 3, ("a", "b"), "0,2")
        assert code(events) == 0

    def test_that_ended_well_is_not_accused_whatever_its_stderr_says(self, run: RunDir) -> None:
        assert run.read("end.json") is not None
        run.write("end.json", {"exit_code": 0, "reason": "finished", "ended_at": 1.0, "complete": True})
        found = diagnosis(told())
        assert (found.verdict, found.found) == ("healthy", None)
        assert "exit code 0" in found.confidence

    def test_that_goes_on_after_an_error_on_stderr_is_seen_by_its_stdout(self, run: RunDir) -> None:
        steps = "".join(f"step {n} loss 0.1\n" for n in range(30)).encode()
        write(run, (OUT0, steps), (OUT2, b""))
        found = diagnosis(told())
        assert (found.verdict, found.found) == ("failed", None)
        assert sorted(fault.id for fault in found.consequences) == ["gpu-oom", "remote-error"]

    def test_whose_logs_say_nothing_is_explained_by_its_record(self, quiet: RunDir) -> None:
        write(quiet, (OUT0, b"step 1\n"), (OUT2, b""))
        crash = {"cause": "rank 2 on b: signal 11 (SIGSEGV)", "rank": 2, "hint": "A crash in native code."}
        quiet.write("end.json", {"exit_code": 139, "reason": "failed", "ended_at": 1.0, "complete": True, **crash})
        events = told("quiet")
        found = diagnosis(events)
        assert (found.verdict, found.hint) == ("failed", "A crash in native code.")
        assert found.recorded == "failed: rank 2 on b: signal 11 (SIGSEGV)"
        assert code(events) == 0

    def test_that_a_person_or_a_limit_ended_is_no_fault_of_its_own(self, quiet: RunDir) -> None:
        sigterm = b"torch.distributed.elastic.multiprocessing.api.SignalException: Process 7 got signal: 15\n"
        write(quiet, (OUT0, sigterm), (OUT2, b""))
        quiet.write("end.json", {"exit_code": 124, "reason": "timeout", "ended_at": 1.0, "complete": True, "cause": ""})
        events = told("quiet")
        assert (diagnosis(events).verdict, diagnosis(events).recorded) == ("stopped", "timeout")
        assert code(events) == 0

    def test_that_was_ended_soon_after_a_fault_is_told_of_it(self, quiet: RunDir) -> None:
        watchdog = b"Watchdog caught collective operation timeout: WorkNCCL(SeqNum=21, OpType=ALLREDUCE) ran for 9 ms\n"
        write(quiet, (OUT0, watchdog + b"step 20\n"), (OUT2, b""))
        quiet.write("end.json", {"exit_code": 124, "reason": "timeout", "ended_at": 1.0, "complete": True, "cause": ""})
        found = diagnosis(told("quiet")).found
        assert found is not None
        assert found.id == "watchdog"

    def test_names_its_cluster_in_the_commands_that_mend_it(self, run: RunDir) -> None:
        other = make_run("s")
        other.write("run.json", {**(other.read("run.json") or {}), "source": "'my lab.yaml'"})
        other.write("end.json", run.read("end.json") or {})
        write(other, (OUT2, b"gpu2:1:1 [0] NCCL WARN Bootstrap : no socket interface found\n"))
        found = diagnosis(told("s")).found
        assert found is not None
        assert "ncclrun nccl show 'my lab.yaml' " in found.fix
        assert "on b:  ip -brief address" in found.fix

    def test_may_be_named(self, run: RunDir) -> None:
        assert diagnosis(told("r")).run_id == "r"

    def test_may_be_a_directory_that_was_brought_from_elsewhere(
        self, run: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        brought = run.path.rename(tmp_path / "brought")
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
        (brought / "logs/order").touch()
        found = diagnosis(told(brought))
        assert found.found is not None
        assert (found.found.hosts, found.files, found.recorded) == (("a",), 3, "failed: rank 0 on a: exit code 1")

    def test_that_nobody_knows_is_refused(self, run: RunDir) -> None:
        with pytest.raises(UsageError, match="neither a file nor a run nor a fault nonsense"):
            told("nonsense")

    @pytest.mark.parametrize(
        ("name", "meant"), [("watchdg", "watchdog"), ("nccl-job", "nccl-job.log"), ("nonsense", "")]
    )
    def test_that_nobody_knows_may_be_a_fault_or_a_file_by_a_near_name(
        self, run: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, meant: str
    ) -> None:
        (tmp_path / "nccl-job.log").touch()
        monkeypatch.chdir(tmp_path)
        with pytest.raises(UsageError) as refused:
            told(name)
        assert refused.value.fix.startswith(f"did you mean {meant}?" if meant else "the last runs: r")

    def test_without_a_name_is_no_directory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "job.log").write_bytes(OOM)
        monkeypatch.chdir(tmp_path)
        with pytest.raises(UsageError, match="an empty name"):
            told("")


class TestFiles:
    def test_are_read_together(self, tmp_path: Path) -> None:
        (tmp_path / "rank0.err").write_bytes(OOM)
        (tmp_path / "other.log").write_bytes(LOST)
        found = diagnosis(told(tmp_path / "rank0.err", tmp_path / "other.log", tmp_path / "rank0.err"))
        assert found.found is not None
        assert (found.found.id, found.found.ranks, found.files) == ("gpu-oom", "0", 2)

    def test_may_be_a_directory_and_packed(self, tmp_path: Path) -> None:
        (tmp_path / "logs/deep").mkdir(parents=True)
        (tmp_path / "logs/deep/x.log.gz").write_bytes(gzip.compress(OOM))
        found = diagnosis(told(tmp_path / "logs"))
        assert found.found is not None
        assert found.found.id == "gpu-oom"

    def test_that_are_cut_off_in_their_packing_are_told_and_left_out(self, tmp_path: Path) -> None:
        (tmp_path / "a.gz").write_bytes(gzip.compress(OOM)[:10])
        (tmp_path / "b.log").write_bytes(LOST)
        events = told(tmp_path)
        told_of = [event.text for event in events if isinstance(event, Warn)]
        assert [text.split(":")[0] for text in told_of] == [f"{tmp_path}/a.gz can't be read and is left out"]
        assert diagnosis(events).files == 1

    def test_that_are_no_text_are_left_out_of_a_directory_and_told(self, tmp_path: Path) -> None:
        (tmp_path / "model.pt").write_bytes(b"PK\0\0" + OOM)
        (tmp_path / "b.log").write_bytes(LOST)
        events = told(tmp_path)
        assert diagnosis(events).files == 1
        assert any("no text" in event.text for event in events if isinstance(event, Warn))

    def test_may_be_pipes(self, tmp_path: Path) -> None:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_bytes, args=(OOM,))
        writer.start()
        found = diagnosis(told(pipe)).found
        writer.join()
        assert found is not None
        assert found.id == "gpu-oom"

    @pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
    def test_are_unpacked_as_they_begin_whatever_they_are_called(
        self, tmp_path: Path, pack: Callable[[bytes], bytes]
    ) -> None:
        (tmp_path / "log").write_bytes(pack(OOM))
        assert code(told(tmp_path / "log")) == 0
        (tmp_path / "log").write_bytes(pack(OOM)[:-3])
        [warning] = [event for event in told(tmp_path / "log") if isinstance(event, Warn)]
        assert "is read only up to line 2: " in warning.text

    def test_that_are_packed_otherwise_are_told_with_what_unpacks_them(self, tmp_path: Path) -> None:
        (tmp_path / "a b.zst").write_bytes(b"\x28\xb5\x2f\xfd" + OOM)
        with pytest.raises(UsageError, match="packed in a way") as told_of:
            told(tmp_path / "a b.zst")
        assert told_of.value.fix == f"zstd -dc '{tmp_path}/a b.zst' | ncclrun explain -"

    def test_that_are_devices_or_sockets_are_left_out_and_alone_refused(self, tmp_path: Path) -> None:
        (tmp_path / "log").write_bytes(OOM)
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(tmp_path / "socket"))
            events = told("/dev/zero", tmp_path / "socket", tmp_path / "log")
        texts = [event.text for event in events if isinstance(event, Warn)]
        assert texts == [
            "/dev/zero is a device, and no log; left out",
            f"{tmp_path}/socket is a socket, and no log; left out",
        ]
        assert code(events) == 0
        with pytest.raises(UsageError, match="is a device"):
            told("/dev/zero")

    def test_that_are_pipes_which_say_nothing_are_waited_for_until_a_ctrl_c(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(command, "QUIET", 0.0)
        os.mkfifo(tmp_path / "pipe")
        control = Control()
        events = explain([str(tmp_path / "pipe")], NoTransport(), control)
        warning = next(events)
        assert isinstance(warning, Warn) and "is waited for" in warning.text
        control.press()
        assert code(list(events)) == 130

    def test_that_are_links_in_a_circle_end(self, tmp_path: Path) -> None:
        (tmp_path / "deep").mkdir()
        (tmp_path / "deep/round").symlink_to(tmp_path)
        (tmp_path / "self").symlink_to(tmp_path / "self")
        (tmp_path / "log").write_bytes(OOM)
        assert diagnosis(told(tmp_path)).files == 1

    def test_beyond_the_most_of_a_directory_are_told_and_not_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reading, "MOST_FILES", 2)
        for name in "abc":
            (tmp_path / name).write_bytes(OOM)
        events = told(tmp_path)
        assert diagnosis(events).files == 2
        assert [event.text for event in events if isinstance(event, Warn)] == [
            f"{tmp_path} has more files: only 2 were read"
        ]

    def test_that_are_all_empty_are_nothing_to_read(self, tmp_path: Path) -> None:
        (tmp_path / "log").touch()
        for targets in ((tmp_path / "log",), (tmp_path,), ("-",)):
            with pytest.raises(UsageError, match="nothing to read"):
                told(*targets)

    def test_with_a_long_line_have_their_lines_counted_all_the_same(self, tmp_path: Path) -> None:
        long = b"x" * 300_000
        (tmp_path / "log").write_bytes(long + b"\nb\n" + long + b" CUDA out of memory " + long + b"\n" + OOM)
        events = told(tmp_path / "log")
        found = diagnosis(events).found
        assert found is not None
        assert [line.line for line in found.evidence] == [3]
        assert diagnosis(events).lines == 5

    def test_are_left_at_a_ctrl_c(self, tmp_path: Path) -> None:
        (tmp_path / "a.log").write_bytes(OOM)
        control = Control()
        control.press()
        events = list(explain([str(tmp_path)], NoTransport(), control))
        assert [event.exit_code for event in events if isinstance(event, Ended)] == [130]
        assert len(events) == 1

    def test_that_are_not_there_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="there is no file"):
            told(tmp_path / "nothing.log")

    def test_with_a_huge_line_take_no_more_than_a_piece_of_it_at_a_time(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reading, "BLOCK", 1000)
        (tmp_path / "a.log").write_bytes(b"x" * 300_000 + b"\n" + OOM)
        found = diagnosis(told(tmp_path / "a.log"))
        assert found.found is not None
        assert found.found.id == "gpu-oom"


class TestStandardInput:
    def test_is_read_to_its_end(self) -> None:
        found = diagnosis(told("-", stdin=OOM)).found
        assert found is not None
        assert found.evidence[0].file == "<stdin>"

    def test_may_be_packed(self) -> None:
        assert code(told("-", stdin=gzip.compress(OOM))) == 0

    def test_that_can_not_be_read_is_told(self) -> None:
        with pytest.raises(UsageError, match="<stdin> can't be read: Bad file descriptor"):
            list(explain(["-"], NoTransport(), Control(), os.open(os.devnull, os.O_WRONLY)))


@pytest.mark.parametrize(("text", "expected"), [(OOM, 0), (LOST, 1), (b"nothing\n", 1), (b"step 1 loss 0.5\n", 0)])
def test_the_exit_code_tells_whether_the_cause_is_known_or_all_is_well(text: bytes, expected: int) -> None:
    assert code(told("-", stdin=text)) == expected


def test_secrets_in_the_lines_are_masked() -> None:
    found = diagnosis(told("-", stdin=b"HF_TOKEN=abc123 RuntimeError: CUDA out of memory\n")).found
    assert found is not None
    assert "abc123" not in found.evidence[0].text


class TestTheEndOfARun:
    def ended(self, **fields: Any) -> Ended:
        cause = Cause(node="a", node_rank=0, host="a", rank=0, how="exit code 1", exit_code=1)
        return Ended(run_id="r", exit_code=1, seconds=1.0, **{"cause": cause, "reason": "failed", **fields})

    def members(self) -> list[Member]:
        return [
            Member(
                node=n.node,
                node_rank=n.node_rank,
                first_rank=n.first_rank,
                nproc=n.nproc,
                grace=1.0,
                boot_id="",
                clock_offset=0.0,
                session=None,
            )
            for n in NODES
        ]

    def test_that_failed_is_told_with_what_its_logs_show(self, run: RunDir) -> None:
        finding = with_finding(run, self.ended(), self.members()).finding
        assert finding is not None
        assert (finding.id, finding.hosts) == ("gpu-oom", ("a",))

    def test_that_hung_until_its_time_was_up_is_told_so_too(self, run: RunDir) -> None:
        assert with_finding(run, self.ended(cause=None, reason="timeout"), self.members()).finding is not None

    def test_that_is_good_is_left_alone(self, run: RunDir) -> None:
        assert with_finding(run, self.ended(cause=None), self.members()).finding is None

    def test_has_no_finding_where_the_logs_tell_no_more_than_the_end_itself(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
        run = make_run("r")
        write(run, (ERR0, b"Traceback (most recent call last):\nValueError: no data\n"))
        assert with_finding(run, self.ended(), self.members()).finding is None

    def test_reads_the_beginning_and_the_end_of_logs_that_are_large(
        self, run: RunDir, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(run, (OUT2, b"y" * 5000 + b"\nRuntimeError: CUDA error: invalid device ordinal\n"))
        monkeypatch.setattr(endlogs, "MOST", 400 * 14)
        scans = {scan.name: scan for scan in endlogs.of_run_here(run, self.members())}
        assert "remote-error" in scans["rank2.out"].hits
        assert "bad-ordinal" in scans["rank2.out"].hits


def test_a_packed_log_that_breaks_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    noise = b"".join(b"%d\n" % (number * 7919 % 100003) for number in range(100_000))
    (tmp_path / "log.gz").write_bytes(gzip.compress(OOM + noise)[:-5000])
    events = told(tmp_path / "log.gz")
    found = diagnosis(events).found
    assert found is not None and found.id == "gpu-oom"
    assert [event for event in events if isinstance(event, Warn) and "only up to line" in event.text]


def test_a_log_in_utf_16_is_read_alone_and_in_a_directory(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_bytes(OOM.decode().encode("utf-16"))
    for target in (tmp_path / "log.txt", tmp_path):
        found = diagnosis(told(target)).found
        assert found is not None and found.id == "gpu-oom"


def test_where_nothing_can_be_looked_at_it_is_told_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "none").mkdir()
    for name in ("shut", "open"):
        (tmp_path / "logs" / name).write_bytes(OOM)
    stat = Path.stat

    def closed(path: Path, **options: bool) -> os.stat_result:  # as of who may list a directory and not go into it
        if path.name == "shut":
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", closed)
    events = told(tmp_path / "logs", tmp_path / "logs/shut", tmp_path / "none", tmp_path / ("x" * 300))
    assert [event.text.replace(f"{tmp_path}/", "") for event in events if isinstance(event, Warn)] == [
        "logs/shut can't be looked into: Permission denied",
        "logs/shut can't be read and is left out: Permission denied",
        "there is no file in none",
        f"{'x' * 300} can't be read and is left out: File name too long",
    ]
    assert code(events) == 0


class TestAPage:
    def test_is_told_by_the_id_of_a_fault(self, run: RunDir) -> None:
        shown, ended = told("watchdog")
        assert isinstance(shown, FindingPage)
        assert shown.text.startswith("# A collective did not end in time\n")
        assert isinstance(ended, Ended)
        assert ended.exit_code == 0

    def test_is_not_told_where_a_run_is_called_so(self, run: RunDir) -> None:
        make_run("watchdog")
        assert diagnosis(told("watchdog")).run_id == "watchdog"
