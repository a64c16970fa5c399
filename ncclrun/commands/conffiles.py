"""One conf file on each of several nodes, replaced on all of them or on none."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import TypeAdapter

from ncclrun.commands.answers import read_answer
from ncclrun.commands.control import Control
from ncclrun.commands.survey import Participant
from ncclrun.model.cluster import Lasting
from ncclrun.model.errors import NcclrunError, NodeRefused, PlanError
from ncclrun.model.settings import ConfFile, Home
from ncclrun.nccl.conf import homes
from ncclrun.nccl.version import parse
from ncclrun.transport.fleet import for_all
from ncclrun.transport.session import Session, refusal

ASK_TIMEOUT = 60.0


@dataclass(frozen=True)
class Look:
    """A conf file as it lies on a node, and what is known there of our pushes."""

    file: ConfFile
    state: Literal["none", "original", "ours", "edited"]
    """``none``: nothing was ever pushed; ``edited``: somebody changed it since."""
    restores: bytes | None = None
    """What it was before the first push; None: there was no file, or nothing was pushed (``state``)."""
    restorable: bool = False
    """Whether that can be brought back; what is kept of it may be gone, or damaged."""
    backup: str = ""
    """Path of what is kept of it."""
    refused: NodeRefused | None = None
    """Why the file may not be changed as it lies there: a link, another user's, unreadable."""

    @property
    def data(self) -> bytes | None:
        """The file's bytes, None where there is none."""
        return None if self.file.text is None else self.file.data


@dataclass(frozen=True)
class Order:
    """What a node's file is to become (None: no file), from what it was when it was looked at."""

    expect: str | None
    """SHA-256 of the file as seen; None: there was none."""
    data: bytes | None
    original: bytes | None = None
    """What is somebody else's in the file as seen."""
    mode: int | None = None
    """Permission bits; None: as the file has, or 0644."""
    restore: bool = False
    """The original comes back; with ``keep_edits`` ``data`` takes its place."""
    keep_edits: bool = False
    aside: bool = False
    """The file as seen is kept beside the new one, under a name of its own."""


_FILE = TypeAdapter(ConfFile)


class ConfFiles:
    """The files of one delivery on these nodes: looked at, then staged, committed and finished, or rolled back.

    A node whose channel ends before `finish` puts back by itself what was there.
    """

    def __init__(self, nodes: Sequence[Participant], deliver: Lasting, push_id: str, control: Control) -> None:
        self._nodes = {one.node_rank: one for one in nodes}
        self._deliver = deliver
        self._push_id = push_id
        self._control = control
        self.homes: dict[int, Home] = {one.node_rank: homes(parse(one.facts.python.nccl))[0] for one in nodes}
        """By node_rank, whose .nccl.conf is meant where a node has two; that of the NCCL which the facts tell of."""
        self._expect: dict[int, str | None] = {}
        self.backups: dict[int, str] = {}
        """Paths of what the files were before the first push, by node_rank; "" where there was none."""
        self.asides: dict[int, str] = {}
        """Paths of what they were before this change, where that is kept; "" where it is not."""
        self.shared: dict[int, int] = {}
        """Nodes whose file is that of another node, by node_rank: one home, or one machine."""
        self.staged: set[int] = set()
        self.touched: set[int] = set()
        """Those that were told to commit, whatever they answered."""
        self.committed: set[int] = set()

    def look(self, ranks: Collection[int]) -> Iterator[tuple[int, Look | NcclrunError]]:
        """These nodes' files, as they come. Raises Interrupted."""

        def question(rank: int, session: Session) -> Look:
            return _look(self._ask(rank, session, "conf_look"))

        yield from self._everywhere(ranks, question)

    def stage(self, orders: Mapping[int, Order]) -> dict[int, NcclrunError]:
        """Makes everything ready, so that little can fail afterwards; what failed, by node_rank. Raises Interrupted."""

        def question(rank: int, session: Session) -> dict[str, Any]:
            order = orders[rank]
            what: dict[str, Any] = {"expect": order.expect, "push_id": self._push_id, "node_rank": rank}
            what["aside"] = order.aside
            if order.restore:
                data = _sent(order.data) if order.keep_edits else None
                return self._ask(rank, session, "conf_restore", keep_edits=order.keep_edits, data=data, **what)
            what |= {"data": _sent(order.data), "original": _sent(order.original), "mode": order.mode}
            return self._ask(rank, session, "conf_stage", **what)

        self._expect = {rank: order.expect for rank, order in orders.items()}
        failed: dict[int, NcclrunError] = {}
        first = min(orders)
        # Of two pushes at once one takes the first node, and the other leaves the rest alone.
        for ranks in ([first], sorted(orders.keys() - {first})):
            for rank, answer in self._everywhere(ranks, question):
                if isinstance(answer, NodeRefused) and self._is_ours(answer):
                    self.shared[rank] = int(answer.details["node_rank"])
                elif isinstance(answer, NcclrunError):
                    failed[rank] = answer
                else:
                    self.staged.add(rank)
                    self.backups[rank], self.asides[rank] = answer["backup"], answer["aside"]
            if any(isinstance(error, NodeRefused) and error.code == "busy" for error in failed.values()):
                return failed
        for rank, other in self.shared.items():
            if orders[rank] != orders[other]:
                failed[rank] = self.one_file_for_two(rank, other)
        return failed

    def commit(self) -> dict[int, NcclrunError]:
        """Puts the new files in place; what failed. Once more, it tells who is still there. Raises Interrupted."""
        self.touched |= self.staged
        return self._step("conf_commit", self.staged, self.committed.add)

    def finish(self) -> dict[int, NcclrunError]:
        """Makes it last: from here on nothing is undone by itself. What failed; Ctrl-C is not heard."""
        return self._step("conf_finish", self.committed, lambda _rank: None, heard=False)

    def roll_back(self) -> dict[int, NcclrunError]:
        """Puts back what was there; the nodes that could not do that, or not say so. Ctrl-C is not heard."""

        def question(rank: int, session: Session) -> None:
            # What was refused is put back already, unless who was at it was killed.
            if self._ask(rank, session, "conf_rollback")["rolled_back"] or rank not in self.touched:
                return
            file = _look(self._ask(rank, session, "conf_look")).file
            if (file.sha256 or None) != self._expect[rank]:
                raise NodeRefused("not_rolled_back", f"what changes {file.path} was killed before it could do that")

        return self._failures(self._everywhere(self.staged, question, heard=False), lambda _rank: None)

    def _step(
        self, what: str, ranks: Collection[int], done: Callable[[int], None], *, heard: bool = True
    ) -> dict[int, NcclrunError]:
        def question(rank: int, session: Session) -> None:
            self._ask(rank, session, what)

        return self._failures(self._everywhere(ranks, question, heard=heard), done)

    def _failures(self, answers: Iterable[tuple[int, Any]], done: Callable[[int], None]) -> dict[int, NcclrunError]:
        failed = {}
        for rank, answer in answers:
            if isinstance(answer, NcclrunError):
                failed[rank] = answer
            else:
                done(rank)
        return failed

    def _everywhere(
        self, ranks: Collection[int], question: Callable[[int, Session], Any], *, heard: bool = True
    ) -> Iterator[tuple[int, Any]]:
        sessions = {rank: self._nodes[rank].session for rank in sorted(ranks)}
        if not heard:
            yield from for_all(sessions, question)
            return
        yield from for_all(sessions, question, cancelled=self._control.stopped)
        self._control.check()

    def _ask(self, rank: int, session: Session, what: str, **args: Any) -> dict[str, Any]:
        return session.call(what, b"", ASK_TIMEOUT, deliver=self._deliver, home=self.homes[rank], **args)

    def _is_ours(self, refused: NodeRefused) -> bool:
        return refused.code == "busy" and refused.details.get("push_id") == self._push_id

    def one_file_for_two(self, rank: int, other: int) -> PlanError:
        """What is said of two nodes with one file that need different settings in it."""
        one, two = self._nodes[other].node.name, self._nodes[rank].node.name
        return PlanError(
            f"{one} and {two} share one file, and need different settings in it",
            fix="write  nccl: {deliver: file}  in the cluster file: then each run has its own",
            nodes=(one, two),
        )


def _look(answer: Mapping[str, Any]) -> Look:
    restores, record = answer.get("restores"), answer.get("record") or {}
    kept = None if restores is None or restores.get("data") is None else base64.b64decode(restores["data"])
    backup = (record.get("original") or {}).get("backup") or ""
    refused = refusal("conf_look", {"error": answer["refused"]}) if answer["refused"] else None
    return Look(
        read_answer(_FILE, answer["file"]), answer["state"], kept, restores is not None, backup=backup, refused=refused
    )


def _sent(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode("ascii")
