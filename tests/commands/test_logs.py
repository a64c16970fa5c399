"""A run's output again: in the order in which it came, every byte once, whole lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from ncclrun.commands import logs
from ncclrun.commands.control import Control
from ncclrun.commands.history import RunDir
from ncclrun.commands.logfiles import LogWriter, Place
from ncclrun.commands.logs import LogReader, last_lines, read_logs, select
from ncclrun.commands.recorded import RunNode, run_nodes
from ncclrun.model.cluster import Node
from ncclrun.model.endevents import Ended
from ncclrun.model.errors import NcclrunError, NodeRefused, UsageError
from ncclrun.model.events import Event, Log, Unreachable, Warn
from ncclrun.transport.base import Channel
from tests.planning.makers import node

NODES = (RunNode(node("a"), 0, 0, 2), RunNode(node("b"), 1, 2, 1), RunNode(node("1"), 2, 3, 1))
OUT0, ERR0, OUT1, OUT2 = Place(0, 0, "out"), Place(0, 0, "err"), Place(0, 1, "out"), Place(1, 2, "out")
LAUNCHER = Place(1, None, "err")
FINISHED = Ended(run_id="r", exit_code=0, reason="finished", seconds=1.0)


class NoTransport:
    """The nodes must not be asked."""

    def open(self, node: Node) -> Channel:
        raise AssertionError(node.name)

    def is_local(self, node: Node) -> bool:
        return False

    def close(self) -> None:
        pass


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDir:
    """A run of three nodes that has ended."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return make_run("r")


def make_run(run_id: str) -> RunDir:
    run = RunDir.create(run_id)
    dump = TypeAdapter(Node).dump_python
    rows = [{"node": dump(n.node, mode="json"), "first_rank": n.first_rank, "nproc": n.nproc} for n in NODES]
    run.write("run.json", {"nodes": rows})
    run.write_end(FINISHED, program="train.py", complete=True)
    return run


def write(run: RunDir, *pieces: tuple[Place, bytes]) -> None:
    writer = LogWriter(run)
    for number, (place, data) in enumerate(pieces):
        writer.append(place, float(number), data)
    writer.close()


def read(run: RunDir, **options: Any) -> list[Event]:
    return list(read_logs(run.run_id, NoTransport(), Control(), **options))


def lines(events: Iterator[Event] | list[Event]) -> list[tuple[str, str]]:
    """Who said which line."""
    found = []
    for event in events:
        assert isinstance(event, Log)
        who = f"launcher {event.node}" if event.rank is None else f"{event.rank}.{event.stream}"
        found += [(who, line) for line in event.text.split("\n")]
    return found


class TestOrder:
    """As it came, across ranks."""

    def test_is_restored(self, run: RunDir) -> None:
        write(run, (OUT0, b"1\n"), (OUT2, b"2\n"), (ERR0, b"3\n4\n"), (LAUNCHER, b"5\n"), (OUT0, b"6\n"))
        assert lines(read(run)) == [
            ("0.out", "1"),
            ("2.out", "2"),
            ("0.err", "3"),
            ("0.err", "4"),
            ("launcher b", "5"),
            ("0.out", "6"),
        ]

    def test_a_line_is_shown_when_it_is_whole(self, run: RunDir) -> None:
        write(run, (OUT0, b"be"), (OUT1, b"other\n"), (OUT0, b"gun \xc3"), (OUT0, b"\xa4\n"))
        assert lines(read(run)) == [("1.out", "other"), ("0.out", "begun ä")]

    def test_last_lines_without_an_end_come_last(self, run: RunDir) -> None:
        write(run, (OUT0, b"a\nno end"), (OUT1, b"b\n"))
        assert lines(read(run)) == [("0.out", "a"), ("1.out", "b"), ("0.out", "no end")]

    def test_every_event_knows_node_rank_and_time(self, run: RunDir) -> None:
        write(run, (OUT0, b"x\n"), (OUT2, b"y\n"))
        _, event = read(run)
        assert event == Log(node="b", node_rank=1, rank=2, local_rank=0, stream="out", time=1.0, text="y")

    def test_a_run_without_output_says_nothing(self, run: RunDir) -> None:
        assert read(run) == []
        assert read(run, tail=5) == []


class TestEveryByteOnce:
    """Whatever became of the order file."""

    def test_bytes_without_a_line_in_it_are_shown(self, run: RunDir) -> None:
        write(run, (OUT0, b"a\n"), (OUT1, b"b\n"))
        with (run.logs / "rank0.out").open("ab") as file:
            file.write(b"killed before it was noted\n")
        assert lines(read(run)) == [("0.out", "a"), ("1.out", "b"), ("0.out", "killed before it was noted")]

    def test_and_once_alone_when_more_came_after_them(self, run: RunDir) -> None:
        write(run, (OUT0, b"a\n"))
        with (run.logs / "rank0.out").open("ab") as file:
            file.write(b"unnoted\n")
        write(run, (OUT0, b"later\n"))
        assert lines(read(run)) == [("0.out", "a"), ("0.out", "unnoted"), ("0.out", "later")]

    @pytest.mark.parametrize("order", [b"", b"9.0 rank0.o", b"nonsense\n", b"1.0 rank0.ou2.0 rank0.out 0 4\n", b"\0\n"])
    def test_a_torn_order_file_costs_the_order_alone(self, run: RunDir, order: bytes) -> None:
        write(run, (OUT0, b"a\nb\n"))
        (run.logs / "order").write_bytes(order)
        assert lines(read(run)) == [("0.out", "a"), ("0.out", "b")]

    def test_a_missing_order_file_too(self, run: RunDir) -> None:
        write(run, (OUT0, b"a\n"))
        (run.logs / "order").unlink()
        assert lines(read(run)) == [("0.out", "a")]

    def test_what_is_written_while_it_is_followed(self, run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
        pieces = [b"one\ntw", b"o\n", b"last"]
        write(run, (OUT0, b"zero\n"))

        def is_followed(run: RunDir) -> bool:
            if pieces:
                write(run, (OUT0, pieces.pop(0)))
            return bool(pieces)

        monkeypatch.setattr(logs, "is_followed", is_followed)
        monkeypatch.setattr(logs, "POLL", 0.0)
        text = [line for _, line in lines(read(run, follow=True))]
        assert text == ["zero", "one", "two", "last"]

    def test_a_line_of_the_order_file_that_is_being_written_is_waited_for(
        self, run: RunDir, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (run.logs / "rank0.out").write_bytes(b"second\n")
        (run.logs / "rank1.out").write_bytes(b"first\n")
        order = [b"1.0 rank1.o", b"ut 0 6\n2.0 rank0.out 0 7\n"]

        def is_followed(_: RunDir) -> bool:
            if order:
                with (run.logs / "order").open("ab") as file:
                    file.write(order.pop(0))
            return bool(order)

        monkeypatch.setattr(logs, "is_followed", is_followed)
        monkeypatch.setattr(logs, "POLL", 0.0)
        reader = LogReader(run, select(NODES, node=None, ranks=None, stream=None, tail=None))
        assert lines(reader.follow(Control())) == [("1.out", "first"), ("0.out", "second")]

    @pytest.mark.parametrize("tail", [None, 1])
    def test_a_run_that_is_going_on_is_read_without_following(
        self, run: RunDir, monkeypatch: pytest.MonkeyPatch, tail: int | None
    ) -> None:
        monkeypatch.setattr(logs, "is_followed", lambda run: True)
        (run.path / "end.json").unlink()
        write(run, (OUT0, b"a\nbar 50%\rbar 60%"))
        assert lines(read(run, tail=tail))[-1] == ("0.out", "bar 60%")


class TestMissing:
    """The node had let some of it go before it was fetched."""

    def test_it_is_told_in_its_place_and_no_line_is_made_of_both_sides(self, run: RunDir) -> None:
        write_with_a_gap(run)
        first, half, told, rest = read(run)
        assert lines([first, half, rest]) == [("0.out", word) for word in ("whole", "half", "rest", "last")]
        assert isinstance(told, Warn)
        assert (told.node, told.text.partition(":")[0]) == ("a", "2.0 GiB of rank 0's stdout are not kept")

    def test_what_was_told_twice_is_shown_once(self, run: RunDir) -> None:
        """As by a writer that was killed between the word and the hole."""
        write_with_a_gap(run)
        order = (run.logs / "order").read_bytes().splitlines(keepends=True)
        (run.logs / "order").write_bytes(b"".join([*order[:2], order[1], *order[2:]]))
        assert [type(event) for event in read(run)] == [Log, Log, Warn, Log]

    def test_another_stream_says_nothing_of_it(self, run: RunDir) -> None:
        write_with_a_gap(run)
        assert read(run, stream="err") == []

    def test_the_last_lines_are_those_behind_it(self, run: RunDir) -> None:
        write_with_a_gap(run)
        assert lines(read(run, tail=9)) == [("0.out", "rest"), ("0.out", "last")]


def write_with_a_gap(run: RunDir) -> None:
    writer = LogWriter(run)
    writer.append(OUT0, 1.0, b"whole\nhalf")
    writer.skip(OUT0, 2.0, (2 << 30) - 10)
    writer.append(OUT0, 3.0, b"rest\nlast\n")
    writer.close()


class TestTail:
    """The last lines of each stream."""

    def test_of_each_stream(self, run: RunDir) -> None:
        write(run, (OUT0, b"1\n2\n3\n"), (OUT1, b"4\n"), (OUT0, b"5\n6"))
        assert lines(read(run, tail=2)) == [("0.out", "5"), ("1.out", "4"), ("0.out", "6")]

    def test_none_of_them(self, run: RunDir) -> None:
        write(run, (OUT0, b"1\n"))
        assert read(run, tail=0) == []

    def test_then_what_comes(self, run: RunDir) -> None:
        write(run, (OUT0, b"1\n2\n"))
        reader = LogReader(run, select(NODES, node=None, ranks=None, stream=None, tail=1))
        first = lines(reader.local())
        write(run, (OUT0, b"3\n"), (OUT1, b"4\n"))
        assert first + lines(reader.follow(Control())) == [("0.out", "2"), ("0.out", "3"), ("1.out", "4")]

    @pytest.mark.parametrize(
        ("content", "count", "expected"),
        [
            (b"", 3, b""),
            (b"a\nb\nc\n", 0, b""),
            (b"a\nb\nc\n", 2, b"b\nc\n"),
            (b"a\nb\nc", 2, b"b\nc"),
            (b"a\nb\n", 5, b"a\nb\n"),
            (b"a\n\n\n", 2, b"\n\n"),
            (b"\n", 1, b"\n"),
            (b"a\rb\rc\nd\x0be\x85f\n", 1, b"d\x0be\x85f\n"),
        ],
    )
    def test_lines_end_with_a_line_feed_alone(
        self, tmp_path: Path, content: bytes, count: int, expected: bytes
    ) -> None:
        file = tmp_path / "f"
        file.write_bytes(content + b"what is being written")
        assert last_lines(file, count, len(content)) == expected

    @settings(max_examples=60, deadline=None)
    @given(content=st.text("ab\n", max_size=80), count=st.integers(0, 12), block=st.integers(1, 9))
    def test_however_the_file_is_cut_into_blocks(
        self, tmp_path_factory: pytest.TempPathFactory, content: str, count: int, block: int
    ) -> None:
        file = tmp_path_factory.getbasetemp() / "blocks"
        file.write_text(content)
        expected = "".join(content.splitlines(keepends=True)[-count:]) if count else ""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(logs, "BLOCK", block)
            assert last_lines(file, count, len(content)).decode() == expected

    def test_a_line_without_end_is_not_read_as_a_whole(self, tmp_path: Path) -> None:
        file = tmp_path / "f"
        with file.open("wb") as stream:
            stream.truncate(1 << 30)  # sparse: a gigabyte of NUL bytes in one line
        assert len(last_lines(file, 1, 1 << 30)) <= 2 * logs.LONGEST_LINE


class TestSelection:
    """Which streams."""

    PIECES = ((OUT0, b"a\n"), (ERR0, b"b\n"), (OUT1, b"c\n"), (OUT2, b"d\n"), (LAUNCHER, b"e\n"))

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({"node": "a"}, "abc"),
            ({"node": "0"}, "abc"),
            ({"node": "b"}, "de"),
            ({"ranks": "0,2"}, "abd"),
            ({"ranks": "!0"}, "cd"),
            ({"stream": "err"}, "be"),
            ({"node": "a", "ranks": "0", "stream": "out"}, "a"),
        ],
    )
    def test_takes_what_was_asked_for(self, run: RunDir, options: dict[str, Any], expected: str) -> None:
        write(run, *self.PIECES)
        assert "".join(text for _, text in lines(read(run, **options))) == expected

    def test_a_name_counts_more_than_a_number(self) -> None:
        assert select(NODES, node="1", ranks=None, stream=None, tail=None).nodes == {2}
        assert select(NODES, node="2", ranks=None, stream=None, tail=None).nodes == {2}

    def test_an_unknown_node_names_those_that_there_are(self) -> None:
        with pytest.raises(UsageError, match="the run has no node 'x'") as caught:
            select(NODES, node="x", ranks=None, stream=None, tail=None)
        assert caught.value.fix == "it has 0 (a), 1 (b), 2 (1)"

    @pytest.mark.parametrize("ranks", ["4", "x", "", "3-9"])
    def test_an_unknown_rank_is_refused(self, ranks: str) -> None:
        with pytest.raises(UsageError):
            select(NODES, node=None, ranks=ranks, stream=None, tail=None)

    def test_a_rank_that_is_not_on_that_node_is_refused(self) -> None:
        with pytest.raises(UsageError, match="rank 2 is not on node a") as caught:
            select(NODES, node="a", ranks="2", stream=None, tail=None)
        assert caught.value.fix == "it has the ranks 0, 1"


class TestFromTheNodes:
    """The ncclrun that wrote here is gone, and the run's end was never seen: the nodes have the rest."""

    @pytest.fixture
    def ends(self) -> bool:
        """Whether the run ends on node 0 when it has told what it had."""
        return True

    @pytest.fixture
    def missing(self) -> int:
        """Bytes of rank 0's stdout that node 0 does not have any more."""
        return 0

    @pytest.fixture
    def asked(
        self, run: RunDir, ends: bool, missing: int, monkeypatch: pytest.MonkeyPatch
    ) -> dict[int, dict[str, Any]]:
        """What each node was asked; node 0 answers with the rest of two streams, node 2 can't be reached."""
        pieces = (("0.out", b"\xa4 end\n"), ("launcher.err", b"l\n"))
        (run.path / "end.json").unlink()
        asked: dict[int, dict[str, Any]] = {}

        class Session:
            def __init__(self, rank: int, sink: Callable[..., None]) -> None:
                self.rank, self.sink = rank, sink

            def call(self, do: str, **arguments: Any) -> dict[str, Any]:
                asked[self.rank] = {"do": do, **arguments}
                if self.rank == 1:
                    raise NodeRefused("no_run", "there is no such run here")
                for stream, data in pieces:
                    head = {"ev": "log", "stream": stream, "offset": 0, "time": 5.0}
                    gone = {"missing": missing} if missing and stream == "0.out" else {}
                    self.sink(NODES[0].node, {**head, **gone}, data)
                if ends:
                    self.sink(NODES[0].node, {"ev": "end", "record": {}}, b"")
                else:  # the job goes on printing, for ever
                    self.sink(NODES[0].node, {"ev": "log", "stream": "0.out", "offset": 7, "time": 6.0}, b"more\n")
                return {"ok": True, "ends": {stream: len(data) for stream, data in pieces}}

            def close(self) -> None:
                asked[self.rank]["closed"] = True

        def connect(
            nodes: list[Node], transport: object, sink: Callable[..., None], control: Control, sessions: dict[int, Any]
        ) -> Iterator[Event]:
            sessions.update({rank: Session(rank, sink) for rank in (0, 1)})
            yield Unreachable(node="1", node_rank=2, host="1", reason="timeout", message="no answer", fix="")

        monkeypatch.setattr(logs, "connect", connect)
        return asked

    def test_lines_that_began_here_go_on_there(self, run: RunDir, asked: dict[int, dict[str, Any]]) -> None:
        write(run, (OUT0, b"here\nhalf a \xc3"))
        events = read(run)
        assert lines([event for event in events if isinstance(event, Log)]) == [
            ("0.out", "here"),
            ("0.out", "half a ä end"),
            ("launcher a", "l"),
        ]
        assert asked[0]["offsets"] == {"0.out": len(b"here\nhalf a \xc3")}

    def test_nodes_that_can_not_say_are_told_and_not_waited_for(
        self, run: RunDir, asked: dict[int, dict[str, Any]]
    ) -> None:
        others = [event for event in read(run, follow=True) if not isinstance(event, Log)]
        assert [type(event) for event in others] == [Unreachable, Warn]
        assert isinstance(others[1], Warn)
        assert (others[1].node, others[1].text) == ("b", "there is no such run here")
        assert all(request["closed"] for request in asked.values())

    @pytest.mark.parametrize("ends", [False])
    def test_without_follow_a_job_that_goes_on_is_shown_up_to_now(
        self, run: RunDir, asked: dict[int, dict[str, Any]]
    ) -> None:
        shown = lines([event for event in read(run) if isinstance(event, Log)])
        assert shown == [("0.out", "\ufffd end"), ("launcher a", "l")]

    @pytest.mark.parametrize("missing", [5000])
    def test_what_they_do_not_have_any_more_is_told(self, run: RunDir, asked: dict[int, dict[str, Any]]) -> None:
        write(run, (OUT0, b"half"))
        events = read(run)
        (place,) = [n for n, event in enumerate(events) if isinstance(event, Warn) and event.node == "a"]
        told = events[place]
        assert isinstance(told, Warn)
        assert told.text.startswith("4.9 KiB of rank 0's stdout are not kept")
        assert lines([events[place - 1], events[place + 1]]) == [("0.out", "half"), ("0.out", "\ufffd end")]

    def test_a_run_whose_end_is_known_asks_nobody(self, run: RunDir, asked: dict[int, dict[str, Any]]) -> None:
        run.write_end(FINISHED, program="train.py", complete=True)
        assert read(run) == []
        assert asked == {}


class TestRecord:
    """run.json."""

    def test_nodes_come_back(self, run: RunDir) -> None:
        assert run_nodes(run) == NODES

    @pytest.mark.parametrize("record", [{}, {"nodes": [{}]}, {"nodes": 7}, {"nodes": [{"node": {"name": "a"}}]}])
    def test_a_damaged_one_is_named(self, run: RunDir, record: dict[str, Any]) -> None:
        run.write("run.json", record)
        with pytest.raises(NcclrunError, match=r"run\.json is damaged"):
            run_nodes(run)
