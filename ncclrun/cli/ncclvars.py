"""`ncclrun nccl vars`: every variable of NCCL's and torch's that is known."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ncclrun.cli.running import width

PATTERN = typer.Argument(
    metavar="[PATTERN]…",
    help="A name, part of one, a glob, or words (IB timeout, log), in any case; of several words all are to fit.",
    show_default=False,
)


def vars_(
    pattern: Annotated[list[str] | None, PATTERN] = None,
    all_: Annotated[bool, typer.Option("--all", help="The undocumented ones too.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON list of objects on stdout.")] = False,
) -> None:
    """The variables: values, default, since when, and whether they must be the same on all ranks.

    One name in full shows everything about it. Exit code 1 if none is named so.
    """
    from ncclrun.console import ncclvars
    from ncclrun.console.notes import Note, render
    from ncclrun.console.output import Output
    from ncclrun.nccl.catalogue.names import KNOWN
    from ncclrun.nccl.catalogue.search import misnamed, nearest, search

    words = " ".join(pattern or ())
    found = search(words)
    # What is named in full is shown, documented or not.
    shown = found if all_ or len(found) == 1 else [known for known in found if known.documented] or found
    notes: list[Note] = []
    if not found:
        meant = misnamed(words)
        notes += ncclvars.not_found(words, meant, nearest(words))
        shown = [KNOWN[name] for name in meant.names] if meant and not json else ()
    elif rest := ncclvars.left_out(len(found) - len(shown)):
        notes.append(Note("info", rest))
    out, aside = Output(sys.stdout), Output(sys.stderr)
    if json:
        out.write(ncclvars.as_json(shown))
    elif len(shown) == 1:
        out.write(ncclvars.card(shown[0], width=width(sys.stdout) or 100))
    elif shown:
        table = ncclvars.table(shown, width=width(sys.stdout))
        out.write(table)
        if sys.stdout.isatty():
            notes += [Note("info", line) for line in (*ncclvars.legend(table), ncclvars.MORE)]
    if notes and not (json and found):
        aside.write(render(notes, colors=sys.stderr.isatty(), width=width(sys.stderr)))
    raise typer.Exit(0 if found else 1)
