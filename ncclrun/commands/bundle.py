"""The file of `explain --bundle`: the diagnosis, what is recorded of the run, the logs' heads and tails; no secrets."""

from __future__ import annotations

import io
import json
import platform
import tarfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ncclrun.commands.history import RunDir
from ncclrun.commands.ownversion import own_version
from ncclrun.diagnosis.explain.scan import LogScan
from ncclrun.model.errors import UsageError
from ncclrun.model.explainevents import Bundled, Explained
from ncclrun.model.pseudonyms import Pseudonyms
from ncclrun.model.secrets import text_shown

FOLDER = "ncclrun-bundle"
MOST_LOGS = 2000
"""Logs in one file; of more, those that are evidence come first."""


def refuse_unwritable(path: Path) -> None:
    """Raises UsageError before the work when the file can't be written there after it."""
    if path.exists() and not path.is_dir():
        raise UsageError(f"--bundle {path}: it is there already", fix="name a file that is not there yet")
    if not path.parent.is_dir() or path.is_dir():
        raise UsageError(f"--bundle {path}: no file can be made there", fix="name a file in a directory that is there")


def write(path: Path, found: Explained, scans: Sequence[LogScan], run: RunDir | None, *, mask: bool) -> Bundled:
    """Writes it for its owner alone, packed (tar.gz). Raises UsageError."""
    record = {} if run is None else run.read("run.json") or {}
    record.pop("token", None)  # with it, and a way to the nodes, a run could be given orders
    names = _names(found, record)
    pseudonyms = Pseudonyms(*names) if mask else None

    def shown(text: str) -> str:
        text = text_shown(text)
        return text if pseudonyms is None else pseudonyms.text(text)

    files = list(_files(found, scans, record, {} if run is None else run.read("end.json") or {}))
    try:
        path.touch(mode=0o600)
        with tarfile.open(path, "w:gz") as archive:
            for name, text in files:
                data = shown(text).encode("utf-8", "replace")
                entry = tarfile.TarInfo(f"{FOLDER}/{shown(name)}")
                entry.size, entry.mtime = len(data), int(time.time())
                archive.addfile(entry, io.BytesIO(data))
        size = path.stat().st_size
    except OSError as error:
        raise UsageError(f"--bundle {path}: {error.strerror}", fix="name another file with --bundle") from error
    return Bundled(path=str(path), logs=min(len(scans), MOST_LOGS), size=size, masked=mask)


def _files(
    found: Explained, scans: Sequence[LogScan], record: dict[str, Any], end: dict[str, Any]
) -> Iterator[tuple[str, str]]:
    about = {
        "format": "ncclrun bundle 1",
        "made_at": time.time(),
        "ncclrun": own_version(),
        "python": platform.python_version(),
        "nccl": sorted(
            {place.text for scan in scans if "version" in scan.facts for place in scan.facts["version"].places}
        ),
    }
    yield "about.json", json.dumps(about, indent=1)
    yield "diagnosis.json", json.dumps(asdict(found), indent=1)
    if record:
        yield "run.json", json.dumps(record, indent=1)
        yield "end.json", json.dumps(end, indent=1)
    told = {line.file for fault in (found.found, *found.others) if fault is not None for line in fault.evidence}
    for number, scan in enumerate(sorted(scans, key=lambda scan: scan.name not in told)[:MOST_LOGS]):
        yield f"logs/{number:04}-{Path(scan.name).name.strip('<>')}", scan.excerpt()


def _names(found: Explained, record: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Hosts and users that are known by name; addresses are known by their form."""
    nodes = [row["node"] for row in record.get("nodes") or ()]
    hosts = [str(node[key]) for node in nodes for key in ("name", "host") if node.get(key)]
    users = [str((node.get("ssh") or {}).get("user") or "") for node in nodes]
    return [*found.hosts, *hosts], [*users, Path.home().name]
