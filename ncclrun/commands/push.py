"""`ncclrun nccl push`: the network choice and `nccl.env` put into a conf file of every node, and confirmed by NCCL."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace

from ncclrun.commands.confchange import Change, Told, Wanted, exit_code_of
from ncclrun.commands.conffiles import Look, Order
from ncclrun.commands.findings import Finding, findings_told, problem_of
from ncclrun.commands.nodesettings import Settings, answer_told, ask_nccl, delivery_problems, values_of
from ncclrun.commands.settling import told, variables_of, with_rdma
from ncclrun.commands.survey import WORKERS, Participant, Survey
from ncclrun.diagnosis.ncclsays import Asked, judge
from ncclrun.diagnosis.ncclsays import problems as against_the_plan
from ncclrun.model.errors import NcclrunError
from ncclrun.model.events import Event, Warn
from ncclrun.model.netevents import Problem
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

BOTH_HOMES = {"home", "passwd_home"}
MODES = {"user": None, "system": 0o644}
"""Of the pushed file; None: as it has, or that of a new one."""


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
        if refused:
            return refused
        looks = yield from self._look()
        looks |= yield from self._look_where_nccl_does({one.node_rank: one for one in ones}, looks)
        errors: dict[int, NcclrunError] = {}
        for rank, look in looks.items():
            try:
                self._wanted[rank] = self._want(rank, look)
            except NcclrunError as error:
                errors[rank] = error
        yield from self._tell(errors)
        yield from self._modes_told()
        return set(errors)

    def _look_where_nccl_does(
        self, ones: Mapping[int, Participant], looks: Mapping[int, Look]
    ) -> Generator[Event, None, dict[int, Look]]:
        """Other files than those of ``looks``, where a node has two homes and NCCL goes by the other one.

        The library that a login has the workers load may be another than the package that the facts tell of.
        """
        apart = [r for r, look in looks.items() if self._deliver == "user" and not set(look.file.roles) >= BOTH_HOMES]
        other = []
        for rank, answer in self._ask({rank: ones[rank] for rank in apart}):
            if isinstance(answer, NcclrunError):
                yield from self._tell({rank: answer})
                raise Told(exit_code_of({rank: answer}), f"nothing was changed: it failed on {self._names([rank])}")
            if answer.version and answer.version != self._files.nccl[rank]:
                self._files.nccl[rank] = answer.version
                other.append(rank)
        return (yield from self._look(other)) if other else {}

    def _want(self, rank: int, look: Look) -> Wanted:
        """Raises NcclrunError for a file that may not be changed."""
        if look.refused is not None:
            raise look.refused
        path, before = look.file.path, look.data
        rest = None if before is None else block.take(before, f"{path} on {self._cluster.nodes[rank].name}")
        after = block.put(rest or b"", pairs(self._delivered[rank].file))
        order = Order(expect=look.file.sha256 or None, data=after, original=rest, mode=MODES[self._deliver])
        changed = after != before or order.mode not in (None, look.file.mode)
        version = parse_version(self._files.nccl[rank]) or NEWEST
        values = effective([Layer(path, "system", in_force(parse(after, version), path))])
        own = {variable.name for variable in self._delivered[rank].file}
        hides = masked([v for v in values.values() if v.name in own and v.hides], self._delivered[rank].file)
        return Wanted(look, order, changed=changed, hides=hides)

    def _modes_told(self) -> Iterator[Event]:
        """A file of all users that is not open to all of them now."""
        for rank, wanted in self._wanted.items():
            file, mode = wanted.look.file, wanted.order.mode
            if mode is not None and file.text is not None and file.mode != mode:
                yield Warn(
                    node=self._cluster.nodes[rank].name,
                    text=f"{file.path} has the mode {file.mode:04o}; it will have {mode:04o}, for NCCL reads it as the"
                    " user of each job",
                    fix="take out of it first what others may not read",
                )

    def _ask(self, ones: Mapping[int, Participant]) -> Iterator[tuple[int, NcclAnswer | NcclrunError]]:
        """What NCCL says in the environment that a run would have beside the file. Raises Interrupted."""

        def question(rank: int, one: Participant) -> NcclAnswer:
            return ask_nccl(one, Settings(environment=self._delivered[rank].environment))

        yield from for_all(ones, question, cancelled=self._control.stopped, workers=WORKERS)
        self._control.check()

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

        asked: dict[int, Asked] = {}
        found: list[Finding] = []
        for rank, answer in self._ask(ones):
            if isinstance(answer, NcclrunError):
                found.append(Finding(rank, problem_of(answer)))
                continue
            node = ones[rank].node
            asked[rank] = Asked(
                node.name, self._endpoints[rank], answer, settings[rank].environment, ones[rank].facts.settings.mentions
            )
            yield answer_told(ones[rank], judge(asked[rank])[0], answer)
            values = values_of(ones[rank], settings[rank], answer)
            found += [Finding(rank, _grave(problem)) for problem in delivery_problems(settings[rank], values)]
        for rank, problem in zip(sorted(asked), against_the_plan([asked[r] for r in sorted(asked)]), strict=True):
            found += [Finding(rank, problem)] if problem is not None else []
        yield from findings_told(self._cluster.nodes, sorted(found, key=lambda one: one.node_rank))
        return {finding.node_rank for finding in found if finding.problem.level == "error"}

    def _done(self, rank: int, wanted: Wanted) -> Event:
        backup = self._files.backups.get(self._files.shared.get(rank, rank), "")
        return ConfPushed(
            node=self._cluster.nodes[rank].name,
            node_rank=rank,
            path=wanted.look.file.path,
            changed=wanted.changed,
            backup=backup,
        )

    def _summary(self) -> str:
        return f"the settings are pushed; to undo it: {self.command('restore')}"

    _endpoints: dict[int, Endpoint]
    _delivered: dict[int, Delivered]


def _grave(problem: Problem) -> Problem:
    """A run may go on with a file that NCCL does not read; to push one makes no sense."""
    return replace(problem, level="error") if problem.code == "conf_unread" else problem
