"""A change of one conf file on every node: shown first, then made on all nodes or on none."""

from __future__ import annotations

import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from ncclrun.commands.conffiles import ConfFiles, Look, Order
from ncclrun.commands.control import Control, Interrupted
from ncclrun.commands.findings import Finding, findings_told, problem_of
from ncclrun.commands.visit import Visit
from ncclrun.model.cluster import ClusterSpec, Lasting
from ncclrun.model.effective import Effective
from ncclrun.model.endevents import Ended
from ncclrun.model.errors import (
    EXIT_INTERRUPTED,
    EXIT_NOT_STARTED,
    EXIT_UNREACHABLE,
    HostError,
    NcclrunError,
    PlanError,
)
from ncclrun.model.events import Event, Failure, Warn
from ncclrun.model.settingevents import ConfCompared, ConfDiff, ConfRolledBack
from ncclrun.model.words import listed
from ncclrun.nccl import block
from ncclrun.planning.shown import diff
from ncclrun.transport.base import Transport

EXIT_DIFFERS = 1


@dataclass
class Wanted:
    """What a node's file is to become, and what it is."""

    look: Look
    order: Order
    changed: bool
    hides: tuple[Effective, ...] = ()


class Change(ABC):
    """One conf file a node: ``compare`` tells how it would change, ``apply`` changes it on all nodes or on none.

    ``discard_edits``: where somebody has edited our block of lines, that is no reason to refuse, as long as both its
    marks are there. A context: the sessions stay open between the two, for a question to the user.
    """

    def __init__(
        self,
        cluster: ClusterSpec,
        transport: Transport,
        control: Control,
        environ: Mapping[str, str],
        deliver: Lasting,
        *,
        discard_edits: bool = False,
    ) -> None:
        self._cluster = cluster
        self._control = control
        self._environ = environ
        self._deliver = deliver
        self._discard_edits = discard_edits
        self._visit = Visit(cluster, transport, control)
        self._files: ConfFiles
        self._wanted: dict[int, Wanted] = {}
        self._began = time.monotonic()
        self.pending = False
        """``compare`` found something to change, and nothing against it."""

    def __enter__(self) -> Change:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A node whose channel ends before it was told to finish puts its file back by itself.
        self._visit.__exit__(kind, error, trace)

    def compare(self, *, verify: bool = True) -> Iterator[Event]:
        """How each node's file would change. It ends with Ended unless ``pending``.

        ``verify``: where nothing changes, that it does what it is for is asked all the same.
        """
        try:
            yield from self._visit.events()
            if self._visit.lost:
                silent = [Finding(r, p) for r, p in self._visit.lost.items() if r in self._visit.connected]
                yield from findings_told(self._cluster.nodes, silent)
                yield self._ended(
                    EXIT_UNREACHABLE, f"nothing was changed: no answer from {self._names(self._visit.lost)}"
                )
                return
            self._files = ConfFiles(self._visit.participants, self._deliver, secrets.token_hex(8), self._control)
            refused = yield from self._plan()
            if not refused:
                refused = yield from self._one_file_for_two()
            if refused:
                yield self._ended(EXIT_NOT_STARTED, f"nothing was changed: refused on {self._names(refused)}")
                return
            yield from (self._diff(rank, wanted) for rank, wanted in sorted(self._wanted.items()))
        except NcclrunError as error:
            yield from self._failed(error)
            return
        changed = {rank for rank, wanted in self._wanted.items() if wanted.changed}
        yield ConfCompared(
            changed=tuple(node.name for rank, node in enumerate(self._cluster.nodes) if rank in changed),
            unchanged=tuple(node.name for rank, node in enumerate(self._cluster.nodes) if rank not in changed),
        )
        self.pending = bool(changed)
        if not changed and verify:
            yield from self._unchanged()
        elif not changed:
            yield self._ended(0, self.nothing_to_do)

    def compare_alone(self) -> Iterator[Event]:
        """The same as a command of its own; exit code 1 where something would change."""
        yield from self.compare(verify=False)
        if self.pending:
            yield self._ended(EXIT_DIFFERS, "nothing was changed: the files were compared")

    def apply(self) -> Iterator[Event]:
        """Changes all files, or none."""
        try:
            yield from self._change()
        except NcclrunError as error:
            unknown = yield from self._roll_back()
            yield from self._failed(error, unknown)

    # --- what the commands differ in

    verb: str
    """As it is typed."""
    nothing_to_do: str

    @abstractmethod
    def _plan(self) -> Generator[Event, None, set[int]]:
        """Fills ``_wanted``; returns the nodes that can't be changed, of which events have told why."""

    @abstractmethod
    def _verify(self) -> Generator[Event, None, set[int]]:
        """Asks whether the new files do what they are for; the nodes where they don't, told by events."""

    @abstractmethod
    def _done(self, rank: int, wanted: Wanted) -> Event: ...

    # --- the steps

    def _change(self) -> Iterator[Event]:
        orders = {rank: wanted.order for rank, wanted in self._wanted.items()}
        yield from self._failing(self._files.stage(orders))
        yield from self._failing(self._files.commit())
        against = yield from self._verify()
        self._control.check()
        if against:
            names = self._names(against)
            raise Told(EXIT_NOT_STARTED, f"nothing was changed: NCCL would not do as planned on {names}")
        # To finish can't be taken back: whoever was lost meanwhile is to be noticed before that, not by it.
        yield from self._failing(self._files.commit())
        failed = self._files.finish()
        yield from self._tell(failed)
        for rank, wanted in sorted(self._wanted.items()):
            if self._files.shared.get(rank, rank) not in failed:
                yield self._done(rank, wanted)
        if failed:
            names = self._names(failed)
            reason = f"done on the other nodes; not known whether it lasts on {names}: run this again"
            yield self._ended(exit_code_of(failed), reason)
        else:
            yield self._ended(0, self._summary())

    def _unchanged(self) -> Iterator[Event]:
        """All files are as they should be; whether they also count may have changed since."""
        try:
            against = yield from self._verify()
        except NcclrunError as error:
            yield from self._failed(error)
            return
        if against:
            reason = f"nothing had to be changed, and NCCL would not do as planned on {self._names(against)}"
            yield self._ended(EXIT_NOT_STARTED, reason)
        else:
            yield self._ended(0, self.nothing_to_do)

    def _one_file_for_two(self) -> Generator[Event, None, set[int]]:
        """Nodes of one machine that want different things of one file; that of a shared home is found when staged."""
        first: dict[tuple[str, str], int] = {}
        failed: dict[int, NcclrunError] = {}
        for one in self._visit.participants:
            rank = one.node_rank
            if one.facts.machine and rank in self._wanted:
                wanted = self._wanted[rank]
                other = first.setdefault((one.facts.machine, wanted.look.file.path), rank)
                if wanted.order != self._wanted[other].order:
                    failed[rank] = self._files.one_file_for_two(rank, other)
        yield from self._tell(failed)
        return set(failed)

    def _failing(self, failed: Mapping[int, NcclrunError]) -> Iterator[Event]:
        """Raises Told where a step failed."""
        if failed:
            yield from self._tell(failed)
            raise Told(exit_code_of(failed), f"nothing was changed: it failed on {self._names(failed)}")

    @abstractmethod
    def _summary(self) -> str: ...

    def _roll_back(self) -> Generator[Event, None, set[int]]:
        """Puts back what was there, on all nodes that were told anything; those where the new file may be left."""
        if not self._files.staged:
            return set()
        failed = self._files.roll_back()
        for rank in sorted(self._files.touched - set(failed)):
            if self._wanted[rank].changed:
                node = self._cluster.nodes[rank]
                yield ConfRolledBack(node=node.name, node_rank=rank, path=self._wanted[rank].look.file.path)
        for rank, error in sorted(failed.items()):
            text = f"its file could not be put back: {error.message}"
            if isinstance(error, HostError):
                text = (
                    f"it could not be told to put its file back ({error.message}), and does so by itself within a"
                    " minute; unless the host itself died, and then the file is the old or the new one, whole"
                )
            fix = f"when it answers again:  {self.command('diff')}"
            yield Warn(node=self._cluster.nodes[rank].name, text=text, fix=fix)
        return set(failed)

    def _look(self, ranks: Collection[int] | None = None) -> Generator[Event, None, dict[int, Look]]:
        """The file of each node (of these nodes); those that can't be seen are told. Raises Told where there is one."""
        looks: dict[int, Look] = {}
        failed: dict[int, NcclrunError] = {}
        for rank, answer in self._files.look(range(len(self._cluster.nodes)) if ranks is None else ranks):
            if isinstance(answer, NcclrunError):
                failed[rank] = answer
            else:
                looks[rank] = answer
        yield from self._tell(failed)
        if failed:
            raise Told(exit_code_of(failed), f"nothing was changed: it failed on {self._names(failed)}")
        return dict(sorted(looks.items()))

    # --- small things

    def command(self, verb: str) -> str:
        """What is to be typed to do something else with the same files."""
        to = "" if self._cluster.nccl.deliver == self._deliver else f" --to {self._deliver}"
        return f"ncclrun nccl {verb} {self._cluster.source}{to}"

    def _rest(self, look: Look, where: str, settings: Sequence[tuple[str, str]] | None = None) -> tuple[bytes, bool]:
        """The file (there is one) without our block, and whether edits of that are lost. Raises PlanError.

        ``settings``: what the block is to hold, to show what was changed; None: that is not known.
        """
        data = look.data or b""
        try:
            return block.take(data, where, discard=self._discard_edits), bool(block.edited(data))
        except PlanError as error:
            if not block.is_whole(data):
                raise
            lines = () if settings is None else block.difference(data, settings)
            raise PlanError("\n  ".join([error.message, *lines]), fix=self._discarding()) from error

    def _discarding(self) -> str:
        return f"{self.command(self.verb)} --discard-edits   (the file as it is now is kept beside it)"

    def _diff(self, rank: int, wanted: Wanted) -> ConfDiff:
        before, after = wanted.look.data, wanted.order.data
        return ConfDiff(
            node=self._cluster.nodes[rank].name,
            node_rank=rank,
            path=wanted.look.file.path,
            diff=diff(wanted.look.file.path, before, after),
            hides=wanted.hides,
        )

    def _tell(self, failed: Mapping[int, NcclrunError]) -> Iterator[Event]:
        yield from findings_told(
            self._cluster.nodes, [Finding(rank, problem_of(e)) for rank, e in sorted(failed.items())]
        )

    def _failed(self, error: NcclrunError, unknown: Collection[int] = ()) -> Iterator[Event]:
        if isinstance(error, Interrupted):
            yield self._ended(EXIT_INTERRUPTED, "interrupted: nothing was changed", unknown)
            return
        if not isinstance(error, Told):
            yield Failure(message=error.message, fix=error.fix, exit_code=error.exit_code)
        reason = error.message if isinstance(error, Told) else "nothing was changed"
        yield self._ended(error.exit_code, reason, unknown)

    def _ended(self, code: int, reason: str, unknown: Collection[int] = ()) -> Ended:
        if unknown:
            reason += f"; {self._names(unknown)} may have the new file still"
        return Ended(run_id="", exit_code=code, reason=reason, seconds=time.monotonic() - self._began)

    def _names(self, ranks: Collection[int]) -> str:
        return listed([self._cluster.nodes[rank].name for rank in sorted(ranks)])


class Told(NcclrunError):
    """Events have told why."""

    def __init__(self, exit_code: int, reason: str) -> None:
        super().__init__(reason)
        self.exit_code = exit_code


def exit_code_of(failed: Mapping[int, NcclrunError]) -> int:
    return max(error.exit_code for error in failed.values())
