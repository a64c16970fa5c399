"""Settings of a node that name a network interface which it does not have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ncclrun.diagnosis.settings import NodeValues
from ncclrun.model.facts import Interface
from ncclrun.model.settings import Setting, SettingFinding
from ncclrun.model.words import listed
from ncclrun.nccl.catalogue.names import find
from ncclrun.nccl.values import read_filter

_OF_SOFTWARE = ("docker", "virbr", "veth", "cni", "flannel", "cali")


def with_interfaces(
    found: Sequence[SettingFinding], settings: Sequence[Setting], node: NodeValues, interfaces: Sequence[Interface]
) -> tuple[SettingFinding, ...]:
    """``found`` of one place with its ``settings``, as they were meant, held against the node's interfaces.

    An error where the setting counts, a warning where another one hides it. No ``fix`` of its line names that interface
    then: it is the only one that the node has, or "".
    """
    out = list(found)
    for setting in settings:
        if not _missing(setting, [one.name for one in interfaces]):
            continue
        value = node.values.get(setting.name)
        hidden = value is not None and (value.source, value.line) != (setting.file, setting.line)
        usable = [one.name for one in interfaces if one.up and one.addresses and not one.loopback]
        cards = [name for name in usable if not name.startswith(_OF_SOFTWARE)]
        fix = f"{setting.name}={cards[0]}" if len(cards) == 1 else ""
        place = (setting.line, setting.name)
        out = [replace(one, fix=fix if one.fix else "") if (one.line, one.name) == place else one for one in out]
        out.append(
            SettingFinding(
                file=setting.file,
                line=setting.line,
                name=setting.name,
                value=setting.value,
                level="warning" if hidden else "error",
                id="no_such_interface",
                sees=f"no interface of this node fits; it has {listed(usable) if usable else 'none but lo'}",
                fix=fix,
            )
        )
    return tuple(sorted(out, key=lambda finding: finding.line or 0))


def _missing(setting: Setting, names: Sequence[str]) -> bool:
    """Whether it asks for interfaces, and none that it names is there; Gloo wants each of them."""
    known = find(setting.name)
    if known is None or not setting.value or set("$`") & set(setting.value):
        return False
    if known.kind == "names":
        return not set(filter(None, setting.value.split(","))) <= set(names)
    wanted = read_filter(setting.value) if known.kind == "interfaces" else None
    return wanted is not None and not wanted.excluded and not any(map(wanted.takes, names))
