"""What the nodes say waits in order, and not without end; a stop is heard in the middle of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from ncclrun.commands.control import Control
from ncclrun.commands.follow import Follower
from ncclrun.commands.inbox import MOST_WAITING, Inbox
from ncclrun.commands.logfiles import NoLogs, Place
from ncclrun.commands.member import Member
from ncclrun.model.cluster import Launch, Network, Node, Ssh
from ncclrun.model.errors import HostError
from ncclrun.model.events import Log, Stopping

PIECE = b"x" * 99 + b"\n"


def log(offset: int) -> dict[str, Any]:
    return {"ev": "log", "stream": "0.out", "offset": offset, "time": 0.0}


class Quiet:
    """As much of a session as a follower needs here: it takes every request and says nothing."""

    last_heard = float("inf")

    def ask(self, *_: Any, **__: Any) -> None:
        pass

    def post(self, *_: Any, **__: Any) -> None:
        pass

    def call(self, *_: Any, **__: Any) -> dict[str, Any]:
        raise HostError("timeout", "no answer")


def eventually(what: Callable[[], bool], seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while not what() and time.monotonic() < deadline:
        time.sleep(0.01)
    return what()


def test_a_node_that_floods_waits_for_the_reader_and_holds_up_nobody_else() -> None:
    inbox = Inbox()
    body = b"x" * (MOST_WAITING // 4)

    def flood() -> None:
        for number in range(12):
            inbox.put((0, 0, log(number), body))

    thread = threading.Thread(target=flood, daemon=True)
    thread.start()
    assert eventually(lambda: inbox.qsize() == 4)
    time.sleep(0.1)
    assert inbox.qsize() == 4
    inbox.put((0, 0, {"ev": "gone"}, b""))  # would wait for ever if it had to wait at all
    inbox.put((1, 0, log(0), body))
    taken = [inbox.get(timeout=5) for _ in range(14)]
    thread.join(5)
    assert [header["offset"] for rank, _, header, _ in taken if rank == 0 and header["ev"] == "log"] == [*range(12)]


def test_a_stop_is_heard_in_the_middle_of_a_flood() -> None:
    control, inbox = Control(), Inbox()
    for number in range(500):
        inbox.put((0, 0, log(number * len(PIECE)), PIECE))
    inbox.put((0, 0, {"ev": "end", "record": {"reason": "finished", "ranks": []}}, b""))

    class Impatient(NoLogs):
        """Stands for somebody who sees a line and presses Ctrl-C."""

        def append(self, place: Place, when: float, data: bytes) -> None:
            if not control.stopped():
                control.press()

    node = Node(name="n0", host="h0", ssh=Ssh(), network=Network(), launch=Launch())
    alone = Member(node, 0, first_rank=0, nproc=1, grace=1, boot_id="b", clock_offset=0, session=None)

    quiet: Any = Quiet()
    alone.session = quiet

    def never(*_: Any) -> Any:
        raise AssertionError("nobody has to be connected to again")

    events = list(Follower("r", [alone], inbox, Impatient(), control, never, token="t").events())
    first_stop = next(count for count, event in enumerate(events) if isinstance(event, Stopping))
    assert sum(isinstance(event, Log) for event in events[:first_stop]) == 1
    assert sum(isinstance(event, Log) for event in events) == 500
