"""The training's own errors, which no list can hold."""

from __future__ import annotations

from ncclrun.diagnosis.explain.signature import Signature, Weight
from ncclrun.diagnosis.explain.steps import say

SIGNATURES = (
    Signature(
        id="arguments",
        title="The script does not take these arguments",
        weight=Weight.CAUSE,
        words=(
            ": error: unrecognized arguments",
            ": error: the following arguments are required",
            ": error: argument ",
        ),
        pattern=r"(?<!\S)(?P<name>\S+): error: (?!unrecognized arguments: --local[-_]rank)"
        r"(?P<value>unrecognized arguments.*|the following arguments are required.*|argument .+)",
        sample="train.py: error: the following arguments are required: --data",
        cause="{name} says: {value}. What stands behind the script on the command line is its own.",
        cure=(say("Its usage is printed above that line."),),
    ),
    Signature(
        id="program",
        title="The program itself raised an error",
        weight=Weight.COMPONENT,
        sample="Traceback (most recent call last):\n"
        '  File "train.py", line 88, in <module>\n'
        "    batch = next(data)\n"
        "ValueError: no shard left for this rank",
        cause="{value}: raised by the training or one of its libraries, and by no part of the distributed machinery "
        "that is known here.",
        cure=(say("Read the traceback above that line in the log."),),
    ),
)
