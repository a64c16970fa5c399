"""One thing to say of a setting, before it is known where the setting stands."""

from __future__ import annotations

from dataclasses import dataclass

from ncclrun.model.settings import Level


@dataclass(frozen=True, slots=True)
class Remark:
    """The fields of a finding that a rule knows; see SettingFinding."""

    level: Level
    id: str
    sees: str
    value: str | None = None
    """What the value should be; None: it is not the value's fault, or nobody but the user can know."""
    name: str | None = None
    """What the name should be."""
