"""The tables of `status`, `runs` and `clean` as people read them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ncclrun.console.status import RunsBoard
from ncclrun.console.words import ago
from ncclrun.model.endevents import Ended
from ncclrun.model.events import Event
from ncclrun.model.runevents import Cleaned, GpuUse, KeptRun, LeftOnNode, OldRun, RecordedRun, RunOnNode

NOW = 1_000_000.0
END = Ended(run_id="", exit_code=0, reason="done", seconds=0.0)


def row(node: str, **more: object) -> RunOnNode:
    usual: dict[str, object] = {
        "node_rank": 0,
        "host": node,
        "run_id": "r1",
        "state": "running",
        "since": NOW - 7200,
        "by": "anna@desk",
        "program": "train.py",
        "ranks": "0-7",
        "nproc": 8,
        "ranks_alive": 8,
    }
    return RunOnNode(node=node, **{**usual, **more})  # type: ignore[arg-type]  # by name, so that a test says what counts


def said(*events: Event, width: int | None = None) -> tuple[list[str], list[tuple[str, str]]]:
    """Lines of the table, and notes."""
    board = RunsBoard(lambda: NOW)
    for event in events:
        assert board.said(event, width) == ("", [])
    text, notes = board.said(END, width)
    assert board.rest(width) == ("", [])
    return text.splitlines(), [(note.level, note.text) for note in notes]


def test_a_run_is_named_once_and_each_node_has_a_row() -> None:
    gpus = (GpuUse(index=0, uuid="GPU-a", memory=1000), GpuUse(index=1, uuid="GPU-b", memory=None))
    lines, notes = said(row("gpu1", last="loss 0.3", last_rank=5, gpus=gpus), row("gpu2", ranks_alive=7, gpus=()))
    assert " ".join(lines[1].split()) == "r1 gpu1 running 2 h ago 0-7 0,1: 1.05 GB 5 | loss 0.3 anna@desk train.py"
    assert " ".join(lines[2].split()) == "gpu2 running 2 h ago 0-7 (7 alive) none in use"
    assert notes == []


def test_what_is_not_known_is_said_to_be_unknown() -> None:
    lines, _ = said(
        row("gpu1", state="unknown", since=NOW - 90, ranks_alive=None), row("x", state="unknown", run_id="", since=None)
    )
    assert lines[1].split()[:6] == ["r1", "gpu1", "UNKNOWN", "90", "s", "ago"]
    assert lines[2].split()[:6] == ["?", "x", "UNKNOWN", "no", "answer", "now"]


def test_an_ended_run_says_how_in_place_of_its_last_words() -> None:
    ended = row("gpu1", state="ended", reason="failed", exit="rank 3: exit code 7", last="bye", ranks_alive=None)
    assert " ".join(said(ended)[0][1].split()[2:]) == "failed 2 h ago 0-7 rank 3: exit code 7 anna@desk train.py"


def test_a_lost_supervisor_is_a_warning_with_the_command_that_mends_it() -> None:
    _, notes = said(row("gpu1", state="lost", reason="its supervisor is gone"), row("gpu2"))
    assert notes == [("warning", "run r1 on gpu1: its supervisor is gone"), ("fix", "ncclrun stop r1")]


def test_processes_without_a_directory_are_ended_by_their_numbers_alone() -> None:
    left = LeftOnNode(node="gpu1", host="10.0.0.1", run_id="r0", node_rank=0, processes=("12 python a", "15 python b"))
    _, notes = said(left)
    assert "run r0 live there (2)" in notes[0][1]
    assert notes[1] == ("fix", "ssh 10.0.0.1 kill 12 15")


def test_the_last_line_cannot_move_the_cursor() -> None:
    text = "\n".join(said(row("gpu1", last="a\x1b[2Jb\rc"))[0])
    assert "\x1b" not in text
    assert "\r" not in text


def recorded(**more: object) -> RecordedRun:
    usual: dict[str, object] = {
        "state": "ended",
        "started_at": NOW - 86400 * 3,
        "ended_at": NOW,
        "seconds": 75.0,
        "cluster": "lab",
        "nodes": ("a", "b", "c"),
        "program": "train.py",
    }
    return RecordedRun(run_id="r1", **{**usual, **more})  # type: ignore[arg-type]  # as above


def test_the_history_has_the_outcome_and_its_first_cause() -> None:
    failed = recorded(exit_code=7, reason="failed", cause="rank 3 on b: exit code 7")
    lines, _ = said(recorded(state="open", seconds=None), failed, recorded(exit_code=0, reason="finished", attempt=2))
    assert lines[1].endswith("open: ncclrun status r1")
    assert "3 d ago  1 min 15 s  3: a, b" in lines[2]
    assert lines[2].endswith("7     failed: rank 3 on b: exit code 7")
    assert lines[3].startswith("r1 (attempt 2)")


def test_what_goes_is_listed_and_summed_up_and_what_stays_says_why() -> None:
    old = OldRun(run_id="r1", node_rank=0, size=2_000_000, ended_at=NOW - 86400 * 20)
    kept = KeptRun(run_id="r2", node_rank=0, size=1, why="it is running")
    node = Cleaned(node="gpu1", host="h", removed=(old,), kept=(kept,), code=1_000_000, dry_run=True)
    lines, notes = said(node, Cleaned(node="", host="", removed=(old,), kept=(), code=0, dry_run=True))
    assert [line.split() for line in lines[1:]] == [
        ["gpu1", "r1", "20", "d", "ago", "2", "MB"],
        ["gpu1", "(sent", "code)", "1", "MB"],
        ["here", "r1", "20", "d", "ago", "2", "MB"],
    ]
    assert notes == [
        ("info", "gpu1: run r2 is kept: it is running"),
        ("info", "to remove: 5 MB in 2 directories of runs"),
    ]


def test_what_was_listed_before_the_question_is_not_listed_again_when_it_is_done() -> None:
    old = OldRun(run_id="r1", node_rank=0, size=2_000_000, ended_at=NOW - 86400 * 20)
    kept = KeptRun(run_id="r2", node_rank=0, size=1, why="it is running")
    places = [Cleaned(node=name, host="h", removed=(old,), kept=(kept,), code=0, dry_run=True) for name in ("a", "b")]
    board = RunsBoard(lambda: NOW)
    for place in places:
        board.said(place, None)
    _, before = board.rest(None)
    for place in places:
        board.said(replace(place, dry_run=False), None)
    text, after = board.rest(None)
    assert before[0].text == "a, b: run r2 is kept: it is running"
    assert (text, [note.text for note in after]) == ("", ["removed: 4 MB in 2 directories of runs"])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "now"),
        (0.4, "now"),
        (1, "1 s ago"),
        (119, "119 s ago"),
        (120, "2 min ago"),
        (7300, "2 h ago"),
        (1e6, "12 d ago"),
    ],
)
def test_how_long_ago_is_one_unit(seconds: float, text: str) -> None:
    assert ago(seconds) == text
