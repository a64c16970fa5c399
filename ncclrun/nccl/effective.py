"""Layers of settings to the values that NCCL takes, each with what it hides; and how nodes differ in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ncclrun.model.effective import Difference, Effective, Hidden, Origin
from ncclrun.model.settings import Setting


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


def differences(nodes: Mapping[str, Mapping[str, Effective]]) -> tuple[Difference, ...]:
    """The variables that are not the same on all nodes, by name; an empty value is as good as none."""
    raise NotImplementedError
