"""A `start` request as what it asks for: programs with their whole environments, and the terms of their supervision."""

from __future__ import annotations

import os
from typing import Any

from . import lifeline, logfile, rundir, spawn, stacks, supervisor
from .refusal import Refusal


def _strings(value: Any, what: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(word, str) and "\0" not in word for word in value):
        raise Refusal("bad_request", f"{what} must be a list of texts without NUL")
    return list(value)


def _variables(value: Any) -> dict[str, str]:
    pairs = value if isinstance(value, dict) else {"": None}
    for name, text in pairs.items():
        if not name or "=" in name or "\0" in name or not isinstance(text, str) or "\0" in text:
            raise Refusal("bad_request", f"the variable {name!r} can't be set: names without '=', values without NUL")
    return dict(pairs)


def _argv(process: dict[str, Any], run: rundir.RunDir) -> list[str]:
    """The command, with the node's own paths in its first ``expand`` words: what the user wrote stays as it is."""
    argv = _strings(process.get("argv"), "argv")
    if not argv:
        raise Refusal("bad_request", "argv is empty")
    own = process.get("expand", 0)
    words = [str(run.worker) if word == "@WORKER@" else word for word in argv[:own]]
    words = [str(run.path) + word[5:] if word == "@RUN@" or word.startswith("@RUN@/") else word for word in words]
    return words + argv[own:]


def environment(request: dict[str, Any]) -> dict[str, str]:
    """What every process gets: the login's variables without ``unset``, over ``defaults``, and ``env`` over all."""
    base = dict(os.environ)
    for name in _strings(request.get("unset", []), "unset"):
        base.pop(name, None)
    return {**_variables(request.get("defaults", {})), **base, **_variables(request.get("env", {}))}


def conf_text(request: dict[str, Any]) -> str | None:
    """The text of the conf file that a request brings along; None if it brings none."""
    text = request.get("conf")
    if text is not None and not isinstance(text, str):
        raise Refusal("bad_request", "conf must be text")
    return text


def _run_paths(request: dict[str, Any], run: rundir.RunDir) -> dict[str, str]:
    """Variables that name a file of the run directory."""
    names = _variables(request.get("run_paths", {}))
    for name in names.values():
        if not (run.path / name).is_file() or "/" in name:
            raise Refusal("bad_request", f"there is no file {name!r} in the run directory")
    return {variable: str(run.path / name) for variable, name in names.items()}


def _armed(request: dict[str, Any], run: rundir.RunDir) -> str:
    """The directory that arms the workers' Python to tell its stacks; "" if it is not wanted, or can't be made."""
    directory = run.path / "stacks"
    if not request.get("arm") or os.pathsep in str(directory):
        return ""
    try:
        stacks.arm(directory)
    except OSError:
        return ""  # no reason not to train; `stacks` will say that nothing is armed
    return str(directory)


def programs(request: dict[str, Any], run: rundir.RunDir, run_facts: dict[str, Any], umask: int) -> list[spawn.Program]:
    """What to start, with whole environments: what the request sets over the login's, and over both what is ours."""
    base = {**environment(request), **_run_paths(request, run)}
    own = {
        "NCCLRUN_COOKIE": run_facts["cookie"],
        "NCCLRUN_RUN_ID": request.get("env", {}).get("NCCLRUN_RUN_ID", run.run_id),
        "NCCLRUN_NODE_RANK": str(run.node_rank),
        "NCCLRUN_PIPES": str(run.pipes),
    }
    if run_facts.get("checkpoint_dir"):
        own["NCCLRUN_CHECKPOINT_DIR"] = run_facts["checkpoint_dir"]
    armed = _armed(request, run)
    found = []
    for process in request.get("processes") or []:
        env = {**base, **_variables(process.get("env", {})), **own}
        if armed and process.get("local_rank") is None:
            env["NCCLRUN_STACKS"] = armed  # for worker.sh: torchrun itself stays as it is
        elif armed:
            env["PYTHONPATH"] = os.pathsep.join(filter(None, (armed, env.get("PYTHONPATH"))))
        found.append(spawn.Program(_argv(process, run), process.get("local_rank"), run_facts["cwd"], env, umask))
    if not found:
        raise Refusal("bad_request", "there is no process to start")
    return found


def terms(request: dict[str, Any]) -> supervisor.Terms:
    """How the run is supervised."""
    return supervisor.Terms(
        grace=float(request.get("grace", 30.0)),
        restarts=int(request.get("restarts", 0)),
        first_rank=int(request.get("first_rank", 0)),
        log_limit=max(logfile.LEAST_LIMIT, int(request.get("log_limit", logfile.LIMIT))),
        lifeline=lifeline.terms(request),
    )
