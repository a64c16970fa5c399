"""When a view shows what the `nccl` commands found: each thing once, when all nodes were heard."""

from __future__ import annotations

from ncclrun.console.confchanges import Change, changes_notes, compared_note, diffs_text
from ncclrun.console.notes import Note
from ncclrun.console.settings import found_notes, settings_text
from ncclrun.model.effective import Difference
from ncclrun.model.endevents import Ended
from ncclrun.model.events import Event, Failure
from ncclrun.model.settingevents import (
    ConfCompared,
    ConfDiff,
    ConfPushed,
    ConfRestored,
    ConfRolledBack,
    SettingDiffers,
    SettingFound,
    SettingsSeen,
)


class SettingsBoard:
    """Takes every event of a command; most say nothing of settings."""

    def __init__(self) -> None:
        self._seen: list[SettingsSeen] = []
        self._differs: dict[str, Difference] = {}
        self._found: list[SettingFound] = []
        self._diffs: list[ConfDiff] = []
        self._changes: list[Change] = []

    def said(self, event: Event, width: int | None) -> tuple[str, list[Note]]:
        """What comes before anything else that this event has a view say: lines of a result, and notes below them.

        ``width`` of the terminal in columns, None for a pipe.
        """
        match event:
            case SettingsSeen():
                self._seen.append(event)
            case SettingDiffers():
                self._differs[event.difference.name] = event.difference
            case SettingFound():
                self._found.append(event)
            case ConfDiff():
                self._diffs.append(event)
            case ConfPushed() | ConfRestored() | ConfRolledBack():
                self._changes.append(event)
            case ConfCompared():
                return self._compared(width), [compared_note(event)]
            case Failure() | Ended():
                return self._rest(width)
            case _:
                pass
        return "", []

    def _compared(self, width: int | None) -> str:
        diffs, self._diffs = self._diffs, []
        return diffs_text(diffs, width)

    def _rest(self, width: int | None) -> tuple[str, list[Note]]:
        text = settings_text(self._seen, self._differs, width) if self._seen else ""
        notes = [*found_notes(self._found), *changes_notes(self._changes)]
        self._seen, self._found, self._changes = [], [], []
        return text + self._compared(width), notes
