"""How a node's settings reach NCCL: which variables go into the environment and which into a conf file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ncclrun.model.effective import Effective
from ncclrun.model.events import Problem
from ncclrun.model.plan import Variable
from ncclrun.model.settings import ConfFile
from ncclrun.nccl.version import Version

Deliver = Literal["env", "file", "user", "system"]
"""As `nccl.deliver` in the cluster file."""
RUN_CONF = "nccl.conf"
"""Name of the conf file in the run directory (``file``)."""
RUN_CONF_SHOWN = f"(run directory)/{RUN_CONF}"
"""What stands for its path in a plan; the node puts the real one in its place."""


@dataclass(frozen=True)
class Delivered:
    """A node's variables, parted by the way they go."""

    environment: tuple[Variable, ...]
    file: tuple[Variable, ...]


def split(deliver: Deliver, variables: Sequence[Variable]) -> Delivered:
    """Which of a node's variables go into a conf file: NCCL's own, of the network choice and of `nccl.env`.

    What others than NCCL read stays in the environment, and so does what is nobody's setting for all runs (``--env``,
    `launch.env`). With ``file`` the environment gains NCCL_CONF_FILE, of the value RUN_CONF_SHOWN.
    """
    raise NotImplementedError


def run_conf(file: Sequence[Variable], read: Sequence[ConfFile]) -> bytes:
    """The conf file for the run directory: the settings, and below them the file in whose place NCCL reads it.

    ``read``: the files that NCCL would read without it, in order (nccl/conf.py: read_files).
    """
    raise NotImplementedError


def refusals(deliver: Deliver, version: Version | None, file: Sequence[Variable]) -> tuple[Problem, ...]:
    """Why these settings can't go this way on a node with this NCCL; () where they can."""
    raise NotImplementedError


def stays(delivered: Delivered) -> Problem | None:
    """A warning for `nccl push` on what of `nccl.env` can't stand in a conf file; None where all can."""
    raise NotImplementedError


def missing(file: Sequence[Variable], holds: Mapping[str, str] | None, path: str, cluster: str) -> Problem | None:
    """The problem where a node's file does not hold what the plan wants in it; None where it does.

    ``holds``: the values that NCCL finds in that file alone; None: there is no such file. ``cluster`` is what `nccl
    push` is to be called with.
    """
    raise NotImplementedError


def hidden(file: Sequence[Variable], found: Mapping[str, Effective], path: str) -> tuple[Problem, ...]:
    """Warnings on settings of the conf file at ``path`` that do not count on a node, since others come first.

    ``found``: the node's effective values, those of the run's environment included.
    """
    raise NotImplementedError
