"""A program for the training's Python: which frameworks it has, and what torch loads and says of CUDA when it starts.

It goes to `python -c` as text, so it stands alone. What it finds it says at once, one line of JSON each on stdout: when
torch hangs in a driver, or crashes, the packages have been told by then.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

MARK = "ncclrun-frameworks "
WANTED = re.compile(
    r"(?:torch|paddlepaddle.*|tensorflow(?:[-_](?:cpu|gpu|rocm))?|nvidia[-_]nccl.*|nvidia[-_]cudnn.*)\Z"
)
LOADED = re.compile(r"lib(?:nccl|cudart|cuda)\.so|libcudart-")
LONGEST = 400


def say(**fields: object) -> None:
    """Some findings."""
    os.write(1, (MARK + json.dumps(fields) + "\n").encode("ascii"))


def packages() -> list[dict[str, object]]:
    """What this Python would import: name, version, and the libnccl files that the package brought."""
    from importlib import metadata  # its absence is no reason to say nothing at all

    found: dict[str, dict[str, object]] = {}
    for distribution in metadata.distributions():
        name = (distribution.metadata["Name"] or "").lower().replace("_", "-")
        if WANTED.match(name) and name not in found:  # what is first on the path is imported
            files = [
                str(distribution.locate_file(file)) for file in distribution.files or () if "libnccl.so" in file.name
            ]
            found[name] = {"name": name, "version": distribution.version, "files": [os.path.realpath(f) for f in files]}
    return sorted(found.values(), key=lambda package: str(package["name"]))


def mapped() -> list[str]:
    """Files of NCCL and CUDA that are loaded now."""
    with Path("/proc/self/maps").open() as file:
        paths = {line.split(None, 5)[5].strip() for line in file if line.count("/") and len(line.split(None, 5)) > 5}
    return sorted(path for path in paths if LOADED.match(path.rpartition("/")[2]))


def raised(error: BaseException) -> str:
    """Its words, and the file that raised it: one that PYTHONPATH puts before a library's own is seen by its path."""
    files = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
    where = [file for file in files if not file.startswith("<")]  # those of -c and of the import itself have none
    return f"{type(error).__name__}: {error}"[:LONGEST] + (f" ({where[-1]})" if where else "")


def torch_says() -> None:
    """Starts torch and asks it what a training would."""
    began = time.monotonic()
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError as error:
        if getattr(error, "name", None) != "torch":
            say(torch_error=raised(error))
        return
    except Exception as error:  # noqa: BLE001  # a library that does not fit may raise anything
        say(torch_error=raised(error))
        return
    say(torch_seconds=time.monotonic() - began, loaded=mapped(), built_for=list(torch.cuda.get_arch_list()))
    if torch.version.cuda is None:
        return
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        available = torch.cuda.is_available()
        why = " ".join(str(one.message) for one in told)
        if not available and not why:
            try:
                torch.cuda.init()
            except Exception as error:  # noqa: BLE001  # its words are what is wanted
                why = str(error)
    say(cuda_available=available, cuda_error=" ".join(why.split())[:LONGEST], loaded=mapped())
    if available:
        count = torch.cuda.device_count()
        found = {".".join(map(str, torch.cuda.get_device_capability(index))) for index in range(count)}
        say(capabilities=sorted(found))


if __name__ == "__main__":
    say(packages=packages())
    torch_says()
    # Nothing of a driver's own end is of interest, and its threads may hang in it.
    os._exit(0)
