"""The training that the faults hit: each line that a rank prints is also kept on its host, to compare with the logs."""

from __future__ import annotations

from typing import Literal

Kind = Literal["light", "gloo"]

WRITTEN = "/tmp/written"
"""Directory on each host: ``RANK.out`` holds what that rank printed, written a moment before it was printed."""
ORDERS = "/tmp/orders"
"""Directory on each host: Python in ``RANK`` is run by that rank at its next step."""

_STEPS = f"""
import os, pathlib, signal, subprocess, sys, time
rank = os.environ["RANK"]
os.makedirs("{WRITTEN}", exist_ok=True)
kept = os.open("{WRITTEN}/" + rank + ".out", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
order = pathlib.Path("{ORDERS}", rank)

def say(line):
    os.write(kept, line)
    while line:
        line = line[os.write(1, line):]

def steps(work):
    number = 0
    while True:
        say(b"rank %s step %d %s\\n" % (rank.encode(), number, work(number).encode()))
        number += 1
        if order.exists():
            exec(order.read_text(), globals())
        time.sleep(0.05)
"""

_LIGHT = """
steps(lambda number: "x" * (number % 97))
"""

_GLOO = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
def work(number):
    tensor = torch.ones(8) * number
    dist.all_reduce(tensor)
    return "sum %d" % tensor[0]
steps(work)
"""


def script(kind: Kind) -> str:
    """The worker's source: ``light`` needs no torch, ``gloo`` adds up a tensor over all ranks at each step."""
    return _STEPS + (_LIGHT if kind == "light" else _GLOO)
