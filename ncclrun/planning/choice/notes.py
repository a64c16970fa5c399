"""What is to be said beside a choice: ties, several interfaces in one subnet, pairs that nobody tried, faster ways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ncclrun.model.network import Evidence
from ncclrun.model.words import listed
from ncclrun.planning.choice.answers import Joint, best, routed
from ncclrun.planning.choice.candidates import Candidate, Row, usable
from ncclrun.planning.choice.proof import Proof
from ncclrun.planning.choice.verdicts import difference

MOST_ALIKE = 2
"""Nodes with several interfaces in one subnet that are told one by one."""
FIRST_TABLE = 101
"""Number of the first routing table that is proposed."""


@dataclass(frozen=True)
class Note:
    """What the user should know; ``node`` is the name of the node that it is about, ``fix`` what to do about it."""

    node: str | None
    text: str
    fix: str


def notes_on(
    choice: Joint,
    others: Sequence[Joint],
    table: Sequence[Row],
    proof: Proof | None,
) -> tuple[Note, ...]:
    """All of them; ``others`` are the answers that were not taken."""
    return (
        *_tie(choice, others),
        *(_untried(proof.evidence) if proof is not None else ()),
        *(_faster(choice, usable(table), proof) if proof is not None else ()),
        *_folded(
            [note for pick, row in zip(choice.picks, table, strict=True) for note in _not_announced(pick, row)],
            "an address that is not the first",
        ),
        *_folded(
            [note for at, row in enumerate(table) for note in _several_interfaces(at, choice, row, proof)],
            "several interfaces in one subnet",
        ),
    )


def _tie(choice: Joint, others: Sequence[Joint]) -> Iterator[Note]:
    """Two addresses of one interface are one wire: nothing hangs on which is taken."""
    equals = [
        other
        for other in others
        if other.quality == choice.quality
        and any(a.interface != b.interface for a, b in zip(other.picks, choice.picks, strict=True))
    ]
    if equals:
        names = listed([other.name for other in equals])
        text = f"{choice.name} and {names} are equal on all counts: took {choice.name}, which the kernels list first"
        if choice.network is not None:
            yield Note(None, text, f"to take the other, write  network: {{subnet: {equals[0].name}}}")


def _untried(evidence: Evidence) -> Iterator[Note]:
    if not evidence.partners:
        return
    tried, every = sum(map(len, evidence.partners)), evidence.nodes * (evidence.nodes - 1)
    if tried < every:
        yield Note(
            None,
            f"of {every} directed pairs of nodes {tried} were tried: of the others nothing is known",
            "if it hangs all the same, `ncclrun ping` those nodes alone that you suspect",
        )


def _faster(choice: Joint, rows: Sequence[Row], proof: Proof) -> Iterator[Note]:
    """A proven answer that was left, as it leads over routers or is IPv6, but has more to offer."""

    def above(candidate: Candidate) -> bool:
        return (candidate.quality.rdma, candidate.quality.speed) > (choice.quality.rdma, choice.quality.speed)

    answers = routed(rows, proof, above)
    if answers:
        other = best(answers)
        named = sorted({pick.interface for pick in other.picks})
        line = (
            f"network: {{interface: {named[0]}}}" if len(named) == 1 else "{host: HOST, interface: NAME}  for each node"
        )
        why = difference(choice.quality._replace(ipv4=other.quality.ipv4), other.quality)
        left = "is IPv6" if choice.network is None else "is not one subnet that all share"
        yield Note(
            None,
            f"{other.name} works for all nodes, too, and is the better network, but {left}; took {choice.name} ({why})",
            f"to take the other, write  {line}",
        )


def _not_announced(pick: Candidate, row: Row) -> Iterator[Note]:
    """NCCL takes an interface's first address of a family, and has no setting for another."""
    if pick.instead:
        yield Note(
            pick.node,
            f"NCCL will announce {pick.instead}, the first address of {pick.interface}, and not {pick.address}: it can"
            " be told the interface, but not which of its addresses",
            f"on that host, for it to come first:  {_to_the_front(pick, row)}\nor give it an interface of its own",
        )


def _to_the_front(pick: Candidate, row: Row) -> str:
    """The kernel lists the newest of an interface's IPv6 addresses first, and the oldest of its IPv4 addresses.

    Where those before it are in its subnet it may go with them, hence `replace`.
    """
    own = f"{pick.address}/{pick.prefix} dev {pick.interface}"
    if pick.family == "ipv6":
        return f"sudo ip -6 addr del {own} && sudo ip -6 addr add {own}"
    alike = [c for c in row if (c.interface, c.family) == (pick.interface, pick.family) and c.order < pick.order]
    before = [f"{c.address}/{c.prefix} dev {c.interface}" for c in alike]
    steps = [f"del {other}" for other in before] + [f"replace {own}"] + [f"add {other}" for other in before]
    return " && ".join(f"sudo ip addr {step}" for step in steps)


def _several_interfaces(node_rank: int, choice: Joint, row: Row, proof: Proof | None) -> Iterator[Note]:
    """Several cards of a node in one subnet: what is sent leaves by the routing table, whatever NCCL is told."""
    pick = choice.picks[node_rank]
    network = choice.network or pick.network
    # A wish for another one does not take a card off its wire.
    on_the_wire = [c for c in row if c.ip in network and (not c.rejected or c.unwanted)]
    inside = [c for c in on_the_wire if _leads_to_peers(c, choice)]
    cards: dict[str, Candidate] = {}
    for candidate in [pick, *inside]:
        cards.setdefault(candidate.interface, candidate)
    if len(cards) < 2:
        return
    sender = pick
    if proof is not None and any(proof.sent[node_rank, c.address] for c in inside):
        sender = max(inside, key=lambda c: (proof.sent[node_rank, c.address], -c.order))
    shown = ", ".join(f"{c.interface} {c.address}" for c in cards.values())
    ways = f"but the kernel sends by {sender.interface}" if sender.interface != pick.interface else "and sends by it"
    yield Note(
        pick.node,
        f"it has {len(cards)} interfaces in {network} ({shown}): NCCL listens on {pick.interface}, {ways}. The kernel's"
        " routing decides what leaves where, not NCCL_SOCKET_IFNAME: the other card is of no use to NCCL",
        _one_subnet_each([*cards.values()], str(network)),
    )


def _folded(notes: Sequence[Note], what: str) -> Sequence[Note]:
    """A cluster of one build has the same on every node: told in full of the first one."""
    if len(notes) <= MOST_ALIKE:
        return notes
    others = listed([note.node or "" for note in notes[1:]])
    return [notes[0], Note(None, f"{what}, as {notes[0].node}: {others}", "as there")]


def _leads_to_peers(candidate: Candidate, choice: Joint) -> bool:
    """Whether the kernel would think of this card for what goes to the peers; one in a narrower subnet it would not."""
    return any(pick.ip in candidate.network for pick in choice.picks if pick.node != candidate.node)


def _one_subnet_each(cards: Sequence[Candidate], network: str) -> str:
    """How several cards in one subnet can all be used: each gets a routing table of its own."""
    ip = "ip -6" if cards[0].family == "ipv6" else "ip"
    arp = "net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2 net.ipv4.conf.all.rp_filter=2"
    steps = [] if ip != "ip" else [f"sysctl -w {arp}"]
    for number, card in enumerate(cards, FIRST_TABLE):
        steps.append(f"{ip} rule add from {card.address} table {number}")
        steps.append(f"{ip} route add {network} dev {card.interface} src {card.address} table {number}")
    return "\n  sudo ".join(["give each card a subnet of its own; or, on that host:", *steps])
