"""Settings in a text that is read line by line: scripts, Dockerfiles, templates of YAML, programs, command lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ncclrun.nccl.dump.code import TEMPLATE, code_line, judged, pairs_of_code, quoted_items
from ncclrun.nccl.dump.conf import conf_lines, echoed, for_startup, here_documents
from ncclrun.nccl.dump.found import Entry, Found
from ncclrun.nccl.dump.shell import Shell
from ncclrun.nccl.patterns import FAMILY, UPPER

_DIRECTIVES = ("#SBATCH", "#PBS", "#BSUB", "#$ ", "#COBALT", "#FLUX")
_ITEM = re.compile(rf"\s*-\s+(?P<quote>[\"']?)(?P<name>{FAMILY})=(?P<value>[^\"'\s]\S*?|)(?P=quote)\s*(?:#.*)?")
_LITERAL_ITEM = re.compile(rf"\s*-\s+(?P<name>{FAMILY})=(?P<value>\"[^\"]*\"|'[^']*')\s*")
_MAPPED = re.compile(
    rf"(?P<before>\s*(?:-\s+)?(?P<quote>[\"']?)(?P<name>{UPPER})(?P=quote)\s*:\s+)(?P<value>\S.*?)(?P<after>\s*,?\s*)"
)
_NAME_OF_PAIR = re.compile(
    rf"[\s{{,-]*[\"']?(?:name|key)[\"']?\s*:\s*(?P<quote>[\"']?)(?P<name>{FAMILY})(?P=quote)\s*(?P<rest>.*)",
    re.IGNORECASE,
)
_VALUE_OF_PAIR = re.compile(
    r"(?P<before>[\s,]*[\"']?value[\"']?\s*:\s*)(?P<value>\S.*?)(?P<after>\s*[},]*\s*)", re.IGNORECASE
)
_SPACED = re.compile(
    rf"(?P<before>\s*(?:[$%>]\s+)?(?:ENV|setenv|set\s+-\w*x\w*)\s+(?P<name>{FAMILY})\s+)(?P<value>[^\s=].*?)(?P<after>\s*\\?)"
)
_POWERSHELL = re.compile(
    rf"(?P<before>\s*\$env:(?P<name>{FAMILY})\s*=\s*)(?P<value>\S.*?)(?P<after>\s*;?\s*)", re.IGNORECASE
)
_IF_UNSET = re.compile(rf"\s*:\s+\"?\$\{{(?P<name>{FAMILY}):?=(?P<value>[^$`{{}}\"']+)\}}\"?")
_UNIT = re.compile(r"\s*Environment=(?=[\"']?\w+=)")
_MAGIC = re.compile(r"\s*(?:!|%(?:env|set_env)\s+)(?=[A-Za-z])")
"""What begins a shell's line in a notebook."""
_SCALAR = re.compile(r"\"(?P<double>(?:\\.|[^\"\\])*)\"|'(?P<single>(?:''|[^'])*)'|(?P<plain>[^\s\"'|>{[&*!%@`#].*?)")


def read_lines(lines: Sequence[str]) -> Iterator[Entry]:
    """All settings, each once, in their order but for those of conf files that are written."""
    confs = [here for here in here_documents(lines) if here.conf]
    yield from (conf_lines(lines, here) for here in confs)
    taken = {number for here in confs for number in range(here.first, here.end + 1)}
    shell, pair = Shell(), ""
    for number, line in enumerate(lines, 1):
        if number in taken or (line.lstrip().startswith("#") and not line.startswith(_DIRECTIVES)):
            continue
        paired = list(pairs_of_code(number, line))
        if paired:
            yield from paired
            continue
        if named := _NAME_OF_PAIR.fullmatch(line):
            pair = named["name"]
            if rest := named["rest"]:
                yield from _pair_value(pair, number, rest, line[: -len(rest)])
            continue
        found = list(_pair_value(pair, number, line, "")) if pair else []
        yield from found or _line(shell, number, line)
        pair = ""


def _pair_value(name: str, number: int, text: str, head: str) -> Iterator[Found]:
    match = _VALUE_OF_PAIR.fullmatch(text)
    if match:
        yield from _scalar(name, match["value"], number, head + match["before"], match["after"])


def _line(shell: Shell, number: int, line: str) -> Iterator[Entry]:
    if conf := echoed(number, line):
        yield conf
    elif place := for_startup(line):
        yield from Shell().read(number, line, *place)
    elif found := list(code_line(number, line)):
        yield from found
    elif not shell.goes_on and (whole := list(_whole(number, line))):
        yield from whole
    elif line.lstrip(" \t[").startswith(('"', "'")) and (items := list(quoted_items(number, line))):
        yield from items
    elif unit := _UNIT.match(line) or _MAGIC.match(line):
        yield from Shell(("export",) if unit.re is _UNIT else ()).read(number, line, unit.end(), len(line))
    elif line.startswith("[") and line.endswith("]"):  # as Go prints a list
        yield from Shell().read(number, line, 1, len(line) - 1)
    else:
        yield from shell.read(number, line)


def _whole(number: int, line: str) -> Iterator[Found]:
    """Forms that take a whole line."""
    if match := _MAPPED.fullmatch(line):
        yield from _scalar(match["name"], match["value"], number, match["before"], match["after"])
    elif match := _ITEM.fullmatch(line) or _LITERAL_ITEM.fullmatch(line):
        value = match["value"]
        yield Found(match["name"], value, "item", number, line, *match.span("value"), not TEMPLATE.search(value))
    elif match := _SPACED.fullmatch(line) or _POWERSHELL.fullmatch(line):
        yield from Shell(("-env", match["name"])).read(number, line, match.start("value"), match.end("value"))
    elif match := _IF_UNSET.match(line):
        yield Found(match["name"], match["value"], "item", number, line, *match.span("value"))


def _scalar(name: str, written: str, number: int, before: str, after: str) -> Iterator[Found]:
    """A value of YAML on one line, without the comment behind it."""
    comment = re.search(r"\s+#.*", written)
    if comment and not re.fullmatch(r"\"(?:\\.|[^\"\\])*\"|'[^']*'", written):
        written, after = written[: comment.start()], comment[0] + after
    match = _SCALAR.fullmatch(written)
    if match:
        double, single, plain = match.group("double", "single", "plain")
        value = re.sub(r"\\(.)", r"\1", double) if double is not None else plain or (single or "").replace("''", "'")
        start, end = len(before), len(before) + len(written)
        certain = judged(value) and (plain is None or " " not in plain)  # a line alone may be a sentence of a text
        yield Found(name, value, "yaml", number, before + written + after, start, end, certain)
