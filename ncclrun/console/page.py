"""The page of `--html`: matrix, nodes, candidates in one file that needs no network, and no JavaScript to be read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from ncclrun.console.findings import Finding, fold, same_on
from ncclrun.console.heat import Metric, metrics
from ncclrun.console.matrix import SYMBOLS, speed
from ncclrun.console.pairs import BROKEN, STATES, TROUBLED, Pair, Seen, worst_first
from ncclrun.console.resolved import conclusion_lines
from ncclrun.console.sanitize import one_line, sanitize
from ncclrun.console.words import count, duration, endpoint, moment
from ncclrun.model.errors import UsageError
from ncclrun.model.events import Connected, Ended, Event, Failure, Pinged, Refused, Unreachable, Warn

MOST = 256
"""Nodes whose matrix a browser still handles."""
DENSE = 24
"""Above so many nodes cells have no numbers, only colours and symbols."""
WORST = 40
"""Pairs in the table of the worst."""
OPEN = 64
"""Candidates that are shown without being asked for."""


class _Page(Template):
    """Fields are ``%%{name}``: the usual dollar is JavaScript's."""

    delimiter = "%%"


def refuse_unwritable(path: Path) -> None:
    """Raises UsageError before the work when the page can't be written there after it."""
    if not path.parent.is_dir():
        raise UsageError(f"--html {path}: there is no directory {path.parent}", fix=f"mkdir -p {path.parent}")
    if path.is_dir():
        raise UsageError(f"--html {path}: that is a directory", fix=f"--html {path / 'network.html'}")


def write_page(path: Path, title: str, events: Sequence[Event]) -> None:
    """Writes the page. Raises UsageError when the file can't be written."""
    text = render_page(title, events)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--html {path}: {error.strerror}", fix="name another file with --html") from error


def render_page(title: str, events: Sequence[Event]) -> str:
    """All that the events say of the network as HTML; nothing of them is markup or code there."""
    seen = Seen(events)
    pairs = seen.pairs()
    others = [pair for pair in pairs.values() if pair.state != "self"]
    scales = metrics(others)
    template = files("ncclrun.console").joinpath("page.html").read_text(encoding="utf-8")
    return _Page(template).substitute(
        title=_text(title),
        verdict=_verdict(events),
        messages=_messages(events),
        summary=_summary(seen, others),
        matrix=_matrix(seen, pairs, scales),
        worst=_worst(seen, others),
        nodes=_nodes(seen, events),
        candidates=_candidates(seen),
        data=_data(seen, others, scales),
    )


def _text(text: str) -> str:
    """One line of text, also fit for an attribute."""
    return escape(one_line(text))


def _block(text: str) -> str:
    return escape(sanitize(text, colors=False))


# --- what happened


def _verdict(events: Iterable[Event]) -> str:
    for event in events:
        if isinstance(event, Ended):
            kind = "good" if event.exit_code == 0 else "bad"
            return f'<p class="verdict {kind}">{_text(event.reason)} <span>after {duration(event.seconds)}</span></p>'
    return ""


def _messages(events: Iterable[Event]) -> str:
    """Errors and warnings, each with what mends it."""
    said: list[Finding] = []
    for event in events:
        if isinstance(event, Failure):
            said.append(Finding("error", None, event.message, event.fix))
        elif isinstance(event, Warn):
            said.append(Finding("warning", event.node, event.text, event.fix))
        elif isinstance(event, (Unreachable, Refused)):
            said.append(Finding("error", event.node, event.message, event.fix))
        elif isinstance(event, Pinged):
            said += [Finding(found.level, event.node, found.message, found.fix) for found in event.problems]
    blocks = [
        f'<li class="{one.level}"><b>{one.level}</b> <pre>{_block(one.told)}</pre>'
        + (f'<p class="fix"><b>fix</b> <code>{_block(one.fix)}</code></p>' if one.fix else "")
        + (f"<p>{_text(same_on(others))}</p>" if others else "")
        + "</li>"
        for one, others in fold(said)
    ]
    return f'<ul class="messages">{"".join(blocks)}</ul>' if blocks else ""


def _summary(seen: Seen, pairs: Sequence[Pair]) -> str:
    tried = [pair for pair in pairs if pair.state != "untried"]
    bad = [pair for pair in tried if pair.state in TROUBLED]
    said = [("pairs", f"{len(tried) - len(bad)} of {len(tried)} are well")] if tried else []
    if seen.probed is not None:
        made = f"{seen.probed.reached} of {count(seen.probed.connections, 'connection')} made"
        said.append(("probed", f"{seen.probed.scheme}, {made} in {duration(seen.probed.seconds)}"))
    said += conclusion_lines(seen)
    items = "".join(f"<dt>{_text(name)}</dt><dd>{_text(words)}</dd>" for name, words in said)
    return f"<dl>{items}</dl>" if items else ""


# --- the matrix


def _matrix(seen: Seen, pairs: dict[tuple[int, int], Pair], scales: Sequence[Metric]) -> str:
    ranks = seen.ranks
    if len(ranks) < 2 or not seen.linked:
        return "<p>No pairs were tried.</p>"
    if len(ranks) > MOST:
        return f"<p>The matrix of {count(len(ranks), 'node')} is too large to be shown; the worst pairs are below.</p>"
    dense = len(ranks) > DENSE
    heads = "".join(
        f'<th scope="col" data-at="{at}" title="{_text(seen.name(rank))}">{rank}</th>' for at, rank in enumerate(ranks)
    )
    rows = [
        f'<tr data-at="{at}"><th scope="row" data-at="{at}" title="{_text(seen.name(rank))}">'
        f"<i>{rank}</i> {_text(seen.name(rank))}</th>"
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
    kind, text = _looks(pair, scales[0] if scales else None, dense=dense)
    return f'<td class="{kind}" data-at="{at}" title="{_text_lines(_tip(seen, pair))}">{text}</td>'


def _looks(pair: Pair, metric: Metric | None, *, dense: bool) -> tuple[str, str]:
    """Class and text of a cell; what is broken has no number and no place on the scale."""
    symbol = SYMBOLS[pair.state][0]
    if pair.state in BROKEN or pair.state == "untried":
        return ("broken" if pair.state in BROKEN else "untried"), escape(symbol)
    value = metric.value(pair) if metric is not None else None
    kind = "" if metric is None or value is None else f"q{metric.level(value)}"
    mark = escape(symbol) if pair.state in TROUBLED else ""
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
    if pair.path is not None:
        lines.append(f"path MTU {pair.path.mtu} bytes" if pair.path.mtu else "UDP is blocked: path MTU not known")
    if pair.gbits is not None:
        lines.append(f"{speed(pair.gbits)} Gbit/s")
    return lines


def _text_lines(lines: Iterable[str]) -> str:
    return "&#10;".join(_text(line) for line in lines if line)


def _scale(scales: Sequence[Metric]) -> str:
    if not scales:
        return ""
    steps = "".join(f'<i class="q{level}"></i>' for level in range(10))
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


# --- tables


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], classes: Iterable[str] = ()) -> str:
    """Cells are text; columns in which all are empty are left out."""
    kept = [list(row) for row in rows]
    shown = [at for at in range(len(heads)) if any(row[at] for row in kept)]
    kinds = list(classes) or [""] * len(kept)
    head = "".join(f'<th scope="col">{_text(heads[at])}</th>' for at in shown)
    body = "".join(
        (f'<tr class="{kind}">' if kind else "<tr>") + "".join(f"<td>{_text(row[at])}</td>" for at in shown) + "</tr>"
        for row, kind in zip(kept, kinds, strict=True)
    )
    return f'<div class="scroll"><table class="list"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _worst(seen: Seen, pairs: Sequence[Pair]) -> str:
    """The troubled and the slow pairs."""
    shown = [pair for pair in worst_first(pairs) if pair.state != "untried"][:WORST]
    rows = [
        [
            seen.name(pair.node_rank),
            seen.name(pair.peer),
            SYMBOLS[pair.state][0] if pair.state != "ok" else "",
            pair.words,
            (pair.link.source or pair.link.local) if pair.link is not None else "",
            pair.link.address if pair.link is not None else "",
            moment(pair.seconds) if pair.seconds is not None else "",
            str(pair.path.mtu) if pair.path is not None and pair.path.mtu else "",
            speed(pair.gbits) if pair.gbits is not None else "",
        ]
        for pair in shown
    ]
    heads = ("from", "to", "", "what", "source", "address", "connect", "MTU", "Gbit/s")
    kinds = ["bad" if pair.state in BROKEN else "" for pair in shown]
    return f"<h2>Worst pairs first</h2>{_table(heads, rows, kinds)}" if rows else ""


def _nodes(seen: Seen, events: Iterable[Event]) -> str:
    connected = {event.node_rank: event for event in events if isinstance(event, Connected)}
    pinged = {event.node_rank: event for event in events if isinstance(event, Pinged)}
    rows = []
    for rank in seen.ranks:
        ping, choice, says = pinged.get(rank), seen.resolved.get(rank), seen.nccl.get(rank)
        agrees = {True: "agrees", False: "DISAGREES", None: "not asked"}[says.agrees] if says is not None else ""
        version = (says.answer.version if says is not None else "") or (ping.nccl if ping is not None else "")
        rows.append(
            [
                str(rank),
                seen.name(rank),
                connected[rank].host if rank in connected else ping.host if ping is not None else "",
                "" if ping is None else "yes" if ping.fit else "NO",
                choice.interface if choice is not None else ping.interface if ping is not None else "",
                choice.address if choice is not None else ping.address if ping is not None else "",
                choice.hca if choice is not None else "",
                version,
                agrees,
                ", ".join(sorted(set(ping.gpus))) if ping is not None else "",
                ping.torch if ping is not None else "",
            ]
        )
    heads = ("", "node", "host", "fit", "interface", "address", "NCCL_IB_HCA", "NCCL", "NCCL says", "gpus", "torch")
    return _table(heads, rows) if rows else ""


def _candidates(seen: Seen) -> str:
    if not seen.candidates:
        return ""
    rows = sorted(seen.candidates, key=lambda row: (row.node_rank, ("chosen", "usable", "rejected").index(row.verdict)))
    cells = [[row.node, row.interface, f"{row.address}/{row.prefix}", row.verdict, row.reason] for row in rows]
    table = _table(("node", "interface", "address", "verdict", "reason"), cells, [row.verdict for row in rows])
    opened = " open" if len(rows) <= OPEN else ""
    return f"<details{opened}><summary><h2>{count(len(rows), 'candidate')}</h2></summary>{table}</details>"


# --- for the script


def _data(seen: Seen, pairs: Sequence[Pair], scales: Sequence[Metric]) -> str:
    """JSON for a script element: no ``<`` in it, so that nothing ends the element before its end."""
    at = {rank: number for number, rank in enumerate(seen.ranks)}
    dense = len(at) > DENSE
    data = {
        "nodes": [one_line(seen.name(rank)) for rank in at],
        "states": list(STATES),
        "metrics": [
            {"key": m.key, "label": m.label, "low": m.low, "high": m.high, "up": m.more_is_better} for m in scales
        ],
        "fields": ["from", "to", "state", "values", "classes", "texts"],
        "pairs": [
            [
                at[pair.node_rank],
                at[pair.peer],
                pair.state,
                [metric.value(pair) for metric in scales],
                *map(list, zip(*[_looks(pair, metric, dense=dense) for metric in scales], strict=True)),
            ]
            for pair in pairs
            if len(at) <= MOST
        ],
    }
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
