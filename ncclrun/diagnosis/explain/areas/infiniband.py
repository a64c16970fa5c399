"""InfiniBand and RoCE: memory that can't be locked, paths that lead nowhere, links that fail."""

from __future__ import annotations

from ncclrun.diagnosis.explain.signature import Signature, Weight
from ncclrun.diagnosis.explain.steps import again, here, say, there

_GIDS = there("show_gids", note="on both ends: the GIDs of RoCE v2 with an address of a network that both are in")

SIGNATURES = (
    Signature(
        id="ib-memlock",
        title="The limit of locked memory is too low for RDMA",
        weight=Weight.CAUSE,
        words=("Call to ibv_reg", "Call to ibv_create_qp", "Call to ibv_create_cq"),
        pattern=r"Call to ibv_(?:reg_mr|reg_mr_iova2|reg_dmabuf_mr|create_qp|create_cq)\S* failed"
        r"(?!.{0,30}Bad address)",
        sample="gpu3:9:40 [2] misc/ibvwrap.cc:180 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot "
        "allocate memory",
        cause="`ulimit -l` of the processes as sshd, systemd or docker starts them is small; what limits.conf says "
        "counts only for new logins.",
        cure=(
            there(
                "printf '* soft memlock unlimited\\n* hard memlock unlimited\\n' | sudo tee "
                "/etc/security/limits.d/memlock.conf",
                note="then log in anew",
            ),
            say("A container: docker run --ulimit memlock=-1"),
        ),
        doctor=("memlock",),
        likely=True,
    ),
    Signature(
        id="ib-gdr-memory",
        title="The card can't reach the GPU's memory",
        weight=Weight.COMPONENT,
        words=("Call to ibv_reg",),
        pattern=r"Call to ibv_reg\S* failed.{0,30}Bad address",
        sample="gpu3:9:40 [2] misc/ibvwrap.cc:252 NCCL WARN Call to ibv_reg_mr failed with error Bad address",
        cause="The kernel refused to register memory of the GPU for RDMA: mostly nvidia-peermem is not loaded, "
        "or was "
        "built for another driver.",
        cure=(
            there("sudo modprobe nvidia-peermem && lsmod | grep peermem"),
            again("--env NCCL_NET_GDR_LEVEL=LOC", "without it"),
        ),
        doctor=("gdr_module",),
    ),
    Signature(
        id="ib-modqp-inval",
        title="RoCE is told a GID that does not exist or does not fit",
        weight=Weight.CAUSE,
        words=("Call to ibv_modify_qp failed",),
        pattern=r"Call to ibv_modify_qp failed with (?:error |22 )?Invalid argument",
        sample="gpu3:9:40 [2] NCCL WARN Call to ibv_modify_qp failed with error Invalid argument",
        cause="The index of the GID is wrong on this host, mostly because NCCL_IB_GID_INDEX forces one that is right "
        "elsewhere.",
        cure=(
            here(
                "ncclrun nccl show {cluster}",
                note="who sets NCCL_IB_GID_INDEX: take it out, NCCL 2.21 and later choose it themselves",
            ),
            _GIDS,
        ),
        likely=True,
    ),
    Signature(
        id="ib-modqp-unreach",
        title="Two RoCE devices have no path to each other",
        weight=Weight.CAUSE,
        words=("Call to ibv_modify_qp failed",),
        pattern=r"Call to ibv_modify_qp failed.*(?:Network is unreachable|No such device|Connection timed out|"
        r"No route to host)",
        sample="gpu3:9:40 [2] NCCL WARN Call to ibv_modify_qp failed with error Network is unreachable",
        cause="They lie in different subnets (rails) that are not routed, a GID has no IP address, or a wrong device "
        "is in the list.",
        cure=(
            _GIDS,
            again("--env NCCL_CROSS_NIC=0", "devices of one rail only"),
            here("ncclrun ping {cluster} --bandwidth", note="which ports join which nodes"),
        ),
        over=("conn-unreach", "conn-noroute"),
        network=True,
        doctor=("rdma_down",),
        likely=True,
    ),
    Signature(
        id="ib-err12",
        title="RDMA packets do not arrive",
        weight=Weight.CAUSE,
        words=("Got completion",),
        pattern=r"Got completion .*?(?:with error 12\b|status=IBV_WC_RETRY_EXC_ERR|status=12\b)",
        sample="gpu3:946:988 [0] transport/net_ib.cc:839 NCCL WARN NET/IB : Got completion with error 12, opcode 1, "
        "len 0, vendor err 129",
        cause="Right after the start: a GID index that this fabric does not carry, RoCE that is not routed, a filter "
        "in a switch. Later: a link that flaps, or a time-out too short for the size.",
        cure=(
            _GIDS,
            say("Right after the start, with an NCCL before 2.21: NCCL_IB_GID_INDEX as it is shown there."),
            again("--env NCCL_IB_TIMEOUT=22", "where it comes in the middle of a run"),
        ),
        network=True,
        doctor=("rdma_down",),
        likely=True,
    ),
    Signature(
        id="ib-err-other",
        title="An RDMA operation failed",
        weight=Weight.COMPONENT,
        words=("Got completion",),
        pattern=r"NET/IB ?: Got completion .*?(?:with error (?!12\b)|status=(?!IBV_WC_RETRY_EXC|IBV_WC_LOC_LEN|12\b|"
        r"1\b))(?P<code>\w+)",
        sample="gpu3:9:40 [2] NCCL WARN NET/IB: Got completion from peer gpu4<41000> with "
        "status=IBV_WC_LOC_PROT_ERR(4) opcode=129",
        cause="{code}: 4 (LOC_PROT) points to PCI ACS or GPUDirect, 10 and 11 to the remote side, 5 (WR_FLUSH) only "
        "follows another error.",
        cure=(
            say("Look at the first such line of all ranks."),
            again("--env NCCL_NET_GDR_LEVEL=LOC", "without GPUDirect"),
        ),
        network=True,
    ),
    Signature(
        id="ib-mtu",
        title="The two ends have different MTUs",
        weight=Weight.CAUSE,
        words=("IBV_WC_LOC_LEN_ERR", "local access violation work queue error"),
        sample="gpu3:9:40 [2] NCCL WARN NET/IB: Got completion from peer gpu4<41000> with "
        "status=IBV_WC_LOC_LEN_ERR(1) opcode=0",
        cause="A port sends larger packets than the other takes; NCCL 2.20 and later do not take the smaller of the "
        "two.",
        cure=(
            there(
                "ibv_devinfo | grep active_mtu", note="on every host: it is to be the same on all ports and switches"
            ),
            here("ncclrun ping {cluster}"),
        ),
        check="`ncclrun ping` measures what fits through between all nodes",
        network=True,
        doctor=("mtu_differs",),
    ),
    Signature(
        id="ib-linktype",
        title="InfiniBand and RoCE ports are mixed",
        weight=Weight.CAUSE,
        words=("incompatible devices", "is incompatible with the local"),
        pattern=r"Attempted to (?:connect|merge) incompatible devices|"
        r"Remote \w+ device is incompatible with the local",
        sample="gpu3:9:40 [2] NCCL WARN NET/IB : Attempted to connect incompatible devices: [0]mlx5_0:1/IB and "
        "[1]mlx5_1:1/RoCE. Try selecting NICs of only one link type using NCCL_IB_HCA",
        cause="A host has devices of both kinds, and they were paired.",
        cure=(
            there("grep . /sys/class/infiniband/*/ports/*/link_layer", note="which are of which kind"),
            say("Write those of one kind into NCCL_IB_HCA of each node (nccl.env of the cluster file)."),
        ),
        network=True,
    ),
    Signature(
        id="ib-none",
        title="NCCL finds no InfiniBand device",
        weight=Weight.HARMLESS,
        words=("NET/IB : No device found",),
        sample="gpu1:9:9 [0] NCCL INFO NET/IB : No device found.",
        cause="Right on hosts with Ethernet alone. Where there is InfiniBand it costs speed: the driver is missing, "
        "or the container lacks /dev/infiniband.",
        doctor=("rdma_closed", "rdma_down"),
    ),
    Signature(
        id="ib-lib",
        title="libibverbs is not installed",
        weight=Weight.HARMLESS,
        words=("Failed to open libibverbs", "Failed to load libibverbs"),
        sample="gpu1:9:9 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]",
        cause="Needed for InfiniBand and RoCE alone; without them it says nothing.",
        doctor=("rdma_closed",),
    ),
    Signature(
        id="ib-async",
        title="An RDMA port changed its state during the run",
        weight=Weight.COMPONENT,
        words=("Got async event", "async fatal event", "GID table changed", "port error", "Port error"),
        pattern=r"NET/IB.*(?:Got async event|async fatal event|GID table changed|[Pp]ort error)|Got async event|"
        r"async fatal event",
        sample="gpu3:9:41 [2] NCCL WARN NET/IB : mlx5_0:1 async fatal event: port error",
        cause="The link went down or its addresses changed: a cable, a transceiver, a switch, or somebody who "
        "configured it.",
        cure=(there("ibstat"), there("sudo dmesg -T | grep -i mlx5")),
        network=True,
    ),
    Signature(
        id="gdr-off",
        title="GPUDirect RDMA is off",
        weight=Weight.HARMLESS,
        words=("GPU Direct RDMA Disabled",),
        sample="gpu3:9:9 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'",
        cause="Data goes by the host's memory: slower, and no failure. `sudo modprobe nvidia-peermem` turns it on "
        "where the hardware can.",
        doctor=("gdr_module",),
    ),
    Signature(
        id="ib-open",
        title="An RDMA device can't be opened",
        weight=Weight.CAUSE,
        words=("Unable to open device", "Call to ibv_open_device failed", "Failed to open RDMA device"),
        pattern=r"NET/IB ?: Unable to open device (?P<name>\S+)|Call to ibv_open_device failed",
        sample="gpu3:9:9 [0] NCCL WARN NET/IB : Unable to open device mlx5_0",
        cause="The process may not open /dev/infiniband on {host}: a container without the devices, or rights "
        "that are missing.",
        cure=(
            there("ls -l /dev/infiniband", note="also in the container"),
            say("A container: docker run --device /dev/infiniband --ulimit memlock=-1"),
            again("--env NCCL_IB_DISABLE=1", "all by sockets"),
        ),
        network=True,
        doctor=("rdma_closed",),
    ),
    Signature(
        id="ofi-error",
        title="NCCL's libfabric plugin (EFA, Slingshot) failed",
        weight=Weight.COMPONENT,
        words=("NET/OFI",),
        pattern=r"WARN NET/OFI (?P<value>.+)",
        sample="gpu3:9:40 [2] nccl_net_ofi_rdma.c:900 NCCL WARN NET/OFI Request completed with error. RC: 107. "
        "Error: 4123 (unreachable remote)",
        cause="It says: {value}. Mostly the security group does not let the nodes' traffic to each other through "
        "(EFA needs all of it, both ways, from and to the group itself), or one node has another version "
        "of the plugin.",
        cure=(
            there("fi_info -p efa", note="whether the provider is there, and its version"),
            here("ncclrun nccl show {cluster}", note="settings that differ"),
            again("--env NCCL_NET=Socket", "without it"),
        ),
        network=True,
    ),
)
