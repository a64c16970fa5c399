"""Layers of settings to the values that NCCL takes, each with what it hides; and how nodes differ in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ncclrun.model.effective import Difference, Effective, Held, Hidden, Origin
from ncclrun.model.settings import ConfFile, Mention, NodeSettings, Setting
from ncclrun.nccl.catalogue.names import find
from ncclrun.nccl.conf import parse, read_files
from ncclrun.nccl.version import NEWEST, Version

LOGIN = "login environment"


@dataclass(frozen=True, slots=True)
class Layer:
    """Settings of one place, in the order in which they stand there; ``source``: the path, or words for people.

    A setting with a ``file`` of its own has that as its source.
    """

    source: str
    origin: Origin
    settings: Sequence[Setting]


def effective(layers: Sequence[Layer]) -> dict[str, Effective]:
    """What NCCL takes of layers, the winning layer first, by name; of two settings of one layer the first one wins."""
    found: dict[str, list[tuple[Layer, Setting]]] = {}
    for layer in layers:
        for setting in layer.settings:
            found.setdefault(setting.name, []).append((layer, setting))
    return {name: _effective(places) for name, places in sorted(found.items())}


def _effective(places: Sequence[tuple[Layer, Setting]]) -> Effective:
    (layer, setting), *hidden = places
    return Effective(
        name=setting.name,
        value=setting.value,
        source=setting.file or layer.source,
        origin=layer.origin,
        line=setting.line,
        hides=tuple(Hidden(value=s.value, source=s.file or of.source, line=s.line) for of, s in hidden),
    )


def node_layers(run: Sequence[Setting], node: NodeSettings, version: Version | None) -> tuple[Layer, ...]:
    """The places where NCCL of this version finds settings on a node, the winning one first.

    ``run`` is what ncclrun sets in the workers' environment: it takes the place of the login's.
    """
    reader = version or NEWEST
    login = [login_setting(name, value, node.mentions) for name, value in sorted(node.login.items()) if name != "HOME"]
    files = [file_layer(file, reader) for file in read_files(node.conf_files, reader)]
    return Layer("the run", "run", run), Layer(LOGIN, "login", login), *files


def file_layer(file: ConfFile, version: Version) -> Layer:
    """Of the file's lines those that somebody could read: NCCL hands on any name, also `export NCCL_DEBUG`."""
    lines = [line for line in parse(file.data, version) if line.kind == "setting" and line.name.isidentifier()]
    settings = [Setting(line.name, line.value, file.path, line.number) for line in lines]
    return Layer(file.path, file.roles[0], settings)


def login_setting(name: str, value: str, mentions: Sequence[Mention]) -> Setting:
    """A variable of the login environment with the line of a start-up file that sets it, as far as that can be told."""
    named = [one for one in mentions if one.name == name]
    places = [one for one in named if value in one.text] or named
    if len(places) == 1:
        return Setting(name, value, places[0].file, places[0].line)
    lines = " or ".join(f"{one.file} line {one.line}" for one in places)
    return Setting(name, value, f"{LOGIN} ({lines})" if lines else LOGIN)


def differences(nodes: Mapping[str, Mapping[str, Effective]]) -> tuple[Difference, ...]:
    """The variables that are not the same on all nodes, by name; an empty value is as good as none."""
    names = sorted({name for values in nodes.values() for name in values})
    return tuple(found for name in names if (found := _difference(name, nodes)) is not None)


def _difference(name: str, nodes: Mapping[str, Mapping[str, Effective]]) -> Difference | None:
    holders: dict[str | None, list[str]] = {}
    for node, values in nodes.items():
        value = values[name].value if name in values else None
        holders.setdefault(value or None, []).append(node)
    if len(holders) < 2:
        return None
    held = sorted(
        (Held(value=value, nodes=tuple(on)) for value, on in holders.items()), key=lambda one: -len(one.nodes)
    )
    known = find(name)
    return Difference(
        name=name,
        values=tuple(held),
        usual=2 * len(held[0].nodes) > len(nodes),
        per_host=known is not None and known.same in ("may differ", "unique"),
    )
