"""Real NCCL libraries of several versions, asked what they make of conf files; no GPU is needed for that."""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

from ncclrun.nccl.version import Version, shown

INSTALLED: Version = (2, 27, 5)
"""The one that is installed as a package; of the others `tools/setup.sh nccl` fetches the library."""
VERSIONS: tuple[Version, ...] = ((2, 18, 3), (2, 23, 4), INSTALLED, (2, 29, 7), (2, 32, 3))
"""Both sides of each border: $NCCL_CONF_FILE from 2.23.4, carriage returns and $HOME from 2.30.3."""


def library(version: Version) -> Path | None:
    """The file, None where it is not here; $NCCLRUN_TEST_NCCL names a folder that is looked into first."""
    name = Path(shown(version), "libnccl.so.2")
    folders = [os.environ.get("NCCLRUN_TEST_NCCL"), str(Path(sys.prefix, "nccl"))]
    places = [Path(folder) / name for folder in folders if folder]
    spec = importlib.util.find_spec("nvidia.nccl") if importlib.util.find_spec("nvidia") else None
    if version == INSTALLED and spec is not None:
        places += [Path(place, "lib", "libnccl.so.2") for place in spec.submodule_search_locations or ()]
    return next((place for place in places if place.exists()), None)


class RealNccl:
    """One library in a process of its own, which has an /etc of its own. Raises RuntimeError where that can't be."""

    def __init__(self, file: Path, place: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-S", str(Path(__file__).with_name("ncclreader.py")), str(file), str(place)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={},
            text=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        if self._stdout.readline() != "ready\n":
            raise RuntimeError(self._process.communicate()[1].strip().rpartition("\n")[2])

    def reads(self, **files: bytes) -> dict[str, str]:
        """What NCCL then has in its environment; the files are called `named`, `home`, `passwd` and `system`."""
        print(
            json.dumps({name: base64.b64encode(data).decode() for name, data in files.items()}),
            file=self._stdin,
            flush=True,
        )
        answer = json.loads(self._stdout.readline())
        assert isinstance(answer, list), answer
        entries = [base64.b64decode(entry).decode("utf-8", "surrogateescape") for entry in answer]
        return {
            name: value
            for name, _, value in (entry.partition("=") for entry in entries)
            if name not in ("HOME", "NCCL_CONF_FILE", "LC_CTYPE")
        }

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()
