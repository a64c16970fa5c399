"""The page of `--html`: matrix, nodes, candidates in one file that needs no network, and no JavaScript to be read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

from ncclrun.commands.outfile import OutFile
from ncclrun.console.doctor import HEADS, grouped, rows
from ncclrun.console.findings import Finding, fold, same_on
from ncclrun.console.heatmap import DENSE, MOST, heatmap, looks
from ncclrun.console.leftout import left_out_text, split
from ncclrun.console.markup import block_of, table_of, text_of
from ncclrun.console.matrix import SYMBOLS
from ncclrun.console.metrics import Metric, metrics
from ncclrun.console.pairs import BROKEN, STATES, TROUBLED, Pair, Seen, worst_first
from ncclrun.console.report import lasted
from ncclrun.console.resolved import conclusion_lines, probed_words
from ncclrun.console.sanitize import one_line
from ncclrun.console.words import count, moment, speed
from ncclrun.model.doctorevents import DoctorFinding, Examined
from ncclrun.model.endevents import Ended
from ncclrun.model.events import Connected, Event, Failure, Refused, Unreachable, Warn
from ncclrun.model.netevents import Judged, Pinged

PAGE = OutFile("--html", b'<meta name="generator" content="ncclrun">', mode=0o666)
WORST = 40
"""Pairs in the table of the worst."""
OPEN = 64
"""Candidates that are shown without being asked for."""

_VERDICTS = ("chosen", "usable", "rejected")


class _Page(Template):
    """Fields are ``%%{name}``: the usual dollar is JavaScript's."""

    delimiter = "%%"


def write_page(path: Path, title: str, events: Sequence[Event]) -> None:
    """Writes the page. Raises UsageError when the file can't be written."""
    PAGE.write(path, render_page(title, events).encode("utf-8", "replace"))


def render_page(title: str, events: Sequence[Event]) -> str:
    """All that the events say of the network as HTML; nothing of them is markup or code there."""
    seen = Seen(events)
    pairs = seen.pairs()
    others = [pair for pair in pairs.values() if pair.state != "self"]
    scales = metrics(others)
    examined = _examined(events)
    template = files("ncclrun.console").joinpath("page.html").read_text(encoding="utf-8")
    return _Page(template).substitute(
        title=text_of(title),
        verdict=_verdict(events),
        messages=_messages(events),
        summary=_summary(seen, others),
        untried=" hidden" if examined else "",  # doctor connects no node with another
        matrix=heatmap(seen, pairs, scales),
        worst=_worst(seen, others),
        nodes=examined or _nodes(seen, events),
        candidates=_candidates(seen),
        data=_data(seen, others, scales),
    )


# --- what happened


def _verdict(events: Iterable[Event]) -> str:
    for event in events:
        if isinstance(event, Ended):
            kind = "good" if event.exit_code == 0 else "bad"
            return f'<p class="verdict {kind}">{text_of(event.reason)} <span>{lasted(event)}</span></p>'
    return ""


def _messages(events: Iterable[Event]) -> str:
    """Errors and warnings, each with what mends it."""
    said: list[Finding] = []
    told = ""
    for event in events:
        if isinstance(event, Failure):
            told = event.fix
            said.append(Finding("error", None, event.message, event.fix))
        elif isinstance(event, Warn):
            said.append(Finding("warning", event.node, event.told, event.fix))
        elif isinstance(event, Unreachable):
            said.append(Finding("error", event.node, event.message, event.fix))
        elif isinstance(event, Refused):
            said.append(Finding("error", event.node, event.told, event.fix))
        elif isinstance(event, Pinged):
            for found in event.problems:
                fix = found.fix if found.fix != told else ""
                said.append(Finding(found.level, event.node, found.message, fix, hostname=event.hostname))
    blocks = [
        f'<li class="{one.level}"><b>{one.level}</b> <pre>{block_of(one.told)}</pre>'
        + (f'<p class="fix"><b>fix</b> <code>{block_of(one.fix)}</code></p>' if one.fix else "")
        + (f"<p>{text_of(same_on((one, others)))}</p>" if others else "")
        + "</li>"
        for one, others in fold(said)
    ]
    blocks += _findings([event for event in events if isinstance(event, DoctorFinding)])
    return f'<ul class="messages">{"".join(blocks)}</ul>' if blocks else ""


def _findings(found: Sequence[DoctorFinding]) -> list[str]:
    """What `doctor` found: of each kind its title and cause once, the worst first."""
    blocks = []
    for kind, folded in reversed(grouped(found)):
        parts = [f"<b>{kind.level}</b> <b>{text_of(kind.title)}</b> [{text_of(kind.id)}]"]
        for one, others in folded:
            parts.append(f"<div><pre>{block_of(one.told)}</pre></div>")
            if one.fix:
                parts.append(f'<p class="fix"><b>fix</b> <code>{block_of(one.fix)}</code></p>')
            if others:
                parts.append(f"<p>{text_of(same_on((one, others)))}</p>")
        parts += [f"<p>{text_of(kind.cause)}</p>"] if kind.cause else []
        blocks.append(f'<li class="{kind.level}">{"".join(parts)}</li>')
    return blocks


def _summary(seen: Seen, pairs: Sequence[Pair]) -> str:
    tried = [pair for pair in pairs if pair.state != "untried"]
    bad = [pair for pair in tried if pair.state in TROUBLED]
    said = [("pairs", f"{len(tried) - len(bad)} of {len(tried)} are well")] if tried else []
    for probed in seen.probed:
        said.append(("probed", f"{probed.scheme}: {probed_words(probed)}"))
    said += conclusion_lines(seen)
    items = "".join(f"<dt>{text_of(name)}</dt><dd>{text_of(words)}</dd>" for name, words in said)
    return f"<dl>{items}</dl>" if items else ""


# --- tables


def _worst(seen: Seen, pairs: Sequence[Pair]) -> str:
    """The troubled and the slow pairs."""
    shown = [pair for pair in worst_first(pairs) if pair.state != "untried"][:WORST]
    rows = [
        [
            seen.name(pair.node_rank),
            seen.name(pair.peer),
            SYMBOLS[pair.state][0] if pair.state != "ok" else "",
            pair.words if pair.state != "ok" else "",  # what there is to say of a sound pair has columns of its own
            (pair.link.source or pair.link.local) if pair.link is not None else "",
            ", ".join(pair.addresses),
            moment(pair.seconds) if pair.seconds is not None else "",
            str(pair.path.mtu) if pair.path is not None and pair.path.mtu else "",
            speed(pair.gbits) if pair.gbits is not None else "",
        ]
        for pair in shown
    ]
    heads = ("from", "to", "", "what", "source", "address", "connect", "MTU", "Gbit/s")
    kinds = ["bad" if pair.state in BROKEN else "" for pair in shown]
    return f"<h2>Worst pairs first</h2>{table_of(heads, rows, kinds)}" if rows else ""


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
    return table_of(heads, rows) if rows else ""


def _examined(events: Iterable[Event]) -> str:
    found = [event for event in events if isinstance(event, Examined)]
    kinds = ["bad" if one.worst == "error" else "" for one in found]
    return table_of(HEADS, rows(found), kinds) if found else ""


def _candidates(seen: Seen) -> str:
    """Those that nobody looks for behind a click, and all of them where they are many."""
    if not seen.candidates:
        return ""
    rows, folded = split(sorted(seen.candidates, key=lambda row: (row.node_rank, _VERDICTS.index(row.verdict))))
    opened = " open" if len(rows) <= OPEN else ""
    text = f"<details{opened}><summary><h2>{count(len(rows), 'candidate')}</h2></summary>{_judged(rows)}</details>"
    if not folded:
        return text
    left_out = left_out_text(folded, len({row.node_rank for row in seen.candidates}), rows)
    return f"{text}<details><summary>{text_of(left_out)}</summary>{_judged(folded)}</details>"


def _judged(rows: Sequence[Judged]) -> str:
    cells = [[row.node, row.interface, f"{row.address}/{row.prefix}", row.verdict, row.reason] for row in rows]
    return table_of(("node", "interface", "address", "verdict", "reason"), cells, [row.verdict for row in rows])


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
                *map(list, zip(*[looks(pair, metric, dense=dense) for metric in scales], strict=True)),
            ]
            for pair in pairs
            if len(at) <= MOST
        ],
    }
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
