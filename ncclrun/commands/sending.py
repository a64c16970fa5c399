"""The code of a launch on its way to the nodes that lack it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ncclrun.commands.code import Archive
from ncclrun.commands.everywhere import Everywhere
from ncclrun.model.cluster import Node
from ncclrun.model.events import CodeSent, Event, Warn
from ncclrun.transport.session import Session

SEND_TIMEOUT = 120.0
LEFT_OUT = 20
"""Ignored names that are told."""


def send_code(archive: Archive, nodes: Sequence[Node], everywhere: Everywhere) -> Iterator[Event]:
    """Sends it; ends with CodeSent. Raises NotStarted."""
    for note in archive.notes:
        yield Warn(text=note, fix="")
    sent: set[int] = set()

    def question(node_rank: int, session: Session) -> bool:
        if session.call("has", sha256=archive.sha256)["has"]:
            return False
        session.send_code([archive.data], archive.sha256, timeout=SEND_TIMEOUT)
        return True

    def taken(node_rank: int, was_sent: bool) -> Iterator[Event]:
        if was_sent:
            sent.add(node_rank)
        yield from ()

    yield from everywhere.ask(question, taken)
    yield code_event(archive, tuple(nodes[rank].name for rank in sorted(sent)))


def code_event(archive: Archive, sent_to: tuple[str, ...], *, dry_run: bool = False) -> CodeSent:
    """What travels, as it is told."""
    return CodeSent(
        directory=str(archive.directory),
        files=archive.files,
        size=len(archive.data),
        sha256=archive.sha256,
        sent_to=sent_to,
        left_out=archive.left_out[:LEFT_OUT],
        dry_run=dry_run,
    )
