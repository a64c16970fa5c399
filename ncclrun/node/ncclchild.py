"""A program for the training's Python: finds the libnccl that the training would load, and asks it for a unique id.

It goes to `python -c` as text, so it stands alone. What it finds it says at once, one line of JSON each on stdout: a
library that crashes has been named by then. NCCL's own lines go to stderr.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import struct
import sys
from pathlib import Path

MARK = "ncclrun-nccl "
UNIQUE_ID_BYTES = 128
PT_LOAD, PT_DYNAMIC, DT_NEEDED, DT_STRTAB = 1, 2, 1, 5


def say(**fields: object) -> None:
    """One finding."""
    os.write(1, (MARK + json.dumps(fields) + "\n").encode("ascii"))


def needed(path: Path) -> list[str]:
    """The libraries that a 64-bit ELF file names as its dependencies (DT_NEEDED)."""
    with path.open("rb") as file:
        head = file.read(64)
        order = "<" if head[5] == 1 else ">"
        (table,) = struct.unpack_from(order + "Q", head, 32)
        size, count = struct.unpack_from(order + "HH", head, 54)
        file.seek(table)
        rows = [struct.unpack(order + "IIQQQQQQ", file.read(size)) for _ in range(count)]
        dynamic = next(row for row in rows if row[0] == PT_DYNAMIC)
        file.seek(dynamic[2])
        entries = list(struct.iter_unpack(order + "QQ", file.read(dynamic[5] // 16 * 16)))
        texts = next(value for tag, value in entries if tag == DT_STRTAB)
        place = next(row[2] + texts - row[3] for row in rows if row[0] == PT_LOAD and row[3] <= texts < row[3] + row[5])
        found = []
        for offset in [value for tag, value in entries if tag == DT_NEEDED]:
            file.seek(place + offset)
            found.append(file.read(256).split(b"\0", 1)[0].decode("ascii", "replace"))
        return found


def torch_directory() -> Path | None:
    """Where torch lies, None without one; it is not imported, which takes seconds."""
    spec = importlib.util.find_spec("torch")
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def package(torch: Path | None) -> Path | None:
    """The library of NVIDIA's pip package: the one beside torch, which torch looks for first, else any on the path."""
    places = [*([torch.parent] if torch is not None else []), *(Path(place) for place in sys.path if place)]
    files = (place / "nvidia" / "nccl" / "lib" / "libnccl.so.2" for place in places)
    return next((file for file in files if file.exists()), None)


def preloaded() -> bool:
    """LD_PRELOAD has brought one, which the loader then gives to whoever asks for the name."""
    try:
        ctypes.CDLL("libnccl.so.2", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return False
    return True


def inside(torch: Path | None) -> Path | None:
    """The library of a torch that was built with an NCCL of its own inside; None where it loads one as all do."""
    library = torch / "lib" / "libtorch_cuda.so" if torch is not None else None
    if library is None or not library.exists() or any(name.startswith("libnccl") for name in needed(library)):
        return None
    return library


def mapped() -> str:
    """The file behind the library that the loader found by its name."""
    try:
        with Path("/proc/self/maps").open() as file:
            return next(line.split(None, 5)[5].strip() for line in file if "/libnccl.so" in line)
    except (OSError, StopIteration):
        return "libnccl.so.2"


def load() -> ctypes.CDLL | None:
    """The library, said to the one who asked; None where there is none to ask, which is said too."""
    torch = torch_directory()
    file = None if preloaded() else package(torch)
    if file is None:
        static = None if preloaded() else inside(torch)
        if static is not None:
            say(error=f"NCCL is inside torch ({static}): it can't be asked without starting torch")
            return None
    else:
        say(library=str(file))
    try:
        library = ctypes.CDLL("libnccl.so.2" if file is None else str(file))
    except OSError as error:
        # The loader passes over a file for another processor as if it were not there.
        hint = (
            ", though it is there: is it for another processor?"
            if str(error).startswith(f"{file}: cannot open")
            else ""
        )
        say(error="there is no libnccl" if file is None else f"it can't be loaded: {error}{hint}")
        return None
    if file is None:
        say(library=mapped())
    return library


def main() -> None:
    """Finds, loads, asks."""
    library = load()
    if library is None:
        return
    number = ctypes.c_int()
    try:
        library.ncclGetVersion(ctypes.byref(number))
        # The coding changed with 2.9: 2804 is 2.8.4, 20903 is 2.9.3.
        scale = 10000 if number.value >= 10000 else 1000
        major, rest = divmod(number.value, scale)
        say(version=f"{major}.{rest // 100}.{rest % 100}")
        result = library.ncclGetUniqueId(ctypes.create_string_buffer(UNIQUE_ID_BYTES))
    except AttributeError as error:
        say(error=f"it is no NCCL that we know: {error}")
        return
    say(result=result)


if __name__ == "__main__":
    main()
    # Nothing of NCCL's own end is of interest, and its threads may hang in it.
    ctypes.CDLL(None).fflush(None)
    os._exit(0)
