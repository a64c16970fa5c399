"""Processes that know each other's addresses and can't connect."""

from __future__ import annotations

from ncclrun.diagnosis.explain.signature import Signature, Weight
from ncclrun.diagnosis.explain.steps import again, here, say, there

_ADDRESS = r"(?P<address>(?P<ip>\d+\.\d+\.\d+\.\d+|[0-9a-fA-F]*:[0-9a-fA-F:]+)|[^\s<>]+)"
"""A route is asked for by number alone, and NCCL may print a name."""
_TORCH = "client socket has failed to "
_TO = (
    rf"(?:(?<!{_TORCH})[Cc]onnect to {_ADDRESS}(?:<(?P<port>\d+)>)?|{_TORCH}connect to \S+|"
    "Call to connect|connect returned|returned)"
)
"""Torch's address is not taken: where it finds no name for one it prints bytes that are none, as 145.85.0.0:6078."""
_PROVE = here(
    "ncclrun ping {cluster}", note="who reaches whom by TCP on ports of the kind that NCCL uses, and what to open"
)
_ROUTE = there("ip route get {ip}", note="by which interface, and from which address, it goes there")
_CHECK = "the nodes try each other on such ports before a launch, and a firewall that lets only SSH through is named"

SIGNATURES = (
    Signature(
        id="conn-noroute",
        title="A firewall rejects the connection, or there is no route",
        weight=Weight.CAUSE,
        words=("No route to host",),
        pattern=rf"{_TO}.{{0,60}}No route to host",
        sample="gpu5:240:240 [6] misc/socket.cc:533 NCCL WARN socketPollConnect: Connect to 10.20.0.4<56849> "
        "returned 113(No route to host) errno 115(Operation now in progress)",
        cause="What goes to {address} comes back as rejected: a host firewall that lets ping and SSH through and no "
        "other port (firewalld's default looks just like this), the packet leaves by the wrong interface, or nobody "
        "has that address.",
        cure=(_ROUTE, _PROVE),
        check=_CHECK,
        network=True,
        early=True,
        doctor=("firewall",),
        likely=True,
    ),
    Signature(
        id="conn-timeout",
        title="Packets to the peer get lost",
        weight=Weight.COMPONENT,
        words=("Connection timed out",),
        pattern=rf"{_TO}.{{0,60}}Connection timed out",
        sample="gpu2:61:88 [1] NCCL WARN Connect to 10.20.0.9<40000> failed : Connection timed out",
        cause="Nothing comes back from {address}: a security group or firewall that drops, the wrong interface or "
        "subnet, a VPN, or a container's address translation.",
        cure=(_ROUTE, _PROVE),
        check=_CHECK,
        over=("conn-failed", "timeout-generic"),
        network=True,
        early=True,
        doctor=("firewall",),
    ),
    Signature(
        id="conn-refused-retry",
        title="The peer's address refuses the connection, again and again",
        weight=Weight.COMPONENT,
        words=("Connection refused, retrying",),
        pattern=rf"(?:Call to connect returned|connect to {_ADDRESS}(?:<(?P<port>\d+)>)? returned|"
        r"connect returned) Connection refused, retrying",
        sample="gpu2:1448:1448 [0] NCCL INFO socketPollConnect: connect to 10.20.0.5<52895> returned Connection "
        "refused, retrying (11/34) after sleep for 1100 msec",
        cause="Nobody listens at {address}: it belongs to another machine or to this one itself (an address that "
        "several hosts have: docker0, a decoy card), or the peer has died.",
        cure=(there("ip route get {ip}", note="`local` in it: the address is this host's own"), _PROVE),
        check=_CHECK,
        network=True,
        early=True,
    ),
    Signature(
        id="conn-stale-file",
        title="The rendezvous goes by a file, which may be an earlier run's",
        weight=Weight.CAUSE,
        words=("init_method",),
        pattern=r"init_method\s*[:=]\s*['\"]?file://(?P<path>[^\s'\"]+)",
        sample="dist_init_method: file:///nfs/exp7/ddp.init\n"
        "gpu2:9:9 [0] NCCL WARN Connect to 10.20.0.77<41001> failed : Connection timed out",
        cause="A file of an earlier run holds addresses of processes that are long gone; the log then names an "
        "address that belongs to no node.",
        cure=(
            there("rm {path}", note="before each start"),
            say("Or init_method='env://' in the script: it needs no file."),
        ),
        over=("conn-refused-retry", "conn-failed"),
        circumstance=True,
    ),
    Signature(
        id="conn-failed",
        title="A connection between ranks failed",
        weight=Weight.COMPONENT,
        words=("connect to ", "Connect to ", "connect timeout"),
        pattern=rf"WARN .*[Cc]onnect to {_ADDRESS}<(?P<port>\d+)> (?:failed|returned)|"
        r"WARN Call to connect timeout",
        sample="gpu1:61:88 [0] NCCL WARN socketPollConnect: Connect to 10.20.0.2<4567> returned 111(Connection "
        "refused) errno 115(Operation now in progress)",
        cause="NCCL gave up to reach {address}; the line's own end says how it failed.",
        cure=(_ROUTE, _PROVE),
        check=_CHECK,
        network=True,
    ),
    Signature(
        id="conn-unreach",
        title="The peer's address is of a network that this host has no way to",
        weight=Weight.CAUSE,
        words=("Network is unreachable",),
        pattern=rf"(?:[Cc]onnect to {_ADDRESS}<\d+>.{{0,40}})?(?<!error )(?<!101 )Network is unreachable",
        sample="gpu1:61:88 [0] NCCL WARN Connect to fd00:7::12<41234> failed : Network is unreachable",
        cause="No route leads to that address or address family from here: an IPv6 address on one side only, a "
        "link-local address, a subnet that is not routed.",
        cure=(_ROUTE, _PROVE),
        check=_CHECK,
        network=True,
    ),
    Signature(
        id="conn-abort",
        title="The peer can't be reached (the words are misleading)",
        weight=Weight.COMPONENT,
        words=("Software caused connection abort",),
        pattern=rf"(?:[Cc]onnect to {_ADDRESS}<\d+>.{{0,20}})?Software caused connection abort",
        sample="gpu1:12:70 [0] NCCL WARN socketStartConnect: Connect to 10.20.0.2<45763> failed : Software caused "
        "connection abort",
        cause="NCCL 2.16 to 2.19 lose the real error here. It is a firewall, an address translation or the wrong "
        "interface, and no abort by a program.",
        cure=(_ROUTE, _PROVE),
        check=_CHECK,
        over=("conn-failed",),
        network=True,
    ),
    Signature(
        id="timeout-generic",
        title="NCCL gave up to connect",
        weight=Weight.COMPONENT,
        words=("exceeded error retry count", "exceeded retries"),
        pattern=rf"(?:connect to {_ADDRESS}<\d+>.{{0,60}})?exceeded (?:error retry count|retries)",
        sample="gpu1:61:88 [0] NCCL WARN ncclOsSocketPollConnect: connect to gpu2<5123> returned Connection refused, "
        "exceeded error retry count after 35 attempts",
        cause="It tried for about a minute. The line says which address and what came back.",
        cure=(_ROUTE, _PROVE),
        check=_CHECK,
        over=("conn-failed",),
        network=True,
    ),
    Signature(
        id="wrong-type",
        title="One node speaks InfiniBand, the other plain sockets",
        weight=Weight.CAUSE,
        words=("wrong type", "wrong socket type"),
        pattern=r"socketFinalizeAccept.*wrong (?:socket )?type",
        sample="gpu1:125:300 [0] misc/socket.cc:441 NCCL WARN socketFinalizeAccept: wrong type 4 != 3",
        cause="InfiniBand is broken or switched off (NCCL_IB_DISABLE, NCCL_NET) on some hosts only; more rarely "
        "another job's connection came in.",
        cure=(
            here("ncclrun nccl show {cluster}", note="where settings differ"),
            again("--env NCCL_IB_DISABLE=1", "all by sockets, until InfiniBand works on all of them"),
        ),
        check="`ncclrun ping` shows which nodes have working RDMA; mixed ones are refused",
        network=True,
        doctor=("rdma_down",),
    ),
    Signature(
        id="net-mixed",
        title="Some nodes use InfiniBand, others sockets",
        weight=Weight.CAUSE,
        sample="gpu1:1:1 [0] NCCL INFO Using network IB\ngpu2:1:1 [0] NCCL INFO Using network Socket\n"
        "gpu1:1:1 [0] NCCL WARN Call to connect timeout : Connection refused",
        cause="{hosts}: the two kinds can't talk to each other.",
        cure=(
            here("ncclrun nccl show {cluster}", note="where settings differ"),
            again("--env NCCL_IB_DISABLE=1", "all by sockets, until InfiniBand works on all of them"),
        ),
        check="`ncclrun ping` shows which nodes have working RDMA; mixed ones are refused",
        over=("conn-noroute",),
        circumstance=True,
        doctor=("rdma_down",),
    ),
    Signature(
        id="wrong-magic",
        title="A stranger connected to NCCL's port",
        weight=Weight.REMARK,
        words=("wrong magic", "socket magic mismatch"),
        sample="gpu1:5:9 [0] NCCL WARN socketFinalizeAccept: wrong magic 4c4c != 1f2e",
        cause="A port scanner, a health check or another job came in and was sent away; NCCL goes on without it.",
    ),
    Signature(
        id="hang-init",
        title="NCCL began to set up its communicator and never finished",
        weight=Weight.CONSEQUENCE,
        sample="gpu1:9:9 [0] NCCL INFO ncclCommInitRankConfig comm 0x55 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 "
        "commId 0x9 - Init START",
        cause="Some rank never came, or can't be reached: a firewall, the wrong interface, InfiniBand on some hosts "
        "only, or a rank that died before.",
        cure=(_PROVE, again("--stall 5m", "shows where each rank waits")),
        check=_CHECK,
    ),
)
