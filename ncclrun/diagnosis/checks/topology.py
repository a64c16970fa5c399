"""How GPUs of a host reach each other, and network cards them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ncclrun.diagnosis.checks.kind import Kind
from ncclrun.diagnosis.checks.subject import Subject, numbers
from ncclrun.model.netevents import Problem

DMA_BUF_KERNEL = (5, 12)

TOPOLOGY = Kind(
    id="gpu_topology",
    title="some GPUs are joined by way of the processors",
    symptom="All-reduce within the host is slower than PCIe allows; NCCL uses shared memory and not peer access.",
    cause="There is no NVLink between them, and they hang on different sockets.",
    cure="None in software. For fewer workers than GPUs choose those of one socket (`gpus` in the cluster file).",
)
NVLINK_DOWN = Kind(
    id="nvlink_down",
    title="a GPU has fewer NVLinks than the others",
    symptom="All-reduce within one host is slower than on its like; Xid 74.",
    cause="A link or a bridge failed, or did not come up at start.",
    cure="Restart the host (`nvidia-smi nvlink --status` shows which links are inactive); else seat the bridge anew, "
    "or have the baseboard looked at.",
)
ACS = Kind(
    id="pcie_acs",
    title="PCIe bridges send what GPUs say to each other by way of the processor (ACS)",
    symptom="NCCL hangs or is slow between GPUs without NVLink; GPUDirect RDMA is slower than it should be.",
    cause="Access Control Services are on, mostly along with virtualization in the BIOS. Virtual machines need it.",
    cure="Switch ACS off in the BIOS, or with setpci at each start, if no virtual machine is given a device.",
)
PEERMEM = Kind(
    id="gdr_module",
    title="network cards may not reach GPU memory directly",
    symptom="NCCL says `GPU Direct RDMA Disabled` for an HCA; half the bandwidth between nodes.",
    cause="nvidia_peermem is not loaded, and the kernel is too old for the way without it (DMA-BUF, from 5.12, with "
    "the driver's open modules).",
    cure="`sudo modprobe nvidia_peermem`, and its name in /etc/modules-load.d.",
)
KINDS = (TOPOLOGY, NVLINK_DOWN, ACS, PEERMEM)

_Links = Mapping[str, Mapping[str, str]]


def between_gpus(subject: Subject) -> Iterator[Problem]:
    """By NVLink, or by what lies between them on the bus."""
    exam = subject.exam
    links = _links(exam.health.topology) if exam is not None and exam.health is not None else {}
    names = list(links)
    across = [(a, b) for at, a in enumerate(names) for b in names[at + 1 :] if links[a].get(b) == "SYS"]
    if across:
        shown = ", ".join(f"{a}-{b}" for a, b in across[:4])
        more = f" and {len(across) - 4} more pairs" if len(across) > 4 else ""
        yield TOPOLOGY.found(f"by way of both sockets: {shown}{more}", "", "info")
    if len({gpu.name for gpu in subject.facts.gpus}) == 1:
        yield from _nvlinks(subject, links)
    if exam is not None and exam.acs is not None and exam.acs.redirecting and len(subject.facts.gpus) > 1:
        bridges = exam.acs.redirecting
        commands = "\n".join(f"  sudo setpci -s {one} ECAP_ACS+0x6.w=0000" for one in bridges[:8])
        yield ACS.found(f"on at {len(bridges)} bridges ({', '.join(bridges[:4])})", subject.there(commands))


def _links(topology: str) -> _Links:
    """How the matrix joins each GPU to each other one, in their order."""
    rows = [line.split() for line in topology.splitlines()]
    heads = next((row for row in rows if row[:1] == ["GPU0"] and "X" not in row), [])
    columns = [name for name in heads if re.fullmatch(r"GPU\d+", name)]
    found = {row[0]: dict(zip(columns, row[1:], strict=False)) for row in rows if "X" in row and row[0] in columns}
    return {one: {peer: link for peer, link in row.items() if peer != one} for one, row in found.items()}


def _nvlinks(subject: Subject, links: _Links) -> Iterator[Problem]:
    """Of one kind, and joined by NVLink, all have equally many; what has none is joined in another way."""
    has = {one: sum(int(link[2:]) for link in row.values() if link.startswith("NV")) for one, row in links.items()}
    counts = sorted({count for count in has.values() if count})
    if len(counts) > 1:
        least = ", ".join(one for one, count in has.items() if count == counts[0])
        fix = subject.there("nvidia-smi nvlink --status; sudo dmesg | grep -i nvlink | tail")
        yield NVLINK_DOWN.found(f"{least}: {counts[0]} links to the others, where others have {counts[-1]}", fix)


def to_network(subject: Subject) -> Iterator[Problem]:
    """Whether RDMA cards can reach a GPU's memory."""
    facts, system = subject.facts, subject.system
    active = any(port.state == "ACTIVE" for device in facts.rdma for port in device.ports)
    loaded = {"nvidia_peermem", "nv_peer_mem"} & set(system.modules)
    old = numbers(system.kernel.partition("-")[0])[:2] < DMA_BUF_KERNEL
    if active and facts.gpus and not loaded and system.kernel and old:
        message = f"nvidia_peermem is not loaded, and kernel {system.kernel} has no DMA-BUF for it"
        yield PEERMEM.found(message, subject.there("sudo modprobe nvidia_peermem"))
