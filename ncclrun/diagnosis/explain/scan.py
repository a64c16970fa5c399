"""Looks through one log as it comes, once: which signatures show where, and what else is worth remembering of it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from ncclrun.diagnosis.explain.catalogue import ALL
from ncclrun.diagnosis.explain.signature import Signature
from ncclrun.diagnosis.explain.speakers import speaker

AROUND = 2000
"""Characters before and behind a word that are matched: a line of a megabyte is no message."""
KEPT = 3
"""Lines of a signature that are kept of a log, and as many of its hosts and ranks as are counted: MOST."""
MOST = 512
HEAD, TAIL = 16 << 10, 48 << 10
"""Characters of the beginning and of the end that are kept; a program's own exceptions are looked for in the end."""
CUT = "\r"
"""Ends a piece of a line that was cut for its length: the line goes on in the next one."""
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
STEP = re.compile(
    r"\b(?:[Ss]tep|[Ee]poch|[Ii]ter(?:ation)?s?|[Ll]oss|[Bb]usbw|[Aa]ccuracy|[Tt]okens/s)\b.{0,4}?\d|\d GB/s"
)
DONE = re.compile(
    r"\b[Tt]raining (?:is )?(?:done|complete|finished|ended)|\b[Ff]inished [Tt]raining|stopped: `max_|"
    r"'train_runtime':|waiting on exit barrier|worker group successfully finished"
)
"""What work says when it has come to its end; torchrun, when all workers of its node have."""
_DONE = (
    *(f"{word} {end}" for word in ("Training", "training") for end in ("done", "complete", "finished", "ended", "is")),
    "inished training",
    "inished Training",
    "stopped: `max_",
    "train_runtime",
    "waiting on exit barrier",
    "worker group successfully finished",
)
_WENT = (
    "Init COMPLETE",
    "Connected all",
    "Destroy COMPLETE",
    "Completed store-based barrier",
    "All distributed processes registered",
)
_PROGRESS = ("step", "epoch", "iter", "iters", "iteration", "iterations", "loss", "busbw", "accuracy", "tokens/s")
_STEPS = ("GB/s", *_PROGRESS, *map(str.capitalize, _PROGRESS))
FACTS = {
    "bootstrap": ("Bootstrap : Using", "Bootstrap: Using"),
    "sockets": ("NET/Socket : Using",),
    "network": ("Using network ",),
    "version": ("NCCL version ",),
    "comm-id": ("NCCL_COMM_ID set",),
    "told": ("NCCL_SOCKET_IFNAME set",),
    "typed": ("NCCL_SOCKET_IFNAME=",),
    "start": ("Init START",),
}
"""Ordinary lines of which rules make something together (rules.py)."""


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a log, who wrote it, and what it says."""

    log: str
    host: str
    rank: int | None
    line: int
    text: str
    known: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Hits:
    """All lines of one kind in one log."""

    lines: int = 0
    places: list[Place] = field(default_factory=list)
    speakers: set[tuple[str, int | None]] = field(default_factory=set)
    went: int = 0
    steps: int = 0
    """How many lines of progress had come before the last of them."""
    parting: bool = False
    """The work had said that it was done before the last of them."""


@dataclass(slots=True)
class Progress:
    """What tells of success so far; the streams of one rank share it where they come in their order."""

    went: int = 0
    """Lines that tell of a communicator that is ready."""
    steps: int = 0
    """Lines that tell of training that goes on."""
    done: bool = False
    """Whether the work has said that it is done."""


_Kind = Signature | str
_WORDS: tuple[tuple[str, _Kind], ...] = (
    *((word, signature) for signature in ALL for word in signature.words),
    *((word, name) for name, words in FACTS.items() for word in words),
    *((word, "went") for word in _WENT),
    *((word, "steps") for word in _STEPS),
    *((word, "done") for word in _DONE),
)
_APART = bytes(one if chr(one).isalnum() and one < 128 else ord(" ") for one in range(256))


def _runs(text: str) -> list[bytes]:
    """The text's runs of letters and digits: taken apart so twice as fast as by an expression."""
    return text.encode("utf-8", "replace").translate(_APART).split()


def _by_run() -> dict[bytes, list[tuple[str, _Kind]]]:
    """The words by their longest run of letters and digits: looking for each in every text takes too long."""
    found: dict[bytes, list[tuple[str, _Kind]]] = defaultdict(list)
    for word, kind in _WORDS:
        found[max(_runs(word), key=len)].append((word, kind))
    return dict(found)


_BY_RUN = _by_run()


class LogScan:
    """One log; ``host`` and ``rank`` whose it is, "" and None where only its lines can tell."""

    def __init__(self, name: str, host: str = "", rank: int | None = None, progress: Progress | None = None) -> None:
        self.name = name
        self.host = host
        self.rank = rank
        self.lines = 0
        self.progress = progress or Progress()
        self.hits: dict[str, Hits] = {}
        self.facts: dict[str, Hits] = {}
        self._fed = False
        self.head = self.tail = ""
        self.cut = False
        """Whether ``tail`` is less than the whole."""
        self.speaks_info = False
        """Whether NCCL_DEBUG was at INFO."""

    def feed(self, text: str) -> None:
        """The next whole lines, joined by line feeds, without the last one."""
        if "\x1b" in text:
            text = _ESCAPE.sub("", text)
        self.speaks_info = self.speaks_info or "NCCL INFO" in text
        counted = 0
        line = self.lines  # those that have come to their end
        for start, at, kind in sorted(_found(text), key=lambda hit: hit[:2]):
            line += text.count("\n", counted, start) - text.count(CUT, counted, start)
            counted = start
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            self._take(kind, line + 1, text[max(start, at - AROUND) : min(end, at + AROUND)])
        self.lines += text.count("\n") + 1 - text.count(CUT)
        if len(self.head) < HEAD:
            self.head = self._joined(self.head, text)[:HEAD]
        whole = self._joined(self.tail, text)
        self.tail, self.cut = whole[-TAIL:], self.cut or len(whole) > TAIL
        self._fed = True

    def _joined(self, before: str, text: str) -> str:
        """Lines that were cut are whole again."""
        return f"{before}\n{text}".replace(f"{CUT}\n", "") if self._fed else text.replace(f"{CUT}\n", "")

    def excerpt(self) -> str:
        """Its beginning and its end, or all of it; no part of a line: what tells a secret may be what it lacks."""
        if not self.cut:
            return f"{self.tail}\n"
        head, tail = self.head.rpartition("\n")[0] or self.head, self.tail.partition("\n")[2]
        return f"{head}\n[…]\n{tail or self.tail.partition(' ')[2]}\n"

    def _take(self, kind: _Kind, number: int, line: str) -> None:
        if kind == "went":
            self.progress.went += 1
        elif kind == "steps":
            self.progress.steps += STEP.search(line) is not None
        elif kind == "done":
            self.progress.done = self.progress.done or DONE.search(line) is not None
            self.progress.went += self.progress.done
        elif isinstance(kind, str):
            self._note(self.facts.setdefault(kind, Hits()), number, line, {}, MOST)
        elif (known := kind.match(line)) is not None:
            self._note(self.hits.setdefault(kind.id, Hits()), number, line, known, KEPT)

    def _note(self, hits: Hits, number: int, line: str, known: dict[str, str], kept: int) -> None:
        hits.lines += 1
        hits.went, hits.steps = self.progress.went, self.progress.steps
        hits.parting = self.progress.done
        if hits.lines <= MOST:
            said = speaker(line)
            host, rank = self.host or said.host, said.rank if self.rank is None else self.rank
            hits.speakers.add((host, rank))
            if len(hits.places) < kept:
                hits.places.append(Place(self.name, host, rank, number, line.strip(), known))


def _found(text: str) -> Iterator[tuple[int, int, _Kind]]:
    """Each line that has a word of a kind, once a kind: its beginning and the word's, and the kind."""
    seen: set[tuple[int, str]] = set()
    there = _BY_RUN.keys() & set(_runs(text))
    for word, kind in (one for run in there for one in _BY_RUN[run]):
        name = kind if isinstance(kind, str) else kind.id
        at = text.find(word)
        while at >= 0:
            start = text.rfind("\n", 0, at) + 1
            if (start, name) not in seen:
                seen.add((start, name))
                yield start, at, kind
            end = text.find("\n", at)
            at = -1 if end < 0 else text.find(word, end)
