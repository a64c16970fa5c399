"""A network of scripted nodes: facts as given, and attempts that end as a rule says."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from ncclrun.model.cluster import Node
from ncclrun.model.errors import NodeRefused
from ncclrun.model.facts import Interface, NodeFacts
from ncclrun.transport.fake import FakeNode, FakeTransport
from tests.planning.makers import facts, node

Rule = Callable[[str, "str | None", str, str], str]
"""(who tries, from which source, whom, at which address) -> the outcome."""


def all_reached(node_name: str, source: str | None, peer: str, address: str) -> str:
    """The rule of a network in which everything works."""
    return "reached"


class FakeConf:
    """One conf file of a node, replaced by the book: what the node part's own tests hold is not played here."""

    def __init__(self) -> None:
        self.path = "/home/u/.nccl.conf"
        self.roles = ["home", "passwd_home"]
        self.data: bytes | None = None
        self.more: dict[str, Any] = {}
        """Other fields of `conf_look`: a record's state, why the file is refused."""
        self.refusals: dict[str, NodeRefused] = {}
        """Requests that fail, with what."""
        self.finished = False
        self._before: bytes | None = None
        self._next: bytes | None = None

    def replies(self) -> dict[str, Any]:
        """The answers of a scripted node."""
        steps: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "conf_look": self.look,
            "conf_stage": self._stage,
            "conf_restore": self._stage,
            "conf_commit": self._commit,
            "conf_rollback": self._roll_back,
            "conf_finish": self._finish,
        }
        return {do: self._step(do, step) for do, step in steps.items()}

    def _step(self, do: str, step: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
        def reply(request: dict[str, Any], _body: bytes) -> dict[str, Any]:
            if do in self.refusals:
                raise self.refusals[do]
            return step(request)

        return reply

    def look(self, _request: object = None) -> dict[str, Any]:
        """The answer to `conf_look`."""
        text = None if self.data is None else self.data.decode("utf-8", "surrogateescape")
        sha256 = "" if self.data is None else hashlib.sha256(self.data).hexdigest()
        file = {"path": self.path, "roles": self.roles, "text": text, "sha256": sha256, "mode": 0o644, "owner": "u"}
        rest = {"record": None, "state": "none", "restores": None, "holder": None, "refused": None, **self.more}
        return {"path": self.path, "file": {**file, "error": "", "link": ""}, **rest}

    def _stage(self, request: dict[str, Any]) -> dict[str, Any]:
        self._before, data = self.data, request["data"]
        self._next = None if data is None else base64.b64decode(data)
        return {
            "path": self.path,
            "unchanged": False,
            "sha256": None,
            "backup": "",
            "aside": "/aside" * request["aside"],
        }

    def _commit(self, _request: dict[str, Any]) -> dict[str, Any]:
        self.data = self._next
        return {"path": self.path}

    def _roll_back(self, _request: dict[str, Any]) -> dict[str, Any]:
        self.data = self._before
        return {"path": self.path, "rolled_back": True}

    def _finish(self, _request: dict[str, Any]) -> dict[str, Any]:
        self.finished = True
        return {"path": self.path}


class FakeNet:
    """Nodes by name with their interfaces; ``rule`` decides how each attempt ends, ``said`` are further facts."""

    def __init__(
        self,
        cards: Mapping[str, tuple[Interface, ...]],
        rule: Rule = all_reached,
        *,
        said: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        own_facts = said or {}
        self.nodes: tuple[Node, ...] = tuple(node(name) for name in cards)
        self.rule = rule
        self.confs = [FakeConf() for _ in cards]
        """What the nodes have of conf files."""
        self.fakes = {
            name: self._fake(rank, facts(name, *own, **own_facts.get(name, {})))
            for rank, (name, own) in enumerate(cards.items())
        }
        self.transport = FakeTransport(self.fakes)

    def asked(self, name: str, what: str) -> list[dict[str, Any]]:
        """The requests of that kind to one node."""
        return [request for request in self.fakes[name].requests if request["do"] == what]

    def _fake(self, rank: int, said: NodeFacts) -> FakeNode:
        told = {key: value for key, value in asdict(said).items() if key not in ("clock_offset", "round_trip")}
        names = {"hostname": said.hostname, "forward": {"question": said.hostname, "answers": _addresses(said)}}
        return FakeNode(
            {
                "clock": lambda _request, _body: {"time": time.time()},
                "facts": told,
                "listen": lambda request, _body: {"listeners": _listeners(request), "failed": {}, "ssh_port": 22},
                "unlisten": {},
                "probe": lambda request, _body: {"links": list(self._links(rank, request))},
                "paths": lambda request, _body: {"paths": [_path(request, target) for target in request["targets"]]},
                "names": {**names, "reverse": []},
                "nccl": {"library": ""},
                **self.confs[rank].replies(),
                "throughput": {"size": 1_000_000_000, "seconds": 1.0, "streams": 1},
            },
            hostname=said.hostname,
            machine=said.machine,
        )

    def _links(self, rank: int, request: dict[str, Any]) -> Any:
        for target in request["targets"]:
            for source in target["sources"]:
                peer, address = target["peer"], target["address"]
                outcome = self.rule(self.nodes[rank].name, source, self.nodes[peer].name, address)
                yield {
                    "peer": peer,
                    "address": address,
                    "port": target["port"],
                    "source": source,
                    "outcome": outcome,
                    "by": peer if outcome == "reached" else None,
                    "seconds": 0.001,
                    "local": "",
                }


def _addresses(said: NodeFacts) -> list[str]:
    return [address.address for interface in said.interfaces for address in interface.addresses]


def _listeners(request: dict[str, Any]) -> dict[str, Any]:
    return {address: {"port": 40000, "extra": [40001], "udp": 40002} for address in request["addresses"]}


def _path(request: dict[str, Any], target: dict[str, Any]) -> dict[str, Any]:
    return {"peer": target["peer"], "address": target["address"], "mtu": request["mtu"], "passed": target["ports"]}
