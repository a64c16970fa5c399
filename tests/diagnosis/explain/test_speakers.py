"""Whatever puts its mark before a line, the host and rank are read from it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncclrun.diagnosis.explain.speakers import speaker

LINES = [
    ("gpu1:31:77 [3] NCCL WARN x", "gpu1", None, "NCCL WARN x"),
    ("[rank3]: ValueError: x", "", 3, "ValueError: x"),
    ("[rank3]:[W1130 12:00:00 socket.cpp:1] x", "", 3, "[W1130 12:00:00 socket.cpp:1] x"),
    ("[default0]:gpu2:1:1 [0] NCCL INFO x", "gpu2", None, "NCCL INFO x"),
    ("[trainer0|0]:x", "", None, "x"),
    ("node1 3 | x", "node1", 3, "x"),
    ("node1   - | x", "node1", None, "x"),
    ("2026-01-02T03:04:05.123Z x", "", None, "x"),
    ("[2026-01-02 03:04:05] x", "", None, "x"),
    ('2026-01-02 03:04:05,678   File "a.py", line 1', "", None, '  File "a.py", line 1'),
    ("2026-01-02T03:04:05.123456789Z stderr F [rank7]: x", "", 7, "x"),
    ('{"log":"[rank2]: x\\n","stream":"stderr"}', "", 2, "x"),
    ("2026/01/02 03:04:05 x", "", None, "x"),
    ("02.01.2026 03:04:05 | INFO | x", "", None, "x"),
    ("[2026-01-02 03:04:05,678] [INFO] x", "", None, "x"),
    ("Jan 02 03:04:05 x", "", None, "x"),
    ("03:04:05 gpu1:31:77 [3] NCCL WARN x", "gpu1", None, "NCCL WARN x"),
    ("1764565200.123 [rank2]: x", "", 2, "x"),
    ("[  123.456789]   x", "", None, "  x"),
    ("0.123 is the loss", "", None, "0.123 is the loss"),
    ("Jan  2 03:04:05 gpu9 python[77]: x", "gpu9", None, "x"),
    ("worker-1  | x", "worker-1", None, "x"),
    ("[1,5]<stderr>: x", "", 5, "x"),
    ("3: x", "", 3, "x"),
    ("10.20.0.7: x", "10.20.0.7", None, "x"),
    ("gpu8: bash: torchrun: command not found", "gpu8", None, "bash: torchrun: command not found"),
    ("[rank1]:[E1 x.cpp:1] [PG 0 Rank 1] y", "", 1, "[E1 x.cpp:1] [PG 0 Rank 1] y"),
    ("[E1 x.cpp:1] [Rank 5] y", "", 5, "[E1 x.cpp:1] [Rank 5] y"),
    ("gpu4 12 | [rank12]: gpu4.lab:1:1 [4] NCCL INFO x", "gpu4", 12, "NCCL INFO x"),
    ("(RayTrainWorker pid=4711, ip=10.20.0.2) x", "10.20.0.2", None, "x"),
    ("(EngineCore_DP0 pid=99) ERROR 02-03 04:05:06 [core.py:708] x", "", None, "x"),
    ("(raylet) x", "", None, "x"),
    ("[pod/train-0/pytorch] [rank1]: x", "", 1, "x"),
    ("RuntimeError: x", "", None, "RuntimeError: x"),
    ("cuda11Error: x", "", None, "cuda11Error: x"),
    ("train2.py: error: x", "", None, "train2.py: error: x"),
    ("", "", None, ""),
]


@pytest.mark.parametrize(("line", "host", "rank", "rest"), LINES, ids=[line[:30] for line, *_ in LINES])
def test_who_wrote_a_line(line: str, host: str, rank: int | None, rest: str) -> None:
    assert speaker(line) == (host, rank, rest)


@given(st.text())
def test_any_line_has_a_rest(line: str) -> None:
    assert line.endswith(speaker(line).rest)
