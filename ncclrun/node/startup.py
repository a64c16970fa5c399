"""Lines of start-up files that name a variable of NCCL, Gloo, torch or a launcher: who set it, as far as it shows."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import Any, Collection, Iterator

from . import conffiles, machine
from .sysfs import entries

NAME = re.compile(r"(?<![A-Za-z0-9_])(?:NCCL|GLOO|TORCH|TP)_[A-Za-z0-9_]+")
OWN = (
    ".bashrc",
    ".bash_profile",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".config/fish/config.fish",
    ".ssh/environment",
    ".pam_environment",
)
ETC = Path("/etc")
SHARED = ("environment", "profile", "bash.bashrc", "zsh/zshenv", "security/pam_env.conf")
MOST_BYTES = 256 << 10
MOST_MENTIONS = 200
LONGEST_LINE = 200


def _files() -> Iterator[Path]:
    home = machine.home()
    if home is not None:
        yield from (home / name for name in OWN)
    yield from (ETC / name for name in SHARED)
    yield from (path for path in entries(ETC / "profile.d") if path.suffix == ".sh")


def _in(path: Path, wanted: re.Pattern[str]) -> Iterator[dict[str, Any]]:
    try:
        data, _status = conffiles.content(path, MOST_BYTES)
    except OSError:
        return  # most of them are not there; and what we may not read, our login's shell could not read either
    for number, line in enumerate(data.decode("utf-8", "surrogateescape").split("\n"), 1):
        text = line.strip()
        if not text.startswith("#"):
            for name in dict.fromkeys(wanted.findall(text)):
                yield {"file": str(path), "line": number, "name": name, "text": text[:LONGEST_LINE]}


def mentions(others: Collection[str] = ()) -> list[dict[str, Any]]:
    """The fields of model Mention for each line that names one, but comments: at most 200.

    ``others`` are names besides; a line that only reads one of them (`$RANK`) does not set it.
    """
    setting = rf"|(?<![A-Za-z0-9_${{])(?:{'|'.join(map(re.escape, others))})(?=[=\s])" if others else ""
    wanted = re.compile(NAME.pattern + setting)
    return list(islice((one for path in _files() for one in _in(path, wanted)), MOST_MENTIONS))
