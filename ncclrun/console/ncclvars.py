"""`nccl vars`: the catalogue as a table, all about one variable, and both for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from textwrap import wrap
from typing import Any

from ncclrun.console.notes import Note, problem
from ncclrun.console.tables import GAP, table_text
from ncclrun.console.words import count
from ncclrun.nccl.catalogue.known import Known
from ncclrun.nccl.catalogue.nearest import Near
from ncclrun.nccl.values import SWITCHES
from ncclrun.nccl.version import release

HEADS = ("variable", "since", "default", "values", "same", "meaning")
SPARE = ("same", "since", "values", "default")
"""Columns that a narrow terminal can do without."""
NARROWEST = 40
"""What the meaning gets at least."""
LONGEST_VALUES = 28
LABEL = 14
MORE = "a full name shows all about it; a word (log, tcp) finds by meaning"
SAME = {"must": "must", "should": "should", "may differ": "may differ", "unique": "must not", "": ""}
"""In the table: does it have to be the same on all ranks?"""
LEGEND = {"same": "same: whether it is the same on all ranks", "default": "default auto: NCCL chooses by itself"}
"""What the words of a column mean."""
SAME_IN_FULL = {
    "must": "must be the same on all ranks",
    "should": "should be the same on all ranks (seen, or to be expected)",
    "may differ": "may differ from node to node",
    "unique": "must be another on each node",
    "": "not known",
}
READERS = {
    "nccl": "NCCL",
    "torch": "torch",
    "gloo": "Gloo",
    "tensorpipe": "TensorPipe (torch's RPC)",
    "plugin": "a plugin of NCCL's, or a vendor's NCCL",
    "tool": "other programs: NCCL does not read it",
}
SHAPES = {
    "integer": "a number",
    "interfaces": "[^][=]name[,name…]",
    "hcas": "[^][=]device[:port][,…]",
    "names": "name[,name…]",
    "functions": "[^]word[,word…]",
    "path": "a path",
    "address": "host:port",
}


WRITTEN = {
    "flag": "a word counts as 0: true, yes and on are 0",
    "integer": "a word counts as 0, and what stands behind a number is dropped: 4M is 4",
    "interfaces": "eth0 takes all that begin so, =eth0 that one alone, ^lo,docker all but those; no blanks or patterns",
    "hcas": "mlx5_1 takes mlx5_10 too, =mlx5_1 that one alone, ^mlx5_0 all but that; no blanks or patterns",
    "names": "full names alone: no ^, no =, no blanks",
    "functions": "commas between, no blanks; ^ in front for all others; from 2.24 also ring;allreduce:tree",
    "path": "~ and $HOME are not expanded in a file",
}
"""How a value of a kind is written, and what is made of one that isn't."""


def table(entries: Sequence[Known], *, width: int | None) -> str:
    """One line each; ``width`` is the terminal's in columns, None for a pipe, where nothing is folded or cut."""
    rows = [
        (known.name, since(known), default(known), _fit(values(known), width), SAME[known.same], brief(known))
        for known in entries
    ]
    kept = list(range(len(HEADS)))
    for head in SPARE:
        room = sum(max(len(HEADS[at]), *(len(row[at]) for row in rows)) + GAP for at in kept[:-1])
        if width is None or room + NARROWEST <= width:
            break
        kept.remove(HEADS.index(head))
    cells = [[row[at] for at in kept] for row in rows]
    return table_text([HEADS[at] for at in kept], cells, width=width, whole=HEADS[:1])


def _fit(text: str, width: int | None) -> str:
    return text if width is None or len(text) <= LONGEST_VALUES else text[: LONGEST_VALUES - 1] + "…"


def brief(known: Known) -> str:
    """Its meaning, with a mark where it is not for use."""
    mark = "removed: " if known.removed else "deprecated: " if known.deprecated else ""
    return mark + known.meaning


def since(known: Known) -> str:
    """``2.24``; "" where it isn't known."""
    return release(known.since) if known.since else ""


def default(known: Known) -> str:
    """Its value where nobody sets it."""
    return known.default if known.default is not None else "auto" if known.otherwise else ""


def values(known: Known) -> str:
    """What it takes."""
    if known.allowed:
        words = "|".join(known.allowed)
        return f"[^]{words}, more by {known.separator}" if known.kind == "words" else words
    if known.kind == "boolean":
        return "0|1"
    if known.low is not None:
        return f"{known.low}…{known.high}" if known.high is not None else f"{known.low}…"
    return SHAPES.get(known.kind, "")


def card(known: Known, *, width: int) -> str:
    """Everything about one."""
    lines = [known.name, *_paragraph(known.meaning, width, "  ")]
    facts = [
        ("values", values(known)),
        ("", _written(known)),
        ("default", _default_in_full(known)),
        ("since", f"NCCL {release(known.since)}" if known.since else ""),
        ("removed", f"NCCL {release(known.removed)} does not read it any more" if known.removed else ""),
        ("deprecated", known.deprecated),
        ("instead", known.instead),
        ("on all ranks", SAME_IN_FULL[known.same] if known.side != "tool" else ""),
        ("read by", READERS[known.side]),
        ("conf file", "yes" if known.conf else "no: set it in the environment"),
        ("mind", "it makes NCCL load a library into the job" if known.loads_code else ""),
        ("mind", "it makes files be written" if known.writes_files else ""),
        ("documented", "" if known.documented else "no: it may change or go with any version"),
        ("source", known.source),
    ]
    for label, text in facts:
        if text:
            lines += _paragraph(text, width, f"  {label:<{LABEL}}", " " * (LABEL + 2))
    return "\n".join(lines) + "\n"


def _written(known: Known) -> str:
    """torch reads numbers in its own way, and some switches of NCCL's know words."""
    other = known.name in SWITCHES or (known.side == "torch" and known.kind == "integer")
    return "" if other else WRITTEN.get(known.kind, "")


def _default_in_full(known: Known) -> str:
    if known.default is None:
        return known.otherwise or "not set"
    return f"{known.default} ({known.otherwise})" if known.otherwise else known.default


def _paragraph(text: str, width: int, first: str, others: str | None = None) -> list[str]:
    return wrap(
        text,
        max(width, NARROWEST),
        initial_indent=first,
        subsequent_indent=first if others is None else others,
        break_long_words=False,
        break_on_hyphens=False,
    )


def as_json(entries: Sequence[Known]) -> str:
    """A list of objects."""
    return json.dumps([_object(known) for known in entries], ensure_ascii=False, indent=2) + "\n"


def _object(known: Known) -> dict[str, Any]:
    return {
        "name": known.name,
        "meaning": known.meaning,
        "read_by": known.side,
        "kind": known.kind,
        "allowed": list(known.allowed),
        "low": known.low,
        "high": known.high,
        "default": known.default,
        "otherwise": known.otherwise,
        "since": release(known.since) if known.since else None,
        "removed": release(known.removed) if known.removed else None,
        "deprecated": known.deprecated,
        "instead": known.instead,
        "same_on_all_ranks": known.same or None,
        "documented": known.documented,
        "conf_file": known.conf,
        "loads_code": known.loads_code,
        "writes_files": known.writes_files,
        "source": known.source,
    }


def legend(shown: str) -> list[str]:
    """What the words in a table stand for, of the columns that it has."""
    heads = shown.partition("\n")[0]
    return (
        ["; ".join(text for head, text in LEGEND.items() if head in heads)] if any(h in heads for h in LEGEND) else []
    )


def not_found(words: str, meant: Near | None, names: Sequence[str]) -> list[Note]:
    """For a pattern that nothing fits; of what is ``meant``, if anything is, all is shown above."""
    missing = f"no variable is named {words}" if len(words.split()) == 1 else f"no variable fits all of: {words}"
    if meant:
        other = " or ".join(meant.names)
        opposite = ", which says the opposite" if meant.inverted else ""
        return [Note("error", f"{missing}; the name is {other}{opposite}")]
    fix = f"ncclrun nccl vars {names[0]}" if names else "ncclrun nccl vars"
    others = f" (or {', '.join(names[1:])})" if names[1:] else ""
    return problem("error", f"{missing}, and no meaning speaks of it", fix + others)


def left_out(hidden: int) -> str:
    """What a listing without ``--all`` says of the rest; "" where there is none."""
    return f"and {count(hidden, 'undocumented one')}: --all shows them too" if hidden else ""
