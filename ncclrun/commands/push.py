"""`ncclrun nccl push`: the network choice and `nccl.env` put into a conf file of every node, and confirmed by NCCL."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace

from ncclrun.commands.confchange import Change, Told, Wanted, exit_code_of
from ncclrun.commands.conffiles import Look, Order
from ncclrun.commands.findings import Finding, findings_told, problem_of, with_against
from ncclrun.commands.nodesettings import Settings, answer_told, ask_all, delivery_problems, values_of
from ncclrun.commands.settling import variables_of, whole
from ncclrun.commands.survey import Participant, Survey
from ncclrun.diagnosis.ncclsays import Asked, judge
from ncclrun.diagnosis.ncclsays import problems as against_the_plan
from ncclrun.model.errors import NcclrunError
from ncclrun.model.events import Event, Warn
from ncclrun.model.netevents import Problem
from ncclrun.model.network import NcclAnswer
from ncclrun.model.plan import Endpoint
from ncclrun.model.settingevents import ConfPushed
from ncclrun.nccl import block
from ncclrun.nccl.conf import homes
from ncclrun.nccl.effective import effective, file_layer
from ncclrun.nccl.version import NEWEST, Version
from ncclrun.nccl.version import parse as parse_version
from ncclrun.planning.delivery import Delivered, pairs, refusals, split, stays, taken_out
from ncclrun.planning.shown import masked

BOTH_HOMES = {"home", "passwd_home"}
MODES = {"user": None, "system": 0o644}
"""Of the pushed file; None: as it has, or that of a new one."""


class Push(Change):
    """Puts the network choice and `nccl.env` into a conf file of every node, and has NCCL itself confirm it."""

    verb = "push"
    nothing_to_do = "all conf files were found with the settings in them"

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
        endpoints = yield from whole(ones, choice, self._cluster, self._environ)
        self._endpoints = {one.node_rank: endpoint for one, endpoint in zip(ones, endpoints, strict=True)}
        self._versions = {one.node_rank: parse_version(one.facts.python.nccl) for one in ones}
        if refused := (yield from self._parted(ones)):
            return refused
        looks = yield from self._look()
        looks |= yield from self._look_where_nccl_does({one.node_rank: one for one in ones}, looks)
        errors: dict[int, NcclrunError] = {}
        for rank, look in looks.items():
            try:
                self._wanted[rank] = self._want(rank, look)
            except NcclrunError as error:
                errors[rank] = error
        if errors or any(wanted.changed for wanted in self._wanted.values()):
            errors |= {rank: look.refused for rank, look in looks.items() if look.refused is not None}
        yield from self._tell(errors)
        yield from self._modes_told()
        return set(errors)

    def _parted(self, ones: Sequence[Participant]) -> Generator[Event, None, set[int]]:
        """Which variables go into the files; returns the nodes whose can't."""
        self._delivered = {}
        found: list[Finding] = []
        for one in ones:
            variables = variables_of(self._cluster, one, self._endpoints[one.node_rank], self._environ)
            delivered = self._delivered[one.node_rank] = split(self._deliver, variables)
            problems = refusals(self._deliver, self._versions[one.node_rank], delivered.file)
            found += [Finding(one.node_rank, problem) for problem in problems]
        refused = {finding.node_rank for finding in found}
        if (warning := stays(self._delivered[ones[0].node_rank])) is not None:
            found.append(Finding(ones[0].node_rank, warning))
        names = {v.name for delivered in self._delivered.values() for v in delivered.file} | set(self._cluster.nccl.env)
        for one in ones:
            if (warning := taken_out(self._delivered[one.node_rank], names)) is not None:
                found.append(Finding(one.node_rank, warning))
        yield from findings_told(self._cluster.nodes, found)
        return refused

    def _look_where_nccl_does(
        self, ones: Mapping[int, Participant], looks: Mapping[int, Look]
    ) -> Generator[Event, None, dict[int, Look]]:
        """Other files than those of ``looks``, where a node has two homes and NCCL goes by the other one.

        The library that a login has the workers load may be another than the package that the facts tell of.
        """
        apart = [r for r, look in looks.items() if self._deliver == "user" and not set(look.file.roles) >= BOTH_HOMES]
        other = []
        asked = {rank: (ones[rank], Settings(self._delivered[rank].environment)) for rank in apart}
        for rank, answer in ask_all(asked, self._control):
            if isinstance(answer, NcclrunError):
                yield from self._tell({rank: answer})
                raise Told(exit_code_of({rank: answer}), f"nothing was changed: it failed on {self._names([rank])}")
            version = parse_version(answer.version)
            if version is not None and homes(version)[0] != self._files.homes[rank]:
                self._versions[rank], self._files.homes[rank] = version, homes(version)[0]
                other.append(rank)
        return (yield from self._look(other)) if other else {}

    def _want(self, rank: int, look: Look) -> Wanted:
        """Raises NcclrunError for a file with a block that may not be replaced."""
        path, before, settings = look.file.path, look.data, pairs(self._delivered[rank].file)
        rest, is_edited = None, False
        if before is not None:
            rest, is_edited = self._rest(look, f"{path} on {self._cluster.nodes[rank].name}", settings)
        after = block.put(rest or b"", settings)
        # Where our lines are all that was ever there, there is nothing of others to be kept.
        original = None if is_edited and not rest and look.restorable and look.restores is None else rest
        order = Order(
            expect=look.file.sha256 or None,
            data=after,
            original=original,
            mode=MODES[self._deliver],
            aside=is_edited,
        )
        changed = after != before or order.mode not in (None, look.file.mode)
        file = replace(look.file, text=after.decode("utf-8", "surrogateescape"))
        values = effective([file_layer(file, self._versions[rank] or NEWEST)])
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
        for rank, answer in ask_all({rank: (ones[rank], settings[rank]) for rank in ones}, self._control):
            if isinstance(answer, NcclrunError):
                found.append(Finding(rank, problem_of(answer)))
                continue
            node = ones[rank].node
            asked[rank] = Asked(
                node.name, self._endpoints[rank], answer, settings[rank].environment, ones[rank].facts.settings.mentions
            )
            yield answer_told(ones[rank], judge(asked[rank])[0], answer)
            if not answer.library:
                found.append(Finding(rank, _not_asked(ones[rank], answer)))
            values = values_of(ones[rank], settings[rank], answer)
            found += [Finding(rank, _grave(problem)) for problem in delivery_problems(settings[rank], values)]
        for rank, problem in zip(sorted(asked), against_the_plan([asked[r] for r in sorted(asked)]), strict=True):
            found = with_against(found, rank, problem) if problem is not None else found
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
            aside=self._files.asides.get(self._files.shared.get(rank, rank), ""),
            undo=self.command("restore"),
        )

    def _summary(self) -> str:
        return "the settings are pushed"

    _endpoints: dict[int, Endpoint]
    _versions: dict[int, Version | None]
    """Of each node's NCCL, as far as it is known."""
    _delivered: dict[int, Delivered]


def _not_asked(one: Participant, answer: NcclAnswer) -> Problem:
    python = one.facts.python.executable or one.node.launch.python
    return Problem(
        code="nccl_not_asked",
        level="warning",
        message=f"{python} has no NCCL that could confirm it{': ' + answer.error if answer.error else ''}",
        fix="name the training's Python in the cluster file:  launch: {python: …}",
    )


def _grave(problem: Problem) -> Problem:
    """A run may go on with a file that NCCL does not read; to push one makes no sense."""
    return replace(problem, level="error") if problem.code == "conf_unread" else problem
