"""`ncclrun nccl lint` on this machine: which texts are looked at, what is found in each, and the file put right."""

from __future__ import annotations

import os
import pwd
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from ncclrun.commands.rewrite import replace_file
from ncclrun.commands.source import near_misses
from ncclrun.diagnosis.settings import file_findings
from ncclrun.model.errors import EXIT_UNREACHABLE, NcclrunError, SpecError, UsageError
from ncclrun.model.settings import ConfFile, ConfRole, SettingFinding
from ncclrun.nccl.conf import read_files
from ncclrun.nccl.dump.kinds import kind_of, runs_alone
from ncclrun.nccl.lint.conffile import lint_conf
from ncclrun.nccl.lint.dumps import lint_dump, lint_environment
from ncclrun.nccl.lint.mend import mend
from ncclrun.nccl.lint.scripts import ScriptRun
from ncclrun.nccl.patterns import FAMILY
from ncclrun.nccl.version import NEWEST, Version
from ncclrun.planning.hostfile import is_hostfile

MOST_BYTES = 4 << 20
"""Of a text that is looked at."""
STDIN = "<stdin>"
"""What standard input is called in findings."""
SHELL = "this shell's environment"
UNREACHABLE = "unreachable"
"""The id of a finding about a node that can't be asked."""
_NODES = re.compile(r"^nodes\s*:", re.MULTILINE)
_SLOTS = re.compile(r"^[^\s=#]+\s+slots=\d", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Linted:
    """A text with what was found in it."""

    file: str
    findings: tuple[SettingFinding, ...]
    lines: tuple[str, ...] = ()
    """Of the text; () where it has none that count."""
    written: bool = False
    """It was put right: ``findings`` are what is left of them."""
    backup: str = ""
    """Where the file is kept as it was."""
    node: str = ""
    """Whose file it is; "" on this machine."""

    @property
    def place(self) -> str:
        """As findings name it: ``gpu1:/etc/nccl.conf``."""
        return ":".join(filter(None, (self.node, self.file)))


def is_cluster_file(path: str, data: bytes) -> bool:
    """Whether the nodes of a cluster are meant: a YAML file with `nodes`, or a hostfile. Raises UsageError."""
    text = data.decode("utf-8", "replace")
    named = re.search(r"host|node|machine", Path(path).name) and not re.search(f"=|{FAMILY}", text)
    hosts = is_hostfile(text) and bool(_SLOTS.search(text) or named)
    if not hosts and _NODES.search(text) is None:
        return False
    if not Path(path).is_file():  # it is read again by those who ask its nodes
        raise UsageError(f"{path} is a pipe; a cluster file is to be a file on the disk", fix="name a file")
    return True


def read(path: str) -> bytes:
    """A file's bytes; a pipe can be read once. Raises UsageError: there is none, it can't be read, or is huge."""
    try:
        with Path(path).open("rb") as file:
            return _whole(path, file)
    except FileNotFoundError:
        raise UsageError(f"there is no file {shlex.quote(path)}", fix=near_misses(Path(path), (".conf",))) from None
    except OSError as error:
        raise UsageError(
            f"{shlex.quote(path)} can't be read: {error.strerror or error}",
            fix=f"look at it:  ls -ld {shlex.quote(path)}",
        ) from error


def read_stdin(stream: BinaryIO | None) -> bytes:
    """All of standard input, None where it is closed. Raises UsageError."""
    if stream is None:
        raise UsageError("standard input is closed", fix="ncclrun nccl lint - < FILE")
    return _whole(STDIN, stream)


def _whole(name: str, file: BinaryIO) -> bytes:
    data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise UsageError(
            f"{name} has more than {MOST_BYTES >> 20} MiB: this is no file of settings",
            fix="name the file that is meant",
        )
    return data


def is_conf(path: str, data: bytes) -> bool:
    """Whether this may be a conf file, and is not plainly a script, YAML, a program, an environment."""
    return kind_of(Path(path).name, _text(data)) == "conf"


def refuse_others(path: str, data: bytes) -> None:
    """Raises UsageError for what `--fix` must not write to: all but conf files, whose lines alone it knows."""
    if not is_conf("" if path == STDIN else path, data):
        raise UsageError(
            f"{path} is no conf file, and is left as it is: scripts and the like are never rewritten",
            fix=f"see what is to be put right:  ncclrun nccl lint {'-' if path == STDIN else shlex.quote(path)}",
        )


def lint_file(path: str, data: bytes, version: Version | None, *, fix: bool = False) -> Linted:
    """A file with these bytes; with ``fix`` it is put right, and kept as it was beside it. Raises UsageError."""
    if fix:
        refuse_others(path, data)
    elif not is_conf(path, data):
        return lint_other(data, version, path)
    after = mend(data, version) if fix else data
    backup = "" if after == data else str(replace_file(Path(path), data, after))
    return Linted(path, lint_conf(after, version, path), _lines(after), after != data, backup)


def lint_conf_file(path: str, version: Version | None) -> Linted:
    """What NCCL reads as one, whatever it is. Raises UsageError."""
    data = read(path)
    return Linted(path, lint_conf(data, version, path), _lines(data))


def lint_text(data: bytes, version: Version | None, file: str = STDIN) -> Linted:
    """A conf file from elsewhere. What is plainly none (``env | …``, a script) is taken for what it is."""
    if not is_conf("", data):
        return lint_other(data, version, file)
    return Linted(file, lint_conf(data, version, file), _lines(data))


def lint_other(data: bytes, version: Version | None, file: str) -> Linted:
    """What people have instead of a conf file: a dump of an environment, a script, YAML."""
    text, name = _text(data), "" if file == STDIN else Path(file).name
    lines = () if b"\0" in data else _lines(data)
    run: ScriptRun | None = None
    if kind_of(name, text) == "script":
        run = "run" if runs_alone(name, text) else "perhaps"
    return Linted(file, lint_dump(text, version, file, run), lines)


def lint_here(environ: Mapping[str, str], version: Version | None) -> tuple[Linted, ...]:
    """The conf files that NCCL would read on this machine, and this shell's environment."""
    texts = [
        lint_conf_file(file.path, version) if not file.error else Linted(file.path, file_findings(file, version))
        for file in own_files(environ, version)
    ]
    return (*texts, Linted(SHELL, lint_environment(environ, version, SHELL)))


def own_files(environ: Mapping[str, str], version: Version | None) -> tuple[ConfFile, ...]:
    """Those that are there, without their text; a named one also if it is not (``error``)."""
    places: list[tuple[str, ConfRole]] = [
        (environ.get("NCCL_CONF_FILE", ""), "named"),
        (f"{environ['HOME']}/.nccl.conf" if "HOME" in environ else "", "home"),
        (f"{_passwd_home()}/.nccl.conf", "passwd_home"),
        ("/etc/nccl.conf", "system"),
    ]
    files = [ConfFile(path=path, roles=(role,), error=_why_not(path, role)) for path, role in places if path]
    wanted = read_files(files, version or NEWEST)
    return tuple(file for file in wanted if file.error or Path(file.path).exists())


def _why_not(path: str, role: ConfRole) -> str:
    """Why a file that is there, or is named, can't be read; "" where it can, or where it may well be missing."""
    if not Path(path).exists() and role != "named":
        return ""
    try:
        with Path(path).open("rb"):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def _passwd_home() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # a user without an entry, as in containers: NCCL then reads none
        return ""


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _lines(data: bytes) -> tuple[str, ...]:
    return tuple(_text(data).split("\n"))


def exit_code(texts: Sequence[Linted]) -> int:
    """255 where a node could not be asked, as everywhere; 1 where there is another error, 0 where there is none."""
    errors = {finding.id for text in texts for finding in text.findings if finding.level == "error"}
    return EXIT_UNREACHABLE if UNREACHABLE in errors else 1 if errors else 0


def cluster_file(error: SpecError, data: bytes, version: Version | None, file: str) -> Linted:
    """A cluster file that can't be loaded: what is wrong in it, with what is wrong in its settings."""
    text = lint_other(data, version, file)
    faults = [
        SettingFinding(
            file=file,
            line=problem.line,
            name="",
            value="",
            level="error",
            id="cluster_file",
            sees=f"{problem.path}: {problem.message}" if problem.path else problem.message,
            fix="",
        )
        for problem in error.problems
    ]
    skipped = SettingFinding(
        file=file,
        line=None,
        name="",
        value="",
        level="info",
        id="not_asked",
        sees="the nodes were not asked, since the cluster file can't be read so",
        fix="",
    )
    found = sorted([*faults, *text.findings], key=lambda finding: finding.line or 0)
    return replace(text, findings=(*found, skipped))


def not_done(error: NcclrunError, file: str) -> Linted:
    """What kept lint from its work, for the list that programs read."""
    finding = SettingFinding(
        file=file, line=None, name="", value="", level="error", id="not_done", sees=str(error), fix=error.fix
    )
    return Linted(file, (finding,))
