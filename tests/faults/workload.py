"""The training that the faults hit: each line that a rank prints is also kept on its host, to compare with the logs."""

from __future__ import annotations

from typing import Literal

Kind = Literal["light", "gloo"]

WRITTEN = "/tmp/written"
"""Directory on each host: ``RANK.out`` holds what that rank printed, written a moment before it was printed."""
ORDERS = "/tmp/orders"
"""Directory on each host: Python in ``RANK`` is run by that rank before its first step and after each."""

_STEPS = f"""
import os, pathlib, signal, subprocess, sys, time
rank = os.environ["RANK"]
os.makedirs("{WRITTEN}", exist_ok=True)
kept = os.open("{WRITTEN}/" + rank + ".out", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
order = pathlib.Path("{ORDERS}", rank)
wish = 0  # to end, as soon as all that are bound together wish it

def say(line):
    os.write(kept, line)
    while line:
        line = line[os.write(1, line):]

def obey():
    if order.exists():
        exec(order.read_text(), globals())

def steps(work):
    number = 0
    while True:
        say(b"rank %s step %d %s\\n" % (rank.encode(), number, work(number).encode()))
        number += 1
        obey()
        time.sleep(0.05)
"""

_LIGHT = """
def work(number):
    if wish:
        sys.exit(0)
    return "x" * (number % 97)
obey()
steps(work)
"""

_GLOO = """
import torch, torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
def work(number):
    tensor = torch.tensor([number, wish])
    dist.all_reduce(tensor)
    if tensor[1] == dist.get_world_size():
        dist.destroy_process_group()  # without it torch now and then aborts at the interpreter's end
        sys.exit(0)
    return "sum %d" % tensor[0]
@record
def main():
    obey()
    dist.init_process_group("gloo")
    steps(work)
try:
    main()
except Exception:
    # As the interpreter would, without its end, in which torch may abort.
    import traceback
    try:
        traceback.print_exc()
        sys.stderr.flush()
    except (OSError, ValueError):
        pass  # a fault took stderr away
    os._exit(1)
"""


def script(kind: Kind) -> str:
    """The worker's source: ``light`` needs no torch, ``gloo`` adds up a tensor over all ranks at each step."""
    return _STEPS + (_LIGHT if kind == "light" else _GLOO)
