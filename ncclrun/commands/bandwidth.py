"""`ping --bandwidth`: TCP throughput of all pairs, in rounds in which each node is in one pair at a time."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

from pydantic import TypeAdapter

from ncclrun.commands.answers import read_answer
from ncclrun.commands.control import Control
from ncclrun.commands.findings import Finding
from ncclrun.commands.survey import Survey
from ncclrun.diagnosis.bandwidth import Pair, retests, verdicts
from ncclrun.model.errors import HostError, NcclrunError
from ncclrun.model.events import Event, Warn
from ncclrun.model.netevents import Measuring, Problem, Transferred
from ncclrun.model.network import Transfer
from ncclrun.model.plan import Endpoint
from ncclrun.model.words import listed
from ncclrun.planning.tournament import rounds
from ncclrun.transport.fleet import for_all
from ncclrun.transport.session import Session

SLACK = 20.0
"""Seconds for an answer beyond those of the measurement: connecting, and the last bytes of a slow link."""

_TRANSFER = TypeAdapter(Transfer)


class Measurement:
    """Throughput between the nodes of a survey that has proven their network; it counts them by their place there.

    ``endpoints`` are the chosen ones, ``seconds`` is the length of one transfer, ``streams`` its TCP connections.
    ``rates`` grows with each round.
    """

    def __init__(
        self, survey: Survey, endpoints: Sequence[Endpoint], control: Control, *, seconds: float, streams: int
    ) -> None:
        self.survey = survey
        self.rates: dict[Pair, float] = {}
        """Gbit/s by sender and receiver, the latest of each pair; 0 where it failed."""
        self.rounds = 0
        """How many there were."""
        self.endpoints = endpoints
        self._control = control
        self._seconds = seconds
        self._streams = streams

    def run(self, plan: Sequence[Sequence[Pair]]) -> Iterator[Event]:
        """Measures these rounds, all pairs of one at once, first one way and then the other. Raises Interrupted."""
        last = self.rounds + len(plan)
        for pairs in plan:
            self.rounds += 1
            yield Measuring(round=self.rounds, rounds=last, pairs=len(pairs))
            for ways in (pairs, [(receiver, sender) for sender, receiver in pairs]):
                yield from self._at_once(ways)

    def _at_once(self, pairs: Sequence[Pair]) -> Iterator[Transferred]:
        ones = self.survey.participants
        # A node that was lost on the way is told elsewhere, and not to be waited for in every round.
        there = [pair for pair in pairs if not set(pair) & set(self.survey.failed)]
        sessions = {pair: ones[pair[0]].session for pair in there}
        for pair, answer in for_all(sessions, self._ask, cancelled=self._control.stopped, workers=len(sessions)):
            error, transfer = (answer.message, None) if isinstance(answer, NcclrunError) else ("", answer)
            if isinstance(answer, HostError) and answer.reason == "lost":
                self.survey.failed.setdefault(pair[0], answer)
            self.rates[pair] = transfer.gbits if transfer else 0.0
            yield Transferred(
                node=ones[pair[0]].node.name,
                peer=ones[pair[1]].node.name,
                round=self.rounds,
                gbits=transfer.gbits if transfer else None,
                seconds=transfer.seconds if transfer else 0.0,
                error=error,
            )
        self._control.check()

    def _ask(self, pair: Pair, session: Session) -> Transfer:
        sender, receiver = pair
        address = self.endpoints[receiver].address
        port = self.survey.listeners[receiver].ports.get(address)
        if port is None:
            raise HostError("refused", f"{self.survey.participants[receiver].node.name} does not listen at {address}")
        ends: dict[str, Any] = {"node_rank": self.survey.ranks[sender], "peer": self.survey.ranks[receiver]}
        answer = session.call(
            "throughput",
            timeout=self._seconds + SLACK,
            token=self.survey.token,
            **ends,
            address=address,
            port=port,
            source=self.endpoints[sender].address,
            seconds=float(self._seconds),
            streams=self._streams,
        )
        return read_answer(_TRANSFER, {**ends, **{key: answer.get(key) for key in ("size", "seconds", "streams")}})


def measure(measurement: Measurement) -> Iterator[Event]:
    """Transferred for every pair, both ways; of one node, or where all are one machine, there is nothing to measure."""
    if len(measurement.survey.participants) < 2:
        yield Warn(text="bandwidth is not measured: there is only one node")
        return
    if measurement.survey.one_machine:
        yield Warn(text="bandwidth is not measured: all nodes are the same machine")
        return
    yield from measurement.run(rounds(len(measurement.survey.participants)))


def failures(measurement: Measurement) -> tuple[Finding, ...]:
    """Who sent and nothing of it came through, as errors: of the first measurement alone it can't be told why."""
    survey = measurement.survey
    peers: dict[int, list[str]] = {}
    for (sender, receiver), rate in sorted(measurement.rates.items()):
        if not rate and not survey.failed.keys() & {sender, receiver}:
            peers.setdefault(sender, []).append(survey.participants[receiver].node.name)
    fix = "see the pairs' reasons above; ncclrun ping --deep tells whether it is a node or a link"
    return tuple(
        Finding(
            survey.ranks[sender],
            Problem(code="no_transfer", message=f"nothing that it sent to {listed(names)} came through", fix=fix),
        )
        for sender, names in peers.items()
    )


def measure_again(measurement: Measurement) -> Generator[Event, None, tuple[Finding, ...]]:
    """`--deep`: what was slow or failed again, with the best of the others; returns what is to be said of whom.

    A verdict on several nodes stands at each of them.
    """
    first = dict(measurement.rates)
    measurement.rates.clear()
    yield from measurement.run(retests(first))
    again = dict(measurement.rates)
    measurement.rates = {**first, **again}
    survey = measurement.survey
    # What failed since a node was lost is no fault of its partners; the loss is told elsewhere.
    first, again = ({p: rate for p, rate in rates.items() if not survey.failed.keys() & p} for rates in (first, again))
    names = [one.node.name for one in survey.participants]
    return tuple(
        Finding(survey.ranks[place], verdict.problem)
        for verdict in verdicts(names, measurement.endpoints, first, again)
        for place in verdict.nodes
    )
