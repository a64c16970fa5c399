"""The network choice as `resolve` shows it: every candidate and its verdict, what fits through, what NCCL says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from textwrap import wrap

from ncclrun.console.kinds import ORDER, kinds
from ncclrun.console.leftout import left_out_text, split
from ncclrun.console.matrix import matrix_text
from ncclrun.console.pairs import TROUBLED, Seen
from ncclrun.console.sanitize import RESET, one_line
from ncclrun.console.tables import table_text
from ncclrun.console.words import count, duration, on_nodes
from ncclrun.model.netevents import Judged, NcclSays, Probed, Resolved
from ncclrun.model.network import Path
from ncclrun.model.words import listed

FEW_NODES = 8
"""Of more nodes only the chosen addresses have a row each."""
KINDS = 20
"""Lines on what was not chosen then."""
UNASKED = "was not asked"
LABEL = 9
"""Columns in front of what it comes to."""

_STYLES = {"chosen": "bold green", "usable": "", "rejected": "dim"}
_HEADS = ("", "node", "interface", "address", "verdict", "reason")


def resolved_text(seen: Seen, width: int | None) -> str:
    """All that `resolve` has found, as lines; ``width`` of the terminal in columns, None for a pipe.

    Where no network was found it begins with who reaches whom, which the error before it is about.
    """
    troubled = any(pair.state in TROUBLED for pair in seen.pairs().values())
    matrix = matrix_text(seen, width) if troubled else ""
    candidates = candidates_text(seen.candidates, width)
    if seen.resolved:
        return candidates + matrix + conclusion_text(seen, width)
    return matrix + "\n" * bool(matrix and candidates) + candidates


def candidates_text(candidates: Sequence[Judged], width: int | None) -> str:
    """A row a candidate, node by node, the chosen one first and marked; of many nodes the others by kinds.

    What every host has and none reaches another by stands in one line below them.
    """
    rows, folded = split(sorted(candidates, key=lambda row: (row.node_rank, ORDER[row.verdict])))
    nodes = len({row.node_rank for row in candidates})
    left_out = _left_out(left_out_text(folded, nodes, rows), width)
    if nodes <= FEW_NODES:
        return (_table(rows, width) if rows else "") + left_out
    chosen = [row for row in rows if row.verdict == "chosen"]
    text = ""
    if len({row.reason for row in chosen}) == 1:  # told once instead of in every row
        text = _table([replace(row, reason="") for row in chosen], width) + f"all: {one_line(chosen[0].reason)}\n"
    elif chosen:
        text = _table(chosen, width)
    others = _kinds(candidates, rows, width)
    return text + "\n" * bool(text and others) + others + left_out


def _left_out(said: str, width: int | None) -> str:
    text = one_line(said)
    if width is None or not text:
        return text + "\n" * bool(text)
    return "".join(f"\x1b[2m{line}{RESET}\n" for line in wrap(text, max(20, width)))


def _table(rows: Sequence[Judged], width: int | None) -> str:
    cells = []
    before = None
    for row in rows:
        again = row.node == before and width is not None  # in a pipe each line has to speak for itself
        before = row.node
        cells.append(
            [
                "*" if row.verdict == "chosen" else "",
                "" if again else row.node,
                row.interface,
                f"{row.address}/{row.prefix}",
                row.verdict,
                row.reason,
            ]
        )
    return table_text(_HEADS, cells, width=width, styles=[_STYLES[row.verdict] for row in rows])


def _kinds(candidates: Sequence[Judged], rows: Sequence[Judged], width: int | None) -> str:
    """What was not chosen, each kind in one line."""
    found = kinds([row for row in rows if row.verdict != "chosen"], candidates)
    if not found:
        return ""
    cells = [
        [
            listed(list(dict.fromkeys(row.interface for row in kind.rows)), 2),
            _first([row.address for row in kind.rows]),
            listed(kind.nodes) if len(kind.nodes) <= 2 else count(len(kind.nodes), "node"),
            kind.rows[0].verdict,
            kind.reason,
        ]
        for kind in found[:KINDS]
    ]
    styles = [_STYLES[kind.rows[0].verdict] for kind in found[:KINDS]]
    more = f"… and {count(len(found) - KINDS, 'kind')} more\n" if len(found) > KINDS else ""
    heads = ("interface", "address", "on", "verdict", "reason")
    return "not chosen:\n" + table_text(heads, cells, width=width, styles=styles) + more


def _first(addresses: Sequence[str]) -> str:
    return addresses[0] if len(set(addresses)) == 1 else f"{addresses[0]} …"


# --- what it comes to


def probed_words(event: Probed) -> str:
    """``72 attempts in 3.5 s``. How many failed is not told: most addresses of a sound host lead nowhere."""
    silent = ", none of them answered" if event.connections and not event.reached else ""
    return f"{count(event.connections, 'attempt')} in {duration(event.seconds)}{silent}"


def conclusion_lines(seen: Seen) -> list[tuple[str, str]]:
    """What it is about, and a sentence: why, RDMA, paths and NCCL, as far as they are known."""
    return [
        *(("network", _without(seen) + line) for line in _reasons(seen.resolved.values(), len(seen.names))),
        *(("RDMA", line) for line in _hcas(seen.resolved.values(), len(seen.names))),
        *(("paths", line) for line in _paths(list(seen.paths.values()))),
        *(("NCCL", line) for line in nccl_words(seen.nccl, seen.resolved, len(seen.names))),
    ]


def conclusion_text(seen: Seen, width: int | None) -> str:
    """The same as lines."""
    head, reset = ("\x1b[1m", RESET) if width is not None else ("", "")
    text = ""
    for name, line in conclusion_lines(seen):
        parts = [one_line(line)] if width is None else wrap(one_line(line), max(20, width - LABEL))
        text += f"{head}{name:<{LABEL}}{reset}" + f"\n{'':{LABEL}}".join(parts) + "\n"
    return "\n" + text if text else ""


def _without(seen: Seen) -> str:
    """``without gpu2: `` where the choice is for those alone that can be joined."""
    missing = [seen.name(rank) for rank in seen.ranks if rank not in seen.resolved]
    return f"without {listed(missing)}: " if missing and seen.failed else ""


def _reasons(resolved: Iterable[Resolved], total: int) -> list[str]:
    """``eth1 on all 3 nodes: why``, ``eth1 on gpu1, ib0 on gpu2: why``."""
    reasons: dict[str, dict[str, list[str]]] = {}
    for event in resolved:
        reasons.setdefault(event.why, {}).setdefault(event.interface, []).append(event.node)
    return [
        ", ".join(f"{interface} {on_nodes(nodes, total)}" for interface, nodes in groups.items()) + f": {why}"
        for why, groups in reasons.items()
    ]


def _hcas(resolved: Iterable[Resolved], total: int) -> list[str]:
    groups: dict[str, list[str]] = {}
    for event in resolved:
        if event.hca:
            groups.setdefault(event.hca, []).append(event.node)
    return [f"NCCL_IB_HCA={hca} {on_nodes(nodes, total)}" for hca, nodes in groups.items()]


def _paths(paths: Sequence[Path]) -> list[str]:
    """``9000 bytes fit through on all 6 pairs; all high ports that were tried pass``."""
    gone = sum(path.nothing for path in paths)
    paths = [path for path in paths if not path.nothing]
    sizes = Counter(path.mtu for path in paths).most_common()
    parts = [
        f"{f'{mtu} bytes fit through' if mtu else 'UDP is blocked, so the MTU is not known'} on "
        + (f"all {count(number, 'pair')}" if len(sizes) == 1 and number > 1 else count(number, "pair"))
        for mtu, number in sizes
    ]
    if gone:
        parts.append(f"nothing passes any more on {count(gone, 'pair')}")
    blocked = sum(bool(path.blocked) for path in paths)
    if blocked:
        parts.append(f"high TCP ports are blocked on {count(blocked, 'pair')}")
    elif any(path.passed for path in paths):
        parts.append("all high TCP ports that were tried pass")
    return ["; ".join(parts)] if parts else []


def nccl_words(says: Mapping[int, NcclSays], resolved: Mapping[int, Resolved], total: int) -> list[str]:
    """``2.27.5 agrees on all 3 nodes``, ``2.27.5 would use eth0 10.0.0.5 on b, not eth1``: nodes alike in one line.

    Where none of several could be asked that is said: ``was asked on none of the 3 nodes: there is no libnccl``.
    """
    groups: dict[str, list[str]] = {}
    for rank, event in sorted(says.items()):
        answer = event.answer
        version = f"{answer.version} " if answer.version else ""
        if event.agrees:
            words = f"{version}agrees {{on}}"
        elif event.agrees is None:
            words = f"{UNASKED} {{on}}: {answer.error or 'no libnccl there'}"
        elif answer.interface or answer.address:
            plan = resolved.get(rank)
            instead = f", not {plan.interface} {plan.address}".rstrip() if plan else ""
            words = f"{version}would use {f'{answer.interface} {answer.address}'.strip()} {{on}}{instead}"
        else:
            words = f"{version}fails {{on}}: {answer.error or 'it names no interface'}"
        groups.setdefault(words, []).append(event.node)
    return [_placed(words, nodes, total) for words, nodes in groups.items()]


def _placed(words: str, nodes: Sequence[str], total: int) -> str:
    if words.startswith(UNASKED) and len(nodes) == total > 1:
        return words.replace(f"{UNASKED} {{on}}", f"was asked on none of the {total} nodes")
    return words.replace("{on}", on_nodes(nodes, total))
