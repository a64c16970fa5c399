"""`ncclrun nccl vars`: every variable of NCCL's and torch's that is known."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

PATTERN = typer.Argument(
    metavar="[PATTERN]",
    help="A name, part of one, a glob, or a word (interface, log), in any case.",
    show_default=False,
)


def vars_(
    pattern: Annotated[str | None, PATTERN] = None,
    all_: Annotated[bool, typer.Option("--all", help="The undocumented ones too.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON list of objects on stdout.")] = False,
) -> None:
    """The variables: values, default, since when, and whether they must be the same on all ranks.

    One name in full shows everything about it.
    """
    import shutil

    from ncclrun.console import ncclvars
    from ncclrun.console.notes import Note, render
    from ncclrun.console.output import Output
    from ncclrun.nccl.catalogue.search import nearest, search

    found = search(pattern)
    # What is named in full is shown, documented or not.
    shown = found if all_ or len(found) == 1 else [known for known in found if known.documented]
    out, aside = Output(sys.stdout), Output(sys.stderr)
    if json:
        out.write(ncclvars.as_json(shown or found))
    elif not found:
        notes = [Note("error", f"no variable is named {pattern}, and no meaning speaks of it")]
        if names := nearest(pattern or ""):
            notes.append(
                Note("fix", f"ncclrun nccl vars {names[0]}{' (or ' + ', '.join(names[1:]) + ')' if names[1:] else ''}")
            )
        aside.write(render(notes, colors=sys.stderr.isatty()))
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        one = len(shown) == 1
        out.write(ncclvars.card(shown[0], width=width or 100) if one else ncclvars.table(shown or found, width=width))
        rest = ncclvars.left_out(len(found) - len(shown) if shown else 0)
        hints = [rest, "" if one or not sys.stdout.isatty() else ncclvars.MORE]
        if notes := [Note("info", hint) for hint in hints if hint]:
            aside.write(render(notes, colors=sys.stderr.isatty()))
    raise typer.Exit(0 if found else 1)
