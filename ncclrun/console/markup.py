"""Text made into markup, so that nothing of it is markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from ncclrun.console.sanitize import one_line, sanitize


def text_of(text: str) -> str:
    """One line of text, also fit for an attribute."""
    return escape(one_line(text))


def block_of(text: str) -> str:
    """Text with its line ends."""
    return escape(sanitize(text, colors=False))


def lines_of(lines: Iterable[str]) -> str:
    """Those that say something, as an attribute's lines."""
    return "&#10;".join(text_of(line) for line in lines if line)


def table_of(heads: Sequence[str], rows: Iterable[Sequence[str]], classes: Iterable[str] = ()) -> str:
    """Cells are text; columns in which all are empty are left out, and one without a head says how a row fares."""
    kept = [list(row) for row in rows]
    shown = [at for at in range(len(heads)) if any(row[at] for row in kept)]
    kinds = list(classes) or [""] * len(kept)
    head = "".join(f'<th scope="col">{text_of(heads[at])}</th>' for at in shown)
    opening = {at: "<td>" if heads[at] else '<td class="state">' for at in shown}
    body = "".join(
        (f'<tr class="{kind}">' if kind else "<tr>")
        + "".join(f"{opening[at]}{text_of(row[at])}</td>" for at in shown)
        + "</tr>"
        for row, kind in zip(kept, kinds, strict=True)
    )
    return f'<div class="scroll"><table class="list"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
