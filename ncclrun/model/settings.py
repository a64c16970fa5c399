"""Settings as they stand somewhere: in an environment, a conf file, a start-up file; and what is found of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Level = Literal["error", "warning", "info"]
ConfRole = Literal["named", "home", "passwd_home", "system"]
"""How NCCL would come to a conf file: ``$NCCL_CONF_FILE``, ``.nccl.conf`` in ``$HOME``, the same in the home of the
passwd entry, /etc/nccl.conf. Which of them a version really reads: nccl/conf.py."""
Home = Literal["home", "passwd_home"]
"""The two of them that ~/.nccl.conf may be."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One variable as it stands at a place: ``file`` is a path or words for the place, ``line`` counts from 1."""

    name: str
    value: str
    file: str = ""
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingFinding:
    """Something to know about one setting; the fields and their order are those of `nccl lint --json`."""

    file: str
    line: int | None
    name: str
    value: str
    level: Level
    id: str
    """Short, lasting name of the kind of finding (``inline_comment``)."""
    sees: str
    """What NCCL really sees, and what comes of it: a sentence for people."""
    fix: str
    """The line as it should be ("" where nobody but the user can know); several lines where one is not enough."""


@dataclass(frozen=True, slots=True)
class ConfFile:
    """A conf file on a node as it lies there; bytes that are no UTF-8 are lone surrogates (``surrogateescape``)."""

    path: str
    roles: tuple[ConfRole, ...]
    text: str | None = None
    """None: there is no such file, or it can't be read (``error``)."""
    error: str = ""
    """Why a file that is there can't be read, or is none (``a directory``); "" too for one that is not there."""
    sha256: str = ""
    """Of its bytes."""
    mode: int = 0
    """Permission bits."""
    owner: str = ""
    """User name, or the number where it has none."""
    link: str = ""
    """What it points to, if it is a symbolic link."""

    @property
    def data(self) -> bytes:
        """Its bytes; b"" where there is no text."""
        return (self.text or "").encode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class Mention:
    """A line of a shell's start-up file that names a variable of NCCL, Gloo or torch."""

    file: str
    line: int
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """What a node itself says to NCCL, Gloo and torch, before ncclrun sets anything."""

    login: Mapping[str, str] = field(default_factory=dict)
    """Variables of the login environment with a name of theirs (NCCL_, GLOO_, TORCH_, …), and NCCL's own HOME."""
    conf_files: tuple[ConfFile, ...] = ()
    mentions: tuple[Mention, ...] = ()
