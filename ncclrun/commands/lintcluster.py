"""`ncclrun nccl lint CLUSTER`: the settings of the cluster file, and what every node has of its own."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping

from ncclrun.commands.control import Control
from ncclrun.commands.lint import UNREACHABLE, Linted
from ncclrun.commands.standing import Standing, standings
from ncclrun.commands.visit import Visit
from ncclrun.diagnosis.interfaces import with_interfaces
from ncclrun.diagnosis.settings import across, file_findings
from ncclrun.model.cluster import ClusterSpec
from ncclrun.model.events import Event
from ncclrun.model.netevents import Problem
from ncclrun.model.settings import Setting, SettingFinding
from ncclrun.nccl.check.findings import together_findings
from ncclrun.nccl.effective import LOGIN
from ncclrun.nccl.lint.conffile import linted
from ncclrun.nccl.lint.dumps import lint_environment
from ncclrun.nccl.version import Version
from ncclrun.transport.base import Transport

TOGETHER = "all nodes together"


def lint_cluster(
    cluster: ClusterSpec,
    transport: Transport,
    control: Control,
    environ: Mapping[str, str],
    version: Version | None,
) -> list[Linted]:
    """Every node's conf files and login environment, and where nodes differ; the cluster file is a text of its own.

    ``version`` is taken for the nodes' own where it is given. A node that can't be asked is an error of its own.
    """
    with Visit(cluster, transport, control) as visit:
        for _event in visit.events():
            control.check()
        nodes = _result(standings(visit, control, cluster, environ, version))
        found = [_told(cluster.nodes[rank].name, UNREACHABLE, problem) for rank, problem in sorted(visit.lost.items())]
        for one in nodes:
            found += _of_node(one)
    differing = across([one.values for one in nodes])
    return [*found, Linted(TOGETHER, differing)] if differing else found


def _result(steps: Generator[Event, None, list[Standing]]) -> list[Standing]:
    """What comes of it; its events are for those who show them."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: list[Standing] = end.value
            return found


def _of_node(standing: Standing) -> Iterator[Linted]:
    one, values = standing.one, standing.values
    name, version = one.node.name, values.version
    for file in values.files:
        lines = tuple((file.text or "").split("\n"))
        meant = [setting for line in linted(file.data, version, file.path) for setting in line.settings]
        found = with_interfaces(file_findings(file, version), meant, values, one.facts.interfaces)
        yield Linted(file.path, found, lines, node=name)
    login = {name: value for name, value in one.facts.settings.login.items() if name != "HOME"}
    own = [Setting(name, value, LOGIN) for name, value in login.items()]
    found = with_interfaces(lint_environment(login, version, LOGIN), own, values, one.facts.interfaces)
    yield Linted(LOGIN, found, node=name)
    together = together_findings(values.counting, version)
    if together:
        yield Linted("its settings together", together, node=name)
    for problem in standing.problems:
        yield _told(name, problem.code, problem)


def _told(name: str, code: str, problem: Problem) -> Linted:
    finding = SettingFinding(
        file="",
        line=None,
        name="",
        value="",
        level=problem.level,
        id=code,
        sees=problem.message,
        fix=problem.fix,
    )
    return Linted("", (finding,), node=name)
