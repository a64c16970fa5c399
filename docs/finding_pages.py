"""Writes docs/findings/, a page for each fault that `explain` and `doctor` know: `python docs/finding_pages.py`."""

from __future__ import annotations

from pathlib import Path

from ncclrun.diagnosis.checks import registry
from ncclrun.diagnosis.explain.catalogue import AREAS
from ncclrun.diagnosis.pages import IDS, page, sentence

TARGET = Path(__file__).with_name("findings")
NOTE = "<!-- Written by docs/finding_pages.py from the data in ncclrun/diagnosis; change that and run it again. -->"
INDEX = f"""\
{NOTE}

# Findings

What breaks distributed jobs, a page each: how it shows, why it happens, what mends it. `ncclrun explain` finds them in
logs ([explain.md](../explain.md)), `ncclrun doctor` on the hosts before a start; both name the page, which
`ncclrun explain ID` prints, too.
"""


def pages() -> dict[str, str]:
    """All files of docs/findings/, by name."""
    return {"README.md": _index(), **{f"{name}.md": f"{NOTE}\n\n{page(name)}" for name in IDS}}


def _index() -> str:
    parts = [INDEX]
    for area, group in AREAS.items():
        rows = [f"- [{one.title}]({one.id}.md)" for one in group]
        parts.append("\n".join([f"## In logs: {area}", "", *rows, ""]))
    for area, kinds in registry.AREAS.items():
        rows = [f"- [{sentence(kind.title)}]({kind.id}.md)" for kind in kinds]
        parts.append("\n".join([f"## On hosts, before a start: {area}", "", *rows, ""]))
    return "\n".join(parts)


def write() -> None:
    """Writes all pages, and removes those of faults that are known no more."""
    TARGET.mkdir(exist_ok=True)
    made = pages()
    for file in TARGET.glob("*.md"):
        if file.name not in made:
            file.unlink()
    for name, text in made.items():
        (TARGET / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
