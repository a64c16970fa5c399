"""What the kernel's log says of GPUs, memory and network cards, as far as this user may read it."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any, Iterator

from . import commands

KMSG = Path("/dev/kmsg")
WANTED = re.compile(
    r"NVRM: Xid \([^)]*\): \d+|\S+: SXid \([^)]*\): \d+, (?:Fatal)?|Killed process"
    r"|nfs: server \S+ not responding|mlx5_core \S+ .*(?:health|fatal|error)|Machine [Cc]heck|Hardware Error"
)
MOST_KINDS = 60
LONGEST = 300
RECORD = 8192
JOURNAL_SECONDS = 8.0


def _records() -> Iterator[tuple[float, str]]:
    """(seconds since boot, text) of each record of the ring. Raises OSError where it may not be read."""
    fd = os.open(KMSG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        while True:
            try:
                record = os.read(fd, RECORD).decode("utf-8", "replace")
            except BlockingIOError:
                return  # its end
            except BrokenPipeError:
                continue  # overwritten while we read; the next one is there
            head, _, text = record.partition(";")
            words = head.split(",")
            if not record:
                return
            if len(words) > 2 and words[2].isdigit():
                yield int(words[2]) / 1e6, text.split("\n", 1)[0]
    finally:
        os.close(fd)


def _journal() -> Iterator[tuple[float, str]]:
    """The same from systemd's journal of this boot. Raises OSError where it can't be read."""
    program = commands.locate("journalctl")
    if program is None:
        raise OSError("no journalctl")
    output = commands.ask([program, "-k", "-b", "-o", "short-monotonic", "--no-pager", "-q"], JOURNAL_SECONDS)
    lines = [match for line in output.out.splitlines() if (match := re.match(r"\[\s*([\d.]+)\] (.*)", line))]
    if output.code != 0 or not lines:
        raise OSError(output.err.strip().split("\n")[0] or "the journal has nothing of the kernel for this user")
    for match in lines:
        yield float(match.group(1)), match.group(2)


def find() -> dict[str, Any]:
    """``lines``: of each kind of trouble the last one, its age in seconds, and how ``many`` there were.

    Only so does one that came once not drown in those that a program raises by the thousand. Raises OSError where the
    log is closed.
    """
    try:
        records = list(_records())
    except OSError as error:
        try:
            records = list(_journal())
        except OSError as other:
            why = f"{KMSG}: {error.strerror or error}; journalctl: {other}"
            raise OSError(f"the kernel's log is closed to this user ({why})") from other
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    last: dict[str, dict[str, Any]] = {}
    for at, text in records:
        match = WANTED.search(text)
        if match:
            before = last.pop(match.group(), {"many": 0})  # so that they stand in the order of their last times
            last[match.group()] = {"age": max(0.0, now - at), "text": text[:LONGEST], "many": before["many"] + 1}
    return {"lines": list(last.values())[-MOST_KINDS:]}
