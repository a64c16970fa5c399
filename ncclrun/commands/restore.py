"""`ncclrun nccl restore`: every node's conf file as it was before the first push."""

from __future__ import annotations

from collections.abc import Generator, Mapping

from ncclrun.commands.confchange import Change, Wanted
from ncclrun.commands.conffiles import Deliver, Look, Order
from ncclrun.commands.control import Control
from ncclrun.model.cluster import ClusterSpec
from ncclrun.model.events import Event, Refused
from ncclrun.model.settingevents import ConfRestored
from ncclrun.nccl import block
from ncclrun.transport.base import Transport


class Restore(Change):
    """Brings back what every node's conf file was before the first push: bytes, mode, owner, times.

    ``keep_edits``: where somebody has edited it since, our block alone is taken out.
    """

    nothing_to_do = "nothing was ever pushed there, or it was undone already"

    def __init__(
        self,
        cluster: ClusterSpec,
        transport: Transport,
        control: Control,
        environ: Mapping[str, str],
        deliver: Deliver,
        *,
        keep_edits: bool = False,
    ) -> None:
        super().__init__(cluster, transport, control, environ, deliver)
        self._keep_edits = keep_edits

    def _plan(self) -> Generator[Event, None, set[int]]:
        looks = yield from self._look()
        refused = set()
        for rank, look in looks.items():
            if look.state == "none":
                continue
            if look.state == "edited" and not self._keep_edits:
                refused.add(rank)
                yield self._refusal(rank, look)
            self._wanted[rank] = Wanted(look, self._order(rank, look), changed=True)
        return refused

    def _order(self, rank: int, look: Look) -> Order:
        seen = look.file.sha256 or None
        if look.state != "edited" or not self._keep_edits or look.data is None:
            return Order(expect=seen, data=look.restores, restore=True)
        rest = block.take(look.data, f"{look.file.path} on {self._cluster.nodes[rank].name}")
        return Order(expect=seen, data=rest, restore=True, keep_edits=True)

    def _refusal(self, rank: int, look: Look) -> Refused:
        name, path = self._cluster.nodes[rank].name, look.file.path
        return Refused(
            node=name,
            node_rank=rank,
            code="edited",
            message=f"somebody has edited {path} since it was pushed: to bring back the old file would lose that"
            f" (it is kept in {look.backup})"
            if look.backup
            else f"somebody has edited {path} since it was pushed, and before that there was no such file",
            fix=f"to take only our lines out:  ncclrun nccl restore {self._cluster.source} --keep-edits",
        )

    def _verify(self) -> Generator[Event, None, set[int]]:
        yield from ()
        return set()

    def _done(self, rank: int, path: str, changed: bool) -> Event:
        name, removed = self._cluster.nodes[rank].name, self._wanted[rank].order.data is None
        return ConfRestored(node=name, node_rank=rank, path=path, changed=changed, removed=removed)

    def _summary(self) -> str:
        return "the conf files are as they were before the first push"
