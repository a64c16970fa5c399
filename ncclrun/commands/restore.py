"""`ncclrun nccl restore`: every node's conf file as it was before the first push."""

from __future__ import annotations

from collections.abc import Generator, Mapping

from ncclrun.commands.confchange import Change, Wanted
from ncclrun.commands.conffiles import Look, Order
from ncclrun.commands.control import Control
from ncclrun.model.cluster import ClusterSpec, Lasting
from ncclrun.model.errors import NcclrunError, NodeRefused
from ncclrun.model.events import Event
from ncclrun.model.settingevents import ConfRestored
from ncclrun.nccl import block
from ncclrun.transport.base import Transport


class Restore(Change):
    """Brings back what every node's conf file was before the first push: bytes, mode, owner, times.

    ``keep_edits``: where somebody has edited it since, our block alone is taken out. ``discard_edits``: also where that
    was edited itself.
    """

    verb = "restore"
    nothing_to_do = "nothing was found that could be undone"

    def __init__(
        self,
        cluster: ClusterSpec,
        transport: Transport,
        control: Control,
        environ: Mapping[str, str],
        deliver: Lasting,
        *,
        keep_edits: bool = False,
        discard_edits: bool = False,
    ) -> None:
        super().__init__(cluster, transport, control, environ, deliver, discard_edits=discard_edits)
        self._keep_edits = keep_edits

    def _plan(self) -> Generator[Event, None, set[int]]:
        looks = yield from self._look()
        looks |= yield from self._look_in_the_other_home(looks)
        errors: dict[int, NcclrunError] = {}
        for rank, look in looks.items():
            try:
                order = self._order(look, f"{look.file.path} on {self._cluster.nodes[rank].name}")
            except NcclrunError as error:
                errors[rank] = error
                continue
            if order is not None:
                self._wanted[rank] = Wanted(look, order, changed=True)
        yield from self._tell(errors)
        return set(errors)

    def _look_in_the_other_home(self, looks: Mapping[int, Look]) -> Generator[Event, None, dict[int, Look]]:
        """What was pushed when the node had an NCCL that looks in the other of two homes."""
        none = [rank for rank, look in looks.items() if len(look.file.roles) == 1 and _is_nothing(look)]
        if self._deliver != "user" or not none:
            return {}
        before = dict(self._files.homes)
        for rank in none:
            self._files.homes[rank] = "passwd_home" if "home" in looks[rank].file.roles else "home"
        other = yield from self._look(none)
        found = {rank: look for rank, look in other.items() if not _is_nothing(look)}
        self._files.homes |= {rank: before[rank] for rank in none if rank not in found}
        return found

    def _order(self, look: Look, where: str) -> Order | None:
        """None where there is nothing to undo. Raises NcclrunError for what may not be undone."""
        if _is_nothing(look):
            return None
        if look.refused is not None:
            raise look.refused
        seen = look.file.sha256 or None
        edits_are_no_matter = self._keep_edits or self._discard_edits
        by_block = look.state == "none" or (
            edits_are_no_matter and (look.state == "edited" or (look.state == "ours" and not look.restorable))
        )
        if by_block:
            rest, is_edited = (None, False) if look.data is None else self._rest(look, where)
            # What holds our lines alone was made by us, as far as anybody knows.
            is_ours = not rest and look.restores is None
            data = None if is_ours else rest
            return Order(expect=seen, data=data, restore=True, keep_edits=True, aside=is_edited)
        if look.state == "edited":
            if block.edited(look.data or b""):
                self._rest(look, where)  # with the words for that: to keep these edits can't be meant
            raise self._edited(look)
        if look.state == "ours" and not look.restorable:
            raise self._gone(look)
        return Order(expect=seen, data=look.restores, restore=True)

    def _edited(self, look: Look) -> NodeRefused:
        path, what = look.file.path, "removed" if look.data is None else "edited"
        before = f"the file before it is kept in {look.backup}" if look.backup else "before it there was no such file"
        fix = f"to {'leave it so' if look.data is None else 'take only our lines out'}:  {self._keeping()}"
        return NodeRefused("edited", f"somebody has {what} {path} since the push ({before})", fix=fix)

    def _gone(self, look: Look) -> NodeRefused:
        message = f"what {look.file.path} was before the first push can't be brought back: {look.backup} is gone, or"
        fix = f"to take only our lines out:  {self._keeping()}"
        return NodeRefused("no_backup", f"{message} is not what was kept", fix=fix)

    def _keeping(self) -> str:
        return f"{self.command('restore')} --keep-edits"

    def _verify(self) -> Generator[Event, None, set[int]]:
        yield from ()
        return set()

    def _done(self, rank: int, wanted: Wanted) -> Event:
        return ConfRestored(
            node=self._cluster.nodes[rank].name,
            node_rank=rank,
            path=wanted.look.file.path,
            changed=wanted.changed,
            removed=wanted.order.data is None,
            edits_kept=wanted.order.keep_edits,
            aside=self._files.asides.get(self._files.shared.get(rank, rank), ""),
        )

    def _summary(self) -> str:
        if any(wanted.order.keep_edits for wanted in self._wanted.values()):
            return "what was edited since stays; our lines are out"
        return "all conf files are brought back"


def _is_nothing(look: Look) -> bool:
    """Whether nothing of ours is there: no record, and no block of lines (which a copied disk may have brought)."""
    return look.state == "none" and (look.data is None or block.settings(look.data) is None)
