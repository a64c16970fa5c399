"""NCCL took an interface that does not lead to the other nodes, or found none."""

from __future__ import annotations

from ncclrun.diagnosis.explain.signature import Signature, Weight
from ncclrun.diagnosis.explain.steps import LAUNCH, again, here, say, there

_CHOOSE = (
    here("ncclrun resolve {cluster}", note="which interface joins the nodes, and the variables that say so"),
    here(LAUNCH, note="takes that one by itself"),
)
_CHECK = "`ncclrun ping` and `launch` ask NCCL itself on every node which interface it would take"
_FOLLOWS = ("conn-noroute", "conn-timeout", "conn-unreach", "if-docker-net", "gloo-mesh")
_VIRTUAL = r"docker\d|br-[0-9a-f]{12}|virbr\d|cni\d|flannel|cali|veth|lxdbr|podman|vxlan"
_USING = r"Bootstrap ?: Using (?:interface )?(?:\[0\])?"

SIGNATURES = (
    Signature(
        id="if-none",
        title="NCCL finds no interface that its settings allow",
        weight=Weight.CAUSE,
        words=("no socket interface found",),
        pattern=r"Bootstrap : no socket interface found",
        sample="gpu4:811:811 [0] bootstrap.cc:133 NCCL WARN Bootstrap : no socket interface found",
        cause="NCCL_SOCKET_IFNAME matches no running interface of this host: the name is another one here, or its "
        "value has a blank, "
        "quotes, a carriage return, a star or a comment in it (NCCL takes all of that for the name); or the "
        "container has no network. "
        "Old versions call this an internal error, new ones invalid usage.",
        cure=(
            there("ip -brief address", note="the interfaces that there are"),
            here(
                "ncclrun nccl show {cluster}",
                note="what is set there, and where: take it out, or give each node its own name",
            ),
        ),
        check=_CHECK,
        over=("uniqueid", "if-net-none", "net-not-found", "if-family-garbage"),
        network=True,
        doctor=("no_such_interface",),
    ),
    Signature(
        id="if-net-none",
        title="NCCL's data transport finds no interface",
        weight=Weight.CAUSE,
        words=("no interface found", "No IP interface found"),
        pattern=r"NET/\w+ : no interface found|NET/IB : No IP interface found",
        sample="gpu4:811:840 [0] NCCL WARN NET/Socket : no interface found",
        cause="As with the bootstrap: NCCL_SOCKET_IFNAME or NCCL_SOCKET_FAMILY leave no interface over on this host.",
        cure=(
            there("ip -brief address", note="the interfaces that there are"),
            here(
                "ncclrun nccl show {cluster}",
                note="what is set there, and where: take it out, or give each node its own name",
            ),
        ),
        check=_CHECK,
        over=("net-not-found",),
        network=True,
    ),
    Signature(
        id="if-value",
        title="The value of NCCL_SOCKET_IFNAME is no name of an interface",
        weight=Weight.CAUSE,
        words=("NCCL_SOCKET_IFNAME set",),
        pattern=r"""NCCL_SOCKET_IFNAME set (?:by environment )?to (?P<value>[^\r\n]*[\s"'*#][^\r\n]*)""",
        sample="gpu2:77:77 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth1  # the fast card\n"
        "gpu2:77:77 [0] NCCL WARN Bootstrap : no socket interface found",
        cause="NCCL takes everything behind the equals sign for the name, comments, quotes, blanks and stars too: "
        "{value}",
        cure=(here("ncclrun nccl lint {cluster}", note="the file and line, and the line as it should be"),),
        check="`ncclrun nccl lint CLUSTER` shows the line and what NCCL makes of it",
        over=("if-none", "if-net-none", "uniqueid", "net-not-found"),
        circumstance=True,
        doctor=("nccl_setting",),
    ),
    Signature(
        id="if-lo",
        title="NCCL uses the loopback interface between machines",
        weight=Weight.CAUSE,
        words=("lo:127.",),
        pattern=rf"(?:{_USING}|NET ?(?:/Socket)? : Using (?:interface |\[\d\])?)lo:127\.",
        sample="gpu1:310:310 [0] NCCL INFO Bootstrap : Using lo:127.0.0.1<0>",
        cause="A filter that only excludes (^docker0, ^eth0) takes the place of NCCL's own, which keeps lo out; lo "
        "then comes first. "
        "Or no other interface is up. The other hosts are told 127.0.0.1 and reach themselves.",
        cure=_CHOOSE,
        check=_CHECK,
        over=_FOLLOWS,
        circumstance=True,
    ),
    Signature(
        id="if-docker",
        title="NCCL uses a virtual bridge that no other host reaches",
        weight=Weight.CAUSE,
        words=("Bootstrap : Using", "Bootstrap: Using"),
        pattern=rf"{_USING}(?P<interface>(?:{_VIRTUAL})[\w.-]*):(?:\[?)(?P<address>[0-9a-fA-F.:]+)",
        sample="gpu1:310:310 [0] NCCL INFO Bootstrap: Using virbr0:192.168.122.1<0>",
        cause="{interface} joins containers or guests of this host alone. NCCL leaves out docker* (and, since 2.28, "
        "virbr*) by itself, and no other "
        "kind of bridge; a filter of one's own lets these in too.",
        cure=_CHOOSE,
        check=_CHECK,
        over=_FOLLOWS,
        circumstance=True,
    ),
    Signature(
        id="if-docker-net",
        title="A peer announced its container's private address",
        weight=Weight.CAUSE,
        words=("client socket has timed out after", "connect to 172.", "Connect to 172."),
        pattern=r"client socket has timed out after .* connect to \((?P<address_>172\.1[789]\.\d+\.\d+), \d+\)|"
        r"[Cc]onnect to (?P<address>172\.(?:1[7-9]|2\d|30)\.\d+\.\d+)<(?P<port>\d+)> (?:failed|returned)",
        sample="gpu1:1203:1227 [0] misc/socket.cc:480 NCCL WARN socketStartConnect: Connect to 172.18.0.3<40117> "
        "failed : Software caused connection abort",
        cause="{address} is of the range that docker gives to its bridges (unless your own network is): the peer "
        "runs in a container without the "
        "host's network, or took the bridge for "
        "its interface. Publishing one port does not help, for NCCL opens several of its own choice.",
        cure=(
            *_CHOOSE,
            say("In a container: docker run --network host on every host (else an overlay or macvlan network)."),
        ),
        check=_CHECK,
        over=("store-timeout", "conn-noroute", "conn-timeout", "conn-unreach", "commid-subnet"),
        network=True,
        early=True,
        doctor=("container_network",),
        likely=True,
    ),
    Signature(
        id="if-container",
        title="NCCL announces an address of docker's own network",
        weight=Weight.CAUSE,
        words=("eth0:172.17.",),
        pattern=rf"{_USING}eth0:(?P<address>172\.17\.\d+\.\d+)",
        sample="c6ad99331184:77:77 [0] NCCL INFO Bootstrap : Using [0]eth0:172.17.0.2<0>",
        cause="{address} is what a container gets on docker's default bridge: within one machine that is fine, and no "
        "other machine reaches it.",
        cure=(
            say("Over several machines: docker run --network host on every host (else an overlay or macvlan network)."),
        ),
        check=_CHECK,
        over=_FOLLOWS,
        circumstance=True,
        doctor=("container_network",),
        likely=True,
    ),
    Signature(
        id="if-linklocal6",
        title="An interface that has only a link-local IPv6 address is used for data",
        weight=Weight.CAUSE,
        words=(":fe80:", " fe80::"),
        pattern=r"onnect to (?P<address>fe80::[0-9a-f:]*%(?P<interface>[\w.-]+))|[Cc]onnect to fe80::|"
        r"\[\d+\](?P<interface_>[\w.-]+):fe80::"
        r"|Using interface (?P<interface__>[\w.-]+):fe80::",
        sample="gpu3:90:121 [0] NCCL WARN Connect to fe80::5054:ff:fe12:3456%veth1a2b<46681> failed : Connection "
        "timed out",
        cause="A veth of a container, a tunnel or a card without an address counts as an interface for NCCL as soon "
        "as it has its automatic fe80:: address; "
        "what goes that way reaches nobody.",
        cure=(*_CHOOSE, again("--env NCCL_SOCKET_FAMILY=AF_INET", "IPv4 alone")),
        check=_CHECK,
        over=_FOLLOWS,
        circumstance=True,
    ),
    Signature(
        id="if-linklocal4",
        title="NCCL uses an interface that got no address from the network",
        weight=Weight.CAUSE,
        words=(":169.254.",),
        pattern=rf"{_USING}(?P<interface>[\w.-]+):(?P<address>169\.254\.[\d.]+)",
        sample="gpu2:55:55 [0] NCCL INFO Bootstrap: Using usb0:169.254.7.2<0>",
        cause="{address} is an address that a host gives itself where nobody gives it one: {interface} is the "
        "management controller's USB link or an unconfigured card.",
        cure=_CHOOSE,
        check=_CHECK,
        over=_FOLLOWS,
        circumstance=True,
    ),
    Signature(
        id="if-same-address",
        title="Two hosts took the same address",
        weight=Weight.CAUSE,
        sample="gpu1:1:1 [0] NCCL INFO NET/Socket : Using [0]eth0:172.20.0.5<0>\n"
        "gpu2:1:1 [0] NCCL INFO NET/Socket : Using [0]eth0:172.20.0.5<0>\n"
        "gpu2:1:9 [0] NCCL INFO socketPollConnect: connect to 172.20.0.5<52895> returned Connection refused, "
        "retrying (9/34) after sleep for 900 msec",
        cause="{address} ({interface}) is announced by {hosts}: who connects to it reaches itself, and is refused or "
        "waits for ever.",
        cure=_CHOOSE,
        check="`ncclrun resolve` has each node say its name to whom it answers, so that such an address is never "
        "chosen",
        over=("if-docker", "if-linklocal6", *_FOLLOWS),
        circumstance=True,
    ),
    Signature(
        id="if-ignored",
        title="NCCL_SOCKET_IFNAME was set, and NCCL never saw it",
        weight=Weight.COMPONENT,
        sample="+ export NCCL_SOCKET_IFNAME=eth1\n"
        "gpu1:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.1.0.5<0>\n"
        "gpu1:1:9 [0] NCCL WARN socketPollConnect: Connect to 10.1.0.6<4711> failed : Connection timed out",
        cause="It was set in a shell, and NCCL says of none of the processes that it has it: lost on the way through "
        "ssh, sudo, docker or mpirun, or set in Python after "
        "NCCL's first use.",
        cure=(
            again("--env NCCL_SOCKET_IFNAME={value}"),
            here("ncclrun nccl show {cluster}", note="what the workers of each node would have"),
        ),
        check="`ncclrun nccl show` tells what the workers of each node would have",
        over=("conn-timeout", "conn-failed", "conn-refused-retry", "conn-abort"),
        circumstance=True,
    ),
    Signature(
        id="if-family-garbage",
        title="NCCL connects to an address that nobody filled in",
        weight=Weight.CAUSE,
        words=("is neither AF_INET(2) nor AF_INET6(10)",),
        pattern=r"connecting to address .*with family \d+ is neither",
        sample="ncclSocketInit: connecting to address  with family 40720 is neither AF_INET(2) nor AF_INET6(10)",
        cause="On some host NCCL_SOCKET_IFNAME matches no interface and this version goes on with an empty address; "
        "or the nodes have different versions of "
        "NCCL, which exchange addresses in different forms.",
        cure=(
            here("ncclrun ping {cluster}", note="NCCL's version and interface on every node"),
            here(
                "ncclrun nccl show {cluster}",
                note="who sets NCCL_SOCKET_IFNAME: take it out, or give each node its own name",
            ),
        ),
        check=f"{_CHECK}; versions that differ are told",
        network=True,
        likely=True,
    ),
    Signature(
        id="no-af",
        title="There is no usable network interface at all",
        weight=Weight.CAUSE,
        words=("Address family not supported by protocol",),
        pattern=r"Socket creation failed ?: Address family not supported",
        sample="c0ffee11:31:31 [0] include/socket.h:318 NCCL WARN Net : Socket creation failed : Address family not "
        "supported by protocol",
        cause="Old versions of NCCL say so when they found no interface with an IP address: a container without a "
        "network, or a host that has only the other IP version.",
        cure=(
            there("ip -brief address", note="an interface with an address is to be there"),
            say("A container: docker run --network host"),
        ),
        check="`ncclrun ping` shows the addresses of each node, and which it would use",
        network=True,
        likely=True,
    ),
    Signature(
        id="commid-subnet",
        title="NCCL_COMM_ID asks for a subnet that this host is not in",
        weight=Weight.CAUSE,
        words=("No interface found in the same subnet", "No usable listening interface found"),
        sample="gpu7:1791:1791 [0] bootstrap.cc:39 NCCL WARN NET/Socket : No usable listening interface found",
        cause="Where NCCL_COMM_ID is set NCCL wants an interface in that address's subnet; behind a router or in a "
        "container there is none.",
        cure=(here("ncclrun nccl show {cluster}", note="who sets NCCL_COMM_ID: take it out, torch does not need it"),),
        check="`ncclrun launch` warns of NCCL_COMM_ID where it leads NCCL elsewhere",
    ),
    Signature(
        id="commid-bad",
        title="NCCL_COMM_ID can't be read as an address",
        weight=Weight.CAUSE,
        words=("Invalid NCCL_COMM_ID", "error encountered when getting address info"),
        sample="gpu1:20:20 [0] NCCL WARN Net : error encountered when getting address info : Name or service not known",
        cause="NCCL_COMM_ID holds a host name that can't be resolved here, or is not in the form address:port.",
        cure=(here("ncclrun nccl show {cluster}", note="who sets NCCL_COMM_ID: take it out, torch does not need it"),),
        check="`ncclrun nccl lint` judges its form",
        doctor=("nccl_setting",),
    ),
    Signature(
        id="commid-229-bug",
        title="A fault of NCCL 2.29: with NCCL_COMM_ID set it takes the wrong subnet",
        weight=Weight.CAUSE,
        sample="gpu1:20:20 [0] NCCL INFO NCCL_COMM_ID set by environment to 10.2.0.9:1778\n"
        "gpu1:20:20 [0] NCCL INFO Bootstrap: Using lo:127.0.0.1<0>",
        cause="NCCL 2.29.2 to 2.29.7 choose exactly an interface that is not in the subnet of NCCL_COMM_ID, so lo.",
        cure=(here("ncclrun nccl show {cluster}", note="who sets NCCL_COMM_ID: take it out, torch does not need it"),),
        check=_CHECK,
        over=("if-lo",),
        circumstance=True,
    ),
    Signature(
        id="same-subnet",
        title="Two interfaces of a host lie in one subnet",
        weight=Weight.CAUSE,
        sample="(no line of a log tells this one)",
        cause="NCCL listens on the right card, but the kernel sends by whichever of the two its routes name first: "
        "half of the traffic takes the other card, or none arrives.",
        cure=(
            here("ncclrun ping {cluster} --bandwidth"),
            say("Put them into different subnets, or set route metrics or policy routing by source address."),
        ),
        check="`ncclrun resolve` proves each address from its own source, and warns of two cards in one subnet",
        doctor=("two_nics",),
    ),
)
