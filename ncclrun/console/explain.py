"""A diagnosis as people read it: the cause, its evidence, the step that mends it; below that what else was seen."""

from __future__ import annotations

import re

from ncclrun.console.notes import Level, Note, render
from ncclrun.console.sanitize import one_line
from ncclrun.console.words import count, size
from ncclrun.model.explainevents import Bundled, Explained, FindingPage, FoundFault
from ncclrun.model.words import listed

_HEADS: dict[str, tuple[Level, str]] = {
    "cause": ("error", ""),
    "component": ("error", "failed: "),
    "consequence": ("warning", "a consequence: "),
}
_LINK = re.compile(r"\[([^\]]+)\]\(([a-z0-9_-]+)\.md\)")


def explanation(event: Explained, *, width: int | None) -> str:
    """The whole of it as lines; ``width`` of the terminal in columns, None for a pipe (no colours then)."""
    notes = _without_fault(event) if event.found is None else _main(event, event.found)
    notes += [Note("more", f"it may also be: {_in_short(fault)}") for fault in event.others]
    if event.consequences:
        notes.append(Note("more", "what followed from it, or shows beside it:"))
        notes += [Note("more", f"- {_in_short(fault)}") for fault in event.consequences]
    for fault in event.remarks:
        notes += [Note("info", f"worth knowing: {fault.title}. {fault.cause}"), *_fix(fault)]
    if event.more:
        notes.append(Note("info", "a next run says more with"))
        notes += [Note("more", line) for line in event.more]
    notes.append(Note("info", f"looked at {_looked(event)}"))
    return render(notes, colors=width is not None, width=width)


def page_text(event: FindingPage) -> str:
    """The page, with the ids of others in place of links."""
    return _LINK.sub(r"\1 (ncclrun explain \2)", event.text)


def bundle_note(event: Bundled) -> Note:
    """Where the file for a bug report is, and what is not in it."""
    hidden = "secrets, addresses, hosts and users" if event.masked else "secrets (--mask-addresses hides more)"
    return Note("good", f"wrote {event.path}: {count(event.logs, 'log')}, {size(event.size)}, without {hidden}")


def _without_fault(event: Explained) -> list[Note]:
    if event.verdict not in ("failed", "stopped"):
        return [Note("good" if event.verdict == "healthy" else "warning", event.confidence)]
    notes = [Note("error" if event.verdict == "failed" else "info", event.recorded)]
    notes += [Note("more", event.hint)] if event.hint else []
    return [*notes, Note("more", f"how sure: {event.confidence}")]


def _main(event: Explained, fault: FoundFault) -> list[Note]:
    level, head = _HEADS[event.verdict]
    notes = [Note(level, f"{head}{fault.title}{_whose(fault)}"), Note("more", fault.cause), *_fix(fault)]
    for line in fault.evidence:
        notes.append(Note("more", f"{one_line(line.file)}:{line.line}{_who(line.host, line.rank)}\n| {line.text}"))
    if fault.lines > len(fault.evidence):
        notes.append(Note("more", f"and {count(fault.lines - len(fault.evidence), 'line')} like it"))
    if event.recorded:
        notes.append(Note("more", f"the run's record: {event.recorded}"))
    notes.append(Note("more", f"how sure: {event.confidence}"))
    if fault.check:
        notes.append(Note("more", f"before a start: {fault.check}"))
    notes.append(Note("more", f"more about it: ncclrun explain {fault.id}"))
    return notes


def _fix(fault: FoundFault) -> list[Note]:
    return [Note("fix", fault.fix)] if fault.fix else []


def _in_short(fault: FoundFault) -> str:
    """``A peer went away (closed-remote): 14 lines (ranks 0-6) on gpu1, the first is rank0.err:12``."""
    first = fault.evidence[0]
    where = f"{count(fault.lines, 'line')}{_whose(fault)}, the first is {one_line(first.file)}:{first.line}"
    return f"{fault.title} ({fault.id}): {where}"


def _whose(fault: FoundFault) -> str:
    return (f" ({_ranks(fault.ranks)})" if fault.ranks else "") + (f" on {listed(fault.hosts)}" if fault.hosts else "")


def _ranks(ranks: str) -> str:
    return f"{'ranks' if set('-,') & set(ranks) else 'rank'} {ranks}"


def _who(host: str, rank: int | None) -> str:
    who = " on ".join(part for part in ("" if rank is None else f"rank {rank}", host) if part)
    return f"  ({who})" if who else ""


def _looked(event: Explained) -> str:
    parts = [count(event.files, "log"), count(event.lines, "line")]
    if event.hosts:
        parts.append(f"of {listed(event.hosts)}")
    if event.ranks:
        parts.append(_ranks(event.ranks))
    return ", ".join(parts)
