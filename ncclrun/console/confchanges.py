"""The look of `nccl diff`, `push` and `restore`: what would change in the nodes' conf files, and what was done."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ncclrun.console.notes import Note
from ncclrun.console.sanitize import RESET, one_line
from ncclrun.console.settings import at, value_text
from ncclrun.console.words import on_nodes
from ncclrun.model.effective import Effective
from ncclrun.model.settingevents import ConfCompared, ConfDiff, ConfPushed, ConfRestored, ConfRolledBack

Change = ConfPushed | ConfRestored | ConfRolledBack
NO_FILE = "/dev/null"
_COLORS = {"+": "\x1b[32m", "-": "\x1b[31m", "@": "\x1b[36m"}


def diffs_text(diffs: Sequence[ConfDiff], width: int | None) -> str:
    """Each change with the nodes that get it, as lines; nodes without one are left to the note below.

    ``width`` None is a pipe: no colours. Lines are not folded, since they are those of a file.
    """
    groups: dict[Hashable, list[ConfDiff]] = {}
    for diff in diffs:
        if diff.diff:
            groups.setdefault((diff.path, diff.diff, diff.hides), []).append(diff)
    texts = []
    for alike in groups.values():
        before, after, *changes = alike[0].diff
        what = " (new)" if before == f"--- {NO_FILE}" else " (goes)" if after == f"+++ {NO_FILE}" else ""
        where = f"{alike[0].path}{what} {on_nodes([diff.node for diff in alike], len(diffs))}"
        lines = [_bold(one_line(where), width), *(_colored(line, width) for line in changes)]
        texts.append("".join(f"{line}\n" for line in (*lines, *map(_hides, alike[0].hides))))
    return "\n".join(texts)


def _bold(text: str, width: int | None) -> str:
    return text if width is None else f"\x1b[1m{text}{RESET}"


def _colored(line: str, width: int | None) -> str:
    shown = one_line(line)
    if width is None or line[:1] not in _COLORS:
        return shown
    return f"{_COLORS[line[:1]]}{shown}{RESET}"


def _hides(setting: Effective) -> str:
    """``  NCCL_DEBUG=WARN then hides INFO from /etc/nccl.conf:3``."""
    hidden = ", ".join(f"{value_text(one.value)} from {at(one.source, one.line)}" for one in setting.hides)
    return one_line(f"  {setting.name}={value_text(setting.value)} then hides {hidden}")


def compared_note(event: ConfCompared) -> Note:
    """How many nodes are to be changed."""
    total = len(event.changed) + len(event.unchanged)
    if not event.changed:
        return Note("good", f"nothing to change {on_nodes(event.unchanged, total)}")
    rest = f"; nothing to change {on_nodes(event.unchanged, total)}" if event.unchanged else ""
    return Note("info", f"this changes the file {on_nodes(event.changed, total)}{rest}")


def changes_notes(changes: Sequence[Change]) -> list[Note]:
    """What was done, once for nodes with the same."""
    groups: dict[str, list[str]] = {}
    for change in changes:
        groups.setdefault(_done(change), []).append(change.node)
    total = len({change.node for change in changes})
    good = not any(isinstance(change, ConfRolledBack) for change in changes)
    notes = [Note("good" if good else "info", done.replace("\0", on_nodes(on, total))) for done, on in groups.items()]
    undo = dict.fromkeys(change.undo for change in changes if isinstance(change, ConfPushed) and change.undo)
    return [*notes, *(Note("fix", f"to undo it:  {command}") for command in undo)]


def _done(change: Change) -> str:
    """With NUL for the nodes."""
    if isinstance(change, ConfRolledBack):
        return f"{change.path} \0 is as it was before: nothing was changed there"
    if not change.changed:
        return f"{change.path} \0 is as it should be already, and is left so"
    if isinstance(change, ConfRestored):
        return f"{change.path} \0 {_restored(change)}{_aside(change)}"
    backup = f" (what it was before: {change.backup})" if change.backup else ""
    return f"{change.path} \0 holds the settings{backup}{_aside(change)}"


def _aside(change: ConfPushed | ConfRestored) -> str:
    return f"; with the edits in our block it is kept as {change.aside}" if change.aside else ""


def _restored(change: ConfRestored) -> str:
    if change.removed:
        return f"is gone, as {'there is nothing else in it' if change.edits_kept else 'there was none before'}"
    if change.edits_kept:
        return "is without our lines; what was edited since stays"
    return "is what it was before the first push, to the byte"
