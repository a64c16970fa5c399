"""Settings in what people have instead of a conf file: dumps of an environment, shell scripts, YAML, Dockerfiles."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ncclrun.nccl.slips import FAMILY, NAME

Style = Literal["raw", "item", "shell", "yaml"]
"""How the value is written: as it is; as it is, in a list of YAML or JSON; as a shell's word; as a scalar of YAML."""


@dataclass(frozen=True, slots=True)
class Found:
    """A setting in a text, and where its value stands there."""

    name: str
    value: str
    style: Style
    line: int | None
    """From 1; None where the text has no lines."""
    text: str = ""
    """The line."""
    start: int = 0
    end: int = 0
    """Where the value stands in it, quotes and all; its name is in front of it, on this line or an earlier one."""
    certain: bool = True
    """False: a variable or a command stands in it, so only the shell knows the value."""

    def written(self, value: str) -> str:
        """Another value in the way in which this one is written."""
        quote = self.text[self.start : self.start + 1]
        if quote in ("'", '"') and self.style in ("shell", "yaml") and not re.search(r"[\"'\\$`]", value):
            return f"{quote}{value}{quote}"
        if self.style == "shell":
            return shlex.quote(value)
        plain = self.style != "yaml" or re.fullmatch(r"[A-Za-z_/][\w./,^+-]*", value)
        return value if plain else f'"{value}"'


def rewritten(changes: Sequence[tuple[Found, str, str]]) -> str:
    """A line with other names and values in the place of those that were found on it."""
    text = changes[0][0].text
    for found, name, value in sorted(changes, key=lambda change: -change[0].start):
        head, there, behind = text[: found.start].rpartition(found.name)
        front = f"{head}{name}{behind}" if there else text[: found.start]
        text = f"{front}{found.written(value)}{text[found.end :]}"
    return text


_OF_AN_ENVIRONMENT = re.compile(r"^(?:PATH|HOME|PWD|SHELL|USER|HOSTNAME|LOGNAME|SHLVL)=", re.MULTILINE)
_OF_A_SCRIPT = re.compile(
    rf"^\s*(?:#|(?:export|declare|typeset|set|ENV|setenv)\s|-\s|[\"']?{NAME}[\"']?:)", re.MULTILINE
)
_RAW = re.compile(rf"(?P<name>{FAMILY})=(?P<value>.*)", re.DOTALL)
_ITEM = re.compile(rf"(?P<before>\s*-\s+(?P<quote>[\"']?)(?P<name>{FAMILY})=)(?P<value>.*?)(?P<after>(?P=quote)\s*)")
_JSON_ITEM = re.compile(rf"\"(?P<name>{FAMILY})=(?P<value>(?:\\.|[^\"\\])*)\"")
_MAPPED = re.compile(
    rf"(?P<before>\s*(?:-\s+)?(?P<quote>[\"']?)(?P<name>{FAMILY})(?P=quote)\s*:\s+)(?P<value>\S.*?)(?P<after>\s*,?\s*)"
)
_NAME_OF_PAIR = re.compile(
    rf"[\s{{,-]*[\"']?name[\"']?\s*:\s*(?P<quote>[\"']?)(?P<name>{FAMILY})(?P=quote)\s*(?P<rest>.*)"
)
_VALUE_OF_PAIR = re.compile(r"(?P<before>[\s,]*[\"']?value[\"']?\s*:\s*)(?P<value>\S.*?)(?P<after>\s*[},]*\s*)")
_SPACED = re.compile(rf"(?P<before>\s*(?:ENV|setenv)\s+(?P<name>{FAMILY})\s+)(?P<value>[^\s=].*?)(?P<after>\s*\\?)")
_SCALAR = re.compile(r"\"(?P<double>(?:\\.|[^\"\\])*)\"|'(?P<single>(?:''|[^'])*)'|(?P<plain>[^\s\"'|>{[&*!%@`#].*?)")
_TEMPLATE = re.compile(r"\$|\{\{|<%")

_SINGLE, _DOUBLE = r"'[^']*'", r"\"(?:\\.|[^\"\\])*\""
_COMMAND = r"\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`|\$\{[^}]*\}"
_TOKEN = re.compile(
    rf"(?P<word>(?:{_SINGLE}|{_DOUBLE}|{_COMMAND}|\\.|[^\s;&|()<>'\"\\])+)|(?P<apart>[;&|()]+)|[\s<>]+|\\$"
)
_WORD = re.compile(rf"(?P<name>{FAMILY})=(?P<value>.*)", re.DOTALL)
_IN_OPTION = re.compile(rf"(?<=[=,])(?P<name>{FAMILY})=(?P<value>.*?)(?=,{NAME}=|$)")
_ASSIGNMENT = re.compile(rf"{NAME}\+?=")
_OPENS = ("then", "do", "else", "{", "!", "time", "exec", "nohup", "sudo")
_SETTERS = ("export", "declare", "typeset", "readonly", "local", "env", "ENV", "set", "setenv", "ARG")
_OPTIONS = ("-x", "-e", "--env", "-env", "-genv", "-E", "--export", "--mca-env")


def is_environment(text: str) -> bool:
    """Whether this is what `env` prints: variables that every process has, and nothing that only scripts have."""
    return bool(_OF_AN_ENVIRONMENT.search(text)) and not _OF_A_SCRIPT.search(text)


def read(text: str) -> tuple[Found, ...]:
    """All settings of NCCL's, Gloo's and torch's families; the kind of text is seen line by line."""
    if "\0" in text:  # /proc/PID/environ
        entries = [(_RAW.fullmatch(entry), entry) for entry in text.split("\0")]
        return tuple(
            Found(m["name"], m["value"], "raw", None, entry, m.start("value"), len(entry)) for m, entry in entries if m
        )
    lines = text.replace("\r\n", "\n").split("\n")
    if is_environment(text):
        return tuple(found for number, line in enumerate(lines, 1) for found in _whole(_RAW, "raw", number, line))
    return tuple(_read_lines(lines))


def _read_lines(lines: list[str]) -> Iterator[Found]:
    pair = ""
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("#") and not line.startswith(("#SBATCH", "#PBS", "#BSUB", "#$ ")):
            continue
        if named := _NAME_OF_PAIR.fullmatch(line):
            pair = named["name"]
            if rest := named["rest"]:
                yield from _pair_value(pair, number, rest, line[: -len(rest)])
            continue
        if pair and (found := list(_pair_value(pair, number, line, ""))):
            yield from found
        else:
            yield from _read_line(number, line)
        pair = ""


def _pair_value(name: str, number: int, text: str, head: str) -> Iterator[Found]:
    match = _VALUE_OF_PAIR.fullmatch(text)
    if match:
        yield from _scalar(name, match["value"], number, head + match["before"], match["after"])


def _read_line(number: int, line: str) -> Iterator[Found]:
    if match := _MAPPED.fullmatch(line):
        yield from _scalar(match["name"], match["value"], number, match["before"], match["after"])
    elif _ITEM.fullmatch(line):
        yield from _whole(_ITEM, "item", number, line)
    elif match := _SPACED.fullmatch(line):
        yield from _word(match["name"], match["value"], number, match["before"], match["after"])
    elif line.lstrip(" \t[").startswith('"'):
        for item in _JSON_ITEM.finditer(line):
            value = item["value"].replace('\\"', '"').replace("\\\\", "\\")
            yield _item("item", number, line, item, value)
    else:
        yield from _words(number, line.strip("[]") if line.startswith("[") and line.endswith("]") else line)


def _item(style: Style, number: int, line: str, match: re.Match[str], value: str) -> Found:
    certain = style == "raw" or not _TEMPLATE.search(value)
    return Found(match["name"], value, style, number, line, *match.span("value"), certain)


def _whole(pattern: re.Pattern[str], style: Style, number: int, line: str) -> Iterator[Found]:
    match = pattern.fullmatch(line)
    if match:
        yield _item(style, number, line, match, match["value"])


def _scalar(name: str, written: str, number: int, before: str, after: str) -> Iterator[Found]:
    """A value of YAML on one line, without the comment behind it."""
    comment = re.search(r"\s+#.*", written)
    if comment and not re.fullmatch(f"{_DOUBLE}|{_SINGLE}", written):
        written, after = written[: comment.start()], comment[0] + after
    match = _SCALAR.fullmatch(written)
    if match:
        double, single, plain = match.group("double", "single", "plain")
        value = re.sub(r"\\(.)", r"\1", double) if double is not None else plain or (single or "").replace("''", "'")
        start, end = len(before), len(before) + len(written)
        text = before + written + after
        yield Found(name, value, "yaml", number, text, start, end, not _TEMPLATE.search(value))


def _words(number: int, line: str) -> Iterator[Found]:
    """The assignments of a shell's line: alone, before a command, behind `export` and the like, or `-x` and `-e`."""
    command: list[str] = []
    at = 0
    while at < len(line) and (token := _TOKEN.match(line, at)):
        at = token.end()
        if token["apart"]:
            command = []
        word = token["word"]
        if not word:
            continue
        if line[at : at + 1] in ("'", '"'):  # a later line closes this one
            return
        if word.startswith("#") and token.start():  # a comment; those in front are the directives of a batch system
            return
        if word.startswith("-"):
            for match in _IN_OPTION.finditer(word):
                start, end = token.start() + match.start("value"), token.start() + match.end("value")
                yield from _word(match["name"], match["value"], number, line[:start], line[end:])
        elif _assigns(word, command):
            inner = re.fullmatch(r"([\"'])(.*)\1", word)
            match_ = _WORD.fullmatch(inner[2] if inner else word)
            if match_:
                start = token.start() + match_.start("value") + (1 if inner else 0)
                end = token.end() - (1 if inner else 0)
                yield from _word(match_["name"], match_["value"], number, line[:start], line[end:], inner=bool(inner))
        if word not in _OPENS:
            command.append(word)


def _assigns(word: str, command: list[str]) -> bool:
    """Whether an assignment at this place of a command sets a variable."""
    behind_option = bool(command) and command[-1] in _OPTIONS
    if word[0] in "\"'":  # `bash -c "NCCL_DEBUG=INFO python …"` is a text, `-e "NCCL_DEBUG=INFO"` is none
        return behind_option or (command != [] and command[0] in _SETTERS)
    return behind_option or any(w in _SETTERS for w in command) or all(map(_ASSIGNMENT.match, command))


def _word(name: str, written: str, number: int, before: str, after: str, *, inner: bool = False) -> Iterator[Found]:
    """A shell's word; ``inner``: the quotes are around name and value together."""
    certain = not re.search(r"(?<!\\)[$`]", re.sub(_SINGLE, "", written))
    try:
        value = written if inner or not certain else "".join(shlex.split(written))
    except ValueError:  # a quote that a later line closes
        return
    start, end = len(before), len(before) + len(written)
    yield Found(name, value, "item" if inner else "shell", number, before + written + after, start, end, certain)
