"""The cables: management links for SSH, a data switch that the controller is not on, decoys, and cutting them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.cluster.registry import ClusterError

Link = Literal["management", "data"]

MANAGEMENT_INTERFACE = "ens3"
DATA_INTERFACES = ("eth1", "enp7s0", "ens5f0np0", "enP2p1s0", "eno2")
DATA_PREFIX = "10.77.0"
DATA_PREFIX_V6 = "fd77::"
DECOY_ADDRESS = "172.20.0.5/16"
DOCKER_ADDRESS = "172.17.0.1/16"
MOST_HOSTS = 250
"""What fits into the data network's /24."""


@dataclass(frozen=True)
class Layout:
    """How a cluster is wired."""

    shared_management: bool = False
    """All hosts and the controller on one management /24, instead of one /24 for each host."""
    interfaces: tuple[str, ...] = DATA_INTERFACES
    """Names of the data interface, by host, over and over."""
    mtu: int = 9000
    """MTU of the data network."""
    data_ipv6: bool = False
    """The data network has global IPv6 addresses too."""
    decoys: bool = True
    """docker0 and eth0 with the same addresses everywhere; eth0 holds the default route and leads nowhere."""


@dataclass(frozen=True)
class Wiring:
    """The names and addresses of one cluster, and what plugs its hosts in and out."""

    tag: str
    slot: int
    layout: Layout

    def netns(self, index: int) -> str:
        """Name of the host's network namespace."""
        return f"ncclrun.{self.tag}.{index}"

    @property
    def switch(self) -> str:
        """Namespace of the data network's bridge, and of the dead ends that the decoys hang on."""
        return f"ncclrun.{self.tag}.switch"

    def address(self, index: int) -> str:
        """The host's address for SSH."""
        return (
            f"10.{88 + self.slot}.0.{index + 2}" if self.layout.shared_management else f"10.{88 + self.slot}.{index}.2"
        )

    def data_address(self, index: int) -> str:
        """The host's address on the data network."""
        return f"{DATA_PREFIX}.{index + 1}"

    def data_interface(self, index: int) -> str:
        """The host's interface on the data network."""
        return self.layout.interfaces[index % len(self.layout.interfaces)]

    def outer(self, index: int) -> str:
        """The controller's end of the host's management link."""
        return f"nr{self.slot}m{index}"

    @property
    def _bridge(self) -> str:
        return f"nr{self.slot}br"

    def reserve(self) -> None:
        """Takes the slot's addresses for us: no packet to one whose link is missing leaves by the default route."""
        ip([f"route add unreachable 10.{88 + self.slot}.0.0/16 metric 4000000"])

    def build(self, count: int) -> None:
        """Makes the switch and plugs all hosts in."""
        bridge = [f"link add {self._bridge} type bridge", f"addr add 10.{88 + self.slot}.0.1/24 dev {self._bridge}"]
        bridge += [f"link set {self._bridge} up"]
        ip([f"netns add {self.switch}", *(bridge if self.layout.shared_management else [])])
        ip([f"link add data mtu {self.layout.mtu} type bridge", "link set data up"], netns=self.switch)
        self.plug(range(count))

    def plug(self, indexes: Iterable[int]) -> None:
        """Makes the namespaces of these hosts, with all their interfaces up."""
        indexes = list(indexes)
        ip([line for index in indexes for line in self._cables(index)])
        ip([line for index in indexes for line in self._ports(index)], netns=self.switch)
        for index in indexes:
            ip(self._interfaces(index), netns=self.netns(index))

    def _cables(self, index: int) -> list[str]:
        """Lines for the machine's own namespace: the host's namespace, and pairs of which one end is in it."""
        inner, outer = self.netns(index), self.outer(index)
        lines = [f"netns add {inner}", f"link add {outer} type veth peer name {MANAGEMENT_INTERFACE} netns {inner}"]
        if self.layout.shared_management:
            lines += [f"link set {outer} master {self._bridge}"]
        else:
            lines += [f"addr add 10.{88 + self.slot}.{index}.1/24 dev {outer}"]
        lines += [f"link set {outer} up"]
        pairs = {self.data_interface(index): f"d{index}"}
        if self.layout.decoys:
            pairs["eth0"] = f"v{index}"
        lines += [
            f"link add {name} netns {inner} type veth peer name {port} netns {self.switch}"
            for name, port in pairs.items()
        ]
        return lines

    def _ports(self, index: int) -> list[str]:
        """Lines for the switch's namespace."""
        lines = [f"link set d{index} mtu {self.layout.mtu} master data", f"link set d{index} up"]
        return [*lines, f"link set v{index} up"] if self.layout.decoys else lines

    def _interfaces(self, index: int) -> list[str]:
        """Lines for the host's namespace."""
        data = self.data_interface(index)
        cards = [MANAGEMENT_INTERFACE, data, *(["eth0"] if self.layout.decoys else [])]
        lines = [
            # A host keeps its cards over a reboot: with new hardware addresses its peers' ARP tables would be wrong.
            *(f"link set {name} address 02:88:{self.slot:02x}:{index:02x}:00:{n:02x}" for n, name in enumerate(cards)),
            "link set lo up",
            f"addr add {self.address(index)}/24 dev {MANAGEMENT_INTERFACE}",
            f"link set {MANAGEMENT_INTERFACE} up",
            f"link set {data} mtu {self.layout.mtu}",
            f"addr add {self.data_address(index)}/24 dev {data}",
            f"link set {data} up",
        ]
        if self.layout.data_ipv6:
            # nodad: the address is usable at once, without the seconds of duplicate detection
            lines += [f"addr add {DATA_PREFIX_V6}{index + 1:x}/64 dev {data} nodad"]
        return [*lines, *self._decoys(index)] if self.layout.decoys else lines

    def _decoys(self, index: int) -> list[str]:
        lines = [
            f"addr add {DECOY_ADDRESS} dev eth0",
            "link set eth0 up",
            "route add default via 172.20.0.1 dev eth0",
            "link add docker0 type bridge",
            f"addr add {DOCKER_ADDRESS} dev docker0",
            "link set docker0 up",
            "link add veth0a1b2c3 type veth peer name container0",
            "link set veth0a1b2c3 master docker0",
        ]
        # Odd hosts look as if a container ran, which gives docker0 a carrier; on even ones the last one has gone.
        return [
            *lines,
            *(["link set veth0a1b2c3 up", "link set container0 up"] if index % 2 else ["link del veth0a1b2c3"]),
        ]

    def power_off(self, index: int) -> None:
        """No packet leaves the host from now on, nor the farewells of its dying sockets."""
        names = [MANAGEMENT_INTERFACE, self.data_interface(index), *(["eth0"] if self.layout.decoys else [])]
        ip([f"link set {name} down" for name in names], netns=self.netns(index))

    def unplug(self, index: int) -> None:
        """Takes the host's namespace and cables away, so that a new boot knows nothing of old connections."""
        self.heal(index, "management")
        self.heal(index, "data")
        ip([f"link del {self.outer(index)}", f"netns del {self.netns(index)}"], force=True)
        ip(
            [f"link del d{index}", *([f"link del v{index}"] if self.layout.decoys else [])],
            netns=self.switch,
            force=True,
        )

    def demolish(self, count: int) -> None:
        """Takes everything away, as far as it was ever made."""
        lines = [f"link del {self.outer(index)}" for index in range(count)] + [f"link del {self._bridge}"]
        lines += [f"netns del {name}" for name in namespaces(self.tag)]
        lines += [f"route del unreachable 10.{88 + self.slot}.0.0/16 metric 4000000"]
        ip(lines, force=True)
        nft("".join(f"add table netdev {table}\ndelete table netdev {table}\n" for table in self._tables(range(count))))

    def cut(self, index: int, link: Link) -> None:
        """Drops every packet of that link, both ways, with the link up: nobody is told."""
        for netns, device in self._ends(index, link):
            table = self._table(index, link)
            rules = (
                f"add table netdev {table}\n"
                f"add chain netdev {table} in {{ type filter hook ingress device {device} priority -300; }}\n"
                f"add rule netdev {table} in meta protocol {{ ip, ip6 }} drop\n"
            )
            nft(rules, netns)

    def heal(self, index: int, link: Link) -> None:
        """Takes the cut back; without a cut it does nothing."""
        table = self._table(index, link)
        for netns, _device in self._ends(index, link):
            nft(f"add table netdev {table}\ndelete table netdev {table}\n", netns)

    def _ends(self, index: int, link: Link) -> list[tuple[str | None, str]]:
        """Both ends of a link: (namespace, None being the machine's own; device)."""
        if link == "management":
            return [(None, self.outer(index)), (self.netns(index), MANAGEMENT_INTERFACE)]
        return [(self.switch, f"d{index}"), (self.netns(index), self.data_interface(index))]

    def _table(self, index: int, link: Link) -> str:
        return f"ncclrun_{self.slot}_{index}_{link}"

    def _tables(self, indexes: Iterable[int]) -> list[str]:
        """Tables of cuts in the machine's own namespace; those of the other ends go with their namespaces."""
        return [self._table(index, "management") for index in indexes]


def namespaces(tag: str) -> list[str]:
    """Network namespaces of that cluster that exist."""
    return sorted(path.name for path in Path("/run/netns").glob(f"ncclrun.{tag}.*"))


def ip(lines: Sequence[str], *, netns: str | None = None, force: bool = False) -> None:
    """Runs these lines of `ip` in one process; ``force`` goes on after a line that fails, and forgives it."""
    argv = ["ip", *(["-n", netns] if netns else []), *(["-force"] if force else []), "-batch", "-"]
    done = subprocess.run(argv, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
    if done.returncode and not force:
        raise ClusterError(f"ip in {netns or 'this machine'} failed: {done.stderr.strip()}")


def nft(rules: str, netns: str | None = None) -> None:
    """Applies the rules, all or none."""
    prefix = ["ip", "netns", "exec", netns] if netns else []
    done = subprocess.run([*prefix, "nft", "-f", "-"], input=rules, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"nft in {netns or 'this machine'} failed: {done.stderr.strip()}")
