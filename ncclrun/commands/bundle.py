"""The file of `explain --bundle`: the diagnosis, what is recorded of the run, the logs' heads and tails; no secrets."""

from __future__ import annotations

import gzip
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
from ncclrun.commands.outfile import OutFile
from ncclrun.commands.ownversion import own_version
from ncclrun.diagnosis.explain.scan import LogScan
from ncclrun.model.explainevents import Bundled, Explained
from ncclrun.model.pseudonyms import Pseudonyms
from ncclrun.model.secrets import text_shown

FOLDER = "ncclrun-bundle"
BUNDLE_FILE = OutFile("--bundle", FOLDER.encode())
MOST_LOGS = 2000
"""Logs in one file; of more, those that are evidence come first."""


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
    packed = io.BytesIO()
    with (
        gzip.GzipFile(FOLDER, "wb", fileobj=packed) as zipped,  # its header has this name, not the path as typed
        tarfile.open(fileobj=zipped, mode="w") as archive,
    ):
        for name, text in files:
            data = shown(text).encode("utf-8", "replace")
            entry = tarfile.TarInfo(f"{FOLDER}/{shown(name)}")
            entry.size, entry.mtime = len(data), int(time.time())
            archive.addfile(entry, io.BytesIO(data))
    BUNDLE_FILE.write(path, packed.getvalue())
    return Bundled(path=str(path), logs=min(len(scans), MOST_LOGS), size=len(packed.getvalue()), masked=mask)


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
