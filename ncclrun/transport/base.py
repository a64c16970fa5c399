"""What every transport offers: a byte stream to `/bin/sh -s` on a node, and nothing more."""

from __future__ import annotations

from typing import Protocol

from ncclrun.model.cluster import Node


class Channel(Protocol):
    """stdin and stdout of the remote `/bin/sh -s`, as one two-way byte stream.

    One thread may receive while others send (sends are serialised by the caller).
    """

    def send(self, data: bytes) -> None:
        """All of ``data``; raises HostError (reason ``lost``) when the stream is gone."""

    def recv(self, size: int) -> bytes:
        """At least one byte, at most ``size``; b"" at the end of the stream, however it ended."""

    def stderr_tail(self) -> str:
        """The last few KiB of what the remote side wrote to stderr, for messages."""

    def exit_status(self) -> int | None:
        """Exit status of the remote command, None while unknown."""

    def close(self) -> None:
        """Ends the stream at once, without waiting for the other side; safe to call twice and from any thread."""


class Transport(Protocol):
    """Opens channels to nodes; thread-safe, and shared by all nodes of a command."""

    def open(self, node: Node) -> Channel:
        """Connects, logs in and starts the remote command; raises HostError within the node's connect_timeout."""

    def is_local(self, node: Node) -> bool:
        """Whether the node is this very machine and needs no SSH."""

    def close(self) -> None:
        """Closes everything that is still open."""
