"""A chosen network held against what fits through it, what names resolve to, and what NCCL itself says."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from ipaddress import ip_network
from typing import Any

from pydantic import TypeAdapter

from ncclrun.commands.answers import read_answer
from ncclrun.commands.findings import Finding, with_against
from ncclrun.commands.nodesettings import Settings, answer_told, ask_nccl, delivery_problems, values_of
from ncclrun.commands.survey import ASK_TIMEOUT, WORKERS, Survey
from ncclrun.diagnosis.names import name_problems, proxy_problem
from ncclrun.diagnosis.ncclsays import Asked, judge, problems
from ncclrun.diagnosis.paths import End, path_problems
from ncclrun.diagnosis.settings import NodeValues, disagreements
from ncclrun.diagnosis.settings import problems as setting_problems
from ncclrun.model.errors import NcclrunError
from ncclrun.model.events import Event, Warn
from ncclrun.model.netevents import PathFound, Problem
from ncclrun.model.network import Names, NcclAnswer, Path
from ncclrun.model.plan import Endpoint
from ncclrun.transport.fleet import for_all
from ncclrun.transport.session import Session

PATH_SECONDS = 2.0
SMALLEST_MTU = 128
"""Of which a path's size is asked; IPv4 knows interfaces of 68."""
LOOK_UP_SECONDS = 3.0

_PATHS = TypeAdapter(tuple[Path, ...])
_NAMES = TypeAdapter(Names)


class Confirmation:
    """The questions that follow a choice; ``endpoints`` and ``settings`` by the places of the survey.

    ``cluster`` is what names it on the command line.
    """

    def __init__(
        self, survey: Survey, endpoints: Sequence[Endpoint], settings: Sequence[Settings], cluster: str
    ) -> None:
        self._survey = survey
        self._endpoints = endpoints
        self._settings = settings
        self._cluster = cluster
        self._paths: list[Path] = []
        self._asked: dict[int, Asked] = {}
        self._values: dict[int, NodeValues] = {}
        self._findings: list[Finding] = []

    def events(self) -> Generator[Event, None, tuple[Finding, ...]]:
        """Asks everything of all nodes at once; nodes that fail on the way are noted in the survey."""
        survey = self._survey
        questions: dict[tuple[str, int], Session] = {
            (kind, at): one.session
            for at, one in enumerate(survey.participants)
            for kind in ("nccl", *(() if survey.one_machine else ("paths", "names")))
            if at not in survey.failed
        }

        def question(key: tuple[str, int], session: Session) -> Any:
            kind, at = key
            if kind == "paths":
                return self._ask_paths(at, session)
            if kind == "names":
                return self._ask_names(at, session)
            return ask_nccl(survey.participants[at], self._settings[at])

        for (kind, at), answer in for_all(questions, question, cancelled=survey.control.stopped, workers=WORKERS):
            if isinstance(answer, NcclrunError):
                survey.failed.setdefault(at, answer)
            elif kind == "paths":
                yield from self._take_paths(at, answer)
            elif kind == "names":
                self._take_names(at, answer)
            else:
                yield self._take_nccl(at, answer)
        survey.control.check()
        # That nothing passes to a node which was lost meanwhile says nothing of the network.
        paths = [path for path in self._paths if path.peer not in survey.failed]
        for at, problem in path_problems(self._ends(), paths):
            self._find(at, problem)
        yield from self._judge_settings()
        asked = sorted(self._asked.items())
        for (at, _), against in zip(asked, problems([one for _, one in asked]), strict=True):
            if against is not None:
                self._findings = with_against(self._findings, self._survey.ranks[at], against)
        return tuple(sorted(self._findings, key=lambda finding: finding.node_rank))

    def _find(self, at: int, problem: Problem) -> None:
        self._findings.append(Finding(self._survey.ranks[at], problem))

    # --- what fits through

    def _ask_paths(self, at: int, session: Session) -> tuple[Path, ...]:
        survey, ends = self._survey, self._endpoints
        peers = [
            {
                "peer": survey.ranks[peer],
                "address": ends[peer].address,
                "udp": survey.listeners[peer].udp[ends[peer].address],
                "ports": list(survey.listeners[peer].extra[ends[peer].address]),
            }
            for peer in sorted(survey.partners[at])
            if ends[peer].address in survey.listeners[peer].udp
        ]
        answer = session.call(
            "paths",
            timeout=ASK_TIMEOUT,
            token=survey.token,
            node_rank=survey.ranks[at],
            source=ends[at].address,
            mtu=max(self._mtus()[at], SMALLEST_MTU),
            targets=peers,
            limit=PATH_SECONDS,
        )
        own = {"node_rank": survey.ranks[at], "source": ends[at].address, "tried": self._mtus()[at]}
        return read_answer(_PATHS, [{**path, **own} for path in answer["paths"]])

    def _take_paths(self, at: int, paths: tuple[Path, ...]) -> Iterator[Event]:
        survey = self._survey
        for path in paths:
            peer = survey.places[path.peer]
            self._paths.append(replace(path, node_rank=at, peer=peer))
            yield PathFound(node=survey.nodes[at].name, peer=survey.nodes[peer].name, path=path)

    def _mtus(self) -> list[int]:
        return [
            next(interface.mtu for interface in fact.interfaces if interface.name == endpoint.interface)
            for fact, endpoint in zip(self._survey.facts, self._endpoints, strict=True)
        ]

    def _ends(self) -> list[End]:
        survey, ends = self._survey, []
        for at, endpoint in enumerate(self._endpoints):
            own = [a for interface in survey.facts[at].interfaces for a in interface.addresses]
            prefix = next(a.prefix for a in own if a.address == endpoint.address)
            ends.append(
                End(
                    name=survey.nodes[at].name,
                    interface=endpoint.interface,
                    address=endpoint.address,
                    mtu=self._mtus()[at],
                    network=str(ip_network(f"{endpoint.address}/{prefix}", strict=False)),
                    # The node opens the kernel's choice and other ports in turn.
                    placed=frozenset(survey.listeners[at].extra.get(endpoint.address, ())[1::2]),
                    finds_port=survey.ranks[at] == 0 and survey.nodes[at].launch.master_port == "auto",
                )
            )
        return ends

    # --- names

    def _ask_names(self, at: int, session: Session) -> Names:
        # Two peers tell how the others' look-ups go; more would only ask a dead server more often.
        some = [self._endpoints[peer].address for peer in sorted(self._survey.partners[at])][:2]
        answer = session.call("names", timeout=ASK_TIMEOUT, addresses=some, limit=LOOK_UP_SECONDS)
        return read_answer(_NAMES, {key: answer[key] for key in ("hostname", "forward", "reverse")})

    def _take_names(self, at: int, names: Names) -> None:
        survey = self._survey
        own = [address.address for interface in survey.facts[at].interfaces for address in interface.addresses]
        peers = {self._endpoints[peer].address: survey.facts[peer].hostname for peer in sorted(survey.partners[at])}
        for problem in name_problems(survey.nodes[at].name, names, self._endpoints[at].address, own, peers):
            self._find(at, problem)
        proxy = proxy_problem(survey.nodes[at].name, survey.facts[at].proxies, [end.address for end in self._endpoints])
        if proxy is not None:
            self._find(at, proxy)

    # --- NCCL

    def _take_nccl(self, at: int, answer: NcclAnswer) -> Event:
        one, settings = self._survey.participants[at], self._settings[at]
        self._asked[at] = Asked(
            one.node.name, self._endpoints[at], answer, settings.environment, one.facts.settings.mentions
        )
        self._values[at] = values_of(one, settings, answer)
        agrees, _ = judge(self._asked[at])
        return answer_told(one, agrees, answer)

    def _judge_settings(self) -> Iterator[Event]:
        """What of the nodes' settings does not do what it says, is hidden, was never pushed, or differs."""
        for at, values in sorted(self._values.items()):
            for problem in (*delivery_problems(self._settings[at], values), *setting_problems(values)):
                self._find(at, problem)
        for text in disagreements([values for _, values in sorted(self._values.items())]):
            yield Warn(text=text, fix=f"see who has what:  ncclrun nccl show {self._cluster}")
