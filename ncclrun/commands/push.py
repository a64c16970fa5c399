"""`ncclrun nccl push`: the network choice and `nccl.env` put into a conf file of every node, and confirmed by NCCL."""

from __future__ import annotations

from collections.abc import Generator

from ncclrun.commands.confchange import Change, Told, Wanted, exit_code_of
from ncclrun.commands.conffiles import Look, Order
from ncclrun.commands.findings import Finding, findings_told, problem_of
from ncclrun.commands.nodesettings import Settings, answer_told, ask_nccl, delivery_problems, values_of
from ncclrun.commands.settling import told, variables_of, with_rdma
from ncclrun.commands.survey import WORKERS, Participant, Survey
from ncclrun.diagnosis.ncclsays import Asked, judge
from ncclrun.diagnosis.ncclsays import problems as against_the_plan
from ncclrun.model.errors import NcclrunError
from ncclrun.model.events import Event
from ncclrun.model.network import NcclAnswer
from ncclrun.model.plan import Endpoint
from ncclrun.model.settingevents import ConfPushed
from ncclrun.nccl import block
from ncclrun.nccl.conf import in_force, parse
from ncclrun.nccl.effective import Layer, effective
from ncclrun.nccl.version import NEWEST
from ncclrun.nccl.version import parse as parse_version
from ncclrun.planning.delivery import Delivered, pairs, refusals, split, stays
from ncclrun.planning.shown import masked
from ncclrun.transport.fleet import for_all
from ncclrun.transport.session import Session


class Push(Change):
    """Puts the network choice and `nccl.env` into a conf file of every node, and has NCCL itself confirm it."""

    nothing_to_do = "all conf files hold the settings already"

    def _plan(self) -> Generator[Event, None, set[int]]:
        survey = Survey(self._visit.participants, self._control)
        try:
            choice = yield from survey.choose()
        finally:
            survey.close()
        if survey.failed:
            yield from self._tell({survey.ranks[at]: error for at, error in survey.failed.items()})
            raise Told(
                exit_code_of(survey.failed), "nothing was changed: a node was lost while the network was looked at"
            )
        ones = survey.participants
        drafts = [
            variables_of(self._cluster, one, e, self._environ) for one, e in zip(ones, choice.endpoints, strict=True)
        ]
        endpoints, notes = with_rdma(ones, choice.endpoints, drafts)
        yield from told(ones, endpoints, (*choice.notes, *notes))
        self._endpoints = {one.node_rank: endpoint for one, endpoint in zip(ones, endpoints, strict=True)}
        self._delivered: dict[int, Delivered] = {}
        refused: set[int] = set()
        found: list[Finding] = []
        for one in ones:
            variables = variables_of(self._cluster, one, self._endpoints[one.node_rank], self._environ)
            delivered = self._delivered[one.node_rank] = split(self._deliver, variables)
            problems = refusals(self._deliver, parse_version(one.facts.python.nccl), delivered.file)
            refused |= {one.node_rank} if problems else set()
            found += [Finding(one.node_rank, problem) for problem in problems]
        if (warning := stays(self._delivered[ones[0].node_rank])) is not None:
            found.append(Finding(ones[0].node_rank, warning))
        yield from findings_told(self._cluster.nodes, found)
        if not refused:
            looks = yield from self._look()
            for one in ones:
                self._wanted[one.node_rank] = self._want(one, looks[one.node_rank])
        return refused

    def _want(self, one: Participant, look: Look) -> Wanted:
        rank, path = one.node_rank, look.file.path
        before = look.data
        rest = None if before is None else block.take(before, f"{path} on {one.node.name}")
        after = block.put(rest or b"", pairs(self._delivered[rank].file))
        order = Order(expect=look.file.sha256 or None, data=after, original=rest)
        version = parse_version(one.facts.python.nccl) or NEWEST
        values = effective([Layer(path, "system", in_force(parse(after, version), path))])
        own = {variable.name for variable in self._delivered[rank].file}
        hides = masked([v for v in values.values() if v.name in own and v.hides], self._delivered[rank].file)
        return Wanted(look, order, changed=after != before, hides=hides)

    def _verify(self) -> Generator[Event, None, set[int]]:
        """NCCL itself, in the environment that a run would have beside the file."""
        ones = {one.node_rank: one for one in self._visit.participants}
        settings = {
            rank: Settings(
                environment=delivered.environment,
                file=delivered.file,
                path=self._wanted[rank].look.file.path,
                deliver=self._deliver,
            )
            for rank, delivered in self._delivered.items()
        }

        def question(rank: int, session: Session) -> NcclAnswer:
            return ask_nccl(ones[rank], settings[rank])

        asked: dict[int, Asked] = {}
        found: list[Finding] = []
        sessions = {rank: one.session for rank, one in ones.items()}
        for rank, answer in for_all(sessions, question, cancelled=self._control.stopped, workers=WORKERS):
            if isinstance(answer, NcclrunError):
                found.append(Finding(rank, problem_of(answer)))
                continue
            node = ones[rank].node
            asked[rank] = Asked(
                node.name, self._endpoints[rank], answer, settings[rank].environment, ones[rank].facts.settings.mentions
            )
            yield answer_told(ones[rank], judge(asked[rank])[0], answer)
            values = values_of(ones[rank], settings[rank], answer)
            found += [Finding(rank, problem) for problem in delivery_problems(settings[rank], values)]
        for rank, problem in zip(sorted(asked), against_the_plan([asked[r] for r in sorted(asked)]), strict=True):
            found += [Finding(rank, problem)] if problem is not None else []
        yield from findings_told(self._cluster.nodes, sorted(found, key=lambda one: one.node_rank))
        return {finding.node_rank for finding in found if finding.problem.level == "error"}

    def _done(self, rank: int, path: str, changed: bool) -> Event:
        name = self._cluster.nodes[rank].name
        return ConfPushed(node=name, node_rank=rank, path=path, changed=changed)

    def _summary(self) -> str:
        return f"the settings are pushed; to undo it: ncclrun nccl restore {self._cluster.source}"

    _endpoints: dict[int, Endpoint]
    _delivered: dict[int, Delivered]
