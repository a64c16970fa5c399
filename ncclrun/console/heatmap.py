"""The matrix as a heat map: a coloured cell a pair, with all that is known of it in its title."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from ncclrun.console.markup import lines_of, text_of
from ncclrun.console.matrix import SYMBOLS
from ncclrun.console.metrics import BRIGHTEST, Metric
from ncclrun.console.pairs import BROKEN, STATES, TROUBLED, Pair, Seen
from ncclrun.console.words import count, endpoint, speed

MOST = 256
"""Nodes whose matrix a browser still handles."""
DENSE = 24
"""Above so many nodes cells have no numbers, only colours and symbols."""


def heatmap(seen: Seen, pairs: dict[tuple[int, int], Pair], scales: Sequence[Metric]) -> str:
    """Table, scale and legend."""
    ranks = seen.ranks
    if len(ranks) < 2 or not seen.linked:
        return "<p>No pairs were tried.</p>"
    if len(ranks) > MOST:
        return f"<p>The matrix of {count(len(ranks), 'node')} is too large to be shown; the worst pairs are below.</p>"
    dense = len(ranks) > DENSE
    heads = "".join(
        f'<th scope="col" data-at="{at}" title="{text_of(seen.name(rank))}">{rank}</th>'
        for at, rank in enumerate(ranks)
    )
    rows = [
        f'<tr data-at="{at}"><th scope="row" data-at="{at}" title="{text_of(seen.name(rank))}">'
        f"<i>{rank}</i> {text_of(seen.name(rank))}</th>"
        + "".join(_cell(seen, pairs[rank, peer], to, scales, dense=dense) for to, peer in enumerate(ranks))
        + "</tr>"
        for at, rank in enumerate(ranks)
    ]
    kind = ' class="dense"' if dense else ""
    return (
        f'<div class="scroll"><table id="heat"{kind}><thead><tr><th class="corner">from \\ to</th>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{_scale(scales)}{_legend(pairs.values())}"
    )


def _cell(seen: Seen, pair: Pair, at: int, scales: Sequence[Metric], *, dense: bool) -> str:
    if pair.state == "self":
        return f'<td class="self" data-at="{at}"></td>'
    kind, text = looks(pair, scales[0] if scales else None, dense=dense)
    return f'<td class="{kind}" data-at="{at}" title="{lines_of(_tip(seen, pair))}">{text_of(text)}</td>'


def looks(pair: Pair, metric: Metric | None, *, dense: bool) -> tuple[str, str]:
    """Class and text of a cell; what is broken has no number and no place on the scale."""
    symbol = SYMBOLS[pair.state][0]
    if pair.state in BROKEN or pair.state == "untried":
        return ("broken" if pair.state in BROKEN else "untried"), symbol
    value = metric.value(pair) if metric is not None else None
    kind = "" if metric is None or value is None else f"q{metric.level(value)}"
    mark = symbol if pair.state in TROUBLED else ""
    kind += " troubled" if mark else ""
    return kind.strip(), mark if dense or metric is None or value is None else metric.text(value) + mark


def _tip(seen: Seen, pair: Pair) -> list[str]:
    """All about a pair, in lines."""
    lines = [f"{seen.name(pair.node_rank)} → {seen.name(pair.peer)}", pair.words]
    if pair.link is not None:
        source = pair.link.source or (
            f"{pair.link.local} (as the kernel routes)" if pair.link.local else "where the kernel routes it"
        )
        lines.append(f"from {source} to {endpoint(pair.link.address, pair.link.port)}")
    if pair.path is not None and not pair.path.nothing:
        lines.append(f"path MTU {pair.path.mtu} bytes" if pair.path.mtu else "UDP is blocked: path MTU not known")
    if pair.gbits is not None:
        lines.append(f"{speed(pair.gbits)} Gbit/s")
    return lines


def _scale(scales: Sequence[Metric]) -> str:
    if not scales:
        return ""
    steps = "".join(f'<i class="q{level}"></i>' for level in range(BRIGHTEST + 1))
    return (
        f'<p class="scale"><b id="metric">{escape(scales[0].label)}</b> <span id="low">{escape(scales[0].low)}</span> '
        f'<span class="steps">{steps}</span> <span id="high">{escape(scales[0].high)}</span></p>'
    )


def _legend(pairs: Iterable[Pair]) -> str:
    """The symbols that occur."""
    states = {pair.state for pair in pairs}
    kinds = {
        state: "broken" if state in BROKEN else "untried" if state == "untried" else "troubled" for state in states
    }
    items = [
        f'<span><i class="{kinds[state]}">{escape(SYMBOLS[state][0])}</i> {escape(SYMBOLS[state][1])}</span>'
        for state in STATES
        if state in states and state not in ("ok", "self")
    ]
    return f'<p class="legend">{" ".join(items)}</p>' if items else ""
