"""The file of `doctor --save`: written without secrets, and read again by `--from`."""

from __future__ import annotations

import dataclasses
import json
import re
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
FILE_SERVER = re.compile(r"nfs: server (\S+)")


def save(path: Path, records: Records, *, mask: bool) -> FactsSaved:
    """Writes it for its owner alone. Raises UsageError."""
    masked = dataclasses.replace(records, masked=mask)
    data = data_shown(_RECORDS.dump_python(masked, mode="json"))
    if mask:
        data = _each_text(data, Pseudonyms(_hosts(records), _users(records)).text)
    text = json.dumps({"format": data.pop("format"), **data}, indent=1) + "\n"
    SAVED.write(path, text.encode("ascii"))
    return FactsSaved(path=str(path), nodes=len(records.nodes), size=len(text), masked=mask)


def _hosts(records: Records) -> list[str]:
    """Names of the nodes, and of file servers in their kernels' logs."""
    found = [name for one in records.nodes for name in (one.host, one.name)]
    found += [one.facts.hostname for one in records.nodes if one.facts is not None]
    logs = [one.exam.kernel_log for one in records.nodes if one.exam is not None]
    return found + [name for log in logs if log for line in log.lines for name in FILE_SERVER.findall(line.text)]


def _users(records: Records) -> list[str]:
    """Who logs in there, and whose processes are on the GPUs."""
    facts = [one.facts for one in records.nodes if one.facts is not None]
    return [one.user for one in facts] + [other.user for one in facts for other in one.gpu_processes if other.user]


def load(path: Path) -> Records:
    """Raises UsageError for what is no such file."""
    try:
        if path.stat().st_size > LARGEST:
            raise UsageError(f"--from {path}: too large for facts ({path.stat().st_size >> 20} MiB)")
        text = path.read_bytes()
        return _RECORDS.validate_json(text)
    except OSError as error:
        fix = "ncclrun doctor CLUSTER --save FILE   (makes one)"
        raise UsageError(f"--from {path}: {error.strerror}", fix=fix) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        message = f"--from {path}: this is no file of facts ({where}: {first['msg']})"
        fix = "ncclrun doctor CLUSTER --save FILE   (makes one)"
        if first["loc"] == ("format",) and str(first["input"]).startswith("ncclrun facts"):
            message = f"--from {path}: of another version of ncclrun ({first['input']})"
            fix = "judge it with the ncclrun that wrote it: `program` in the file names it"
        elif first["loc"][:1] == ("nodes",) and len(first["loc"]) > 2:
            message = f"--from {path}: node {_name(text, first['loc'][1])}: {where} can't be read ({first['msg']})"
            fix = "correct it there, or make the file anew:  ncclrun doctor CLUSTER --save FILE"
        raise UsageError(message, fix=fix) from error


def _name(text: bytes, place: int | str) -> str:
    """Of the node at that place of a file that is JSON, and no facts; its place where it has none."""
    node = json.loads(text)["nodes"][place]
    return str(node.get("name", place)) if isinstance(node, dict) else str(place)


def _each_text(data: Any, change: Callable[[str], str]) -> Any:
    """The same data with every text in it changed, names of fields left alone."""
    if isinstance(data, str):
        return change(data)
    if isinstance(data, list):
        return [_each_text(one, change) for one in data]
    if isinstance(data, dict):
        return {key: _each_text(value, change) for key, value in data.items()}
    return data
