"""While the network is looked at a live line says what is waited for, and for how long."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from ncclrun.console.progress import Progress
from ncclrun.model.endevents import Ended
from ncclrun.model.events import Connecting, Event, Failure, RunCreated, Unreachable
from ncclrun.model.netevents import Measuring, Probing
from tests.console.networks import linked, name, resolved, transfer
from tests.console.samples import pinged

END = Ended(run_id="", exit_code=0, reason="all is well", seconds=1.0)
CALLING = Connecting(nodes=(name(0), name(1), name(2)))
PROBING = Probing(nodes=3, pairs=6, connections=6, scheme="all pairs")
CONNECTED, LINKED, PROBED = linked(3)[:3], linked(3)[3:6], linked(3)[6]


@dataclass
class Line:
    """The live line; each event comes a second after the one before."""

    now: float = 0.0
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.progress = Progress(lambda: self.now)

    def after(self, *events: Event) -> str:
        for event in events:
            self.now += 1
            self.notes += [note.text for note in self.progress.note(event)]
        return self.progress.live()


def test_counts_who_is_connected() -> None:
    line = Line()
    assert line.after(CALLING) == "connecting 0/3 (0 s): waiting for gpu0, gpu1, gpu2"
    assert line.after(CONNECTED[1]) == "connecting 1/3 (1 s): waiting for gpu0, gpu2"
    assert line.after(CONNECTED[0], CONNECTED[2]) == "asking 3 nodes for interfaces, GPUs and Python (0 s)"


@pytest.mark.parametrize(
    "lost",
    [
        pinged(0, node=name(2), fit=False),
        Unreachable(node=name(2), node_rank=2, host="c", reason="timeout", message="no answer", fix="ping it"),
    ],
)
def test_does_not_wait_for_who_can_not_be_reached(lost: Event) -> None:
    assert Line().after(CALLING, *CONNECTED[:2], lost) == "asking 2 nodes for interfaces, GPUs and Python (0 s)"


def test_asks_nobody_where_nobody_answers() -> None:
    rows = [pinged(0, node=name(rank), fit=False) for rank in range(3)]
    assert Line().after(CALLING, *rows) == ""


def test_counts_what_was_tried() -> None:
    line = Line()
    assert line.after(CALLING, *CONNECTED, PROBING) == "trying 6 connections between 3 nodes (0 s)"
    assert line.after(*LINKED[:2]) == "trying 6 connections between 3 nodes (2 s): 2 of 3 nodes done"
    assert line.after(LINKED[2], PROBED) == ""


def test_says_which_pairs_are_tried_where_that_is_not_all() -> None:
    again = Probing(nodes=3, pairs=2, connections=4, scheme="what gave no answer, for 6 s")
    assert Line().after(PROBING, *LINKED, PROBED, again) == (
        "trying 4 connections between 3 nodes (0 s): what gave no answer, for 6 s"
    )


def test_says_that_the_choice_is_being_confirmed() -> None:
    line = Line()
    assert line.after(PROBED, *resolved(3)).startswith("confirming packet sizes, ports, names and NCCL's own answer (2")
    assert line.after(END) == ""


def test_a_launch_says_that_it_probes_and_then_goes_on() -> None:
    line = Line()
    run = RunCreated(run_id="r", cluster="lab", directory="/r", nnodes=3, nodes=(name(0), name(1), name(2)))
    assert line.after(run, *CONNECTED).startswith("asking gpu0")
    assert line.after(PROBING, *LINKED) == "trying 6 connections between 3 nodes (3 s): 3 of 3 nodes done"
    assert line.after(PROBED, *resolved(3)).startswith("preparing 0/3")


def test_a_measurement_shows_how_far_it_is() -> None:
    line = Line()
    line.after(PROBED, *resolved(3))
    assert line.after(Measuring(round=1, rounds=3, pairs=1)) == "bandwidth: round 1 of 3 (0 s)"
    second = Measuring(round=2, rounds=3, pairs=1)
    shown = line.after(
        transfer(0, 1, 9.4), second, transfer(1, 0, 0.94, number=2), transfer(0, 2, None, "lost", number=2)
    )
    assert shown == "bandwidth: round 2 of 3 (4 s), 3 pairs measured, slowest 0.94 Gbit/s: gpu1 -> gpu0"
    assert line.notes[1:] == []  # what was probed alone


@pytest.mark.parametrize("last", [END, pinged(0), Failure(message="no network", fix="cable", exit_code=3)])
def test_the_line_is_gone_at_the_end(last: Event) -> None:
    assert Line().after(CALLING, *CONNECTED, PROBING, last) == ""
