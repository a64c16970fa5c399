"""Settings in a YAML or JSON that parses: mappings, pairs of name and value, lists, and scripts in its texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import yaml

from ncclrun.nccl.dump.code import TEMPLATE, judged
from ncclrun.nccl.dump.found import ConfLines, Entry, Found, shifted
from ncclrun.nccl.dump.lines import read_lines
from ncclrun.nccl.dump.shell import Shell
from ncclrun.nccl.patterns import FAMILY, UPPER

LONGEST = 500_000
"""Characters of a text that is tried as YAML."""
_ODD = re.compile(r"[\r\x85\u2028\u2029\ud800-\udfff]")
"""What YAML takes for the end of a line, or can't read: our lines end at line feeds alone."""
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PAIRS = (("name", "value"), ("key", "value"))
_OF_CONF = re.compile(r"(?:^|[/.])nccl\.conf$")
_ITEM = re.compile(rf"(?P<name>{FAMILY})=(?P<value>.*)", re.DOTALL)
_BEFORE = re.compile(r"(?:[&!]\S*\s+)*")
_SCRIPTS = re.compile(r"script|run|command|cmd|exec|args|shell", re.IGNORECASE)


def read_yaml(text: str, lines: Sequence[str], nested: Callable[[str], Iterator[Entry]]) -> list[Entry] | None:
    """None where it is no YAML, or one text alone; ``nested`` reads what stands in a block of text."""
    if len(text) > LONGEST:
        return None
    # A block of text ends where the line ends: the last line, too, needs its line feed.
    whole = _ODD.sub(" ", text).removesuffix("\n") + "\n"
    try:
        roots = [root for root in yaml.compose_all(whole, Loader=_LOADER) if root is not None]
    except (yaml.YAMLError, RecursionError):
        return None
    if not roots or any(isinstance(root, yaml.ScalarNode) and root.value for root in roots):
        return None
    reader = _Reader(lines, nested)
    found = [entry for root in roots for entry in reader.node(root, "")]
    return sorted(found, key=_line)


def _line(entry: Entry) -> int:
    return entry.lines[0][0] if isinstance(entry, ConfLines) and entry.lines else getattr(entry, "line", 0) or 0


class _Reader:
    def __init__(self, lines: Sequence[str], nested: Callable[[str], Iterator[Entry]]) -> None:
        self._lines = lines
        self._nested = nested
        self._seen: set[int] = set()
        """Nodes that an alias names a second time."""

    def node(self, node: yaml.Node, key: str, *, conf: bool = False) -> Iterator[Entry]:
        """What is in it; ``key``: whose value it is; ``conf``: it is the content of a conf file."""
        if id(node) in self._seen:
            return
        self._seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            yield from self._mapping(node, key, conf=conf)
        elif isinstance(node, yaml.SequenceNode):
            for child in node.value:
                yield from self._item(child, key) if isinstance(child, yaml.ScalarNode) else self.node(child, key)
        elif isinstance(node, yaml.ScalarNode):
            yield from self._conf(node) if conf else self._text(node)

    def _mapping(self, node: yaml.MappingNode, key: str, *, conf: bool) -> Iterator[Entry]:
        scalars = {
            str(k.value).lower(): v
            for k, v in node.value
            if isinstance(k, yaml.ScalarNode) and isinstance(v, yaml.ScalarNode)
        }
        conf = conf or any(
            _OF_CONF.search(v.value) for k, v in scalars.items() if k in ("path", "dest", "file", "filename")
        )
        for name_key, value_key in _PAIRS:
            named, value = scalars.get(name_key), scalars.get(value_key)
            if named is not None and value is not None and re.fullmatch(FAMILY, named.value):
                yield from self._setting(named.value, value)
        variable = FAMILY if "env" in key.lower() else UPPER
        for k, v in node.value:
            name = k.value if isinstance(k, yaml.ScalarNode) else ""
            if isinstance(v, yaml.ScalarNode) and re.fullmatch(variable, name):
                yield from self._setting(name, v)
            else:
                if name and "=" in name:
                    yield from self._text(k)
                yield from self.node(v, name or key, conf=conf or _OF_CONF.search(name) is not None)

    def _setting(self, name: str, node: yaml.ScalarNode) -> Iterator[Found]:
        if id(node) in self._seen:
            return
        self._seen.add(id(node))
        if not node.style and (not node.value or node.tag == "tag:yaml.org,2002:null"):
            return
        value, certain = node.value, judged(node.value) and node.tag.startswith("tag:yaml.org")
        number = node.start_mark.line + 1
        if not value and node.style in ("|", ">"):
            return
        if node.end_mark.line + 1 != number or node.style in ("|", ">"):
            yield Found(name, value, "yaml", number, certain=certain)
        else:
            yield Found(name, value, "yaml", number, self._lines[number - 1], *self._span(node), certain)

    def _span(self, node: yaml.ScalarNode) -> tuple[int, int]:
        """Of a scalar on one line, without its anchor and tag."""
        line, start, end = self._lines[node.start_mark.line], node.start_mark.column, node.end_mark.column
        match = _BEFORE.match(line, start, end)
        return (match.end() if match and not node.style else start), end

    def _item(self, node: yaml.ScalarNode, key: str) -> Iterator[Entry]:
        match = _ITEM.fullmatch(node.value)
        if id(node) in self._seen or not match:
            yield from self.node(node, key)
            return
        self._seen.add(id(node))
        value, number = match["value"], node.start_mark.line + 1
        if not re.search("env", key, re.IGNORECASE) and (re.search(r"\s", value) or _SCRIPTS.search(key)):
            yield from self._text(node)
            return
        start, end = self._span(node)
        quoted = 1 if node.style in ("'", '"') else 0
        start, end = start + quoted + match.start("value"), end - quoted
        line = self._lines[number - 1]
        same = node.end_mark.line + 1 == number and line[start:end] == value
        certain = not TEMPLATE.search(value)
        yield Found(match["name"], value, "item", number, *((line, start, end) if same else ("", 0, 0)), certain)

    def _text(self, node: yaml.ScalarNode) -> Iterator[Entry]:
        """A script, or a part of one."""
        if not re.search(rf"\b(?:{FAMILY})", node.value):
            return
        number = node.start_mark.line + 1
        if node.style in ("|", ">"):
            text, first, indent = self._block(node)
            for entry in self._nested(text):
                yield shifted(entry, self._lines, first, indent)
            return
        same = node.end_mark.line + 1 == number
        if same and not (node.style == '"' and "\\" in self._lines[number - 1]):
            quoted = 1 if node.style in ("'", '"') else 0
            start, end = self._span(node)
            yield from Shell().read(number, self._lines[number - 1], start + quoted, end - quoted)
            return
        for entry in read_lines(node.value.split("\n")):
            if isinstance(entry, Found):
                yield Found(entry.name, entry.value, entry.style, number, certain=entry.certain)

    def _block(self, node: yaml.ScalarNode) -> tuple[str, int, int]:
        """Its text as it stands there, the number of its first line, and how deep it stands."""
        first = node.start_mark.line + 2
        body = self._lines[first - 1 : node.end_mark.line]
        indent = min((len(line) - len(line.lstrip(" ")) for line in body if line.strip()), default=0)
        return "\n".join(line[indent:] for line in body), first, indent

    def _conf(self, node: yaml.ScalarNode) -> Iterator[Entry]:
        if node.style == "|":
            text, first, _ = self._block(node)
            lines = [
                (number, self._lines[number - 1], "#" if TEMPLATE.search(line) else line)
                for number, line in enumerate(text.split("\n"), first)
            ]
            yield ConfLines(tuple(lines))
        elif node.start_mark.line == node.end_mark.line and not TEMPLATE.search(node.value):
            number = node.start_mark.line + 1
            if re.match(rf"(?:export\s+)?(?:{FAMILY})", node.value):
                said = [(number, self._lines[number - 1], line) for line in node.value.split("\n") if line]
                yield ConfLines(tuple(said))
