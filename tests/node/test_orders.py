"""Orders to a supervisor: what counts as one, and that all else harms nothing."""

from __future__ import annotations

import os
import selectors
from pathlib import Path
from typing import Any

import pytest

from ncclrun.node import orders


@pytest.mark.parametrize(
    "line",
    [
        b"\xff",
        b"[]",
        b'{"how": "term"}',
        b'{"how": "gently", "grace": 1, "lost": null}',
        b'{"how": ["kill"], "grace": 1, "lost": null}',
        b'{"how": "kill", "grace": "long", "lost": null}',
        b'{"how": "kill", "grace": 1, "lost": "node 2"}',
    ],
)
def test_what_is_no_order_is_left_alone(line: bytes) -> None:
    assert orders.parse(line) is None


@pytest.mark.parametrize(
    "line", [b'{"how": "kill", "grace": 0.5, "lost": 2}', b'{"alive": true}', b'{"release": true}']
)
def test_orders_are_taken(line: bytes) -> None:
    assert orders.parse(line) is not None


def test_an_order_may_come_in_pieces_and_in_a_fifo_that_was_made_anew(tmp_path: Path) -> None:
    def write(data: bytes) -> None:
        fd = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        os.write(fd, data)
        os.close(fd)
        for key, _ in selector.select(0):
            key.data()

    heard: list[dict[str, Any]] = []
    fifo = tmp_path / "control"
    os.mkfifo(fifo)
    with selectors.DefaultSelector() as selector:
        ear = orders.Orders(selector, fifo, heard.append)
        ear.listen()
        write(b'{"number": 1}\n{"num')
        write(b'ber": 2}\n')
        fifo.unlink()
        os.mkfifo(fifo)
        ear.listen()
        write(b'{"number": 3}\n')
        (key,) = selector.get_map().values()
        os.close(key.fd)
    assert heard == [{"number": 1}, {"number": 2}, {"number": 3}]
