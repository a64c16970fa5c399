"""Gloo: the processes' other network (objects, checkpoints, CPUs), with a choice of interface of its own."""

from __future__ import annotations

from ncclrun.diagnosis.explain.signature import Signature, Weight
from ncclrun.diagnosis.explain.steps import LAUNCH, again, here, say, there

_SET = here(LAUNCH, note="sets GLOO_SOCKET_IFNAME of each node to the interface that is proven")
_CHECK = (
    "`ncclrun launch` sets GLOO_SOCKET_IFNAME on each node to the interface that was proven; `resolve` shows "
    "what the host's name resolves to"
)

SIGNATURES = (
    Signature(
        id="gloo-loopback",
        title="Gloo falls back to the loopback address",
        weight=Weight.CAUSE,
        words=("Using the loopback",),
        pattern=r"Unable to resolve hostname to a \(local\) address\. Using the loopback",
        sample="[W1130 12:00:00.1 ProcessGroupGloo.cpp:524] Warning: Unable to resolve hostname to a (local) "
        "address. Using the loopback address as fallback. Manually set the network interface to bind to with "
        "GLOO_SOCKET_IFNAME."
        "\nRuntimeError: Gloo connectFullMesh failed with [pair.cc:152] timed out connecting: SO_ERROR: Connection "
        "refused, remote=[127.0.0.1]:38123",
        cause="This host's own name is in neither DNS nor /etc/hosts, so Gloo tells its peers 127.0.0.1, where they "
        "find themselves.",
        cure=(
            there(
                'getent hosts "$(hostname)"', note="what Gloo announces: it is to be the address that the others reach"
            ),
            _SET,
        ),
        check=_CHECK,
        over=("gloo-mesh",),
        circumstance=True,
        doctor=("name_unknown",),
    ),
    Signature(
        id="gloo-mesh",
        title="Gloo announced an address that leads its peers to themselves",
        weight=Weight.CAUSE,
        words=("loo connectFullMesh failed", "remote=[127.0.", "connect [127.0."),
        pattern=r"^(?!.*willRetry=1).*?(?:[Gg]loo connectFullMesh failed.*\[127\.0\.[01]\.1\]|"
        r"onnect.{0,40}remote=\[127\.0\.[01]\.1\]|"
        r"gloo\S* connect \[127\.0\.[01]\.1\])",
        sample="RuntimeError: Gloo connectFullMesh failed with [/build/gloo/transport/tcp/pair.cc:152] timed out "
        "connecting: SO_ERROR: Connection refused, remote=[127.0.1.1]:38123 (rank=3, size=8)",
        cause="The host's own name resolves to 127.0.0.1 or 127.0.1.1 (Debian and Ubuntu write such a line to "
        "/etc/hosts), and Gloo listens where its name resolves to; or GLOO_SOCKET_IFNAME names lo there.",
        cure=(
            there(
                'getent hosts "$(hostname)"', note="what Gloo announces: it is to be the address that the others reach"
            ),
            _SET,
        ),
        check=_CHECK,
        network=True,
        doctor=("name_loopback",),
    ),
    Signature(
        id="gloo-ifname",
        title="GLOO_SOCKET_IFNAME names an interface that is not there",
        weight=Weight.CAUSE,
        words=("Unable to find address for: ", "Unable to find interface for: "),
        pattern=r"Unable to find (?:address|interface) for: (?P<interface>\S+)",
        sample="RuntimeError: [enforce fail at gloo/transport/tcp/device.cc:84] ifa != nullptr. Unable to find "
        "address for: eth7",
        cause="{host} has no interface {interface} with an address. The name may be right on other hosts; Gloo knows "
        "no ^ and no lists.",
        cure=(there("ip -brief address", note="the interfaces that there are"), _SET),
        check=_CHECK,
        doctor=("no_such_interface",),
    ),
    Signature(
        id="gloo-connect",
        title="Gloo can't connect the ranks to each other",
        weight=Weight.COMPONENT,
        words=("loo connectFullMesh failed", "Connect timeout [", "connect timeout [", "connect timed out ["),
        pattern=r"[Gg]loo connectFullMesh failed(?:.*remote=\[(?!127\.)(?P<address>[^\]]+)\])?|"
        r"[Cc]onnect time(?:out|d out) \[(?P<address_>[^\]]+)\]",
        sample="RuntimeError: Gloo connectFullMesh failed with [/build/gloo/transport/tcp/pair.cc:144] no error",
        cause="The address that a peer announced (what its own name resolves to) leads nowhere from here, the "
        "peer has ended, or a firewall keeps the port closed.",
        cure=(
            there("ip route get {address}", note="by which interface it goes there"),
            here("ncclrun ping {cluster}", note="who reaches whom, and what to open"),
            _SET,
        ),
        check=_CHECK,
        network=True,
        doctor=("name_foreign", "firewall"),
    ),
    Signature(
        id="gloo-size",
        title="Gloo got another amount of data than this rank waits for",
        weight=Weight.CAUSE,
        words=("op.preamble.length <= op.nbytes", "data size doesn't match expected size"),
        sample="terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  [enforce fail at "
        "/build/gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 8 vs 4. Received data size doesn't "
        "match expected size. Is there a distributed collective mismatch in your code?",
        cause="The program takes another way on some ranks, or their tensors have other shapes or types (a last batch, "
        "data of different length): one rank is a collective ahead, or sends more than the other takes.",
        cure=(
            again("--env TORCH_DISTRIBUTED_DEBUG=DETAIL", "names the ranks and both collectives before they start"),
            say("What comes before that collective in the script depends on the rank or its data."),
        ),
        over=("closed-remote", "process-ended"),
    ),
    Signature(
        id="gloo-timeout",
        title="Gloo waited in vain for another rank",
        weight=Weight.COMPONENT,
        words=(
            "for recv operation to complete",
            "for send operation to complete",
            "Application timeout caused pair closure",
            "Read timeout [",
        ),
        pattern=r"Timed out waiting \d+ms for (?:recv|send) operation to complete|"
        r"Application timeout caused pair closure|gloo\S* Read timeout \[",
        sample="RuntimeError: [/build/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for "
        "recv operation to complete",
        cause="Some rank did not come to the collective: it died, hangs, or is slower than the time-out (a long "
        "evaluation or download on one rank alone).",
        cure=(
            say("Look at the rank whose last line is the oldest: the others wait for it."),
            again("--stall 5m", "shows where each rank waits"),
        ),
        network=True,
        waiting=True,
    ),
)
