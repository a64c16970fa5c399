"""The matrix of `ping`: who reaches whom and how fast, in full for a few nodes, the worst first for many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from rich.cells import cell_len, set_cell_size

from ncclrun.console.pairs import BROKEN, TROUBLED, Pair, Seen, State, troubled
from ncclrun.console.sanitize import RESET, one_line
from ncclrun.console.screen import clip
from ncclrun.console.tables import table_text
from ncclrun.console.words import count, milliseconds, speed
from ncclrun.diagnosis.bandwidth import SLOW, usual_rate
from ncclrun.model.words import listed

IN_A_PIPE = 24
"""Nodes whose matrix is shown in full where no width bounds it."""
FULL, DOTS = 12, 4
"""Columns that a node's name keeps at least, with numbers in the cells and with dots."""
FEW, MANY = 8, 20
"""Lines on the worst pairs below a whole matrix, and in place of one."""
TOGETHER = 3
"""Names in one line of these."""

SYMBOLS: dict[State, tuple[str, str]] = {
    "ok": (".", "connected"),
    "timeout": (">", "no answer"),
    "refused": ("x", "refused"),
    "wrong": ("!", "reaches another machine"),
    "no_route": ("/", "no route"),
    "forbidden": ("#", "forbidden by its own firewall"),
    "error": ("e", "failed otherwise"),
    "detour": ("~", "only by another source or interface"),
    "ports": ("p", "high ports are blocked"),
    "mtu": ("m", "large packets vanish"),
    "untried": ("?", "not tried, or lost meanwhile"),
    "self": ("-", ""),
}
"""Symbol and legend; digits stand for connections that are well."""
_RED, _YELLOW, _GREEN, _DIM, _BOLD = "\x1b[1;31m", "\x1b[33m", "\x1b[32m", "\x1b[2m", "\x1b[1m"


def matrix_text(seen: Seen, width: int | None) -> str:
    """Matrix or counts, and the worst pairs, as lines; ``width`` of the terminal in columns, None for a pipe."""
    if not seen.linked or len(seen.ranks) < 2:
        return ""
    pairs = seen.pairs()
    others = [pair for pair in pairs.values() if pair.state != "self"]
    text = _grid(seen, pairs, width)
    shown = FEW if text else MANY
    return (text or _counts(seen, pairs, width)) + _worst(seen, others, shown, width) + _speeds(seen, others, width)


def usual_of(pairs: Iterable[Pair]) -> float | None:
    """What a sound pair does here, in Gbit/s; None if nothing was measured."""
    measured = {(pair.node_rank, pair.peer): pair.gbits for pair in pairs if pair.gbits is not None}
    return usual_rate(measured) if measured else None


def is_slow(pair: Pair, usual: float | None) -> bool:
    """Whether its throughput is far below the usual."""
    return usual is not None and pair.gbits is not None and pair.gbits < SLOW * usual


# --- the whole matrix


def _grid(seen: Seen, pairs: Mapping[tuple[int, int], Pair], width: int | None) -> str:
    """ "" when it does not fit; without numbers in its cells when only they don't."""
    ranks = seen.ranks
    if width is None and len(ranks) > IN_A_PIPE:
        return ""
    usual = usual_of(pairs.values())
    measured = usual is not None
    for full, gap, least in ((True, 2, FULL), (True, 1, FULL), (False, 1, DOTS)):
        cells = {at: _cell(pair, measured=measured, full=full) for at, pair in pairs.items()}
        marked = any(cell[0].isdigit() and not cell[-1].isdigit() for cell in cells.values())
        if marked:  # digits stand below digits
            cells = {at: cell + " " if cell[-1].isdigit() else cell for at, cell in cells.items()}
        column = gap + max(len(text) for text in [*cells.values(), *map(str, ranks)])
        digits = len(str(ranks[-1]))
        name = max(cell_len(one_line(seen.name(rank))) for rank in ranks)
        if width is not None:
            room = width - digits - 1 - column * len(ranks)
            if room < min(name, least):
                continue
            name = min(name, room)
        unit = ("Gbit/s" if measured else "connect times in ms") if full else "connections"
        lines = [_painted(f"{unit}, from the node of the row to the node of the column", _DIM, width)]
        lines.append(_painted(" " * (digits + 1 + name) + "".join(f"{rank:>{column}}" for rank in ranks), _BOLD, width))
        for rank in ranks:
            label = f"{rank:>{digits}} {set_cell_size(clip(one_line(seen.name(rank)), name), name)}"
            row = [_colored(pairs[rank, peer], cells[rank, peer], column, usual, width) for peer in ranks]
            lines.append(label + "".join(row))
        return "\n".join(["", *lines, *_legend(pairs.values(), cells.values(), width), ""])
    return ""


def _cell(pair: Pair, *, measured: bool, full: bool) -> str:
    symbol = SYMBOLS[pair.state][0]
    if not full or pair.state not in ("ok", "detour", "ports", "mtu"):
        return symbol
    mark = "" if pair.state == "ok" else symbol
    if measured:
        return speed(pair.gbits) + mark if pair.gbits is not None else symbol
    if pair.seconds is None:
        return symbol
    return milliseconds(pair.seconds) + mark


def _colored(pair: Pair, text: str, column: int, usual: float | None, width: int | None) -> str:
    color = _GREEN
    if pair.state in BROKEN:
        color = _RED
    elif pair.state in TROUBLED or is_slow(pair, usual):
        color = _YELLOW
    elif pair.state in ("self", "untried"):
        color = _DIM
    return " " * (column - len(text)) + _painted(text, color, width)


def _painted(text: str, color: str, width: int | None) -> str:
    """A pipe gets no colours."""
    return text if width is None else f"{color}{text}{RESET}"


def _legend(pairs: Iterable[Pair], cells: Collection[str], width: int | None) -> list[str]:
    """The symbols that occur, in lines of that width."""
    states = {pair.state for pair in pairs}
    lines = [""]
    for state, (symbol, words) in SYMBOLS.items():
        if not words or state not in states or not any(cell.endswith(symbol) for cell in cells):
            continue
        entry = f"{symbol} {words}"
        if width is not None and lines[-1] and len(lines[-1]) + 3 + len(entry) > width:
            lines.append("")
        lines[-1] += "   " * bool(lines[-1]) + entry
    return [line for line in lines if line]


# --- in place of it


def _counts(seen: Seen, pairs: Mapping[tuple[int, int], Pair], width: int | None) -> str:
    """A row for each node that has trouble with others, as one who tries or one who is tried."""
    tried = [pair for pair in pairs.values() if pair.state not in ("self", "untried")]
    bad = [pair for pair in tried if pair.state in TROUBLED]
    total = f"{count(len(tried), 'pair')} of {count(len(seen.ranks), 'node')}"
    if not bad or len(bad) == len(tried):
        return f"\nall {total} are well\n" if not bad else f"\nnone of {total} is well\n"
    out, into = Counter(pair.node_rank for pair in tried), Counter(pair.peer for pair in tried)
    broken = [pair for pair in bad if pair.state in BROKEN]
    out_bad, into_bad = Counter(pair.node_rank for pair in broken), Counter(pair.peer for pair in broken)
    troubles = Counter(rank for pair in bad for rank in (pair.node_rank, pair.peer))
    worst = [rank for rank, _ in troubles.most_common()]
    rows = [
        [
            str(rank),
            seen.name(rank),
            f"{out[rank] - out_bad[rank]} of {out[rank]}",
            f"{into[rank] - into_bad[rank]} of {into[rank]}",
            ", ".join(f"{number} {SYMBOLS[state][1]}" for state, number in _kinds(rank, bad)),
        ]
        for rank in worst[:MANY]
    ]
    more = f"… and {count(len(worst) - MANY, 'node')} more\n" if len(worst) > MANY else ""
    heads = ("", "node", "reaches", "is reached by", "else")
    return f"\n{len(tried) - len(bad)} of {total} are well\n" + table_text(heads, rows, width=width) + more


def _kinds(rank: int, bad: Sequence[Pair]) -> list[tuple[State, int]]:
    return Counter(pair.state for pair in bad if rank in (pair.node_rank, pair.peer)).most_common()


# --- below it


def _worst(seen: Seen, pairs: Sequence[Pair], limit: int, width: int | None) -> str:
    """The troubled pairs in words."""
    groups = _alike(list(troubled(pairs)))
    if len(groups) > 1 and len({group[0].words for group in groups}) == 1 and sum(map(len, groups)) == _tried(pairs):
        style = "red" if groups[0][0].state in BROKEN else "yellow"
        everybody = [[f"all {count(len(seen.ranks), 'node')}", "->", "each other", "", groups[0][0].words]]
        return "\n" + table_text(("from", "", "to", "address", ""), everybody, width=width, styles=[style])
    rows = [
        [
            listed(list(dict.fromkeys(seen.name(pair.node_rank) for pair in group)), TOGETHER),
            "->",
            listed(list(dict.fromkeys(seen.name(pair.peer) for pair in group)), TOGETHER),
            _address(group),
            group[0].words,
        ]
        for group in groups[:limit]
    ]
    if not rows:
        return ""
    styles = ["red" if group[0].state in BROKEN else "yellow" for group in groups[:limit]]
    left = sum(map(len, groups[limit:]))
    more = f"… and {count(left, 'pair')} more\n" if left else ""
    return "\n" + table_text(("from", "", "to", "address", ""), rows, width=width, styles=styles) + more


def _alike(bad: Sequence[Pair]) -> list[list[Pair]]:
    """Pairs with the same trouble together, by who tries or by who is tried: whichever has more of it."""
    out = Counter((pair.node_rank, pair.words) for pair in bad)
    into = Counter((pair.peer, pair.words) for pair in bad)
    groups: dict[tuple[bool, int, str], list[Pair]] = {}
    for pair in bad:
        by_peer = into[pair.peer, pair.words] >= out[pair.node_rank, pair.words]
        groups.setdefault((by_peer, pair.peer if by_peer else pair.node_rank, pair.words), []).append(pair)
    return [sorted(group, key=lambda pair: (pair.node_rank, pair.peer)) for group in groups.values()]


def _tried(pairs: Sequence[Pair]) -> int:
    return sum(pair.state != "untried" for pair in pairs)


def _address(group: Sequence[Pair]) -> str:
    """What was tried, if it is the same for all."""
    addresses = {pair.addresses for pair in group}
    return listed(addresses.pop(), 2) if len(addresses) == 1 else ""


def _speeds(seen: Seen, pairs: Sequence[Pair], width: int | None) -> str:
    """The usual throughput and the slowest pairs, slow ones all the more."""
    usual = usual_of(pairs)
    if usual is None:
        return ""
    measured = sorted((pair for pair in pairs if pair.gbits is not None), key=lambda pair: pair.gbits or 0.0)
    slow = [pair for pair in measured if is_slow(pair, usual)]
    rows = [
        [
            seen.name(pair.node_rank),
            "->",
            seen.name(pair.peer),
            f"{speed(pair.gbits or 0.0)} Gbit/s",
            _share(pair, usual),
        ]
        for pair in measured[: min(FEW, max(3, len(slow)))]
    ]
    styles = ["yellow" if pair in slow else "" for pair in measured[: len(rows)]]
    well = not slow and len(measured) == _tried(pairs)
    all_well = f", no node or link is slow (below {100 * SLOW:.0f} % of it)" if well else ""
    head = f"\n{speed(usual)} Gbit/s is usual{all_well}; the slowest of {count(len(measured), 'pair')}:\n"
    return head + table_text(("from", "", "to", "throughput", ""), rows, width=width, styles=styles)


def _share(pair: Pair, usual: float) -> str:
    return f"{100 * (pair.gbits or 0.0) / usual:.0f} % of the usual" if usual else ""
