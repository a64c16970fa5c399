"""What is wrong with settings: one by itself, those of one place together, and those of several nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ncclrun.model.settings import Setting, SettingFinding
from ncclrun.nccl.catalogue.known import Known
from ncclrun.nccl.catalogue.names import find
from ncclrun.nccl.check.names import NCCL_LIKE, known_remarks, meant, unknown_remarks
from ncclrun.nccl.check.nodes import across_remarks
from ncclrun.nccl.check.remark import Remark
from ncclrun.nccl.check.together import together_remarks
from ncclrun.nccl.check.values import value_remarks
from ncclrun.nccl.version import NEWEST, Version

_UNEXPANDED = re.compile(r"\$[A-Za-z_{(]|`|\{\{|<[A-Za-z]")
"""A value that a shell, a template or a reader has still to fill in: it can't be judged."""
_TRIES = 4
"""A value with so many mistakes at once is given up."""


def setting_findings(setting: Setting, version: Version | None, *, conf: bool) -> tuple[SettingFinding, ...]:
    """Of one setting by itself; ``conf``: it stands in a conf file, which NCCL alone reads, and late.

    Without a version the newest is taken, and nothing is called too new. A ``fix`` is the line NAME=value as it should
    be, the same for all findings that have one: it mends all that can be mended.
    """
    remarks = tuple(_remarks(setting.name, setting.value, version, conf=conf))
    name = next((remark.name for remark in remarks if remark.name is not None), setting.name)
    value = _mended(find(name), setting.value, remarks, version or NEWEST)
    return tuple(_finding(setting, remark, f"{name}={value}") for remark in remarks)


def _remarks(name: str, value: str, version: Version | None, *, conf: bool) -> Iterator[Remark]:
    """On the name, then on the value, which is read as that of the name that was meant."""
    known = find(name)
    if known is None or (known.family and known.side in ("torch", "gloo", "tensorpipe")):
        if known is not None or NCCL_LIKE.match(name) or conf or meant(name):
            yield from unknown_remarks(name, value, family=known is not None, conf=conf)
        right = meant(name)
        known = find(right) if right else known
    if known is None:
        return
    yield from known_remarks(known, version, conf=conf)
    if not value:
        if known.side == "nccl":
            what = "the files that are read after it" if conf else "what a conf file says"
            yield Remark("info", "empty_value", f"empty is as good as not set for NCCL, but it hides {what}")
    elif not _UNEXPANDED.search(value):
        yield from value_remarks(known, value, version or NEWEST)


def _mended(known: Known | None, value: str, remarks: Sequence[Remark], version: Version) -> str:
    """The value after one correction after the other, until none is left."""
    for _ in range(_TRIES):
        right = next((remark.value for remark in remarks if remark.value is not None), None)
        if right is None or known is None:
            return value if right is None else right
        value = right
        remarks = tuple(value_remarks(known, value, version)) if value else ()
    return value


def _finding(setting: Setting, remark: Remark, line: str) -> SettingFinding:
    mends = remark.value is not None or remark.name is not None
    return SettingFinding(
        file=setting.file,
        line=setting.line,
        name=setting.name,
        value=setting.value,
        level=remark.level,
        id=remark.id,
        sees=remark.sees,
        fix=line if mends else "",
    )


def together_findings(settings: Sequence[Setting], version: Version | None) -> tuple[SettingFinding, ...]:
    """Of settings of one place that work against each other, beyond what each by itself shows.

    Of a name that is there twice the first counts, as in a conf file.
    """
    first: dict[str, Setting] = {}
    for setting in settings:
        first.setdefault(setting.name, setting)
    values = {name: setting.value for name, setting in first.items()}
    return tuple(_finding(first[name], remark, "") for name, remark in together_remarks(values, version or NEWEST))


def across_findings(nodes: Mapping[str, Mapping[str, str]]) -> tuple[SettingFinding, ...]:
    """What differs between nodes where it must not; node name -> its effective values.

    One finding a variable: ``sees`` says who has what; ``file`` and ``value`` are empty, for there is not one of them.
    """
    return tuple(
        SettingFinding(file="", line=None, name=name, value="", level=level, id=kind, sees=sees, fix="")
        for name, level, kind, sees in across_remarks(nodes)
    )
