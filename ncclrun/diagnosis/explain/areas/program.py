"""The training's own errors, which no list can hold."""

from __future__ import annotations

from ncclrun.diagnosis.explain.signature import Signature, Weight
from ncclrun.diagnosis.explain.steps import say

SIGNATURES = (
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
