"""Asks libnccl itself which interface it would use: a child with the planned environment calls ncclGetUniqueId."""

from __future__ import annotations

import json
import re
import tempfile
from importlib.abc import InspectLoader
from typing import Any

from . import commands, conffiles, ncclchild

SECONDS = 15.0
MOST_LINES = 40
MOST_LATE = 4
LONGEST_LINE = 300
# The person's own wishes for NCCL's output are put aside for the question, those of a conf file too: what the
# environment sets goes over it.
QUESTION = {
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,BOOTSTRAP,ENV,NET",
    "NCCL_DEBUG_FILE": "/dev/stderr",
}
CONF_NAME = "nccl.conf"
"""What a file is called that was made for the question alone."""


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
    answer["conf_files"] = conffiles.read(env)
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
    return answer


def ask_with(python: str, env: dict[str, str], conf: str, directory: str | None) -> dict[str, Any]:
    """As `ask`, with NCCL_CONF_FILE naming a file of this text, made in ``directory`` (None: /tmp) for the question."""
    with tempfile.NamedTemporaryFile(dir=directory, prefix=".nccl-", suffix=".conf") as file:
        file.write(conf.encode("utf-8", "surrogateescape"))
        file.flush()
        answer = ask(python, {**env, "NCCL_CONF_FILE": file.name})
    for one in answer["conf_files"]:
        if "named" in one["roles"]:
            one["path"] = CONF_NAME
    return answer
