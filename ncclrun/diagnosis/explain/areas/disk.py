"""Disks: full, over a quota, or not written to."""

from __future__ import annotations

from ncclrun.diagnosis.explain.signature import Signature, Weight
from ncclrun.diagnosis.explain.steps import say, there

_DF = there('df -h "$(dirname {path})"; df -i "$(dirname {path})"', "df -h; df -i", note="space, and inodes")

SIGNATURES = (
    Signature(
        id="disk-full",
        title="A disk is full, or a quota is used up",
        weight=Weight.CAUSE,
        words=("No space left on device", "Disk quota exceeded", "no space left on device", "not enough disk space"),
        pattern=r"^(?!.*(?:/dev/shm|posix_fallocate|shared memory|shm_open)).*(?:[Nn]o space left on device|"
        r"Disk quota exceeded|not enough disk space)(?:.*?['\"](?P<path>/[^'\"]+)['\"])?",
        sample="OSError: [Errno 28] No space left on device: '/data/run7/step_2000.pt'",
        cause="The disk of {path} on {host} has no room: checkpoints, caches, logs, or /tmp.",
        cure=(
            _DF,
            there(
                'du -xh --max-depth=2 "$(dirname {path})" | sort -h | tail',
                "du -xh --max-depth=2 /tmp ~ | sort -h | tail",
                note="what takes it",
            ),
            say("Keep fewer checkpoints, or write them to another disk."),
        ),
        over=("write-failed", "process-ended"),
        doctor=("disk_low", "inodes_low", "tmp_low"),
    ),
    Signature(
        id="write-failed",
        title="A checkpoint could not be written",
        weight=Weight.COMPONENT,
        words=(
            "PytorchStreamWriter failed",
            "unexpected pos",
            "SafetensorError: Error while serializing",
            "failed with Input/output error",
        ),
        pattern=r"PytorchStreamWriter failed writing|unexpected pos \d+ vs \d+|"
        r"SafetensorError: Error while serializing|write\(\): fd \d+ failed with",
        sample="RuntimeError: [enforce fail at inline_container.cc:603] . PytorchStreamWriter failed writing "
        "file data/41: file write failed",
        cause="Mostly the disk is full or a quota is used up; else a network file system that failed for a "
        "moment. The file is not whole.",
        cure=(there("df -h; df -i; quota -s", note="space, inodes, and the quota where there is one"),),
        doctor=("disk_low", "inodes_low"),
    ),
    Signature(
        id="read-only",
        title="A file system takes no writes",
        weight=Weight.CAUSE,
        words=("Read-only file system", "Stale file handle"),
        pattern=r"(?:Read-only file system|Stale file handle)(?:: ['\"](?P<path>/[^'\"]+)['\"])?",
        sample="OSError: [Errno 30] Read-only file system: '/scratch/run7/last.pt'",
        cause="It was mounted so (a container's volume), the kernel took it so after an error of the disk, or a "
        "network file system was changed under a mount (a stale handle).",
        cure=(
            there('findmnt -T "$(dirname {path})"', "findmnt", note="how it is mounted"),
            there("sudo dmesg -T | tail -50", note="errors of the disk"),
        ),
    ),
    Signature(
        id="io-error",
        title="A disk or a network file system failed",
        weight=Weight.CAUSE,
        words=(
            "[Errno 5] Input/output error",
            "[Errno 121] Remote I/O error",
            "[Errno 107] Transport endpoint is not connected",
        ),
        pattern=r"\[Errno (?:5|121|107)\] [^:]+(?:: ['\"](?P<path>/[^'\"]+)['\"])?",
        sample="OSError: [Errno 5] Input/output error: '/nfs/run7/last.pt'",
        cause="The kernel of {host} could not read or write there: the disk is faulty, or the server of the "
        "mount went away.",
        cure=(
            there(
                'findmnt -T "$(dirname {path})"',
                "findmnt -t nfs,nfs4,lustre,fuse",
                note="what is mounted, and from where",
            ),
            there("sudo dmesg -T | tail -50", note="what the kernel says of it"),
        ),
        over=("write-failed", "process-ended"),
    ),
    Signature(
        id="file-denied",
        title="A file or directory may not be read or written there",
        weight=Weight.CAUSE,
        words=("PermissionError: [Errno 13]",),
        pattern=r"PermissionError: \[Errno 13\] Permission denied(?:: ['\"](?P<path>/[^'\"]+)['\"])?",
        sample="PermissionError: [Errno 13] Permission denied: '/data/run7/last.pt'",
        cause="It belongs to another user or group: the same name may have another number on {host}, or a "
        "container runs as root and left it so.",
        cure=(there('ls -ld "$(dirname {path})" {path}; id', "id", note="whose it is, and who runs the job"),),
        over=("process-ended",),
    ),
    Signature(
        id="file-broken",
        title="A checkpoint or model file is not whole",
        weight=Weight.CAUSE,
        words=(
            "failed finding central directory",
            "PytorchStreamReader failed",
            "invalid load key",
            "Error while deserializing header",
        ),
        sample="RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
        cause="Its writer was ended in the middle, its copy to {host} was not complete, or it is only a pointer "
        "to a large file (Git LFS).",
        cure=(
            say(
                "Compare size and sha256sum of the file with those where it came from; go on from the checkpoint "
                "before it."
            ),
            say("Write to another name and rename it, on one rank alone, so that a half one is never taken."),
        ),
        over=("process-ended",),
        likely=True,
    ),
)
