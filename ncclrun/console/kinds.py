"""Candidates of many nodes: those that differ by names, addresses and times alone are one kind, and one line."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_interface

from ncclrun.console.findings import ADDRESS
from ncclrun.model.netevents import Judged

_TIME = r"\d+(?:\.\d+)? ms"
ORDER = {"chosen": 0, "usable": 1, "rejected": 2}
"""Of verdicts."""


@dataclass(frozen=True)
class Kind:
    """Rows of the same verdict and, but for details, for the same reason."""

    rows: tuple[Judged, ...]
    reason: str
    """With ``others`` for names and ``up to`` for times where these differ."""

    @property
    def nodes(self) -> list[str]:
        """Whose they are, each once."""
        return list(dict.fromkeys(row.node for row in self.rows))


def kinds(rows: Sequence[Judged], among: Sequence[Judged]) -> list[Kind]:
    """The kinds of ``rows``: usable ones first, then those of subnets that most nodes have, a node's own above many's.

    ``among``: all candidates, which tell how many nodes have an address in a subnet.
    """
    reasons = _Reasons({row.node for row in among})
    # Of one subnet first; what is alone there goes with others of its interface's name, each in a subnet of its own.
    together = _groups((row.verdict, reasons.bare(row.reason), _subnet(row), row) for row in rows)
    alone = [group[0] for group in together if len(group) == 1]
    found = [group for group in together if len(group) > 1]
    found += _groups((row.verdict, reasons.bare(row.reason), row.interface, row) for row in alone)
    members: dict[Hashable, set[int]] = defaultdict(set)
    for row in among:
        members[_subnet(row)].add(row.node_rank)

    def place(group: Sequence[Judged]) -> tuple[int, int, int]:
        weight = max(len(group), *(len(members[_subnet(row)]) for row in group))
        return ORDER[group[0].verdict], -weight, len(group)

    return [Kind(tuple(group), reasons.common([row.reason for row in group])) for group in sorted(found, key=place)]


def _groups(keyed: Iterable[tuple[str, str, Hashable, Judged]]) -> list[list[Judged]]:
    groups: dict[tuple[str, str, Hashable], list[Judged]] = defaultdict(list)
    for verdict, reason, which, row in keyed:
        groups[verdict, reason, which].append(row)
    return list(groups.values())


def _subnet(row: Judged) -> Hashable:
    return ip_interface(f"{row.address}/{row.prefix}").network


class _Reasons:
    """Takes reasons apart into what they say, and whom, where and how fast they say it of."""

    def __init__(self, names: Iterable[str]) -> None:
        one = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
        named = rf"(?<![\w.-])(?:{one})(?:, (?:{one}))*(?: and \d+ more)?(?![\w-])"
        self._details = re.compile(rf"({named}|{ADDRESS.pattern}|{_TIME})")

    def bare(self, reason: str) -> str:
        """What it says; alike for reasons of one kind."""
        return self._details.sub("\0", reason)

    def common(self, reasons: Sequence[str]) -> str:
        """One reason for all of a kind."""
        return "".join(self._merged(reasons))

    def _merged(self, reasons: Sequence[str]) -> Iterator[str]:
        # By `split` every second piece is a detail.
        for at, pieces in enumerate(zip(*map(self._details.split, reasons), strict=True)):
            if at % 2 == 0 or len(set(pieces)) == 1:
                yield pieces[0]
            elif re.fullmatch(_TIME, pieces[0]):
                yield f"up to {max(pieces, key=lambda piece: float(piece.split()[0]))}"
            else:
                yield "…" if ADDRESS.fullmatch(pieces[0]) else "others"
