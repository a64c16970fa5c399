"""Reads a process's last words: the exception that ended it, and whether that only tells of somebody else's death."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

TRACEBACK = "Traceback (most recent call last):"
IGNORED = "Exception ignored "
"""Python's word before an exception that ends nothing: of an object that goes, mostly as the program ends."""
TAIL_LINES = 20

_RAISES = re.compile(r"(?<!Group )" + re.escape(TRACEBACK) + r"\s*$")
_RANK_PREFIX = re.compile(r"^\[rank\d+\]: ?")
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_TERMINATE = re.compile(r"^terminate called after throwing an instance of '(?P<type>[^']+)'")
_WHAT = re.compile(r"^\s*what\(\):\s*(?P<text>.*)")

_PLAIN = tuple(
    re.compile(pattern)
    for pattern in (
        r"^\S+: error: ",  # argparse, compilers
        r"^\S*python\S*: (can't open file|No module named|Error while finding)",
        r"^Fatal Python error: ",
        r"^(?:\w+\.)*\w*(?:Error|Exception|Interrupt)(?:: |$)",  # a traceback whose head was cut off
    )
)
"""Errors that come without a traceback, in one line."""

_NOISE = tuple(
    re.compile(pattern)
    for pattern in (
        r"^\*{20,}$",
        r"^Setting OMP_NUM_THREADS environment variable for each process",
        r"^\[W\d+ .*The hostname of the client socket cannot be retrieved",
        r"^W\d{4} .*Sending process \d+ closing signal",
        r"^WARNING:torch\.distributed\.(run|elastic\.multiprocessing\.api):",
    )
)
"""What torch says in every run where names have no addresses, or only as it stops a node's other workers."""

_CONSEQUENCES = re.compile(
    "|".join(
        (
            # the other end went away: sockets, gloo, NCCL, the store
            r"connection (?:was )?(?:reset|closed|aborted|lost)",
            r"connection (?:reset|closed) by (?:remote )?peer",
            r"broken ?pipe",
            r"socket (?:is )?closed",
            r"ncclRemoteError|remote process exited",
            r"ncclSystemError|unhandled system error",
            r"(?:recvValue\w*|recvVector\w*|sendBytes|recvBytes) failed",
            r"failed to recv, got 0 bytes",
            # it never came, or never answered
            r"socket timeout|wait timeout after \d+ ?ms",
            r"timed out waiting \d+ ?ms for (?:send|recv)",
            r"timed out after \d+ seconds waiting for clients",
            r"client socket has (?:timed out|failed to connect)",
            r"collective operation timeout",
            r"application timeout caused pair closure",
            r"failed to pass monitoredBarrier",
            r"Rendezvous(?:Connection|Closed|Timeout)Error",
            # a watchdog or a stop took it down
            r"taking the entire process down",
            r"communicator was aborted",
            r"SignalException|got signal: \d+|KeyboardInterrupt",
            r"killed by signal: Terminated",
        )
    ),
    re.IGNORECASE,
)


def lines_of(text: str) -> list[str]:
    """The lines of a tail as a terminal would show them, without torch's ``[rank3]:`` before each."""
    shown = (line.rstrip("\r").rsplit("\r", 1)[-1] for line in text.split("\n"))
    return [_RANK_PREFIX.sub("", line) for line in shown]


def raises(line: str) -> bool:
    """Whether a traceback begins here, be it behind a progress bar that has not ended its line."""
    return TRACEBACK in line and _RAISES.search(line) is not None


def exceptions_in(text: str) -> tuple[str, ...]:
    """The exception lines of the last traceback and of those that it was chained to, in the order of the text.

    () when nothing like an exception stands there.
    """
    lines = lines_of(text)
    chain: list[str] = []
    chained = waiting = ignored = False
    for at, line in enumerate(lines):
        if line.startswith(IGNORED):
            waiting = ignored = True
        elif raises(line):
            chain, waiting = (chain if chained or ignored else []), True
        elif line.startswith(_CHAINED):
            chained = True
        elif waiting and line and not line[0].isspace():
            chain += [] if ignored else [line]
            waiting = chained = ignored = False
        elif terminate := _TERMINATE.match(line):
            what = _WHAT.match(lines[at + 1]) if at + 1 < len(lines) else None
            chain = [f"{terminate['type']}: {what['text']}" if what else terminate["type"]]
    if chain:
        return tuple(chain)
    plain = [line for line in lines if any(pattern.match(line) for pattern in _PLAIN)]
    return tuple(plain[-1:])


def error_file_message(error: object) -> str:
    """First line of the message in torch's error file, given as its text or as decoded JSON; "" when there is none."""
    message: Any = error
    if isinstance(error, str):
        try:
            message = json.loads(error)
        except ValueError:
            message = error
    while isinstance(message, Mapping):
        message = message.get("message")
    return str(message).strip().split("\n", 1)[0] if isinstance(message, str) else ""


def tells_of_another(exceptions: tuple[str, ...]) -> bool:
    """Whether these are the words of a process whose peer died first, or that was told to stop."""
    return any(_CONSEQUENCES.search(line) for line in exceptions)


def last_lines(text: str, limit: int = TAIL_LINES) -> tuple[str, ...]:
    """The last lines that say something."""
    said = [line for line in lines_of(text) if line.strip() and not any(noise.match(line) for noise in _NOISE)]
    return tuple(said[-limit:])
