"""Puts each node's chosen interface and address into the text of the cluster file, and leaves the rest as it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import yaml

from ncclrun.model.cluster import ClusterSpec, Node
from ncclrun.model.errors import SpecError, UsageError
from ncclrun.model.plan import Endpoint
from ncclrun.planning.clusterfile import parse_cluster
from ncclrun.planning.hostlist import expand
from ncclrun.planning.yamltext import Cut, YamlText, scalar, start

BOM = "\ufeff"


@dataclass(frozen=True)
class Edit:
    """The new text of the file, and in a few words what is new in it, one text a node; () where nothing is."""

    text: str
    changes: tuple[str, ...]


def write_choice(text: str, source: str, nodes: Sequence[Node], endpoints: Sequence[Endpoint]) -> Edit:
    """``text`` with ``interface`` and ``address`` of these nodes, each in its entry; ranges become an entry a node.

    Comments, order, quotes and line ends stay. The new text is read again and must give the same cluster but for these
    two fields. Raises UsageError where that can't be had, SpecError for faults that the file has already.
    """
    old = parse_cluster(text, source)
    chosen = {
        node.name: {"interface": endpoint.interface, "address": endpoint.address.partition("%")[0]}
        for node, endpoint in zip(nodes, endpoints, strict=True)
    }
    sheet = _Sheet(text.removeprefix(BOM), source)
    rest = iter(old.nodes)
    changes: list[str] = []
    for entry in sheet.entries():
        hosts = expand(entry.fields["host"].value)
        changes += sheet.fill(entry, [(next(rest), host) for host in hosts], chosen)
    new = text[: text.startswith(BOM)] + sheet.yaml.applied(sheet.cuts, 0, len(sheet.yaml.text))
    _verify(old, new, chosen)
    return Edit(new, tuple(changes))


def _verify(old: ClusterSpec, text: str, chosen: dict[str, dict[str, str]]) -> None:
    """Whatever this file did wrong must not reach the user's: nothing is trusted but the loader."""
    expected = [
        replace(
            node,
            address=chosen[node.name]["address"],
            network=node.network.model_copy(update={"interface": chosen[node.name]["interface"]}),
        )
        if node.name in chosen
        else node
        for node in old.nodes
    ]
    try:
        same = parse_cluster(text, old.source) == replace(old, nodes=tuple(expected))
        why = "its form is not understood well enough"
    except SpecError as error:
        same, why = False, f"it would not be valid any more:\n{error.message}"
    if not same:
        lines = [f"{name}: interface: {c['interface']}, address: {c['address']}" for name, c in chosen.items()]
        raise UsageError(
            f"the choice can't be written into {old.source}, {why}\nnothing was changed",
            fix="\n".join(["write it into the nodes' entries by hand:", *lines]),
        )


def _new_entry(host: str, fields: dict[str, str], style: str | None, keys: str | None) -> str:
    """``style`` is the quotes of the host, ``keys`` those of all that is new."""
    pairs = [(scalar("host", keys), scalar(host, style))]
    pairs += [(scalar(key, keys), scalar(value, keys)) for key, value in fields.items()]
    return "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"


@dataclass(frozen=True)
class _Entry:
    """One item of `nodes`: its node in YAML's tree, and its scalar fields by name."""

    node: yaml.ScalarNode | yaml.MappingNode
    fields: dict[str, yaml.ScalarNode]
    style: str | None
    """The quotes of its keys."""
    flow: bool
    """The list that it stands in is in brackets."""


def _written(entry: _Entry, node: Node) -> dict[str, str | None]:
    """Those of the two fields that the entry has itself, as the loader understood them."""
    has = {"interface": node.network.interface, "address": node.address}
    return {key: value for key, value in has.items() if key in entry.fields}


class _Sheet:
    """The text of a cluster file that was found to be valid, without its byte order mark; ``cuts`` is what changes."""

    def __init__(self, text: str, source: str) -> None:
        self.yaml = YamlText(text)
        self.cuts: list[Cut] = []
        self._source = source

    def entries(self) -> Iterator[_Entry]:
        """The items of `nodes`, in order."""
        top = yaml.compose(self.yaml.text, Loader=yaml.SafeLoader)
        assert isinstance(top, yaml.MappingNode)
        ((key, nodes),) = ((key, value) for key, value in top.value if key.value == "nodes")
        for node in nodes.value:
            if isinstance(node, yaml.ScalarNode):
                yield _Entry(node, {"host": node}, key.style, nodes.flow_style)  # as all is quoted in JSON
            else:
                fields = {key.value: value for key, value in node.value if isinstance(value, yaml.ScalarNode)}
                (style,) = (key.style for key, _ in node.value if key.value == "host")
                yield _Entry(node, fields, style, nodes.flow_style)

    def fill(self, entry: _Entry, members: list[tuple[Node, str]], chosen: dict[str, dict[str, str]]) -> Iterator[str]:
        """Notes what becomes of an entry that stands for these nodes and hosts; yields what is new, in words."""
        wishes = [chosen.get(node.name, {}) for node, _ in members]
        if not any(wishes):
            return
        if len(members) == 1:
            self.cuts += self._filled(entry, members[0][0], wishes[0])
        else:
            yield f"{entry.fields['host'].value}: an entry for each node"
            self._spread(entry, members, wishes)
        for (node, _), wish in zip(members, wishes, strict=True):
            has = _written(entry, node)
            news = [
                f"{key} {value}" + (f" (was {has[key]})" if key in has else "")
                for key, value in wish.items()
                if value != has.get(key)
            ]
            if news:
                yield f"{node.name}: {', '.join(news)}"

    # --- one node

    def _filled(self, entry: _Entry, node: Node, wish: dict[str, str]) -> list[Cut]:
        """An entry that has the fields of ``wish``."""
        if isinstance(entry.node, yaml.ScalarNode):
            if not wish:
                return []
            new = _new_entry(entry.node.value, wish, entry.node.style, entry.style)
            return [self._replaced(entry.node, new)]
        cuts: list[Cut] = []
        has = _written(entry, node)
        anchor = entry.fields["host"]
        for key, value in wish.items():
            if key not in has:
                pair = f"{scalar(key, entry.style)}: {scalar(value, entry.style)}"
                cuts.append(self._added(entry.node, anchor, pair))
                continue
            anchor = entry.fields[key]
            if value != has[key]:
                cuts.append(self._replaced(anchor, scalar(value, anchor.style)))
        if cuts and entry.node.flow_style and not self.yaml.braced(entry.node):
            # A pair that stands in a list without braces can't take a second one.
            cuts = [Cut(start(entry.node), start(entry.node), "{"), *cuts]
            cuts.append(Cut(self.yaml.end(entry.node), self.yaml.end(entry.node), "}"))
        return cuts

    def _replaced(self, node: yaml.ScalarNode, new: str) -> Cut:
        return Cut(start(node), self._inline_end(node), new)

    def _added(self, node: yaml.MappingNode, anchor: yaml.ScalarNode, pair: str) -> Cut:
        """``pair`` behind the field ``anchor``: in its line within braces, else in a line of its own."""
        end = self._inline_end(anchor)
        if node.flow_style:
            return Cut(end, end, f", {pair}")
        end = self.yaml.line_end(end)
        return Cut(end, end, self.yaml.line_break(end) + " " * node.start_mark.column + pair)

    def _inline_end(self, node: yaml.ScalarNode) -> int:
        if node.style in ("|", ">"):
            line = node.start_mark.line + 1
            raise UsageError(
                f"{self._source}:{line}: this text is in YAML's block style ({node.style}), beside which nothing "
                "can be written\nnothing was changed",
                fix=f"write it in one line: {scalar(node.value, None)}",
            )
        return int(node.end_mark.index)

    # --- a range

    def _spread(self, entry: _Entry, members: list[tuple[Node, str]], wishes: list[dict[str, str]]) -> None:
        """The entry becomes that of the first node; the others get copies behind it, without its comments."""
        name = entry.fields.get("name")
        filled = []
        for (node, host), wish in zip(members, wishes, strict=True):
            if isinstance(entry.node, yaml.ScalarNode):
                style = entry.node.style
                new = _new_entry(host, wish, style, entry.style) if wish else scalar(host, style)
                cuts = [self._replaced(entry.node, new)]
            else:
                field = entry.fields["host"]
                cuts = [self._replaced(field, scalar(host, field.style))]
                cuts += [self._replaced(name, scalar(node.name, name.style))] if name else []
                cuts += self._filled(entry, node, wish)
            filled.append(cuts)
        begin, end, between = self._bounds(entry)
        remarks = self.yaml.remarks_in(begin, end)
        copies = [between + self.yaml.applied([*cuts, *remarks], begin, end) for cuts in filled[1:]]
        self.cuts += [*filled[0], Cut(end, end, "".join(copies))]

    def _bounds(self, entry: _Entry) -> tuple[int, int, str]:
        """Where a copy of the entry begins and ends, and what stands before each copy."""
        begin, end = start(entry.node), self.yaml.end(entry.node)
        if not entry.flow:
            end = self.yaml.line_end(end)
            dash = self.yaml.dash(entry.node)
            return dash.index, end, self.yaml.line_break(end) + " " * dash.column
        column = entry.node.start_mark.column
        alone = not self.yaml.text[begin - column : begin].strip()
        return begin, end, "," + (self.yaml.line_break(begin) + " " * column if alone else " ")
