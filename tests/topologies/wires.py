"""Cables, switches and routers between the hosts of a test cluster, and the ledger that takes them away again."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from ipaddress import ip_network

from tests.cluster.cluster import Cluster
from tests.cluster.host import Host
from tests.cluster.network import ip


@dataclass(frozen=True)
class Port:
    """A host's card and the end of its cable in the lab."""

    host: Host
    name: str
    outer: str


class Lan:
    """A switch with the hosts' cards in it."""

    def __init__(self, bridge: str, subnet: str, ports: Mapping[int, Port]) -> None:
        self.bridge = bridge
        self.subnet = subnet
        self.ports = dict(ports)

    def address(self, number: int) -> str:
        """The ``number``-th address of the subnet, with the prefix length."""
        network = ip_network(self.subnet)
        return f"{network[number]}/{network.prefixlen}"


Names = Mapping[int, str] | Sequence[str]
"""Names of cards by host, or in order of the hosts."""


class Wires:
    """The place where cables are laid: a namespace with all switches, and one more for each router or stranger.

    Host N gets address N+1 of each subnet unless the test says otherwise. Whatever is made here is undone by ``clear``,
    last things first.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.hosts = cluster.hosts
        # Names that the cluster itself takes away, should the tests be killed.
        self._prefix = f"ncclrun.{cluster.tag}"
        self.switches = f"{self._prefix}.lab"
        self._undo = ExitStack()
        self._count = 0
        self._cards: list[tuple[Host, str]] = []
        self.namespace(self.switches)

    def clear(self) -> None:
        """Takes everything away."""
        self._undo.close()

    def undo(self, step: Callable[..., object], *args: object, **options: object) -> None:
        """Something to do when the test is over."""
        self._undo.callback(step, *args, **options)

    def number(self) -> int:
        """A number for the next name."""
        self._count += 1
        return self._count

    def comes_up(self, host: int, name: str) -> None:
        """``settle`` waits for this interface."""
        self._cards.append((self.hosts[host], name))

    def netns(self, host: int) -> str:
        """Name of the host's network namespace."""
        return f"{self._prefix}.{host}"

    def namespace(self, name: str) -> None:
        """A namespace of the lab's own."""
        ip([f"netns add {name}"])
        self.undo(ip, [f"netns del {name}"], force=True)
        ip(["link set lo up"], netns=name)

    def ip(self, host: int, *lines: str, undo: Sequence[str] = ()) -> None:
        """Lines of `ip` on a host; what goes with a card that the lab made needs no ``undo``."""
        ip(lines, netns=self.netns(host))
        if undo:
            self.undo(ip, undo, netns=self.netns(host), force=True)

    # --- cables

    def switch(self, mtu: int = 1500) -> str:
        """A bridge without ports; returns its name."""
        name = f"sw{self.number()}"
        ip([f"link add {name} mtu {mtu} type bridge", f"link set {name} up"], netns=self.switches)
        return name

    def card(self, host: int, name: str, *, bridge: str = "", mtu: int = 1500, lit: bool = True) -> Port:
        """A card in the host, with a cable to the switch, or to nowhere; ``lit``: there is a carrier."""
        outer = f"p{self.number()}"
        ip([f"link add {outer} type veth peer name {name} netns {self.netns(host)}"], netns=self.switches)
        # By hand at once, not with the namespace some time later: the next test uses the same names.
        self.undo(ip, [f"link del {outer}"], netns=self.switches, force=True)
        lines = [f"link set {outer} mtu {mtu} {f'master {bridge}' if bridge else ''}"]
        ip([*lines, *([f"link set {outer} up"] if lit else [])], netns=self.switches)
        self.ip(host, f"link set {name} mtu {mtu}", f"link set {name} up")
        if lit:
            self.comes_up(host, name)
        return Port(self.hosts[host], name, outer)

    def address(self, host: int, name: str, address: str) -> None:
        """One more address for a card."""
        # nodad: usable at once, without the seconds of duplicate detection
        self.ip(host, f"addr add {address} dev {name}{' nodad' if ':' in address else ''}")

    def lan(
        self,
        subnet: str,
        names: Names,
        *,
        mtu: int = 1500,
        numbers: Mapping[int, int] | None = None,
        bridge: str | None = None,
    ) -> Lan:
        """A network with a card of each of these hosts; ``numbers``: other addresses than N+1."""
        bridge = bridge or self.switch(mtu)
        cards = dict(names.items() if isinstance(names, Mapping) else enumerate(names))
        lan = Lan(bridge, subnet, {host: self.card(host, name, bridge=bridge, mtu=mtu) for host, name in cards.items()})
        for host, name in cards.items():
            self.address(host, name, lan.address((numbers or {}).get(host, host + 1)))
        return lan

    def dead_end(self, names: Names, addresses: Sequence[str], *, lit: bool = True, mtu: int = 1500) -> None:
        """A card in each of these hosts whose cable leads nowhere; one address is the same for all."""
        cards = dict(names.items() if isinstance(names, Mapping) else enumerate(names))
        for host, name in cards.items():
            self.card(host, name, lit=lit, mtu=mtu)
            self.address(host, name, addresses[host] if len(addresses) > 1 else addresses[0])

    def cable(self, left: tuple[int, str, str], right: tuple[int, str, str], *, mtu: int = 1500) -> None:
        """Two cards joined without a switch: (host, name, address) at each end."""
        bridge = self.switch(mtu)
        for host, name, address in (left, right):
            self.card(host, name, bridge=bridge, mtu=mtu)
            self.address(host, name, address)

    def plug_in(self, netns: str, name: str, bridge: str, address: str, mtu: int = 1500) -> None:
        """A card for a namespace of the lab's own, with a cable to the switch."""
        outer = f"p{self.number()}"
        ip([f"link add {outer} type veth peer name {name} netns {netns}"], netns=self.switches)
        self.undo(ip, [f"link del {outer}"], netns=self.switches, force=True)
        ip([f"link set {outer} mtu {mtu} master {bridge}", f"link set {outer} up"], netns=self.switches)
        nodad = " nodad" if ":" in address else ""
        ip([f"link set {name} mtu {mtu} up", f"addr add {address} dev {name}{nodad}"], netns=netns)

    def router(self, gateways: Mapping[str, str], *, mtu: Mapping[str, int] | None = None) -> str:
        """A router with an address (``10.60.0.254/24``) in each of these switches; returns its namespace."""
        name = f"{self._prefix}.router{self.number()}"
        self.namespace(name)
        for number, (bridge, address) in enumerate(gateways.items()):
            self.plug_in(name, f"r{number}", bridge, address, (mtu or {}).get(bridge, 1500))
        self.sysctl(name, "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
        return name

    def sysctl(self, netns: str, *settings: str) -> None:
        """Kernel settings of a namespace that goes with the test."""
        run(["ip", "netns", "exec", netns, "sysctl", "-qw", *settings])

    @contextmanager
    def background(self, host: int, argv: Sequence[str], ready: str) -> Iterator[subprocess.Popen[str]]:
        """A program on the host that has said the line ``ready``; it ends when its stdin does."""
        command = self.hosts[host].command(argv)
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin and process.stdout
            assert process.stdout.readline() == f"{ready}\n"
            yield process

    def settle(self, timeout: float = 10) -> None:
        """Returns when every card that has a carrier is up for the kernel, which looks once a second."""
        deadline = time.monotonic() + timeout
        for host, name in self._cards:
            state = host.path(f"/sys/class/net/{name}/operstate")
            while state.exists() and state.read_text() not in ("up\n", "unknown\n"):
                assert time.monotonic() < deadline, f"{name} of {host.name} does not come up"
                time.sleep(0.02)


def run(argv: Sequence[str]) -> None:
    """A command that must work."""
    subprocess.run(argv, check=True, capture_output=True, text=True)
