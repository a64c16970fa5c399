"""Many nodes at once: connecting with bounded parallelism, asking all, and the choice between SSH and this machine."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from ncclrun.model.cluster import Node
from ncclrun.model.errors import HostError, NcclrunError
from ncclrun.transport.base import Channel, Transport
from ncclrun.transport.local import LocalTransport
from ncclrun.transport.session import Session, Sink

if TYPE_CHECKING:
    from ncclrun.transport.auth import Password
    from ncclrun.transport.ssh import SshTransport

WORKERS = 16  # above MaxStartups' default of 10 only where hosts share an sshd, and then it is tried again
LOOK_SECONDS = 0.1

_K = TypeVar("_K")
_V = TypeVar("_V")
_R = TypeVar("_R")


class AnyTransport:
    """Implements Transport: subprocess for nodes that are this machine, SSH for all others."""

    def __init__(self, ssh: SshTransport, local: LocalTransport) -> None:
        self._ssh = ssh
        self._local = local

    def is_local(self, node: Node) -> bool:
        """Whether the node is this machine; a name that can't be resolved is not."""
        return self._ssh.is_local(node)

    def open(self, node: Node) -> Channel:
        """Opens the node's channel by the way that fits; raises HostError."""
        return self._local.open(node) if self._ssh.is_local(node) else self._ssh.open(node)

    def close(self) -> None:
        """Closes both ways."""
        self._ssh.close()
        self._local.close()


def make_transport(password: Password = None, *, cluster: str = "CLUSTER") -> AnyTransport:
    """The transport for real clusters; see SshTransport for the arguments."""
    from ncclrun.transport.ssh import SshTransport

    return AnyTransport(SshTransport(password, cluster=cluster), LocalTransport())


def connect_all(
    transport: Transport,
    nodes: Iterable[Node],
    sink: Sink,
    *,
    cancelled: Callable[[], bool] = lambda: False,
    workers: int = WORKERS,
) -> Iterator[tuple[Node, Session | HostError, float]]:
    """Yields (node, session or error, seconds that it took) as they come; ``workers`` nodes at a time.

    When ``cancelled`` turns true it ends within a moment and closes every session that it opened, those yielded too;
    what is still connecting is closed in the background. Raises UsageError for a broken ssh_config or known_hosts.
    """
    opened: list[Session] = []
    crew = _Crew(transport, sink, list(nodes), workers)
    done = False
    try:
        for _ in range(crew.count):
            while (answer := crew.next(LOOK_SECONDS)) is None:
                if cancelled():
                    return
            node, result, seconds = answer
            if isinstance(result, Session):
                opened.append(result)
            elif not isinstance(result, HostError):
                raise result
            yield node, result, seconds
        done = not cancelled()
    finally:
        crew.give_up()
        if not done:
            for session in opened:
                session.close()


_Answer = tuple[Node, Session | BaseException, float]


class _Crew:
    """Daemon threads that connect; one that comes too late closes what it opened. (An executor's threads would be
    waited for at the end of the process, up to connect_timeout after Ctrl-C.)"""

    def __init__(self, transport: Transport, sink: Sink, nodes: list[Node], workers: int) -> None:
        self.count = len(nodes)
        self._transport = transport
        self._sink = sink
        self._todo: queue.SimpleQueue[Node] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
        self._given_up = False
        self._lock = threading.Lock()
        for node in nodes:
            self._todo.put(node)
        for number in range(min(workers, len(nodes))):
            threading.Thread(target=self._work, name=f"ncclrun-connect-{number}", daemon=True).start()

    def next(self, seconds: float) -> _Answer | None:
        """The next answer, None when none came in time."""
        try:
            return self._answers.get(timeout=seconds)
        except queue.Empty:
            return None

    def give_up(self) -> None:
        """Takes no further node, and closes what nobody took."""
        with self._lock:
            self._given_up = True
        while (answer := self.next(0.001)) is not None:
            if isinstance(answer[1], Session):
                answer[1].close()

    def _work(self) -> None:
        while not self._given_up:
            try:
                node = self._todo.get_nowait()
            except queue.Empty:
                return
            began = time.monotonic()
            result: Session | BaseException
            try:
                result = Session.open(node, self._transport.open(node), self._sink, timeout=node.ssh.connect_timeout)
            except BaseException as error:  # noqa: BLE001  # raised where the answers are taken
                result = error
            with self._lock:
                if not self._given_up:
                    self._answers.put((node, result, time.monotonic() - began))
                    continue
            if isinstance(result, Session):
                result.close()


def for_all(
    items: Mapping[_K, _V],
    question: Callable[[_K, _V], _R],
    *,
    cancelled: Callable[[], bool] = lambda: False,
    workers: int = 32,
) -> Iterator[tuple[_K, _R | NcclrunError]]:
    """Asks all at once and yields (key, answer or error) as they come; other exceptions are raised.

    When ``cancelled`` turns true it ends within a moment; what is under way ends by itself, in the background.
    """
    todo: queue.SimpleQueue[tuple[_K, _V]] = queue.SimpleQueue()
    answers: queue.SimpleQueue[tuple[_K, _R | BaseException]] = queue.SimpleQueue()
    for item in items.items():
        todo.put(item)

    def work() -> None:
        while not cancelled():
            try:
                key, value = todo.get_nowait()
            except queue.Empty:
                return
            try:
                answers.put((key, question(key, value)))
            except BaseException as error:  # noqa: BLE001  # raised or yielded below
                answers.put((key, error))

    for number in range(min(workers, len(items))):
        threading.Thread(target=work, name=f"ncclrun-ask-{number}", daemon=True).start()
    left = len(items)
    while left:
        try:
            key, answer = answers.get(timeout=LOOK_SECONDS)
        except queue.Empty:
            if cancelled():
                return
            continue
        left -= 1
        if isinstance(answer, BaseException) and not isinstance(answer, NcclrunError):
            raise answer
        yield key, answer
