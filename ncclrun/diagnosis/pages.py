"""The page of each fault that `explain` and `doctor` know: symptom, cause, cure, and what leads from one to another."""

from __future__ import annotations

from ncclrun.diagnosis.checks.kind import Kind
from ncclrun.diagnosis.checks.registry import KINDS
from ncclrun.diagnosis.explain.catalogue import ALL, BY_ID
from ncclrun.diagnosis.explain.signature import Signature, Weight
from ncclrun.diagnosis.explain.steps import filled, mended

IDS = tuple(dict.fromkeys([*BY_ID, *KINDS]))
"""Of all faults: those that show in logs first."""
_WEIGHTS = {
    Weight.HARMLESS: "It looks like a fault and is none: `explain` never takes it for a cause.",
    Weight.REMARK: "No run fails of it alone: `explain` tells it beside the diagnosis.",
    Weight.CONSEQUENCE: "It is a consequence: something else failed first, mostly in another rank's log.",
    Weight.COMPONENT: "It says what failed, and not yet why: `explain` looks for a cause in all logs first.",
    Weight.CAUSE: "",
}


def page(name: str) -> str:
    """Of the fault with that id, as Markdown; other pages are linked as files beside it. Raises KeyError."""
    signature, kind = BY_ID.get(name), KINDS.get(name)
    if signature is None and kind is None:
        raise KeyError(name)
    return _page(signature, kind)


def _page(signature: Signature | None, kind: Kind | None) -> str:
    title = signature.title if signature else sentence(kind.title) if kind else ""
    parts = [f"# {title}"]
    if signature is not None:
        parts += _in_logs(signature)
    if kind is not None:
        parts += ["## Symptom", kind.symptom] if signature is None else ["## On a host", kind.symptom]
        parts += ["### Cause", kind.cause, "### Cure", kind.cure] if signature else ["## Cause", kind.cause]
        parts += [] if signature else ["## Cure", kind.cure]
        parts.append(_told_by(kind))
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _in_logs(signature: Signature) -> list[str]:
    parts = [f"`{signature.id}`", "## Symptom", f"```\n{signature.sample}\n```", _WEIGHTS[signature.weight]]
    if not signature.words:
        parts.append("No single line tells it: several lines or hosts do together." if "\n" in signature.sample else "")
    if signature.circumstance:
        parts.append("Such a line is an ordinary one: it counts only where processes did not reach each other.")
    known = _known(signature)
    parts += ["## Cause", filled(signature.cause, known)]
    if signature.cure:
        parts += ["## Cure", f"```\n{mended(signature.cure, known)}\n```"]
    if signature.check or signature.doctor:
        found = ", ".join(f"[{name}]({name}.md)" for name in signature.doctor if name != signature.id)
        said = f"`ncclrun doctor` finds it{f': {found}' if found else ''}" if signature.doctor else ""
        parts += ["## Before a start", ". ".join(sentence(text) for text in (signature.check, said) if text) + "."]
    return parts


def _told_by(kind: Kind) -> str:
    """Who says so on a host, and how it shows in logs when nobody looked."""
    tellers = [f"`ncclrun {name}`" for name, tells in (("doctor", kind.doctor), ("launch", kind.launch)) if tells]
    verb = "tell" if len(tellers) > 1 else "tells"
    told = f"{' and '.join(tellers)} {verb} it before a start, with the command for the host."
    shows = [f"[{one.title}]({one.id}.md)" for one in ALL if kind.id in one.doctor and one.id != kind.id]
    return f"{told}\n\nIn logs it shows as: {'; '.join(shows)}." if shows else told


def _known(signature: Signature) -> dict[str, str]:
    """What the sample tells."""
    found = (signature.match(line) for line in signature.sample.split("\n") if any(w in line for w in signature.words))
    return next(filter(None, found), {})


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
