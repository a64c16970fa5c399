"""`ncclrun nccl lint CLUSTER`: the settings of the cluster file, and what every node has of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ncclrun.commands.control import Control
from ncclrun.commands.lint import Linted
from ncclrun.commands.settling import variables_of
from ncclrun.commands.survey import Participant
from ncclrun.commands.visit import Visit
from ncclrun.diagnosis.settings import NodeValues, across, node_values
from ncclrun.model.cluster import ClusterSpec
from ncclrun.model.netevents import Problem
from ncclrun.model.settings import SettingFinding
from ncclrun.nccl.check.findings import together_findings
from ncclrun.nccl.effective import LOGIN
from ncclrun.nccl.lint import lint_conf
from ncclrun.nccl.lintdump import lint_environment
from ncclrun.nccl.version import Version, parse
from ncclrun.planning.shown import run_settings
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
        found = [_unreached(cluster.nodes[rank].name, problem) for rank, problem in sorted(visit.lost.items())]
        nodes: list[NodeValues] = []
        for one in visit.participants:
            judged = version or parse(one.facts.python.nccl)
            run = run_settings(variables_of(cluster, one, None, environ))
            nodes.append(node_values(one.node.name, run, one.facts.settings, judged))
            found += _of_node(one, nodes[-1])
    differing = across(nodes)
    return [*found, Linted(TOGETHER, differing)] if differing else found


def _of_node(one: Participant, values: NodeValues) -> Iterator[Linted]:
    name, version = one.node.name, values.version
    for file in values.files:
        lines = tuple((file.text or "").split("\n"))
        yield Linted(file.path, lint_conf(file.data, version, file.path), lines, node=name)
    login = {name: value for name, value in one.facts.settings.login.items() if name != "HOME"}
    yield Linted(LOGIN, lint_environment(login, version, LOGIN), node=name)
    together = together_findings(values.counting, version)
    if together:
        yield Linted("its settings together", together, node=name)


def _unreached(name: str, problem: Problem) -> Linted:
    finding = SettingFinding(
        file="", line=None, name="", value="", level="error", id="unreachable", sees=problem.message, fix=problem.fix
    )
    return Linted("", (finding,), node=name)
