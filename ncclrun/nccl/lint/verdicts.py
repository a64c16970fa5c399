"""What lint asks of the catalogue: how bad a slip is for this variable, and the setting as it should be."""

from __future__ import annotations

from ncclrun.model.settings import Level, Setting, SettingFinding
from ncclrun.nccl.catalogue import names
from ncclrun.nccl.check import findings as check
from ncclrun.nccl.lint.slips import Slip
from ncclrun.nccl.values import number
from ncclrun.nccl.version import Version

NAME_FINDINGS = ("unknown_name", "too_late", "too_new", "removed", "deprecated")
"""Findings that hold whatever the value is."""
MOST_STEPS = 4
"""A name put right may show that the value is wrong."""


def weight(name: str, taken: str, meant: str, slip: Slip) -> Level:
    """Of a slip that changed the value: a number often survives it; what a plugin makes of it nobody here knows."""
    known = names.find(name)
    if known is None or known.family:
        return "warning"
    if known.kind in ("integer", "flag") and slip != "expansion":
        read, right = number(taken), number(meant)
        return "info" if read.digits and right.digits and read.value == right.value is not None else "error"
    return "error"


def findings(setting: Setting, version: Version | None, *, conf: bool, certain: bool) -> list[SettingFinding]:
    """What the catalogue says of it; of a value that is not ``certain`` nothing."""
    found = check.setting_findings(setting, version, conf=conf)
    return [finding for finding in found if certain or finding.id in NAME_FINDINGS]


def righted(setting: Setting, version: Version | None, *, conf: bool) -> tuple[str, str]:
    """Name and value as they should be, the same where nothing is wrong or nobody knows."""
    name, value = setting.name, setting.value
    for _ in range(MOST_STEPS):
        found = check.setting_findings(Setting(name, value), version, conf=conf)
        fixed, equals, changed = next((finding.fix for finding in found if finding.fix), "").partition("=")
        if not equals or "\n" in changed or (fixed, changed) == (name, value):
            break
        name, value = fixed, changed
    return name, value
