"""Networks of every shape between the hosts of a test cluster, made and broken for one test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ipaddress import ip_interface

from tests.cluster.cluster import Cluster
from tests.cluster.network import ip, nft
from tests.topologies import firewall as rules
from tests.topologies.wires import Lan, Wires

STRANGER = f"""
import socket
server = socket.create_server(("", {rules.STRANGERS_PORT}))
print("ready", flush=True)
while True:
    caller, _ = server.accept()
    with caller:
        caller.recv(200)
        caller.sendall(b"220 what do you want?\\n")
"""
"""A machine that takes every connection and answers something else."""


class Lab(Wires):
    """What the tests speak of: networks in their usual shapes, what software adds to a host, and troubles."""

    # --- shapes

    def routed(self, names: Sequence[str]) -> list[Lan]:
        """Each host in a subnet of its own, 10.60.HOST.0/24, and one router between them."""
        lans = [self.lan(f"10.60.{host}.0/24", {host: name}) for host, name in enumerate(names)]
        self.router({lan.bridge: lan.address(254) for lan in lans})
        for host in range(len(lans)):
            self.ip(host, f"route add 10.60.0.0/16 via 10.60.{host}.254")
        return lans

    def two_routers(self, names: Sequence[str], *, between: int) -> None:
        """Hosts 0 and 1 in 10.60.0.0/24, host 2 in 10.60.1.0/24, jumbo frames; the link of their routers takes less."""
        near = self.lan("10.60.0.0/24", names[:2], mtu=9000)
        far = self.lan("10.60.1.0/24", {2: names[2]}, mtu=9000)
        link = self.switch(between)
        sizes = {near.bridge: 9000, far.bridge: 9000, link: between}
        one = self.router({near.bridge: near.address(254), link: "10.60.9.1/24"}, mtu=sizes)
        other = self.router({far.bridge: far.address(254), link: "10.60.9.2/24"}, mtu=sizes)
        ip(["route add 10.60.1.0/24 via 10.60.9.2"], netns=one)
        ip(["route add 10.60.0.0/24 via 10.60.9.1"], netns=other)
        for host in range(2):
            self.ip(host, "route add 10.60.1.0/24 via 10.60.0.254")
        self.ip(2, "route add 10.60.0.0/24 via 10.60.1.254")

    def triangle(self) -> None:
        """A cable between each two hosts and no switch: eth1 and eth2 on each, /31 links of 10.70.0.0."""
        self.cable((0, "eth1", "10.70.0.0/31"), (1, "eth1", "10.70.0.1/31"))
        self.cable((0, "eth2", "10.70.0.2/31"), (2, "eth1", "10.70.0.3/31"))
        self.cable((1, "eth2", "10.70.0.4/31"), (2, "eth2", "10.70.0.5/31"))

    def bottleneck(self, left: str, right: str, mtu: int) -> None:
        """Joins two switches by a link that drops what is larger than ``mtu``, and tells nobody."""
        number = self.number()
        one, other = f"t{number}a", f"t{number}b"
        lines = [f"link add {one} type veth peer name {other}"]
        for name, bridge in ((one, left), (other, right)):
            lines += [f"link set {name} mtu {mtu} master {bridge}", f"link set {name} up"]
        ip(lines, netns=self.switches)

    # --- what software adds to a host

    def bridge(self, host: int, name: str, port: str, address: str) -> None:
        """A bridge over a card of the host, with the address that the card would have."""
        lines = [f"link add {name} type bridge", f"link set {port} master {name}", f"addr add {address} dev {name}"]
        self.ip(host, *lines, f"link set {name} up", undo=[f"link del {name}"])
        self.comes_up(host, name)

    def docker(self, host: int, address: str = "172.17.0.1/16", name: str = "docker0") -> None:
        """A container bridge, as if one container ran."""
        inner = f"veth{self.number()}c"
        self.ip(host, f"link add {inner} type veth peer name {inner}p", f"link set {inner}p up", f"link set {inner} up")
        self.undo(ip, [f"link del {inner}"], netns=self.netns(host), force=True)
        self.bridge(host, name, inner, address)

    def vxlan(self, host: int, name: str, lower: str, address: str) -> None:
        """An overlay on top of a network, as VPN and container software make it."""
        link = f"link add {name} type vxlan id 42 dstport 4789 group 239.1.1.1 dev {lower}"
        self.ip(host, link, f"addr add {address} dev {name}", f"link set {name} up", undo=[f"link del {name}"])

    def file(self, host: int, path: str, text: str) -> None:
        """A file of that content on the host; what was there comes back."""
        place = self.hosts[host].path(path)
        before = place.read_bytes() if place.exists() else None
        self.hosts[host].write(path, text)
        if before is None:
            self.undo(place.unlink, missing_ok=True)
        else:
            self.undo(self.hosts[host].write, path, before)

    def login(self, host: int, **variables: str) -> None:
        """Variables that every login of the host has, by its shell's start-up file."""
        self.file(host, "/root/.bashrc", "".join(f"export {name}='{value}'\n" for name, value in variables.items()))

    # --- troubles

    def cut(self, lan: Lan, source: int, target: int, *, both: bool = True) -> None:
        """Drops what these two hosts send each other in that network, silently.

        Not ``both``: as a stateful firewall does it, which drops new connections of ``source`` to ``target`` alone.
        """
        addresses = [str(ip_interface(lan.address(host + 1)).ip) for host in (source, target)]
        table = f"cut{source}{target}{lan.bridge}"
        nft(rules.cut(table, lan.ports[source].outer, *addresses, connections_only=not both), self.switches)
        if both:
            port = lan.ports[target].outer
            nft(rules.cut(f"{table}back", port, *reversed(addresses), connections_only=False), self.switches)

    def drop_ipv4(self, lan: Lan) -> None:
        """IPv4 does not pass this switch; ARP does."""
        for port in lan.ports.values():
            nft(rules.no_ipv4(f"v6{port.outer}", port.outer), self.switches)

    def unplug(self, lan: Lan, host: int) -> None:
        """The host's cable leads nowhere: there is a carrier and nobody behind it (a wrong VLAN, say)."""
        ip([f"link set {lan.ports[host].outer} nomaster"], netns=self.switches)

    def firewall(self, host: int, allow: str, how: str = "drop") -> None:
        """A firewall that lets new connections to these TCP ports through (``22, 29500``) and treats the rest so.

        ``how``: ``drop``, ``prohibited`` (the answer of firewalld) or ``reset``.
        """
        self._protect(host, rules.incoming(allow, how))

    def forbid_output(self, host: int, name: str) -> None:
        """A firewall on the host that lets no new connection out by this interface."""
        self._protect(host, rules.outgoing(name))

    def _protect(self, host: int, text: str) -> None:
        nft(text, self.netns(host))
        self.undo(nft, f"delete table inet {rules.TABLE}\n", self.netns(host))

    def silence(self, host: int, name: str, address: str) -> None:
        """An address to which packets can be sent and from which none ever comes."""
        self.ip(host, f"neigh add {address} lladdr 02:00:00:00:00:fe nud permanent dev {name}")

    @contextmanager
    def stranger(self, lan: Lan, address: str, *, talks: bool) -> Iterator[None]:
        """A machine that is no node has this address; ``talks``: it takes connections at any port."""
        name = f"{self.switches}-stranger{self.number()}"
        self.namespace(name)
        self.plug_in(name, "eth0", lan.bridge, address)
        if not talks:
            yield
            return
        nft(rules.everything_to_the_stranger(), name)
        argv = ["ip", "netns", "exec", name, sys.executable, "-c", STRANGER]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout and process.stdout.readline() == "ready\n"
            try:
                yield
            finally:
                process.kill()


@contextmanager
def lab(cluster: Cluster) -> Iterator[Lab]:
    """A lab that is cleared whatever happens."""
    made = Lab(cluster)
    try:
        yield made
    finally:
        made.clear()


def make_bare(cluster: Cluster) -> None:
    """Leaves each host its own link to the controller and nothing else.

    What is sent from that link's address leaves by it or not at all, as policy routing has it on many machines: else
    each test would wait until such packets are given up.
    """
    ip([f"link del d{host.index}" for host in cluster.hosts], netns=f"ncclrun.{cluster.tag}.switch")
    for host in cluster.hosts:
        own = f"from {host.address}"
        lines = [
            f"rule add {own} to {host.address}/24 table main priority 100",
            f"rule add {own} priority 101 unreachable",
        ]
        ip(lines, netns=f"ncclrun.{cluster.tag}.{host.index}")
