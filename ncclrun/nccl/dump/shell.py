"""Settings in lines that a shell reads: assignments, `export` and its like, options as `-x` and `-e`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace

from ncclrun.nccl.dump.found import Found
from ncclrun.nccl.patterns import FAMILY, NAME

_SINGLE, _DOUBLE = r"'[^']*'", r"\"(?:\\.|[^\"\\])*\""
_COMMAND = r"\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`|\$\{[^}]*\}"
_TOKEN = re.compile(
    rf"(?P<word>(?:{_SINGLE}|{_DOUBLE}|{_COMMAND}|\\.|[^\s;&|()<>'\"\\])+)|(?P<apart>[;&|()]+)|[\s<>]+|\\$"
)
_WORD = re.compile(rf"(?P<name>{FAMILY})=(?P<value>.*)", re.DOTALL)
_LISTED = re.compile(rf"(?:^|(?<=[=,\"']))(?P<name>{FAMILY})=(?P<value>.*?)(?=,{NAME}=|(?<![=\"'])[\"']?$)")
_ASSIGNMENT = re.compile(rf"{NAME}\+?=")
_TEXT = re.compile(rf"(?:{NAME}\+?=)?(?P<quote>[\"'])(?P<inner>.*)(?P=quote)", re.DOTALL)
_OPTION_IN_TEXT = re.compile(
    rf"(?:^|\s)(?:-x|-e|--env|-genv|-env)[\s=]+(?:{FAMILY})\b|--export=|\b(?:{FAMILY})=\S*\s+\w+="
)
_DEFAULT = re.compile(r"(\"?)\$\{\w+:?[-=](?P<value>[^${}\"'`]+)\}\1")
_SPACED = re.compile(
    rf"\s*(?:export|declare\s+-x|typeset\s+-x)\s+(?P<name>{FAMILY})(?:\s+=\s*|=\s+)"
    rf"(?P<value>{_SINGLE}|{_DOUBLE}|(?!{NAME}\s*=)[^\s#;&|$`\"'\\]+)(?=\s*(?:$|[#;&]))"
)
_PROMPT = re.compile(
    r"[ \t]*(?:\([\w.-]+\)[ \t]*)?(?:\[?[\w.-]+@[\w.-]+[^\s$#%]*(?:[ \t][~/\w.-]+)?\]?[$#%]|[$%>])[ \t]+(?=\S)"
)
"""What stands in front of a command in a document or a log: `$ `, `user@host:~$ `; a # alone begins a comment."""
_GOES_ON = re.compile(r"[ \t]*,?[ \t]+(?:,[ \t]*)?[^\s,;&|<>()#$`\"'=\\]+(?:,[^\s,;&|<>()#$`\"'=\\]+)*")
"""More of a list that is parted by commas and blanks."""
_CLOSES = re.compile(r"[ \t]*(?:$|[;&|)#])")
_NO_MORE = re.compile(rf"(?:[ \t]+{NAME}\+?=(?:{_SINGLE}|{_DOUBLE}|{_COMMAND}|[^\s;&|()])*)*[ \t]*(?:$|[;)#}}]|&|\|\|)")
"""Behind an assignment: others, and no command for which they are."""
_OWN = ("declare", "typeset", "local")
_OPENS = ("then", "do", "else", "{", "!", "time", "exec", "nohup", "sudo", "RUN", "CMD", "eval", "if", "&&")
_SETTERS = ("export", "declare", "typeset", "readonly", "local", "ENV", "set", "setenv", "ARG")
_OPTIONS = ("-x", "-e", "--env", "-env", "-genv", "-E", "--export", "--mca-env", "-v")
_PAIRED = ("-env", "-genv")
_SHELLS_TEXT = re.compile(r"-\w*c")


class Shell:
    """Reads one line after the other: a command may go on after a backslash, a text in quotes over many lines."""

    def __init__(self, command: tuple[str, ...] = (), quote: str = "") -> None:
        self._command = list(command)
        self._quote = quote
        """In which we are."""
        self.goes_on = False
        """Whether the last line ended in a backslash."""

    def read(self, number: int, line: str, start: int = 0, end: int | None = None) -> Iterator[Found]:
        """What is set on a line, or on a part of it."""
        stop = len(line) if end is None else end
        if not self.goes_on:
            self._command = self._command if start or end else []
        self.goes_on = line[:stop].endswith("\\")
        if not start and end is None and not self._quote and (prompt := _PROMPT.match(line)):
            start = prompt.end()
        if match := _SPACED.match(line[:stop], start):
            found = _found(match["name"], number, line, *match.span("value"))
            if found and found.certain:
                yield replace(found, spaced=True)
                return
        yield from self._tokens(number, line, start, stop)

    def _tokens(self, number: int, line: str, at: int, stop: int) -> Iterator[Found]:
        text = line[:stop]
        while at < stop:
            token = _TOKEN.match(text, at)
            if token is None:  # a quote that is closed on a later line, or was opened on an earlier one
                self._turn(text[at])
                at += 1
                continue
            start, at = token.span()
            word = token["word"]
            if token["apart"]:
                self._command = []
            if not word:
                continue
            if word.startswith("#") and start:  # a comment; those in front are the directives of a batch system
                return
            if text[at : at + 1] in ("'", '"') and text[at : at + 1] != self._quote:
                continue  # a later line closes this one
            if word.endswith("=") and text[at : at + 1] == "(":
                continue  # a list of bash's
            yield from self._word(word, number, line, start, at)
            if word not in _OPENS:
                self._command.append(word)

    def _turn(self, quote: str) -> None:
        if quote == self._quote:
            self._quote = ""
        elif not self._quote:
            self._quote = quote
            self._command = []

    def _word(self, word: str, number: int, line: str, start: int, end: int) -> Iterator[Found]:
        before = self._command[-1] if self._command else ""
        if inner := self._text_in(word, before):
            yield from Shell(quote=word[-1]).read(
                number, line, start + inner.start("inner"), start + inner.end("inner")
            )
        elif word.startswith("-") or (before.startswith("--") and before in _OPTIONS and word[0] not in "\"'"):
            for match in _LISTED.finditer(word):
                first, last = match.span("value")
                yield from self._one(match["name"], number, line, start + first, start + last)
        elif len(self._command) > 1 and self._command[-2] in _PAIRED and re.fullmatch(FAMILY, before):
            yield from self._one(before, number, line, start, end)
        elif self._assigns(word):
            quoted = re.fullmatch(r"([\"']).*\1", word, re.DOTALL)
            cut = 1 if quoted else 0
            match_ = _WORD.fullmatch(word[cut : len(word) - cut])
            if match_:
                at = start + cut + match_.start("value")
                for found in self._one(match_["name"], number, line, at, end - cut, inner=bool(quoted)):
                    yield self._in_command(found, line[end:])

    def _in_command(self, found: Found, rest: str) -> Found:
        """With what the ``rest`` of the line makes of it."""
        before = [word for word in self._command if not _ASSIGNMENT.match(word)]
        own = bool(before) and before[0] in _OWN and not any(re.match(r"-\w*x", word) for word in before)
        if not self._quote and (own or (not before and not rest.endswith("\\") and _NO_MORE.match(rest))):
            found = replace(found, unexported=found.style == "shell")
        if not before or before[0] not in _SETTERS:
            return found
        value, at = found.value, 0
        while (value.endswith(",") or rest[at:].lstrip(" \t").startswith(",")) and (more := _GOES_ON.match(rest, at)):
            value, at = re.sub(r"\s", "", value + more[0]), more.end()
        if not at or not found.certain or found.text[found.start : found.end] != found.value:
            return found
        return replace(found, meant=value, end=found.end + at) if _CLOSES.match(rest, at) else found

    def _text_in(self, word: str, before: str) -> re.Match[str] | None:
        """A text in quotes that is a command itself, or is to become a part of one: `bash -c "…"`, `OPTS="-e …"`."""
        match = _TEXT.fullmatch(word)
        if match is None:
            return None
        runs = _SHELLS_TEXT.fullmatch(before) is not None and word[0] == match["quote"]
        return match if runs or (word[0] != match["quote"] and _OPTION_IN_TEXT.search(match["inner"])) else None

    def _assigns(self, word: str) -> bool:
        """Whether an assignment at this place of a command sets a variable."""
        command = self._command
        plain = [each for each in command if not _ASSIGNMENT.match(each) or each.endswith(",")]
        setter = bool(plain) and plain[0] in _SETTERS and (plain[0] != "set" or len(command) == 1)
        set_ = setter or bool(command and command[-1] in _OPTIONS) or "env" in command
        return set_ or (word[0] not in "\"'" and not plain)

    def _one(self, name: str, number: int, line: str, start: int, end: int, *, inner: bool = False) -> Iterator[Found]:
        written = line[start:end]
        bare = not self._command and not self._quote
        if bare and written.endswith(","):  # an argument of a program's function, or a sentence
            if written[-2:-1] not in ("'", '"'):
                return
            end -= 1
        found = _found(name, number, line, start, end, inner=inner)
        if found and self._quote == '"' and "\\" in written:  # quoted twice
            found = replace(found, text="", start=0, end=0, certain=False)
        if found:
            yield found


def _found(name: str, number: int, line: str, start: int, end: int, *, inner: bool = False) -> Found | None:
    """A shell's word as a value; ``inner``: the quotes are around name and value together. None: it has no end here."""
    written = line[start:end]
    if default := _DEFAULT.fullmatch(written):
        start, end = start + default.start("value"), start + default.end("value")
        return Found(name, default["value"], "item", number, line, start, end)
    # A ~ in front is a home to the shell, where no quotes are around it.
    certain = not re.search(r"(?<!\\)[$`]|\{\{|^~", re.sub(_SINGLE, "", written))
    try:
        value = written if inner or not certain else "".join(shlex.split(written))
    except ValueError:
        return None
    return Found(name, value, "item" if inner else "shell", number, line, start, end, certain)
