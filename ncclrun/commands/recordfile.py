"""The file of `doctor --save`: written without secrets, and read again by `--from`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ncclrun.commands.outfile import OutFile
from ncclrun.model.doctorevents import FactsSaved
from ncclrun.model.errors import UsageError
from ncclrun.model.pseudonyms import Pseudonyms
from ncclrun.model.record import Records
from ncclrun.model.secrets import data_shown

_RECORDS = TypeAdapter(Records)
SAVED = OutFile("--save", b'"format": "ncclrun facts')
LARGEST = 256 << 20


def save(path: Path, records: Records, *, mask: bool) -> FactsSaved:
    """Writes it for its owner alone. Raises UsageError."""
    masked = dataclasses.replace(records, masked=mask)
    data = data_shown(_RECORDS.dump_python(masked, mode="json"))
    if mask:
        facts = [one.facts for one in records.nodes if one.facts is not None]
        hosts = [name for one in records.nodes for name in (one.host, one.name)] + [one.hostname for one in facts]
        data = _each_text(data, Pseudonyms(hosts, [one.user for one in facts]).text)
    text = json.dumps({"format": data.pop("format"), **data}, indent=1) + "\n"
    SAVED.write(path, text.encode("ascii"))
    return FactsSaved(path=str(path), nodes=len(records.nodes), size=len(text), masked=mask)


def load(path: Path) -> Records:
    """Raises UsageError for what is no such file."""
    try:
        if path.stat().st_size > LARGEST:
            raise UsageError(f"--from {path}: too large for facts ({path.stat().st_size >> 20} MiB)")
        return _RECORDS.validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(
            f"--from {path}: {error.strerror}", fix="ncclrun doctor CLUSTER --save FILE  makes one"
        ) from error
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        message = f"--from {path}: this is no file of facts ({where or 'the whole'}: {error.errors()[0]['msg']})"
        raise UsageError(message, fix="ncclrun doctor CLUSTER --save FILE  makes one") from error


def _each_text(data: Any, change: Callable[[str], str]) -> Any:
    """The same data with every text in it changed, names of fields left alone."""
    if isinstance(data, str):
        return change(data)
    if isinstance(data, list):
        return [_each_text(one, change) for one in data]
    if isinstance(data, dict):
        return {key: _each_text(value, change) for key, value in data.items()}
    return data
