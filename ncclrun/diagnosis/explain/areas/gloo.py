"""Gloo: the processes' other network (objects, checkpoints, CPUs), with a choice of interface of its own."""

from __future__ import annotations

from ncclrun.diagnosis.explain.signature import Signature, Weight

_SET = (
    "GLOO_SOCKET_IFNAME=NAME   for each node (launch.env of the node; ncclrun sets it by itself), or put the real "
    "address beside the host's name in /etc/hosts"
)
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
        cure=_SET,
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
        pattern=r"[Gg]loo connectFullMesh failed|onnect.{0,40}remote=\[127\.0\.[01]\.1\]|"
        r"gloo\S* connect \[127\.0\.[01]\.1\]",
        sample="RuntimeError: Gloo connectFullMesh failed with [/build/gloo/transport/tcp/pair.cc:152] timed out "
        "connecting: SO_ERROR: Connection refused, remote=[127.0.1.1]:38123 (rank=3, size=8)",
        cause="The host's own name resolves to 127.0.0.1 or 127.0.1.1 (Debian and Ubuntu write such a line to "
        "/etc/hosts), and Gloo listens where its name resolves to; or GLOO_SOCKET_IFNAME names lo there.",
        cure=_SET,
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
        cure=_SET,
        check=_CHECK,
        doctor=("no_such_interface",),
    ),
)
