"""What NCCL goes by on each node, in layers; and what of it does not do what it says, or differs where it must not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ncclrun.model.effective import Effective
from ncclrun.model.netevents import Problem
from ncclrun.model.secrets import finding_shown
from ncclrun.model.settings import ConfFile, NodeSettings, Setting, SettingFinding
from ncclrun.nccl.check.findings import across_findings, setting_findings, together_findings
from ncclrun.nccl.conf import read_files
from ncclrun.nccl.effective import effective, node_layers
from ncclrun.nccl.lint.conffile import lint_conf
from ncclrun.nccl.version import NEWEST, Version

CONCERNED = re.compile(r"(?:NCCL|GLOO|TORCH|TP|UCX|FI)_")
"""Variables that NCCL and what works beside it read; the node part looks for the same."""
SETTING = "nccl_setting"
"""The code of all that a run is told of settings."""


@dataclass(frozen=True)
class NodeValues:
    """What one node's NCCL goes by: of every variable the value that wins, and the conf files that it reads."""

    node: str
    values: Mapping[str, Effective]
    files: tuple[ConfFile, ...]
    """Those that this NCCL reads, also where one can't be read."""
    version: Version | None
    delivered: tuple[Setting, ...] = ()
    """What ncclrun puts into one of the files, each with the place that it comes from."""

    @property
    def counting(self) -> tuple[Setting, ...]:
        """The values as settings, each at the place where it stands."""
        return tuple(Setting(v.name, v.value, v.source, v.line) for v in self.values.values())


def node_values(
    node: str,
    run: Sequence[Setting],
    settings: NodeSettings,
    version: Version | None,
    delivered: Sequence[Setting] = (),
) -> NodeValues:
    """All layers of a node put together.

    ``run`` is what ncclrun sets in the workers' environment, with its sources, ``delivered`` what it puts into a file.
    """
    concerned = [setting for setting in run if CONCERNED.match(setting.name)]
    values = effective(node_layers(concerned, settings, version))
    read = read_files(settings.conf_files, version or NEWEST)
    return NodeValues(node, values, read, version, tuple(delivered))


def findings(node: NodeValues) -> tuple[SettingFinding, ...]:
    """Everything to know about one node's settings: of its conf files and of the variables that count."""
    own = {(setting.name, setting.value) for setting in node.delivered}
    filed = [finding for file in node.files for finding in file_findings(file, node.version)]
    # What we wrote there ourselves is to be put right where it comes from.
    found = [finding for finding in filed if (finding.name, finding.value) not in own]
    for setting in node.delivered:
        found += setting_findings(setting, node.version, conf=True)
    for setting in node.counting:
        if node.values[setting.name].origin in ("run", "login"):
            found += setting_findings(setting, node.version, conf=False)
    return (*found, *together_findings(node.counting, node.version))


def file_findings(file: ConfFile, version: Version | None) -> tuple[SettingFinding, ...]:
    """What is wrong in a conf file that this NCCL reads, or with the file itself."""
    if file.text is not None:
        return lint_conf(file.data, version, file.path)
    named = "named" in file.roles
    if not (named or file.error):
        return ()
    why = f"can't be read ({file.error})" if file.error else "is not there"
    without = ", nor do those of ~/.nccl.conf" if named else ""
    return (
        SettingFinding(
            file=file.path,
            line=None,
            name="NCCL_CONF_FILE" if named else "",
            value=file.path if named else "",
            level="error",
            id="unreadable",
            sees=f"the file {why}, and NCCL says nothing of that: none of its settings count{without}",
            fix="",
        ),
    )


def across(nodes: Sequence[NodeValues]) -> tuple[SettingFinding, ...]:
    """What differs between nodes where it must not, one finding a variable."""
    return across_findings({node.node: {v.name: v.value for v in node.values.values()} for node in nodes})


def problems(node: NodeValues) -> Iterator[Problem]:
    """What a run should be told of a node's settings: errors and warnings of what counts there.

    All are warnings: whether NCCL takes the planned network with them it is asked itself.
    """
    for finding in findings(node):
        if finding.level != "info" and _counts(finding, node):
            yield _problem(finding_shown(finding))


def disagreements(nodes: Sequence[NodeValues]) -> Iterator[str]:
    """What a run should be told of settings that differ between nodes where they must not, a sentence a variable."""
    for finding in across(nodes):
        if finding.level != "info":
            yield f"{finding.name}: {finding.sees}"


def _counts(finding: SettingFinding, node: NodeValues) -> bool:
    """A line of a conf file that another place hides anyway is for `nccl lint` alone."""
    value = node.values.get(finding.name)
    return value is None or finding.line is None or (value.source, value.line) == (finding.file, finding.line)


def _problem(finding: SettingFinding) -> Problem:
    where = finding.file if finding.line is None else f"{finding.file}:{finding.line}"
    setting = f"{finding.name}={finding.value}" if finding.value else finding.name
    return Problem(
        code=SETTING,
        level="warning",
        message=f"{setting} ({where}): {finding.sees}" if setting else f"{where}: {finding.sees}",
        fix=f"write there:  {finding.fix}" if finding.fix else "",
    )
