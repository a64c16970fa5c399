"""Asks libnccl itself which interface it would use: a child with the planned environment calls ncclGetUniqueId."""

from __future__ import annotations

import json
import os
import pwd
import re
from importlib.abc import InspectLoader
from pathlib import Path
from typing import Any

from . import commands, ncclchild

SECONDS = 15.0
MOST_LINES = 40
MOST_LATE = 4
LONGEST_LINE = 300
MOST_CONF_BYTES = 64 << 10
ETC_CONF = Path("/etc/nccl.conf")
# The person's own wishes for NCCL's output are put aside for the question, those of a conf file too: what the
# environment sets goes over it.
QUESTION = {
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,BOOTSTRAP,ENV,NET",
    "NCCL_DEBUG_FILE": "/dev/stderr",
}
NAMED_CONF_SINCE = (2, 23, 4)
HOME_BY_VARIABLE_SINCE = (2, 30)
CR_IS_CUT_SINCE = (2, 30)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text)[:3])


def _conf_paths(version: tuple[int, ...], env: dict[str, str]) -> list[Path]:
    """The files that this NCCL reads, in order: what an earlier one sets stays."""
    named = env.get("NCCL_CONF_FILE", "")
    if named and version >= NAMED_CONF_SINCE:
        return [Path(named), ETC_CONF]
    if version >= HOME_BY_VARIABLE_SINCE:
        home = env.get("HOME", "")
    else:
        try:
            home = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            home = ""  # a container's user without an entry
    return [*([Path(home) / ".nccl.conf"] if home else []), ETC_CONF]


def _settings(text: str, version: tuple[int, ...]) -> list[list[str]]:
    """Names and values as NCCL takes them: all left and right of the first `=`, blanks and comments included."""
    found = []
    for line in text.split("\n"):
        if "=" in line and not line.startswith("#"):
            name, value = line.split("=", 1)
            found.append([name, value.rstrip("\r") if version >= CR_IS_CUT_SINCE else value])
    return found


def conf_files(version: str, env: dict[str, str]) -> list[dict[str, Any]]:
    """The fields of model ConfFile for each file that is there and that this version of NCCL reads."""
    number = _version(version)
    found = []
    for path in _conf_paths(number, env):
        try:
            if not path.is_file():
                continue
            with path.open("rb") as file:
                text = file.read(MOST_CONF_BYTES).decode("utf-8", "replace")
        except OSError:
            continue  # NCCL can't read it either, and says nothing
        found.append({"path": str(path), "settings": _settings(text, number)})
    return found


def program() -> str:
    """The text of the child's program, wherever this package was loaded from."""
    loader = ncclchild.__spec__.loader if ncclchild.__spec__ is not None else None
    assert isinstance(loader, InspectLoader)
    return loader.get_source(ncclchild.__name__) or ""


def _ended(output: commands.Output) -> str:
    """Why there is no answer, from how the child ended."""
    if output.code is None:
        return f"it did not answer within {SECONDS:g} s"
    if output.signal:
        return f"it crashed by signal {output.signal}"
    last = output.err.strip().splitlines()[-1:]
    return f"the program that asks it ended with exit code {output.code}" + (
        f": {last[0][:LONGEST_LINE]}" if last else ""
    )


def _findings(output: commands.Output) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for line in output.out.splitlines():
        if line.startswith(ncclchild.MARK):
            found.update(json.loads(line[len(ncclchild.MARK) :]))
    if "result" not in found and "error" not in found:
        found["error"] = _ended(output)
    return found


def ask(python: str, env: dict[str, str]) -> dict[str, Any]:
    """The fields of model NcclAnswer but those that are read from its lines.

    ``env`` is the whole environment that a worker would have.
    """
    answer: dict[str, Any] = {"library": "", "version": "", "result": None, "lines": [], "conf_files": [], "error": ""}
    path = commands.locate(python or "python3")
    if path is None:
        return {**answer, "error": f"{python} is not on that host, or no program"}
    try:
        output = commands.ask([path, "-c", program()], SECONDS, {**env, **QUESTION})
    except OSError as error:
        return {**answer, "error": f"{path} can't be executed: {error.strerror}"}
    answer.update(_findings(output))
    lines = [line.strip() for line in output.err.splitlines() if re.search(r"NCCL (?:INFO|WARN|ERROR|VERSION)", line)]
    # The line that is asked for is among them however much a plugin says before it.
    late = [line for line in lines[MOST_LINES:] if "Bootstrap" in line][:MOST_LATE]
    answer["lines"] = [line[:LONGEST_LINE] for line in (*lines[:MOST_LINES], *late)]
    if answer["library"]:
        answer["conf_files"] = conf_files(answer["version"], env)
    return answer
