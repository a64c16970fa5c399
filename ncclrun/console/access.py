"""`trust` and `keys` at a terminal: what was found as a table, one question, and what was done."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable, Iterable, Sequence

from ncclrun.commands.keys import Installed
from ncclrun.commands.trust import Accepted, NotSeen, Shown
from ncclrun.console.notes import Note, problem, render
from ncclrun.console.output import Output
from ncclrun.console.question import confirm
from ncclrun.console.tables import table_text
from ncclrun.console.words import about, count
from ncclrun.model.errors import EXIT_UNREACHABLE, UsageError

Scan = Callable[[], Iterable[Shown | NotSeen]]
Accept = Callable[[Sequence[Shown]], Accepted]

STATUS = {"known": "known", "unknown": "new", "changed": "CHANGED", "revoked": "REVOKED"}


def ask_password() -> str:
    """Asks once, without echo, on the terminal; raises UsageError where there is none."""
    if not sys.stdin.isatty():
        raise UsageError("--ask-pass asks, and there is no terminal", fix="set NCCLRUN_SSH_PASSWORD instead")
    return getpass.getpass("SSH password (for all hosts): ")


def trust(scan: Scan, accept: Accept, out: Output, *, yes: bool, colors: bool) -> int:
    """Shows the hosts' keys, asks, writes the new ones; scans again as long as that opens gateways. The exit code."""
    while True:
        answers = list(scan())
        shown = [answer for answer in answers if isinstance(answer, Shown)]
        rows = [(s.host, s.key.kind, s.key.fingerprint, STATUS[s.verdict.status]) for s in shown]
        if rows:
            out.write(table_text(("host", "key", "fingerprint", "known_hosts"), rows))
        new = [s for s in shown if s.verdict.status == "unknown"]
        if new and not yes:
            question = f"Write {count(len(new), 'new key')} to known_hosts? Compare the fingerprints first."
            confirm(question, out, nothing="nothing was written", first="compare the fingerprints")
        accepted = accept(shown)
        behind = [a for a in answers if isinstance(a, NotSeen) and getattr(a.error, "reason", "") == "gateway"]
        if not (accepted.written and behind):
            return _told(answers, accepted, out, colors)


def _told(answers: Sequence[Shown | NotSeen], accepted: Accepted, out: Output, colors: bool) -> int:
    notes: list[Note] = []
    for error in accepted.refused:
        notes += problem("error", error.message, error.fix)
    unseen = [answer for answer in answers if isinstance(answer, NotSeen)]
    for answer in unseen:
        notes += problem("error", answer.error.message, answer.error.fix)
    if accepted.written:
        notes.append(Note("good", f"{count(len(accepted.written), 'key')} written"))
    elif not notes:
        notes.append(Note("good", "all keys are known already"))
    out.write(render(notes, colors=colors))
    return EXIT_UNREACHABLE if accepted.refused or unseen else 0


def keys(answers: Iterable[Installed], out: Output, *, colors: bool) -> int:
    """Tells each host's outcome as it comes; exit code 255 when one could not be done."""
    code = 0
    for answer in answers:
        if answer.error is not None:
            code = EXIT_UNREACHABLE
            notes = problem("error", about(answer.node.name, answer.error.message), answer.error.fix)
        else:
            done = "key installed" if answer.added else "key was there already"
            notes = [Note("good", f"{answer.node.name}: {done}")]
        out.write(render(notes, colors=colors))
    return code
