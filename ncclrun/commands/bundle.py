"""The file of `explain --bundle`: the diagnosis, what is recorded of the run, the logs' heads and tails; no secrets."""

from __future__ import annotations

import gzip
import io
import json
import platform
import re
import socket
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ncclrun.commands.control import Control
from ncclrun.commands.history import RunDir
from ncclrun.commands.outfile import OutFile
from ncclrun.commands.ownversion import own_version
from ncclrun.diagnosis.explain.scan import LogScan
from ncclrun.model.explainevents import Bundled, Explained
from ncclrun.model.pseudonyms import Pseudonyms, named_in
from ncclrun.model.secrets import data_shown, text_shown

FOLDER = "ncclrun-bundle"
BUNDLE_FILE = OutFile("--bundle", FOLDER.encode())
_ORDINARY = re.compile(r"(?:rank|local|node|launcher|worker|std|in|out|err|log|txt|json|gz|[-_.\d])+")
MOST_LOGS = 2000
"""Logs in one file; of more, those that are evidence come first."""


def write(
    path: Path, found: Explained, scans: Sequence[LogScan], run: RunDir | None, control: Control, *, mask: bool
) -> Bundled:
    """Writes it for its owner alone, packed (tar.gz). Raises UsageError, and Interrupted: then there is no file."""
    record = {} if run is None else run.read("run.json") or {}
    record.pop("token", None)  # with it, and a way to the nodes, a run could be given orders
    end = {} if run is None else run.read("end.json") or {}
    files = list(_files(found, scans, record, end, control, mask=mask))
    shown: Callable[[str], str] = str
    if mask:
        shown = Pseudonyms(
            *_names(scans, record, [text for name, text in files if name.startswith(("logs/", "run.json"))], control),
            parts=True,
        ).text
    packed = io.BytesIO()
    with (
        gzip.GzipFile(FOLDER, "wb", fileobj=packed) as zipped,  # its header has this name, not the path as typed
        tarfile.open(fileobj=zipped, mode="w") as archive,
    ):
        for name, text in files:
            control.check()
            data = shown(text).encode("utf-8", "replace")
            entry = tarfile.TarInfo(f"{FOLDER}/{name}")
            entry.size, entry.mtime = len(data), int(time.time())
            archive.addfile(entry, io.BytesIO(data))
    BUNDLE_FILE.write(path, packed.getvalue())
    return Bundled(path=str(path), logs=min(len(scans), MOST_LOGS), size=len(packed.getvalue()), masked=mask)


def _files(
    found: Explained,
    scans: Sequence[LogScan],
    record: dict[str, Any],
    end: dict[str, Any],
    control: Control,
    *,
    mask: bool,
) -> Iterator[tuple[str, str]]:
    """Name and text of each, without secrets."""
    about = {
        "format": "ncclrun bundle 1",
        "made_at": time.time(),
        "ncclrun": own_version(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "nccl": sorted(
            {place.text for scan in scans if "version" in scan.facts for place in scan.facts["version"].places}
        ),
    }
    told = {line.file for fault in (found.found, *found.others) if fault is not None for line in fault.evidence}
    logs = sorted(scans, key=lambda scan: scan.name not in told)[:MOST_LOGS]
    names = {scan.name: f"logs/{number:04}{_last_name(scan.name, mask=mask)}" for number, scan in enumerate(logs)}
    yield "about.json", _json(about)
    yield "diagnosis.json", _json(_with_files(asdict(found), names))
    if record:
        yield "run.json", _json(record)
        yield "end.json", _json(end)
    for scan in logs:
        control.check()
        yield names[scan.name], text_shown(scan.excerpt())


def _json(data: Any) -> str:
    return json.dumps(data_shown(data), indent=1, ensure_ascii=False)


def _with_files(data: Any, names: dict[str, str]) -> Any:
    """The same with the logs called as they are here, which tells nothing of where they lay."""
    if isinstance(data, dict):
        return {key: names.get(one, "") if key == "file" else _with_files(one, names) for key, one in data.items()}
    return [_with_files(one, names) for one in data] if isinstance(data, (list, tuple)) else data


def _last_name(name: str, *, mask: bool) -> str:
    """What a log was called; ``mask``: if that can be nobody's name."""
    last = Path(name).name.strip("<>")
    return "" if mask and _ORDINARY.fullmatch(last) is None else f"-{last}"


def _names(
    scans: Sequence[LogScan], record: dict[str, Any], texts: Sequence[str], control: Control
) -> tuple[list[str], list[str]]:
    """Hosts and users that are known or named; addresses are known by their form."""
    nodes = [row["node"] for row in record.get("nodes") or ()]
    hosts = [socket.gethostname()] + [str(node[key]) for node in nodes for key in ("name", "host") if node.get(key)]
    users = [Path.home().name] + [str((node.get("ssh") or {}).get("user") or "") for node in nodes]
    hits = (hits for scan in scans for hits in (*scan.hits.values(), *scan.facts.values()))
    hosts += sorted({scan.host for scan in scans} | {host for one in hits for host, _ in one.speakers})
    for text in texts:
        control.check()
        more_hosts, more_users = named_in(text)
        hosts += sorted(more_hosts)
        users += sorted(more_users)
    first = [host.partition(".")[0] for host in hosts if host[:1].isalpha()]
    return [*hosts, *first], users
