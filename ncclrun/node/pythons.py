"""The Python that will run the training: where it is, its torch, CUDA and NCCL, without importing torch."""

from __future__ import annotations

import json
from typing import Any

from . import commands

SECONDS = 20.0
MARK = "ncclrun-python "

# Runs in the training's Python, whatever its age: Python 2 must get as far as saying its version.
PROGRAM = r"""
import json, os, re, sys
answer = {"executable": sys.executable, "version": "%d.%d.%d" % sys.version_info[:3]}

def nccl_packages():
    from importlib import metadata
    found = {}
    for distribution in metadata.distributions():
        name = (distribution.metadata["Name"] or "").lower()
        if name.startswith("nvidia-nccl"):
            found.setdefault(name, distribution.version)  # what is first on the path is imported
    return found

def system_nccl():
    import ctypes
    number = ctypes.c_int()
    try:
        ctypes.CDLL("libnccl.so.2").ncclGetVersion(ctypes.byref(number))
    except (OSError, AttributeError):
        return ""
    # The coding changed with 2.9: 2804 is 2.8.4, 20903 is 2.9.3.
    scale = 10000 if number.value >= 10000 else 1000
    return "%d.%d.%d" % (number.value // scale, number.value % scale // 100, number.value % 100)

def look():
    import importlib.util
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.origin:
        return
    with open(os.path.join(os.path.dirname(spec.origin), "version.py")) as file:
        text = file.read()
    version = re.search(r"^__version__[^=\n]*=\s*['\"]([^'\"]+)", text, re.M)
    cuda = re.search(r"^cuda[^=\n]*=\s*['\"]([^'\"]+)", text, re.M)
    answer["torch"] = version.group(1) if version else "unknown"
    answer["cuda"] = cuda.group(1) if cuda else ""
    if cuda:
        packages = nccl_packages()
        wanted = "nvidia-nccl-cu" + answer["cuda"].split(".")[0]
        answer["nccl"] = packages.get(wanted) or (sorted(packages.values()) or [""])[-1] or system_nccl()

if sys.version_info >= (3, 8):
    try:
        look()
    except Exception as error:
        answer["error"] = "looking for torch failed: %s: %s" % (type(error).__name__, error)
else:
    answer["error"] = "Python %s is too old: 3.8 or later is needed" % answer["version"]
sys.stdout.write("\n" + "MARK" + json.dumps(answer) + "\n")
""".replace("MARK", MARK)


def _failed(executable: str, error: str) -> dict[str, str]:
    return {"executable": executable, "version": "", "torch": "", "cuda": "", "nccl": "", "error": error}


def _how(output: commands.Output) -> str:
    lines = output.err.strip().splitlines()
    last = f": {lines[-1][:300]}" if lines else ""
    if output.code is None:
        return f"did not answer within {SECONDS:.0f} s"
    if output.signal:
        return f"died by signal {output.signal}{last}"
    return f"ended with exit code {output.code}{last}"


def probe(name: str) -> dict[str, str]:
    """The fields of PythonFacts. An empty ``version``, or one below 3.8, comes with ``error``."""
    path = commands.locate(name)
    if path is None:
        return _failed(name, f"{name} is not on that host, or no program")
    try:
        output = commands.ask([path, "-c", PROGRAM], SECONDS)
    except OSError as error:
        return _failed(path, f"{path} can't be executed: {error.strerror}")
    answers = [line[len(MARK) :] for line in output.out.splitlines() if line.startswith(MARK)]
    if not answers:
        return _failed(path, f"{path} {_how(output)}")
    answer: dict[str, Any] = json.loads(answers[-1])
    # What the user named, not sys.executable: through a link into a virtual environment they import different things.
    return {**_failed(path, ""), **{key: str(value) for key, value in answer.items()}, "executable": path}
