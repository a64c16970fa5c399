"""Every libnccl and libcudart of this machine, by which way a program would come to it, and which version it is."""

from __future__ import annotations

import json
import os
import re
from importlib.abc import InspectLoader
from pathlib import Path
from typing import Any, Iterator

from . import commands, framechild
from .sysfs import entries

SECONDS = 60.0
LDCONFIG_SECONDS = 10.0
NAME = re.compile(r"lib(?:nccl|cudart)\.so(?:\.\d+)*\Z")
CUDA_PLACES = ("/usr/local/cuda/lib64", "/opt/cuda/lib64")
VERSION = re.compile(rb"NCCL version (\d+\.\d+\.\d+)\S*?\+cuda(\d+\.\d+)")
PIECE = 8 << 20
OVERLAP = 256
MOST = 40


def _listed() -> Iterator[tuple[str, str]]:
    """(way, path) of what the loader's cache has."""
    program = commands.locate("ldconfig")
    output = commands.ask([program, "-p"], LDCONFIG_SECONDS) if program is not None else None
    for line in output.out.splitlines() if output is not None else ():
        name, arrow, path = line.strip().partition(" => ")
        if arrow and NAME.match(name.split(" ", 1)[0]):
            yield "ldconfig", path


def _named(environment: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The same of what the environment names, and of CUDA's own directories."""
    for path in re.split(r"[\s:]+", environment.get("LD_PRELOAD", "")):
        if NAME.match(path.rpartition("/")[2]):
            yield "LD_PRELOAD", path
    places = [("LD_LIBRARY_PATH", place) for place in environment.get("LD_LIBRARY_PATH", "").split(":") if place]
    for way, place in (*places, *(("CUDA", place) for place in CUDA_PLACES)):
        for entry in entries(Path(place)):
            if NAME.match(entry.name):
                yield way, str(entry)


def version_of(path: str) -> tuple[str, str]:
    """NCCL's version and the CUDA that it was built for, as its own text says; "" where it does not."""
    rest = b""
    with Path(path).open("rb") as file:
        while piece := file.read(PIECE):
            match = VERSION.search(rest + piece)
            if match:
                return match.group(1).decode(), match.group(2).decode()
            rest = piece[-OVERLAP:]
    return "", ""


def _frameworks(python: str, environment: dict[str, str]) -> dict[str, Any]:
    """What the program in the training's Python said; ``trouble`` where it did not come to its end."""
    path = commands.locate(python or "python3")
    if path is None:
        return {"trouble": f"{python} is not on that host, or no program"}
    loader = framechild.__spec__.loader if framechild.__spec__ is not None else None
    assert isinstance(loader, InspectLoader)
    output = commands.ask([path, "-c", loader.get_source(framechild.__name__) or ""], SECONDS, environment)
    found: dict[str, Any] = {"trouble": ""}
    for line in output.out.splitlines():
        if line.startswith(framechild.MARK):
            found.update(json.loads(line[len(framechild.MARK) :]))
    last = output.err.strip().splitlines()[-1:]
    if output.code is None:
        found["trouble"] = f"it did not end within {SECONDS:.0f} s"
    elif output.code != 0:
        how = f"signal {output.signal}" if output.signal else f"exit code {output.code}"
        found["trouble"] = f"it ended with {how}" + (f": {last[0][:200]}" if last else "")
    return found


def find(python: str, environment: dict[str, str]) -> dict[str, Any]:
    """``environment`` is that of a worker.

    ``frameworks``: the fields of model Frameworks; ``libraries``: those of model Library for each file."""
    frameworks = _frameworks(python, environment)
    ways: dict[str, list[str]] = {}
    brought = [("pip", str(file)) for package in frameworks.get("packages", ()) for file in package["files"]]
    loaded = [("torch", path) for path in frameworks.get("loaded", ()) if NAME.match(path.rpartition("/")[2])]
    links: dict[str, set[str]] = {}
    for way, path in (*loaded, *_named(environment), *brought, *_listed()):
        real = os.path.realpath(path)
        if Path(real).is_file():
            ways.setdefault(real, [])
            links.setdefault(real, set()).add(path.rpartition("/")[2])
            if way not in ways[real]:
                ways[real].append(way)
    found = []
    for path, how in list(ways.items())[:MOST]:
        nccl = path.rpartition("/")[2].startswith("libnccl")
        version, cuda = version_of(path) if nccl else ("", "")
        found.append({"path": path, "ways": how, "names": sorted(links[path]), "version": version, "cuda": cuda})
    return {"frameworks": frameworks, "libraries": found}
