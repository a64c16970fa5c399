"""Events of the `nccl` commands: a node's settings, how nodes differ, and what becomes of their conf files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ncclrun.model.effective import Difference, Effective
from ncclrun.model.settings import SettingFinding


@dataclass(frozen=True, kw_only=True, slots=True)
class SettingsSeen:
    """What a node's NCCL goes by (`nccl show`); secrets are ``***``.

    ``nccl`` is its version, "" where unknown; ``files`` are the conf files that this version reads there and that
    exist, in order.
    """

    event: ClassVar[str] = "settings"
    node: str
    node_rank: int
    nccl: str
    files: tuple[str, ...]
    values: tuple[Effective, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SettingDiffers:
    """One variable that differs between nodes (`nccl show`); ``nnodes`` is how many were asked."""

    event: ClassVar[str] = "difference"
    nnodes: int
    difference: Difference


@dataclass(frozen=True, kw_only=True, slots=True)
class SettingFound:
    """Something to know about one setting of a node; ``node`` is None where it is about all of them."""

    event: ClassVar[str] = "setting_finding"
    node: str | None
    finding: SettingFinding


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfDiff:
    """How a node's conf file would change (`nccl diff`, `nccl push`, `nccl restore`); secrets are ``***``.

    ``diff`` are the lines of a unified diff, () where nothing changes. ``hides``: the settings of the new file that go
    over others of this node.
    """

    event: ClassVar[str] = "conf_diff"
    node: str
    node_rank: int
    path: str
    diff: tuple[str, ...]
    hides: tuple[Effective, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfCompared:
    """All nodes were looked at: those whose conf file would change, and those where it is as it should be."""

    event: ClassVar[str] = "conf_compared"
    changed: tuple[str, ...]
    unchanged: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfPushed:
    """A node's conf file holds the settings; ``backup`` is what it was before them, "" where there was none.

    ``aside``: where the file is kept whose block somebody had edited, "" where nobody had. ``undo``: the command that
    takes the settings out again.
    """

    event: ClassVar[str] = "conf_pushed"
    node: str
    node_rank: int
    path: str
    changed: bool
    backup: str = ""
    aside: str = ""
    undo: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfRestored:
    """A node's conf file is what it was before the first push; ``removed``: there was none, and there is none now.

    ``edits_kept``: only the lines of the push were taken out, and what somebody has edited since stays. ``aside``:
    where the file is kept whose block somebody had edited, "" where nobody had.
    """

    event: ClassVar[str] = "conf_restored"
    node: str
    node_rank: int
    path: str
    changed: bool
    removed: bool = False
    edits_kept: bool = False
    aside: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfRolledBack:
    """A node's conf file is what it was before this command, since another node's could not be changed."""

    event: ClassVar[str] = "conf_rolled_back"
    node: str
    node_rank: int
    path: str
