"""A node to be checked: all that is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ncclrun.model.cluster import Node
from ncclrun.model.facts import Interface, NodeFacts
from ncclrun.model.health import Examination, Installed, System
from ncclrun.model.network import Names

START_UP_FILES = "~/.bashrc ~/.bash_profile ~/.profile /etc/profile.d/*.sh"
"""Where a login's variables are set, as a shell reads it."""


@dataclass(frozen=True)
class Subject:
    """``exam``, ``names``, ``interface`` and ``connected`` are there for `doctor` alone."""

    node: Node
    facts: NodeFacts
    exam: Examination | None = None
    names: Names | None = None
    interface: Interface | None = None
    """On which the run's network would be, as far as facts tell."""
    peers: Mapping[str, str] = field(default_factory=dict)
    """The other nodes' host names by their addresses there."""
    connected: float | None = None
    """Seconds until its node part spoke."""

    @property
    def name(self) -> str:
        """The node's."""
        return self.node.name

    @property
    def system(self) -> System:
        """Its facts' own."""
        return self.facts.system

    @property
    def installed(self) -> Installed:
        """What was found of frameworks and libraries; nothing where nobody looked."""
        found = self.exam.installed if self.exam is not None else None
        return found or Installed()

    @property
    def nproc(self) -> int:
        """How many workers it would have."""
        wanted = self.node.launch.nproc_per_node
        there = self.facts.visible_gpus if self.node.gpus is None else len(self.node.gpus)
        return max(1, there) if wanted == "auto" else wanted

    @property
    def local_ports(self) -> tuple[int, int] | None:
        """The first and the last that its kernel chooses; None where that is not known."""
        words = self.system.sysctls.get("net.ipv4.ip_local_port_range", "").split()
        return (int(words[0]), int(words[1])) if len(words) == 2 and all(map(str.isdigit, words)) else None

    def there(self, command: str) -> str:
        """The command with the host that it is for in front; of several lines all are for it."""
        return f"on {self.name}:\n{command}" if "\n" in command else f"on {self.name}:  {command}"

    def grant(self, option: str, command: str) -> str:
        """What gives the host more of something: a container an option at its start, a host the command."""
        return f"start its container with  {option}" if self.system.container else self.there(command)

    def major(self) -> str:
        """Of the CUDA that its torch was built for; "" for none."""
        return self.facts.python.cuda.partition(".")[0]


def numbers(version: str) -> tuple[int, ...]:
    """``525.60.13`` as numbers, up to the first part that is none."""
    found: list[int] = []
    for part in version.split("."):
        if not part.isdigit():
            break
        found.append(int(part))
    return tuple(found)
