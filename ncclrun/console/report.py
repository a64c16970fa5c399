"""The end of a run as people read it: a row a node, and on failure one paragraph that says where to look."""

from __future__ import annotations

from ncclrun.console.notes import Level, Note, problem, render
from ncclrun.console.tables import table_text
from ncclrun.console.words import duration, place
from ncclrun.model.endevents import Cause, Ended, NodeSummary, Retrying

HEADS = ("node", "host", "ranks", "state", "exit", "time", "left running", "")
SPARE = ("host", "time", "ranks")
VICTIMS = 8
_STYLES = {"failed": "red", "unknown": "yellow", "lost": "yellow", "running": "yellow"}


def report(event: Ended, *, width: int | None) -> str:
    """Table, cause and verdict as lines; ``width`` of the terminal in columns, None for a pipe (no colours then)."""
    colors = width is not None
    text = ""
    if event.nodes:
        rows = [_row(node) for node in event.nodes]
        styles = [_style(node) for node in event.nodes]
        text = "\n" + table_text(HEADS, rows, width=width, styles=styles, spare=SPARE) + "\n"
    if event.cause is not None:
        text += render(_cause(event, event.cause), colors=colors, width=width)
    else:
        text += render(_finding(event, "warning"), colors=colors, width=width)
    return text + render(_verdict(event), colors=colors, width=width)


def lasted(event: Ended) -> str:
    """How long it took, to stand behind the reason: a run ends after that, a look at hosts takes so long."""
    if not round(event.seconds, 2):
        return ""
    return f" after {duration(event.seconds)}" if event.run_id else f" ({duration(event.seconds)})"


def retry_report(event: Retrying, *, width: int | None) -> str:
    """The end of an attempt, as of a run, and what the next one does about it."""
    number = f"attempt {event.attempt} of {event.most}"
    note = Note("warning", f"{number}: {event.reason}; begins in {duration(event.seconds)} as run {event.run_id}")
    return report(event.ended, width=width) + render([note], colors=width is not None, width=width)


def _row(node: NodeSummary) -> list[str]:
    left = "nothing" if node.confirmed else "UNCONFIRMED"
    time = "" if node.seconds is None else duration(node.seconds)
    return [node.node, node.host, node.ranks, node.state, node.exit, time, left, node.detail]


def _style(node: NodeSummary) -> str:
    return _STYLES.get(node.state, "" if node.confirmed else "yellow")


def _cause(event: Ended, cause: Cause) -> list[Note]:
    """Who broke first and how, its last words, what followed from it, and where the rest can be read."""
    where = place(cause.node, cause.host)
    who = f"rank {cause.rank} on {where}" if cause.rank is not None else where
    notes = [Note("error", f"{who} failed first: {cause.how}")]
    if cause.exception:
        notes.append(Note("more", cause.exception))
    if tail := _folded(cause):
        notes.append(Note("more", "\n".join(f"| {line}" for line in tail)))
    if cause.hint and event.finding is None:  # a known fault says more than what such an end mostly means
        notes.append(Note("more", cause.hint))
    notes += _finding(event, "more")
    if event.victims:
        shown = list(event.victims[:VICTIMS])
        if len(event.victims) > VICTIMS:
            shown.append(f"and {len(event.victims) - VICTIMS} more")
        notes.append(Note("more", "as a consequence: " + "; ".join(shown)))
    which = f"--rank {cause.rank}" if cause.rank is not None else f"--node {cause.node_rank}"
    notes.append(Note("more", f"its log:  ncclrun logs {event.run_id} {which}"))
    if event.directory:
        notes.append(Note("more", f"all logs: {event.directory}"))
    return notes


def _finding(event: Ended, level: Level) -> list[Note]:
    """What the logs show of a known fault, and where the rest of that can be read."""
    if event.finding is None:
        return []
    said = Note(level, f"its logs show: {event.finding.title} [{event.finding.id}]")
    mend = [Note("fix", event.finding.fix)] if event.finding.fix else []
    return [said, *mend, Note("more", f"the evidence:  ncclrun explain {event.run_id}")]


def _folded(cause: Cause) -> list[str]:
    """The last lines, without the exception that stands above them already."""
    tail = list(cause.tail)
    if tail and tail[-1] == cause.exception:
        tail.pop()
    return tail


def _verdict(event: Ended) -> list[Note]:
    unconfirmed = [node.node for node in event.nodes if not node.confirmed]
    notes = []
    if unconfirmed:
        text = f"not confirmed that nothing of the run lives on {', '.join(unconfirmed)}"
        notes += problem("warning", text, f"ncclrun stop {event.run_id}   (once the host answers)")
    if event.reason == "detached":
        notes.append(Note("info", f"run {event.run_id} goes on on its nodes"))
        notes.append(Note("more", f"to follow it:  ncclrun attach {event.run_id}"))
        notes.append(Note("more", f"to end it:     ncclrun stop {event.run_id}"))
    level: Level = "good" if event.exit_code == 0 else "info"
    if event.nodes and event.cause is None and event.exit_code:
        notes.append(Note("info", f"its output:  ncclrun logs {event.run_id}"))
        notes.append(Note("more", f"all logs: {event.directory}"))
    return [*notes, Note(level, f"{event.reason}{lasted(event)}, exit code {event.exit_code}")]
