"""Runs the real `ncclrun resolve` against the hosts of a lab, and reads what it found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.jobs.bench import Bench, Done, Event
from tests.topologies.lab import Lab

Plan = dict[int, tuple[str, str]]
"""Interface and address, by host."""


@dataclass(frozen=True, repr=False)
class Found:
    """What `ncclrun resolve --json` said."""

    done: Done

    def __repr__(self) -> str:
        return f"exit code {self.done.code}\n{self.said}\n{self.done.err}"

    @property
    def plan(self) -> Plan:
        """The choice."""
        return {e["node_rank"]: (e["interface"], e["address"]) for e in self.done.of("network")}

    @property
    def error(self) -> str:
        """Message and mending step of the error and of what speaks against each node; "" where there is none."""
        refused = (f"{e['node']}: {e['message']}\n{e['fix']}" for e in self.done.of("refused"))
        return "\n".join([*(f"{e['message']}\n{e['fix']}" for e in self.done.of("error")), *refused])

    @property
    def warnings(self) -> str:
        """All warnings with what to do about them and whom they are about, a line each."""
        told = (f"{e['node']}: {e['text']} | {e['fix']}" for e in self.done.of("warning"))
        return "\n".join(line.replace("\n", "; ") for line in told)

    @property
    def said(self) -> str:
        """Everything but the attempts, for the message of a test that fails."""
        return "\n".join(
            str(event) for event in self.done.events if event["event"] not in ("links", "connected", "run")
        )

    def judged(self, host: int, address: str) -> str:
        """What became of an address, and why: ``rejected: interface has no carrier``."""
        [found] = [e for e in self.done.of("candidate") if (e["node_rank"], e["address"]) == (host, address)]
        return f"{found['verdict']}: {found['reason']}"

    @property
    def blame(self) -> str:
        """The error without what mends it."""
        return "\n".join(e["message"] for e in self.done.of("error"))

    def outcome(self, host: int, address: str) -> str:
        """How the host's last attempt to reach that address ended, where the kernel chose the way."""
        links = [link for e in self.done.of("links") if e["node_rank"] == host for link in e["links"]]
        return str([link["outcome"] for link in links if (link["address"], link["source"]) == (address, None)][-1])

    def path(self, host: int, peer: int) -> Event:
        """What fits through from one to the other."""
        nodes = f"node{host}", f"node{peer}"
        [found] = [e["path"] for e in self.done.of("path") if (e["node"], e["peer"]) == nodes]
        return dict(found)

    def is_the_plan(self, plan: Plan) -> None:
        """The choice is exactly this, nothing was wrong, and NCCL itself agrees on every host."""
        assert self.done.code == 0, self
        assert self.plan == plan, self
        self.nccl_agrees_with(plan)

    def nccl_agrees_with(self, plan: Plan) -> None:
        """NCCL, asked on every host with the planned environment, takes the planned interface and address."""
        says = {e["node_rank"]: e for e in self.done.of("nccl")}
        assert {host: (e["answer"]["interface"], e["answer"]["address"]) for host, e in says.items()} == plan, self
        assert all(e["agrees"] and e["answer"]["library"] for e in says.values()), self

    def fails(self, *words: str, code: int = 3) -> None:
        """The end is an error with this exit code that has all these words (host, interface, mending step)."""
        assert self.done.code == code, self
        assert self.done.end["exit_code"] == code, self
        missing = [word for word in words if word not in self.error]
        assert not missing, f"{missing} not in:\n{self}"

    def warns(self, *words: str) -> None:
        """Some one warning has all these words."""
        assert any(all(word in line for word in words) for line in self.warnings.splitlines()), f"{words}\n{self}"


class Resolving:
    """`ncclrun` and a cluster file with all hosts of a lab."""

    def __init__(self, lab: Lab, directory: Path) -> None:
        self._lab = lab
        self.bench = Bench(lab.cluster, directory)

    def __call__(self, *options: str, env: dict[str, str] | None = None, **extra: Any) -> Found:
        """`ncclrun resolve CLUSTER --json OPTIONS`; ``extra`` goes into the cluster file."""
        return self.command("resolve", *options, env=env, **extra)

    def command(
        self, verb: str, *options: str, script: str = "", env: dict[str, str] | None = None, **extra: Any
    ) -> Found:
        """Another command that finds the network."""
        self._lab.settle()
        self.bench.yaml(**extra)
        words = [verb, "--json", *options, self.bench.file, *([script] if script else [])]
        return Found(self.bench.run(*words, env=env, timeout=60))

    def launch(self, **extra: Any) -> Found:
        """`ncclrun launch --dry-run` of a script that does nothing."""
        return self.command("launch", "--dry-run", script=self.bench.script("pass\n"), **extra)

    def close(self) -> None:
        """Ends what a failed test left running."""
        self.bench.close()
