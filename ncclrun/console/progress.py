"""Keeps count of a launch as its events pass: what is worth a line, and what is being waited for right now."""

from __future__ import annotations

from collections.abc import Callable

from ncclrun.commands.follow import GONE, REBOOTED
from ncclrun.console.findings import Finding, notes
from ncclrun.console.notes import Note, problem
from ncclrun.console.resolved import nccl_words, probed_words
from ncclrun.console.stages import NetworkStages
from ncclrun.console.stall import stall_notes
from ncclrun.console.words import about, clock_time, count, duration, endpoint, place, size
from ncclrun.model.endevents import Ended
from ncclrun.model.events import (
    CodeSent,
    Connected,
    Event,
    Failure,
    NodeState,
    Planned,
    Prepared,
    Refused,
    RunCreated,
    Stopping,
    Unreachable,
    Warn,
)
from ncclrun.model.netevents import NcclSays, Pinged, Probed, Resolved, Written
from ncclrun.model.stallevents import Stalled
from ncclrun.model.words import bare, listed


class Progress:
    """``note`` takes every event and says what is worth a line; ``live`` is the one line on what is waited for."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._nodes: list[str] = []
        self._phase = ""
        self._since = clock()
        self._waiting: list[str] = []
        """Nodes that this phase still waits for."""
        self._networks: dict[str, list[str]] = {}
        """Interfaces by the reason for them."""
        self._resolved: dict[int, Resolved] = {}
        self._probed: list[Probed] = []
        self._nccl: dict[int, NcclSays] = {}
        self._stages = NetworkStages(clock)
        self._hostnames: dict[str, str] = {}
        self._remedy = ""
        """What mends the lack of a network: said last, below all that was seen of it."""
        self._states: dict[str, str] = {}
        self._resumed = False
        self._missing = 0
        self._told: list[Unreachable | Refused] = []
        """Nodes that can't take part, until all of a kind were heard: their reasons are often the same."""
        self._warned: list[Finding] = []
        """Warnings before anything is started, until all were heard: many nodes often have the same."""
        self._grace = 0.0
        self._handlers: dict[type, Callable[..., list[Note]]] = {
            RunCreated: self._run,
            Connected: self._connected,
            Probed: self._proven,
            Resolved: self._chosen,
            NcclSays: self._asked,
            Written: self._written,
            Pinged: self._pinged,
            Planned: self._planned,
            CodeSent: self._code,
            Prepared: self._prepared,
            NodeState: self._state,
            Stopping: self._stopping,
            Warn: self._warning,
            Stalled: stall_notes,
            Failure: self._failure,
            Ended: self._ended,
        }

    def note(self, event: Event) -> list[Note]:
        """What to say about the event; [] for most."""
        self._stages.add(event)
        if isinstance(event, (Unreachable, Refused)):
            self._missing += 1
            self._done(event.node)
            self._told.append(event)
            return []
        if isinstance(event, Warn) and (self._alone or (self._resolved and self._phase == "preparing")):
            own = self._hostnames.get(event.node or "", "")
            self._warned.append(Finding("warning", event.node, event.told, event.fix, hostname=own))
            return []
        handler = self._handlers.get(type(event))
        said = handler(event) if handler else []
        if self._alone and not said:
            return []  # what the view shows of the network comes first
        return [*self.held(), *said]

    @property
    def _alone(self) -> bool:
        """Whether the network is looked at, and nothing is to be started."""
        return bool(self._probed) and not self._nodes

    def held(self) -> list[Note]:
        """What waited for more of its kind; errors last, so that they stand at the bottom of the screen."""
        warned, self._warned = notes(self._warned), []
        return [*warned, *self._absent()]

    def rest(self) -> list[Note]:
        """All that still waits, to be told when no event follows."""
        remedy, self._remedy = self._remedy, ""
        return [*self.held(), *([Note("fix", remedy)] if remedy else [])]

    def live(self) -> str:
        """``connecting 3/4: waiting for gpu7 (4 s)``; "" when nothing is being waited for."""
        if stage := self._stages.live():
            return stage
        if not self._phase or not self._waiting:
            return ""
        waited = self._clock() - self._since
        if self._phase == "asking":
            return f"asking {listed(self._waiting)} for their interfaces, GPUs and Python ({waited:.0f} s)"
        if self._phase == "stopping":
            ended = [node for node in self._nodes if self._states.get(node) == "ended"]
            done = f"{listed(ended)} ended, " if ended else ""
            return f"stopping: {done}{listed(self._waiting)} waiting {waited:.0f} s of {self._grace:.0f}"
        done_count = len(self._nodes) - len(self._waiting)
        return f"{self._phase} {done_count}/{len(self._nodes)}: waiting for {listed(self._waiting)} ({waited:.0f} s)"

    def _enter(self, phase: str, waiting: list[str]) -> None:
        self._phase, self._waiting, self._since = phase, waiting, self._clock()

    def _done(self, node: str) -> bool:
        """Takes a node off the list; whether it was the last."""
        if node not in self._waiting:
            return False
        self._waiting.remove(node)
        return not self._waiting

    # --- before the start

    def _run(self, event: RunCreated) -> list[Note]:
        self._nodes = list(event.nodes)
        self._resumed = event.resumed
        self._enter("connecting", list(event.nodes))
        return [Note("info", f"run {event.run_id} on {event.cluster}: {count(event.nnodes, 'node')}")]

    def _connected(self, event: Connected) -> list[Note]:
        self._hostnames[event.node] = event.hostname
        if not self._done(event.node):
            return []
        if self._missing:
            return []
        took = duration(self._clock() - self._since)
        self._enter("" if self._resumed else "asking", list(self._nodes))
        return [Note("info", f"{count(len(self._nodes), 'node')} connected in {took}")]

    def _absent(self) -> list[Note]:
        """Those that can't take part, in the nodes' order: one error for nodes with the same reason, each fix once."""
        told, self._told = sorted(self._told, key=lambda event: event.node_rank), []
        errors: dict[str, list[str]] = {}
        fixes: dict[str, str] = {}
        for event in told:
            if isinstance(event, Refused):
                failed = " can't prepare" if self._nodes else ""  # without a run nothing is prepared
                who, what = event.node, f"{failed}: {bare(event.told, event.node)}"
            else:
                who, what = place(event.node, event.host), f": {bare(event.message, event.node, event.host)}"
            errors.setdefault(what, []).append(who)
            fixes[event.fix] = what  # told below the last error that it mends
        lines: list[Note] = []
        for what, nodes in errors.items():
            lines.append(Note("error", listed(nodes, 8) + what))
            lines += [Note("fix", fix) for fix, last in fixes.items() if fix and last == what]
        return lines

    def _chosen(self, event: Resolved) -> list[Note]:
        if self._phase != "preparing":
            self._enter("preparing", list(self._nodes))
        self._networks.setdefault(event.why, []).append(f"{event.interface} on {event.node}")
        self._resolved[event.node_rank] = event
        return []

    def _proven(self, event: Probed) -> list[Note]:
        """Told at once where nothing is started; a launch says it with its network."""
        self._probed.append(event)
        if self._nodes:
            return []
        pairs = f"{count(event.pairs, 'pair')} of {count(event.nodes, 'node')}"
        return [Note("info", f"network: {pairs} probed ({event.scheme}) by {probed_words(event)}")]

    def _asked(self, event: NcclSays) -> list[Note]:
        """Told by itself when the plan stands already."""
        self._nccl[event.node_rank] = event
        if self._phase != "starting" or len(self._nccl) < len(self._nodes):
            return []
        return [Note("info", f"NCCL {words}") for words in self._ncclwords()]

    def _ncclwords(self) -> list[str]:
        return nccl_words(self._nccl, self._resolved, len(self._nodes))

    def _proof(self) -> str:
        """``; proven by 6 connections in 0.10 s; NCCL 2.27.5 agrees on all 3 nodes``."""
        words = []
        if self._probed:
            made = count(sum(probed.reached for probed in self._probed), "connection")
            words.append(f"proven by {made} in {duration(sum(probed.seconds for probed in self._probed))}")
        words += [f"NCCL {said}" for said in self._ncclwords()]
        return "".join(f"; {word}" for word in words)

    # --- the network alone

    def _pinged(self, event: Pinged) -> list[Note]:
        """A remedy that stands at a node is not said again."""
        if any(found.fix == self._remedy for found in event.problems):
            self._remedy = ""
        return []

    def _written(self, event: Written) -> list[Note]:
        if not event.backup:
            return [Note("good", f"{event.path} has this choice already, and is left as it is")]
        changes = "".join(f"\n  {change}" for change in event.changes)
        return [Note("good", f"{event.path} is written (what it was before: {event.backup}){changes}")]

    # --- the plan

    def _planned(self, event: Planned) -> list[Note]:
        if not self._nodes:
            self._nodes = [str(node["node"]) for node in event.nodes]
        self._enter("starting", list(self._nodes))
        master = (
            endpoint(event.master_addr, event.master_port) if event.master_port else f"{event.master_addr}, a free port"
        )
        ranks = f"{count(event.world_size, 'rank')} on {count(len(event.nodes), 'node')}"
        networks = [Note("info", f"network: {listed(found)} ({why})") for why, found in self._networks.items()]
        if networks:
            networks[-1] = Note("info", networks[-1].text + self._proof())
        return [*networks, Note("info", f"plan: {ranks} by {event.launcher}, master {master}")]

    def _code(self, event: CodeSent) -> list[Note]:
        where = f"sent to {listed(event.sent_to)}" if event.sent_to else "all nodes have it already"
        text = f"code: {event.directory}, {count(event.files, 'file')}, {size(event.size)} packed"
        left = f"; left out by .gitignore: {listed(event.left_out)}" if event.left_out else ""
        return [Note("info", f"{text}; {'not sent yet' if event.dry_run else where}{left}")]

    def _prepared(self, event: Prepared) -> list[Note]:
        self._done(event.node)
        return []

    # --- while it runs

    def _state(self, event: NodeState) -> list[Note]:
        before, self._states[event.node] = self._states.get(event.node), event.state
        if event.state == "unknown":
            since = clock_time(event.since)
            if event.reason.startswith((REBOOTED, GONE)):
                return [Note("warning", f"{event.node}: {event.reason}; nothing of the run lives there any more")]
            text = f"{event.node} is given up: {event.reason}"
            if before != "unknown":
                why = "" if event.reason == "unreachable" else f" ({event.reason})"
                text = f"{event.node} does not answer since {since}{why}"
            return [Note("warning", f"{text}; what runs there may go on")]
        if event.state == "running" and before == "unknown":
            return [Note("good", f"{event.node} answers again")]
        if event.state == "running" and self._phase == "starting" and self._done(event.node):
            return [Note("good", f"running on {count(len(self._nodes), 'node')}")]
        if event.state == "ended":
            if self._phase == "stopping":
                self._done(event.node)
            elif event.reason not in ("", "finished"):
                return [Note("warning", f"{event.node} ended: {event.reason}")]
        return []

    def _stopping(self, event: Stopping) -> list[Note]:
        if not self._nodes:
            self._nodes = list(event.nodes)
        self._grace = event.grace
        self._enter("stopping", [node for node in event.nodes if self._states.get(node) != "ended"])
        heard = [node for node in event.nodes if self._states.get(node) != "unknown"]
        away = [node for node in event.nodes if node not in heard]
        where = "all nodes" if len(heard) == len(self._nodes) > 1 else listed(heard)
        how = "" if event.how == "kill" else f" (SIGTERM now, SIGKILL after {event.grace:.0f} s)"
        what = [f"{where}{how}"] if heard else []
        if away:
            what.append(f"{listed(away)} as soon as {'it answers' if len(away) == 1 else 'they answer'}")
        verb = "killing" if event.how == "kill" else "stopping"
        return [Note("warning", f"{event.reason}: {verb} {', '.join(what)}")]

    def _warning(self, event: Warn) -> list[Note]:
        return problem("warning", about(event.node, event.told) if event.node else event.told, event.fix)

    def _failure(self, event: Failure) -> list[Note]:
        self._enter("", [])
        if self._nodes:
            return problem("error", event.message, event.fix)
        self._remedy = event.fix
        return problem("error", event.message, "")

    def _ended(self, event: Ended) -> list[Note]:
        self._enter("", [])
        return self.rest()
