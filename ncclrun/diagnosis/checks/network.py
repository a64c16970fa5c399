"""What of a host's network keeps nodes apart: two cards in one subnet, RDMA ports, local ports, names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from ipaddress import ip_network

from ncclrun.diagnosis.checks.install import package
from ncclrun.diagnosis.checks.kind import Kind
from ncclrun.diagnosis.checks.subject import Subject
from ncclrun.diagnosis.names import name_problems
from ncclrun.model.netevents import Problem
from ncclrun.model.words import listed

FEW_PORTS = 2000

TWO_CARDS = Kind(
    id="two_nics",
    title="two network cards in one subnet",
    symptom="Connections that work in one direction, or now and then; traffic on the wrong card.",
    cause="Linux answers ARP for both addresses on either card, and sends by whichever route stands first.",
    cure="Put the cards into different subnets, or bond them. Where that can't be: arp_ignore=1, arp_announce=2 and a "
    "routing table for each card.",
)
RDMA_CLOSED = Kind(
    id="rdma_closed",
    title="RDMA devices are there, and NCCL can't use them",
    symptom="NCCL says `No device found` for NET/IB and goes by TCP, many times slower.",
    cause="libibverbs is not installed, or /dev/infiniband is not there or not open to this user (containers).",
    cure="Install rdma-core; in a container `--device=/dev/infiniband --ulimit memlock=-1`.",
)
RDMA_DOWN = Kind(
    id="rdma_down",
    title="an RDMA port is down",
    symptom="NCCL uses fewer cards than there are, or goes by TCP.",
    cause="No cable, no subnet manager (state INIT), or the Ethernet interface of a RoCE card is down.",
    cure="`ibstat` shows the state; InfiniBand needs one `opensm` in the fabric.",
)
PORTS_FEW = Kind(
    id="ports_few",
    title="few local ports",
    symptom="`Cannot assign requested address`, `Address already in use` with many ranks.",
    cause="net.ipv4.ip_local_port_range was narrowed, often to suit a firewall.",
    cure="Widen it: NCCL opens several connections for each pair of ranks.",
)
MTU_DIFFERS = Kind(
    id="mtu_differs",
    title="the nodes' interfaces have different MTUs",
    symptom="Small messages pass and large ones hang: init works, the first all-reduce does not.",
    cause="Jumbo frames were switched on on some hosts, or not on the switch.",
    cure="The same MTU everywhere; `ncclrun ping` proves what fits through.",
)
NAMES = (
    Kind(
        id="name_unknown",
        title="the host's own name resolves to nothing",
        symptom="`Name or service not known`, `gethostbyname failed` in c10d, MPI or Ray.",
        cause="Neither DNS nor /etc/hosts knows it.",
        cure="A line in /etc/hosts.",
    ),
    Kind(
        id="name_loopback",
        title="the host's own name resolves to a loopback address",
        symptom="Other nodes are told to connect to 127.0.1.1: `Connection refused`.",
        cause="Debian and Ubuntu write such a line into /etc/hosts.",
        cure="Put the real address in its place. ncclrun's own launch does not depend on it.",
    ),
    Kind(
        id="name_foreign",
        title="the host's own name resolves to somebody else's address",
        symptom="Nodes connect to the wrong machine, or to none.",
        cause="A DNS entry that is out of date, or a public address.",
        cure="Correct it, or a line in /etc/hosts.",
    ),
    Kind(
        id="name_other_address",
        title="the host's own name resolves to another of its networks",
        symptom="Programs that announce their name are reached by the slow network.",
        cause="The name belongs to the management network.",
        cure="A line in /etc/hosts, if a program needs it.",
    ),
    Kind(
        id="name_slow",
        title="looking up the host's own name is slow",
        symptom="Every process takes seconds to start.",
        cause="A name server in /etc/resolv.conf does not answer.",
        cure="A line in /etc/hosts, or take the dead server out.",
        launch=True,
    ),
    Kind(
        id="reverse_slow",
        title="looking up the names of addresses is slow",
        symptom="The start of each process group takes seconds, times ranks.",
        cause="torch looks up every connection that it accepts, and no server answers for these addresses.",
        cure="Lines in /etc/hosts, or take the dead server out.",
        launch=True,
    ),
    Kind(
        id="proxy",
        title="a proxy is set, with no exceptions",
        symptom="gRPC or HTTP between nodes (metrics, Ray) gets answers of the proxy: 403, 503.",
        cause="http_proxy is in the login environment, and no_proxy is not.",
        cure="no_proxy with the nodes' addresses. NCCL and torch do not mind.",
    ),
)
KINDS = (TWO_CARDS, RDMA_CLOSED, RDMA_DOWN, PORTS_FEW, MTU_DIFFERS, *NAMES)


def cards(subject: Subject) -> Iterator[Problem]:
    """IPv4 interfaces that share a subnet."""
    shared: dict[str, dict[str, str]] = defaultdict(dict)
    for one in subject.facts.interfaces:
        if one.up and one.running and not (one.loopback or one.master or one.point_to_point):
            for address in one.addresses:
                if address.family == "ipv4" and address.prefix < 31:
                    net = str(ip_network(f"{address.address}/{address.prefix}", strict=False))
                    shared[net].setdefault(one.name, address.address)
    for net, there in shared.items():
        if len(there) > 1:
            names = ", ".join(f"{name} {address}" for name, address in there.items())
            answers = subject.system.sysctls.get("net.ipv4.conf.all.arp_ignore", "")
            tame = answers in ("1", "2")
            fix = "sudo sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2"
            yield TWO_CARDS.found(f"in {net}: {names}", subject.there(fix), "info" if tame else "warning")


def rdma(subject: Subject) -> Iterator[Problem]:
    """Devices that NCCL could use if something were mended."""
    facts = subject.facts
    if facts.verbs and facts.rdma:
        options = "--device=/dev/infiniband --ulimit memlock=-1"
        fix = subject.grant(options, package(subject, "rdma-core libibverbs1", "rdma-core"))
        yield RDMA_CLOSED.found(facts.verbs, fix)
    ports = [(f"{device.name}:{port.port}", port.state) for device in facts.rdma for port in device.ports]
    down = [f"{name} is {state or 'of unknown state'}" for name, state in ports if state != "ACTIVE"]
    if down:
        fix = subject.there("ibstat; rdma link")
        yield RDMA_DOWN.found(listed(down), fix, "info" if len(down) < len(ports) else "warning")


def ports(subject: Subject) -> Iterator[Problem]:
    """The kernel's choice for NCCL."""
    chosen = subject.local_ports
    if chosen is not None and chosen[1] - chosen[0] < FEW_PORTS:
        fix = subject.there("sudo sysctl -w net.ipv4.ip_local_port_range='32768 60999'")
        yield PORTS_FEW.found(f"{chosen[0]} to {chosen[1]}", fix)


def names(subject: Subject) -> Iterator[Problem]:
    """What the name service says of it."""
    own = [address.address for interface in subject.facts.interfaces for address in interface.addresses]
    if subject.names is not None and subject.interface is not None and subject.interface.addresses:
        chosen = subject.interface.addresses[0].address
        yield from name_problems(subject.name, subject.names, chosen, own, subject.peers)
