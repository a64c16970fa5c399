"""Tables, drawn by rich as text: nothing of a cell is markup, and a pipe gets them unfolded and without colours."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ncclrun.console.sanitize import one_line

UNFOLDED = 10_000
"""A width that no table needs."""
GAP = 2


def table_text(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int | None = None,
    styles: Sequence[str] = (),
    spare: Sequence[str] = (),
    whole: Sequence[str] = (),
) -> str:
    """The table as lines, each with its line feed.

    ``width`` is the terminal's in columns; None is a pipe: no folding, no colours. ``styles`` are rich's, one a row.
    Columns in which all cells are empty are left out, and on a narrow terminal the ``spare`` ones too, the first first.
    Others are folded there, the ``whole`` ones last of all.
    """
    shown = [at for at in range(len(heads)) if any(row[at] for row in rows)]
    widths = {at: max(cell_len(one_line(text)) for text in (heads[at], *(row[at] for row in rows))) for at in shown}
    for head in spare:
        if width is not None and sum(widths[at] + GAP for at in shown) > width:
            shown = [at for at in shown if heads[at] != head]
    table = Table(box=None, padding=(0, GAP, 0, 0), header_style="bold", pad_edge=False)
    for at in shown:
        table.add_column(heads[at], overflow="fold", no_wrap=heads[at] in whole)
    for row, style in zip(rows, styles or [""] * len(rows), strict=True):
        table.add_row(*(Text(one_line(row[at])) for at in shown), style=style)
    target = io.StringIO()
    console = Console(
        file=target,
        width=width or UNFOLDED,
        force_terminal=width is not None,
        color_system="standard" if width else None,
        legacy_windows=False,
    )
    console.print(table)
    return "".join(line.rstrip() + "\n" for line in target.getvalue().splitlines())
