"""What py-spy and faulthandler print of a process's threads, read into the form of the `stacks` answer."""

from __future__ import annotations

import json
import re
from typing import Any

LONGEST_NAME = 120
LONGEST_FILE = 240
_THREAD = re.compile(r"(?:Current thread|Thread) (0x[0-9a-f]+)(?: \[(.*)\])? \(most recent call first\):\Z")
_FRAME = re.compile(r'  File "(.*)", line (\d+|\?\?\?) in (.*)\Z')


def _frame(function: str, file: str, line: int) -> dict[str, Any]:
    return {"function": function[:LONGEST_NAME], "file": file[-LONGEST_FILE:], "line": line}


def faulthandler(text: str, main: str) -> list[dict[str, Any]]:
    """The threads of a dump; ``main`` is the main thread's id as the dump writes it. Of two dumps the last counts."""
    threads: dict[str, dict[str, Any]] = {}
    frames: list[dict[str, Any]] = []
    for line in text.splitlines():
        if head := _THREAD.match(line):
            frames = []
            thread = {"thread": head[1], "name": head[2] or "", "main": head[1] == main, "frames": frames}
            threads[head[1]] = thread
        elif found := _FRAME.match(line):
            frames.append(_frame(found[3], found[1], 0 if found[2] == "???" else int(found[2])))
    return list(threads.values())


def pyspy(text: str, pid: int) -> list[dict[str, Any]]:
    """The threads of `py-spy dump --json`. Raises ValueError for anything else."""
    found = json.loads(text)
    try:
        return [
            {
                "thread": f"0x{thread['thread_id']:x}",
                "name": str(thread.get("thread_name") or "")[:LONGEST_NAME],
                "main": thread.get("os_thread_id") == pid or thread.get("thread_name") == "MainThread",
                "frames": [_frame(f["name"], f["filename"], int(f["line"])) for f in thread["frames"]],
            }
            for thread in found
        ]
    except (TypeError, KeyError) as error:
        raise ValueError(f"no thread as py-spy tells it: {error!r}") from error


def shortened(threads: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """At most so many frames of all together, those of the main thread first: an answer has to fit into one frame."""
    kept = []
    for thread in sorted(threads, key=lambda thread: not thread["main"]):
        frames = thread["frames"][:most]
        most -= len(frames)
        kept.append({**thread, "frames": frames})
        if not most:
            break
    return kept
