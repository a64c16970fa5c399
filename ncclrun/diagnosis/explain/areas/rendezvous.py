"""torchrun and its store: nodes that do not find each other, ports in use, arguments that differ."""

from __future__ import annotations

from ncclrun.diagnosis.explain.signature import Signature, Weight
from ncclrun.diagnosis.explain.steps import LAUNCH, here, in_file, on, say, there

_LAUNCH = here(LAUNCH, note="starts all nodes with one, proven address and a free port")
_PING = here("ncclrun ping {cluster}", note="who reaches whom, and what to open")
_CHECK = "every node connects to the master's port before anything starts"

SIGNATURES = (
    Signature(
        id="store-timeout",
        title="Node 0 can't be reached at the rendezvous address",
        weight=Weight.COMPONENT,
        words=(
            "client socket has timed out after",
            "failed to connect to any network address of",
        ),
        pattern=r"failed to connect to any network address of \((?P<address_>[^,]+), (?P<port_>\d+)\)|"
        r"client socket has timed out after \d+ ?(?:ms|s) while trying to connect to "
        r"\((?P<address>[^,]+), (?P<port>\d+)\)",
        sample="[E1130 12:00:00.1 socket.cpp:1028] [c10d] The client socket has timed out after 60000ms while trying "
        "to connect to (10.20.0.1, 29500).",
        cause="Nobody answers at {address}:{port}: node 0 was not started or did not take the server's part, the "
        "address or port is wrong, or a firewall is between.",
        cure=(on("node 0", "ss -ltn 'sport = :{port}'", note="whether it listens there"), _PING, _LAUNCH),
        check=_CHECK,
        network=True,
    ),
    Signature(
        id="store-gai",
        title="A host name can't be resolved here",
        weight=Weight.CAUSE,
        words=("cannot be retrieved (gai error", "host not found: ", "socket.gaierror"),
        pattern=r"IPv[46] network addresses of \((?P<name>[^,]+), \d+\) cannot be retrieved \(gai error|"
        r"host not found: |socket\.gaierror",
        sample="[W1130 12:00:00.1 socket.cpp:764] [c10d] The IPv6 network addresses of (gpu-07.lab, 44875) cannot be "
        "retrieved (gai error: -2 - Name or service not known)."
        "\n[E1130 12:10:00.1 socket.cpp:1028] [c10d] The client socket has timed out after 600000ms while trying to "
        "connect to (gpu-07.lab, 44875).",
        cause="With the c10d rendezvous the name is node 0's own full name, which nobody typed; the other hosts' DNS "
        "or /etc/hosts do not have it. (A warning or two while "
        "a peer still comes up is harmless.)",
        cure=(
            there(
                "getent hosts {name}",
                'getent hosts "$(hostname)"',
                note="nothing: write the address and the name into /etc/hosts",
            ),
            _LAUNCH,
        ),
        check="`ncclrun launch` gives torchrun addresses alone; `resolve` shows what each host's name resolves to",
        over=("store-timeout", "rdzv-conn", "rdzv-not-host"),
        circumstance=True,
        doctor=("name_unknown",),
    ),
    Signature(
        id="rdzv-conn",
        title="The rendezvous could not be reached",
        weight=Weight.COMPONENT,
        words=("RendezvousConnectionError",),
        sample="torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store "
        "has failed. See inner exception for details.",
        cause="The endpoint is not reachable from {host}, or no node took itself for its host.",
        cure=(_PING, _LAUNCH),
        check=_CHECK,
        over=("store-timeout",),
        network=True,
    ),
    Signature(
        id="rdzv-not-host",
        title="No node takes itself for the rendezvous host",
        weight=Weight.CAUSE,
        sample="gpu1: torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d "
        "store has failed.\n"
        "gpu2: torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store "
        "has failed.",
        cause="All nodes fail alike, also the one that has the endpoint's address ({hosts}): its own name resolves "
        "to another address (127.0.1.1, a second card), so torchrun there waits as a client too.",
        cure=(
            _LAUNCH,
            say("By hand: --rdzv-conf is_host=1 on node 0 and is_host=0 on the others, or the static rendezvous."),
        ),
        check="`ncclrun launch` says which node is the host; `resolve` shows what each host's name resolves to",
        over=("rdzv-conn", "store-timeout"),
        network=True,
        doctor=("name_loopback", "name_other_address"),
    ),
    Signature(
        id="rdzv-closed",
        title="The rendezvous was over when this node came",
        weight=Weight.CONSEQUENCE,
        words=("RendezvousClosedError",),
        sample="torch.distributed.elastic.rendezvous.api.RendezvousClosedError",
        cause="Another node had finished or failed and closed it, or this one was started again after the end, "
        "under the same --rdzv-id.",
        cure=(say("Look at the end of the other nodes' logs: the first error there is the cause."), _LAUNCH),
        network=True,
    ),
    Signature(
        id="store-connect",
        title="Node 0 did not answer in time",
        weight=Weight.COMPONENT,
        words=("connect() timed out", "Original timeout was"),
        sample="RuntimeError: connect() timed out. Original timeout was 1800000 ms.",
        cause="The words of older versions of torch (to 1.11) for a MASTER_ADDR and MASTER_PORT at which nobody "
        "listens, or that can't be reached.",
        cure=(_PING, _LAUNCH),
        check=_CHECK,
        network=True,
    ),
    Signature(
        id="rdzv-timeout",
        title="Not all nodes came to the rendezvous in time",
        weight=Weight.COMPONENT,
        words=("RendezvousTimeoutError",),
        sample="torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
        cause="A node was not started or failed before, the nodes have different --rdzv-id, or --nnodes is larger "
        "than the number of nodes.",
        cure=(_PING, _LAUNCH),
        check="all nodes are prepared, or none starts",
        network=True,
    ),
    Signature(
        id="store-clients",
        title="Some nodes did not reach node 0",
        weight=Weight.COMPONENT,
        words=("waiting for clients",),
        pattern=r"Timed out after \d+ seconds waiting for clients\. (?P<value>\d+/\d+) clients joined",
        sample="torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 1/4 clients joined.",
        cause="{value} joined; the others were not started, or can't connect to the master's port.",
        cure=(_PING, _LAUNCH),
        check=_CHECK,
        network=True,
    ),
    Signature(
        id="eaddrinuse",
        title="The master's port is in use",
        weight=Weight.CAUSE,
        words=("EADDRINUSE", "ddress already in use", "Could not start gRPC server"),
        pattern=r"(?:port: |bind to \S*[:\]])(?P<port>\d+).*(?:EADDRINUSE|ddress already in use)|EADDRINUSE|"
        r"[Aa]ddress already in use|Could not start gRPC server",
        sample="torch.distributed.DistNetworkError: The server socket has failed to listen on any local network "
        "address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
        cause="A second job, what is left of an earlier one, or --node-rank 0 given to two launchers on one machine.",
        cure=(
            there("ss -ltnp 'sport = :{port}'", "ss -ltnp", note="whose it is"),
            here(LAUNCH, note="takes a port that is free"),
        ),
        check="`ncclrun launch` holds a port that was free from PREPARE on",
        over=("store-timeout", "store-clients"),
        doctor=("leftover",),
    ),
    Signature(
        id="env-missing",
        title="The script was started without torchrun",
        weight=Weight.CAUSE,
        words=("expected, but not set",),
        pattern=r"environment variable (?P<name>RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT) expected, but not set",
        sample="ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable RANK "
        "expected, but not set",
        cause="init_process_group wants {name}, which a launcher sets.",
        cure=(here(LAUNCH, note="or torchrun in place of python"),),
    ),
    Signature(
        id="local-rank-arg",
        title="The script does not know --local-rank",
        weight=Weight.CAUSE,
        words=("unrecognized arguments: --local",),
        sample="train.py: error: unrecognized arguments: --local-rank=0",
        cause="torch.distributed.launch passes it on the command line (with a hyphen since torch 2.0).",
        cure=(say("Read LOCAL_RANK from the environment in the script, and start it with torchrun or ncclrun."),),
    ),
    Signature(
        id="master-ignored",
        title="--master-addr does not count here",
        weight=Weight.REMARK,
        words=("master_addr is only used for static rdzv_backend",),
        sample="master_addr is only used for static rdzv_backend and when rdzv_endpoint is not specified.",
        cause="Given together with the c10d rendezvous it is passed over. (Older versions of torch say so also where "
        "nobody gave it.)",
        cure=(say("Give --rdzv-endpoint with the address and port of node 0, or use the static rendezvous."),),
    ),
    Signature(
        id="noderank-ignored",
        title="--node-rank does not count here",
        weight=Weight.REMARK,
        words=("node_rank is only used for static rdzv_backend",),
        sample="node_rank is only used for static rdzv_backend. It will be ignored for rdzv_backend=c10d.",
        cause="The c10d rendezvous numbers the nodes itself, in an order of its own.",
        cure=(in_file("launch: {{rendezvous: static}}", note="where the order matters"),),
    ),
    Signature(
        id="last-member",
        title="The nodes did not end together",
        weight=Weight.COMPONENT,
        words=("terminal_state/last_member", "exit barrier"),
        pattern=r"terminal_state/last_member|exit barrier\. Elapsed: \d{3}",
        sample="torch.distributed.DistStoreError: wait timeout after 300000ms, keys: "
        "/none/torchelastic/agent/terminal_state/last_member",
        cause="One node finished or died and the others waited for it at the end; or the nodes were started with "
        "different --nnodes, of which torchrun says nothing else.",
        cure=(say("Look at the log of the node that is missing; start all with the same --nnodes."), _LAUNCH),
        check="one plan says --nnodes for all",
        over=("init-timeout-store",),
        waiting=True,
    ),
    Signature(
        id="stop-waiting",
        title="The store was answered in another protocol",
        weight=Weight.COMPONENT,
        words=("Stop_waiting response is expected",),
        sample="RuntimeError: Stop_waiting response is expected",
        cause="Another version of torch, or another program, is at the master's port; or the store broke off in the "
        "middle.",
        cure=(here("ncclrun ping {cluster}", note="the version of torch on each node"),),
        check="versions that differ are told",
        network=True,
    ),
    Signature(
        id="address-not-here",
        title="Node 0 does not have the address that the others are told",
        weight=Weight.CAUSE,
        words=("Cannot assign requested address", "annot assign requested address"),
        pattern=r"(?:bind to|bind on|listen on) \[?(?P<address>[\w.:-]+?)\]?:(?P<port>\d+) .*[Cc]annot assign requ"
        r"ested address|[Cc]annot assign requested address",
        sample="[W socket.cpp:436] [c10d] The server socket has failed to bind to [gpu1.lab]:29500 (errno: 99 - "
        "Cannot assign requested address).",
        cause="MASTER_ADDR is another machine's, a public address behind a translation, or a name that resolves "
        "to one.",
        cure=(there("ip -brief address", note="one of these is to be MASTER_ADDR"), _LAUNCH),
        over=("store-timeout", "store-clients", "rdzv-conn"),
        network=True,
        doctor=("name_foreign",),
    ),
)
