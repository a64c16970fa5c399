"""The table of `ping`: a row a node as its answer comes, and below it every problem with its remedy."""

from __future__ import annotations

from collections import Counter

from ncclrun.console.findings import Finding, notes
from ncclrun.console.notes import Note
from ncclrun.console.tables import table_text
from ncclrun.console.words import count, duration
from ncclrun.model.netevents import Pinged

HEADS = ("node", "fit", "ssh", "host name", "interface", "address", "gpus", "python", "torch", "nccl", "clock")
SPARE = ("clock", "host name", "nccl", "gpus", "python", "torch")


class PingBoard:
    """All answers so far."""

    def __init__(self) -> None:
        self._answers: dict[int, Pinged] = {}

    def add(self, event: Pinged) -> None:
        """Takes one answer; a later one of the same node replaces it."""
        self._answers[event.node_rank] = event

    @property
    def empty(self) -> bool:
        """Whether no node was pinged."""
        return not self._answers

    def table(self, width: int | None) -> str:
        """The table as lines, in order of node_rank; "" without answers."""
        answers = [self._answers[at] for at in sorted(self._answers)]
        styles = ["" if answer.fit else "red" for answer in answers]
        rows = [_cells(answer) for answer in answers]
        return table_text(HEADS, rows, width=width, styles=styles, spare=SPARE) if answers else ""

    def verdict(self) -> list[Note]:
        """Every problem, errors last, and how many nodes are fit; [] without answers."""
        answers = [self._answers[at] for at in sorted(self._answers)]
        found = [
            Finding(problem.level, answer.node, problem.message, problem.fix, answer.host, answer.hostname)
            for answer in answers
            for problem in answer.problems
        ]
        told = notes(sorted(found, key=lambda finding: finding.level == "error"))
        fit = sum(answer.fit for answer in answers)
        if fit == len(answers):
            whole = f"all {fit} nodes fit" if fit > 1 else "the one node is fit"
            return [*told, Note("good", whole)] if answers else []
        return [*told, Note("error", f"{len(answers) - fit} of {count(len(answers), 'node')} not fit")]


def _cells(event: Pinged) -> list[str]:
    return [
        event.node,
        "yes" if event.fit else "NO",
        "" if event.seconds is None else duration(event.seconds),
        event.hostname,
        event.interface,
        event.address,
        ", ".join(f"{number} x {name.removeprefix('NVIDIA ')}" for name, number in Counter(event.gpus).items()),
        event.python,
        event.torch,
        event.nccl,
        "" if event.clock_offset is None else f"{round(event.clock_offset, 3) + 0.0:+.3f} s",  # + 0.0: no "-0.000"
    ]
