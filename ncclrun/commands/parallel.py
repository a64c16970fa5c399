"""The same question to many nodes at once, with answers as they come and an ear for Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from ncclrun.commands.control import Control
from ncclrun.model.errors import NcclrunError

Key = TypeVar("Key")
Item = TypeVar("Item")
Answer = TypeVar("Answer")

WORKERS = 32


def ask_all(
    items: Mapping[Key, Item], question: Callable[[Key, Item], Answer], control: Control | None = None
) -> Iterator[tuple[Key, Answer | NcclrunError]]:
    """Yields (key, answer or error) as they come; other exceptions than NcclrunError are bugs and are raised.

    With ``control``, a request to stop ends it with Interrupted at once; what is under way ends in the background.
    """
    pool = ThreadPoolExecutor(max_workers=min(WORKERS, max(1, len(items))), thread_name_prefix="ask")
    try:
        waiting: dict[Future[Answer], Key] = {pool.submit(question, key, item): key for key, item in items.items()}
        while waiting:
            done, _ = wait(waiting, timeout=0.1, return_when=FIRST_COMPLETED)
            for future in done:
                key = waiting.pop(future)
                try:
                    yield key, future.result()
                except NcclrunError as error:
                    yield key, error
            if control is not None:
                control.check()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
