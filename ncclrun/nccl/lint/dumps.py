"""What is wrong with settings in an environment, in a dump of one, or in the scripts and YAML that set them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from ncclrun.model.settings import Level, Setting, SettingFinding
from ncclrun.nccl.check.findings import together_findings
from ncclrun.nccl.dump.found import ConfLines, Found, rewritten
from ncclrun.nccl.dump.reader import read
from ncclrun.nccl.lint import slipwords, verdicts
from ncclrun.nccl.lint.conffile import lint_conf
from ncclrun.nccl.lint.scripts import ScriptRun, in_a_script
from ncclrun.nccl.lint.slips import value_slips
from ncclrun.nccl.patterns import FAMILY
from ncclrun.nccl.version import Version


def lint_dump(
    text: str, version: Version | None, file: str, run: ScriptRun | None = None
) -> tuple[SettingFinding, ...]:
    """All findings of a text that is no conf file: an environment's dump, a script, YAML, a Dockerfile (see ``dump``).

    ``run``: it is a script of a shell, and how that comes to it.
    ``fix`` is the line of the text as it should be. Variables of other programs are not looked at.
    """
    dump = read(text)
    found = dump.settings
    findings = [finding for conf in dump.confs for finding in _conf(conf, version, file)]
    findings += [
        finding for _, group in groupby(found, lambda one: one.line) for finding in _line(list(group), version, file)
    ]
    if run is not None:
        findings = in_a_script(text, found, findings, run, file)
    # What stands last counts, in a script as in a dump.
    last = {one.name: Setting(one.name, one.value, file, one.line) for one in found if one.certain}
    findings += together_findings(list(last.values()), version)
    return tuple(sorted(findings, key=lambda finding: finding.line or 0))


def lint_environment(variables: Mapping[str, str], version: Version | None, place: str) -> tuple[SettingFinding, ...]:
    """The same of an environment itself; ``place`` is in words for whose it is. There are no lines."""
    entries = [f"{name}={value}" for name, value in sorted(variables.items()) if re.fullmatch(FAMILY, name)]
    return lint_dump("\0".join([*entries, ""]), version, place)


def _conf(conf: ConfLines, version: Version | None, file: str) -> list[SettingFinding]:
    """Of a conf file that the text writes."""
    data = "\n".join([line for _, _, line in conf.lines] + [""]).encode("utf-8", "surrogateescape")
    findings = []
    for finding in lint_conf(data, version, file):
        number, text, line = conf.lines[(finding.line or 1) - 1]
        fix = text.replace(line, finding.fix).strip() if "\n" not in finding.fix and line in text else finding.fix
        findings.append(replace(finding, line=number, fix=fix if finding.fix else ""))
    return findings


def _line(group: Sequence[Found], version: Version | None, file: str) -> list[SettingFinding]:
    """Of what stands on one line, or of all where there are no lines."""
    if group[0].line is None and len(group) > 1:
        return [finding for one in group for finding in _line([one], version, file)]
    findings: list[SettingFinding] = []
    changes = []
    for one in group:
        own, name, value = _one(one, version, file)
        findings += own
        if one.spaced or one.meant or (name, value) != (one.name, one.value):
            changes.append((one, name, value))
    fix = rewritten(changes) if changes else ""
    fix = "" if fix == group[0].text else fix.strip()  # the same: the name stands on another line
    return [replace(finding, fix=fix if finding.fix else "") for finding in findings]


def _one(one: Found, version: Version | None, file: str) -> tuple[list[SettingFinding], str, str]:
    """Its findings, and name and value as they should be."""
    setting = Setting(one.name, one.value, file, one.line)
    if not one.certain:  # what the shell makes of it nobody knows here
        found = verdicts.findings(setting, version, conf=False, certain=False)
        return [replace(finding, fix="") for finding in found], one.name, one.value
    slipped, value = _slips(one, file)
    found = verdicts.findings(replace(setting, value=value), version, conf=False, certain=True)
    return [*slipped, *found], *verdicts.righted(Setting(one.name, value), version, conf=False)


def _slips(one: Found, file: str) -> tuple[list[SettingFinding], str]:
    """How it is written: what is wrong with that, and the value that was meant."""
    found: list[SettingFinding] = []

    def tell(id_: str, level: Level, sees: str, *, fix: str = ".") -> None:
        found.append(
            SettingFinding(
                file=file, line=one.line, name=one.name, value=one.value, level=level, id=id_, sees=sees, fix=fix
            )
        )

    if one.spaced:
        tell("blank_around_equals", "error", f"a shell wants no blanks around =: {one.name} is not set to this")
    if one.meant:
        taken = slipwords.quoted(one.value)
        tell("blank_in_value", "error", f"the value ends at the blank: {one.name} is {taken}, and the rest is lost")
        return found, one.meant
    if one.style not in ("raw", "item"):  # a shell takes quotes and comments away
        return found, one.value
    slips, value = value_slips(one.value)
    for slip in slips:
        if slip != "expansion" or one.style != "item":
            level = verdicts.weight(one.name, one.value, value, slip)
            sees = slipwords.in_value(slip, one.value, value, harmless=level == "info")
            tell(slip, level, sees, fix="" if slip == "expansion" else ".")
    return found, value
