"""ssh_config files as OpenSSH reads them: Include, Host, Match, the first value wins; read once for many hosts.

paramiko's reader knows no Include, takes `Match` criteria that it does not know for true, and looks everything up
twice; for these cases its answer differs from `ssh -G`. Not here either: CanonicalizeHostname.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ncclrun.model.errors import UsageError
from ncclrun.transport.dial import child_environment

MAX_DEPTH = 16
EXEC_SECONDS = 10.0
SYSTEM_FILE = Path("/etc/ssh/ssh_config")

_LINE = re.compile(r'^"?(\w+)"?(?:\s*=\s*|\s+)(.*)$')
_WORD = re.compile(r'"([^"]*)"|\'([^\']*)\'|(\S+)')
_ACCUMULATE = frozenset({"identityfile", "certificatefile"})
_WITHOUT_ARGUMENT = frozenset({"all", "canonical", "final"})


@dataclass(frozen=True)
class Criterion:
    """One condition of a block: ``hostline`` (the patterns of a Host line) or a criterion of a Match line."""

    kind: str
    argument: str = ""
    negate: bool = False


@dataclass
class Block:
    """Settings that hold where all criteria hold; the words of each setting, in file order."""

    criteria: tuple[Criterion, ...]
    settings: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)


@dataclass(frozen=True)
class HostSettings:
    """What ssh_config says of one host: for each keyword (lower case) its words, in the order of first mention."""

    host: str
    values: dict[str, tuple[str, ...]]

    def first(self, keyword: str) -> str | None:
        """The single value of a keyword, None where nothing was said."""
        words = self.values.get(keyword)
        return words[0] if words else None

    def yes(self, keyword: str) -> bool:
        """Whether a yes/no keyword was set to yes."""
        return (self.first(keyword) or "no").lower() in {"yes", "true"}

    @property
    def hostname(self) -> str:
        """The name or address to connect to."""
        return expand(self.first("hostname") or self.host, {"h": self.host}).lower()

    def expand(self, value: str) -> str:
        """``value`` with the tokens of ssh_config(5) replaced."""
        local = socket.gethostname()
        user = local_user()
        return expand(
            value,
            {
                "h": self.hostname,
                "n": self.host,
                "p": self.first("port") or "22",
                "r": self.first("user") or user,
                "u": user,
                "d": str(Path.home()),
                "i": str(os.getuid()),
                "k": self.first("hostkeyalias") or self.host,
                "l": local,
                "L": local.split(".")[0],
            },
        )


def expand(value: str, tokens: dict[str, str]) -> str:
    """Replaces ``%x`` for each token, and ``%%``; what is not known stays."""
    return re.sub(r"%(.)", lambda m: "%" if m[1] == "%" else tokens.get(m[1], m[0]), value)


@cache
def local_user() -> str:
    """Login name of whoever runs this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container started with a uid that has no passwd entry
        return f"uid{os.getuid()}"


def glob_match(pattern: str, text: str) -> bool:
    """OpenSSH's patterns: ``*`` and ``?``, nothing else is special."""
    expression = "".join({"*": ".*", "?": "."}.get(c) or re.escape(c) for c in pattern)
    return re.fullmatch(expression, text, re.DOTALL) is not None


def pattern_list(patterns: list[str], text: str) -> bool:
    """Whether a list of patterns matches: one has to, and no negated one may."""
    found = False
    for pattern in patterns:
        if pattern.startswith("!"):
            if glob_match(pattern[1:], text):
                return False
        elif glob_match(pattern, text):
            found = True
    return found


class SshConfig:
    """The blocks of one or several files, in the order in which OpenSSH reads them. Thread-safe."""

    def __init__(self, blocks: list[Block]) -> None:
        self._blocks = blocks
        self._two_passes = any(c.kind == "final" for b in blocks for c in b.criteria)
        self._ran: dict[str, bool] = {}
        self._lock = threading.Lock()

    @classmethod
    def read(cls, path: str) -> SshConfig:
        """``path``, and the system's file too when it is the default ``~/.ssh/config``, as `ssh` and `ssh -F` do.

        Raises UsageError where a file other than the default does not exist or can't be read.
        """
        given = Path(path).expanduser()
        home = Path("~/.ssh").expanduser()
        default = given == home / "config"
        if not default and not given.is_file():
            wrong = "is no file" if given.exists() else "does not exist"
            raise UsageError(f"the ssh_config {path} {wrong}", fix="mend `ssh: {config: …}` in the cluster file")
        blocks = list(_read(given, home, (), 0)) if given.is_file() else []
        if default and SYSTEM_FILE.is_file():
            blocks += _read(SYSTEM_FILE, SYSTEM_FILE.parent, (), 0)
        return cls(blocks)

    def lookup(self, host: str, *, user: str | None = None, port: int | None = None) -> HostSettings:
        """What the files say of ``host``; ``user`` and ``port`` go before what is written there."""
        values: dict[str, tuple[str, ...]] = {}
        if user is not None:
            values["user"] = (user,)
        if port is not None:
            values["port"] = (str(port),)
        settings = HostSettings(host, values)
        for final in (False, True) if self._two_passes else (False,):
            for block in self._blocks:
                if all(self._holds(c, settings, final) for c in block.criteria):
                    _apply(block, values)
        return settings

    def _holds(self, criterion: Criterion, so_far: HostSettings, final: bool) -> bool:
        """Whether a criterion holds, given what the blocks above said."""
        argument = criterion.argument
        user = so_far.first("user") or local_user()
        match criterion.kind:
            case "hostline":
                return pattern_list(_words(argument), so_far.host)
            case "all":
                holds = True
            case "final":
                holds = final
            case "canonical":
                holds = False
            case "host":
                holds = pattern_list(argument.split(","), so_far.hostname)
            case "originalhost":
                holds = pattern_list(argument.split(","), so_far.host)
            case "user":
                holds = pattern_list(argument.split(","), user)
            case "localuser":
                holds = pattern_list(argument.split(","), local_user())
            case "exec":
                holds = self._run(so_far.expand(argument))
            case _:  # localnetwork, tagged, …: can't be judged here, so such a block never applies
                return False
        return holds != criterion.negate

    def _run(self, command: str) -> bool:
        """Exit status 0 of a `Match exec` command; each is run once."""
        with self._lock:
            if command not in self._ran:
                try:
                    done = subprocess.run(  # the user's own configuration asks for it
                        ["/bin/sh", "-c", command],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        env=child_environment(),
                        start_new_session=True,
                        timeout=EXEC_SECONDS,
                        check=False,
                    )
                    self._ran[command] = done.returncode == 0
                except subprocess.TimeoutExpired:
                    self._ran[command] = False
            return self._ran[command]


def _apply(block: Block, values: dict[str, tuple[str, ...]]) -> None:
    """Adds a block's settings: the first value wins, but for the keywords that collect."""
    for keyword, words in block.settings:
        if keyword in _ACCUMULATE:
            known = values.get(keyword, ())
            values[keyword] = known + tuple(w for w in words if w not in known)
        elif keyword not in values:
            values[keyword] = words


def _words(text: str) -> list[str]:
    """The words of a line, quotes taken off, up to a comment."""
    words = []
    for match in _WORD.finditer(text):
        bare = match[3]
        if bare is not None and bare.startswith("#"):
            break
        words.append(next(group for group in match.groups() if group is not None))
    return words


def _read(path: Path, base: Path, outer: tuple[Criterion, ...], depth: int) -> Iterator[Block]:
    """The blocks of a file; those of an included file hold only where the including block does."""
    if depth > MAX_DEPTH:
        raise UsageError(f"{path}: Include goes deeper than {MAX_DEPTH} files", fix="does a file include itself?")
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}") from error
    block = Block(outer)
    for raw in text.splitlines():
        line = _LINE.match(raw.strip())
        if line is None:  # empty lines, comments, and what OpenSSH would refuse as well
            continue
        keyword, rest = line[1].lower(), line[2].strip()
        if keyword == "include":
            yield block
            for included in _included(rest, base):
                yield from _read(included, base, block.criteria, depth + 1)
            block = Block(block.criteria)
        elif keyword == "host":
            yield block
            block = Block((*outer, Criterion("hostline", rest)))
        elif keyword == "match":
            yield block
            block = Block((*outer, *_match_line(_words(rest))))
        elif keyword == "proxycommand":
            block.settings.append((keyword, (rest,)))
        elif words := _words(rest):
            block.settings.append((keyword, tuple(words)))
    yield block


def _included(rest: str, base: Path) -> Iterator[Path]:
    """The files of an Include line, each pattern's in lexical order; relative ones stand in ``base``."""
    for word in _words(rest):
        pattern = Path(word).expanduser()
        if not pattern.is_absolute():
            pattern = base / pattern
        root = Path(pattern.anchor)
        yield from sorted(p for p in root.glob(str(pattern.relative_to(root))) if p.is_file())


def _match_line(words: list[str]) -> tuple[Criterion, ...]:
    """The criteria of a Match line."""
    criteria = []
    rest = iter(words)
    for word in rest:
        kind = word.lstrip("!").lower()
        argument = "" if kind in _WITHOUT_ARGUMENT else next(rest, "")
        criteria.append(Criterion(kind, argument, word.startswith("!")))
    return tuple(criteria)
