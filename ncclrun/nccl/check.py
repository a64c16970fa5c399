"""What is wrong with settings: one by itself, those of one place together, and those of several nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ncclrun.model.settings import Setting, SettingFinding
from ncclrun.nccl.version import Version


def setting_findings(setting: Setting, version: Version | None, *, conf: bool) -> tuple[SettingFinding, ...]:
    """Of one setting by itself; ``conf``: it stands in a conf file, which NCCL alone reads, and late.

    Without a version the newest is taken, and nothing is called too new. ``fix`` is the line NAME=value as it should be.
    """
    del setting, version, conf
    return ()


def together_findings(settings: Sequence[Setting], version: Version | None) -> tuple[SettingFinding, ...]:
    """Of settings of one place that work against each other, beyond what each by itself shows."""
    del settings, version
    return ()


def across_findings(nodes: Mapping[str, Mapping[str, str]]) -> tuple[SettingFinding, ...]:
    """What differs between nodes where it must not; node name -> its effective values. ``file`` names the node."""
    del nodes
    return ()
