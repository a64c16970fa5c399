"""Does the GPUs' driver answer, and which faults have it and the kernel written down?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ncclrun.diagnosis.checks.kind import Kind
from ncclrun.diagnosis.checks.subject import Subject
from ncclrun.model.health import KernelLine
from ncclrun.model.netevents import Problem
from ncclrun.model.settings import Level
from ncclrun.model.words import lasting

MISMATCH = re.compile(r"version mismatch", re.IGNORECASE)
# Of slices (MIG) the address is followed by their number; drivers before 346 wrote no "PCI:".
XID = re.compile(r"NVRM: Xid \((?:PCI:)?(?P<bus>[0-9a-f:.]+)[^)]*\): (?P<number>\d+),?\s*(?P<text>.*)", re.IGNORECASE)
SXID = re.compile(r"(?P<name>nvidia-nvswitch\d+): SXid \(\S+\): (?P<number>\d+), (?P<text>.*)")
OF_PROGRAMS = frozenset((13, 31, 43, 45, 68, 69))
"""Xids that a program's own fault raises; the GPU is well."""
OF_HARDWARE = {
    48: "an uncorrectable memory error",
    61: "its firmware halted",
    62: "its firmware halted",
    63: "a memory row is to be taken out of use",
    64: "a memory row could not be remapped",
    74: "an NVLink error",
    79: "it has fallen off the bus",
    92: "many memory errors",
    94: "a memory error, contained",
    95: "a memory error, not contained",
    119: "its system processor does not answer",
    120: "its system processor failed",
    140: "an uncorrectable memory error",
    **dict.fromkeys(range(144, 151), "an NVLink error"),
}
RECENT = 7 * 86400.0
"""Seconds for which an old fault is still a warning."""
LONGEST = 100

DRIVER_FAILS = Kind(
    id="driver_fails",
    title="the GPUs' driver does not answer",
    symptom="`Driver/library version mismatch`, `Unable to determine the device handle for GPU`, or an nvidia-smi that "
    "hangs; CUDA fails or hangs in its first call.",
    cause="The driver's packages were updated under a loaded module, a GPU has fallen off the bus, or it hangs.",
    cure="Restart the host. After an update it is enough to load the module anew while nothing uses it: "
    "`sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia_peermem nvidia; sudo modprobe nvidia`.",
    launch=True,
)
XID_SEEN = Kind(
    id="xid",
    title="the driver reported a GPU fault (Xid)",
    symptom="CUDA errors out of nowhere on one host: `unspecified launch failure`, `GPU is lost`, hangs in NCCL.",
    cause="The number says what: 79 a GPU that fell off the bus, 48, 94, 95 memory errors, 74 and 144 to 150 NVLink, "
    "119 and 120 its system processor; 13, 31, 43 and 45 come of a program's own faults.",
    cure="Restart the host after one of the hardware's; have the board looked at when it comes again. For a program's, "
    "look at the program.",
)
SXID_SEEN = Kind(
    id="sxid",
    title="an NVSwitch reported a fault (SXid)",
    symptom="NCCL hangs or fails between GPUs of one host, with CUDA error 802 or an NVLink error (Xid 74).",
    cause="A link between a GPU and a switch, or the switch itself. Those that are not fatal were mended at once.",
    cure="Restart the host after a fatal one; have the baseboard looked at when it comes again.",
)
HARDWARE = Kind(
    id="hardware_error",
    title="the kernel reports faulty hardware",
    symptom="Crashes and wrong results at random, always on one host.",
    cause="Memory, a processor or a PCIe device; single errors are corrected, and more follow.",
    cure="`sudo ras-mc-ctl --errors` or the board's own log (`sudo ipmitool sel list`) name the part.",
)
CARD_ERROR = Kind(
    id="nic_error",
    title="a network card's driver reports a fault",
    symptom="RDMA completions with errors, a port that is gone, a rank whose peers all wait for it.",
    cause="The card's firmware failed, or the card left the bus.",
    cure="Restart the host; update the card's firmware, or replace it.",
)
FILE_SERVER = Kind(
    id="nfs_silent",
    title="a file server did not answer",
    symptom="Ranks that hang in an import, in a data loader or in a checkpoint, in state D.",
    cause="The NFS server, or the network to it, is overloaded or down.",
    cure="`nfsstat -m` and the server's load; what a step waits for belongs on a local disk.",
)
KINDS = (DRIVER_FAILS, XID_SEEN, SXID_SEEN, HARDWARE, CARD_ERROR, FILE_SERVER)
_OTHERS = (
    (HARDWARE, re.compile(r"Hardware Error|Machine check", re.IGNORECASE), "sudo dmesg -T | grep -iE 'hardware|mce'"),
    (CARD_ERROR, re.compile(r"mlx5_core.*(?:health|fatal|error)"), "sudo dmesg -T | grep mlx5; ibstat"),
    (FILE_SERVER, re.compile(r"nfs: server \S+ not responding"), "nfsstat -m; sudo dmesg -T | grep nfs: | tail"),
)


def answers(subject: Subject) -> Iterator[Problem]:
    """It does, where nvidia-smi is there to ask it."""
    facts, why = subject.facts, subject.facts.gpu_trouble
    mixed = MISMATCH.search(why) is not None
    if why and (facts.gpus or mixed):
        mend = "sudo reboot" if mixed else "sudo dmesg | grep -iE 'nvrm|xid' | tail"
        fix = subject.there(mend) + ("" if mixed else "   (then restart it)")
        yield DRIVER_FAILS.found(why, fix)  # no error: what runs on processors alone runs


def _lines(subject: Subject) -> tuple[KernelLine, ...]:
    log = subject.exam.kernel_log if subject.exam is not None else None
    return log.lines if log is not None else ()


def xids(subject: Subject) -> Iterator[Problem]:
    """Faults in the kernel's log: each number once a GPU, with the last time that it came."""
    last: dict[tuple[str, int], tuple[KernelLine, int, str]] = {}
    for line in _lines(subject):
        match = XID.search(line.text)
        if match:
            key = match["bus"], int(match["number"])
            last[key] = line, last.get(key, (line, 0, ""))[1] + line.many, match["text"]
    for (bus, number), (line, times, text) in last.items():
        level: Level = "info" if number in OF_PROGRAMS or line.age > RECENT else "error" if number == 79 else "warning"
        said = OF_HARDWARE.get(number) or ("a program's own fault, mostly" if number in OF_PROGRAMS else text[:LONGEST])
        fix = "" if level == "info" else subject.there("sudo dmesg -T | grep -i xid | tail") + "   (then restart it)"
        message = f"{_index(subject, bus)}: Xid {number}{f' ({said})' if said else ''}{_often(times, line.age)}"
        yield XID_SEEN.found(message, fix, level)


def _index(subject: Subject, bus: str) -> str:
    """The log leaves the function out (`0000:3b:00`), the report has one (`00000000:3B:00.0`)."""
    report = subject.exam.health if subject.exam is not None else None
    place = bus.lower().partition(".")[0]
    known = report.gpus if report is not None else ()
    at = (f"GPU {gpu.index}" for gpu in known if gpu.bus.lower().partition(".")[0].endswith(place))
    return next(at, f"the GPU at {bus}")


def logged(subject: Subject) -> Iterator[Problem]:
    """What else the kernel has written down: the last of each matter."""
    switches = [(line, match) for line in _lines(subject) if (match := SXID.search(line.text))]
    for name in dict.fromkeys(match["name"] for _, match in switches):
        own = [(line, match) for line, match in switches if match["name"] == name]
        fatal = [(line, match) for line, match in own if match["text"].startswith("Fatal")]
        line, match = (fatal or own)[-1]
        level: Level = "warning" if fatal and line.age < RECENT else "info"
        message = f"{name}: SXid {match['number']} ({match['text'][:LONGEST]}){_when([one for one, _ in fatal or own])}"
        yield SXID_SEEN.found(message, subject.there("sudo dmesg -T | grep -i sxid | tail"), level)
    for kind, pattern, command in _OTHERS:
        lines = [line for line in _lines(subject) if pattern.search(line.text)]
        if lines:
            message = f"{lines[-1].text[:LONGEST]}{_when(lines)}"
            yield kind.found(message, subject.there(command), "warning" if lines[-1].age < RECENT else "info")


def _when(lines: list[KernelLine]) -> str:
    return _often(sum(line.many for line in lines), lines[-1].age)


def _often(times: int, age: float) -> str:
    return f"{f', {times} times' if times > 1 else ''}, {lasting(age)} ago"
