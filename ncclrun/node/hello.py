"""The hello between nodes: a caller's challenge, and the answer that only a node of this run can give."""

from __future__ import annotations

import hmac
import os
import re
from typing import NamedTuple

LONGEST = 256
"""Bytes of a hello or an answer, line feed included."""
_CHALLENGE = re.compile(r"[0-9a-f]{16,64}")


class Identity(NamedTuple):
    """What a node answers with: the run's secret and its own number."""

    token: str
    node_rank: int


class Hello(NamedTuple):
    """A caller's line; ``purpose`` is ``probe`` (who are you?) or ``sink`` (count what I send)."""

    purpose: str
    challenge: str


def proof(token: str, text: str) -> str:
    """Shows that we know the token, which itself never crosses the network."""
    return hmac.new(token.encode("utf-8"), text.encode("ascii"), "sha256").hexdigest()


def new_challenge() -> str:
    """Random hex, never used twice."""
    return os.urandom(16).hex()


def probe(challenge: str) -> bytes:
    """The line of a caller who wants to know who answers."""
    return f"probe {challenge}\n".encode("ascii")


def sink(token: str, challenge: str) -> bytes:
    """The line of a caller who is going to send: it proves itself, as a process of ours will work for it."""
    return f"sink {challenge} {proof(token, 'sink ' + challenge)}\n".encode("ascii")


def read(token: str, line: bytes) -> Hello | None:
    """A caller's line without its line feed; None if it is nothing that we answer."""
    words = line.decode("ascii", "replace").split(" ")
    if len(words) < 2 or not _CHALLENGE.fullmatch(words[1]):
        return None
    if words[0] == "probe" and len(words) == 2:
        return Hello("probe", words[1])
    if words[0] == "sink" and len(words) == 3:
        expected = proof(token, "sink " + words[1]).encode("ascii")
        return Hello("sink", words[1]) if hmac.compare_digest(words[2].encode(), expected) else None
    return None


def answer(identity: Identity, challenge: str) -> str:
    """Who we are, provably, as one line without its line feed."""
    return f"{identity.node_rank} {proof(identity.token, f'{challenge} {identity.node_rank}')}"


def who(token: str, challenge: str, line: bytes) -> int | None:
    """node_rank of who answered; None if it is nobody who knows the token."""
    rank, _, shown = line.strip().partition(b" ")
    if not rank.isdigit() or len(rank) > 6:
        return None
    expected = proof(token, f"{challenge} {int(rank)}").encode("ascii")
    return int(rank) if hmac.compare_digest(shown, expected) else None
