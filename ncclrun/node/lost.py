"""The end of a run whose supervisor died without writing it: its warden sweeps and writes `lost`, or who looks next."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from . import cgroup, drain, endrecord, machine, processes, rundir, stopping


def sweep(run_id: str, token: str | None, kill: bool) -> list[dict[str, object]]:
    """What lives of a run here, by its cookie; with ``kill``, what lives after SIGKILL.

    Without the token only processes of this user count: anybody may call a run by the same name.
    """

    def belongs(cookie: str) -> bool:
        name, _, rest = cookie.partition("/")
        return name == run_id and (token is None or rest.partition("/")[2] == token)

    def find() -> list[processes.Process]:
        found = processes.members(belongs)
        own = machine.uid()
        return found if token is not None else [p for p in found if processes.owner_of(p.pid) == own]

    return processes.describe(processes.kill_all(find, stopping.KILL_SECONDS) if kill else find())


def _tail(run: rundir.RunDir, stream: str, size: int) -> str:
    try:
        with (run.logs / f"{stream}.log").open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - size))
            return file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def _rank(run: rundir.RunDir, local_rank: int) -> dict[str, Any]:
    unknown = dict.fromkeys(("pid", "code", "signal", "started_at", "ended_at", "error"))
    tail = _tail(run, f"{local_rank}.err", drain.RANK_TAIL)
    return {"local_rank": local_rank, **unknown, "stopped": False, "tail": tail}


class Death(NamedTuple):
    """How the supervisor died, for people, and what only its warden knows.

    ``heir``: the process that its orphans came to; ``oom_kills``: since the start.
    """

    how: str = "the supervisor was killed"
    heir: int | None = None
    oom_kills: int = 0


def settle(run: rundir.RunDir, facts: dict[str, Any], death: Death = Death()) -> dict[str, Any]:  # noqa: B008  # it is frozen
    """Ends what lives of this part (``facts``: its run.json) and writes its end record, unless one is there already."""
    rebooted = facts["boot_id"] != machine.boot_id()
    state = run.state() or {}
    survivors: list[processes.Process] = []
    if not rebooted:
        survivors = _end_all(facts["cookie"], state.get("cgroup") or "", death.heir)
    record = endrecord.record(
        reason="lost",
        detail="the machine was restarted" if rebooted else death.how,
        started_at=state.get("time", facts["prepared_at"]),
        ranks=[_rank(run, local_rank) for local_rank in range(facts["nproc"])],
        survivors=processes.describe(survivors),
        launcher_tail=_tail(run, "launcher.err", drain.LAUNCHER_TAIL),
        oom_kills=death.oom_kills,
    )
    if run.end() is None:
        run.write_lost(record)
    return {}


def _end_all(cookie: str, group: str, heir: int | None) -> list[processes.Process]:
    """Ends all with this cookie, all in the cgroup that was made for it, and all below ``heir``; what survives."""
    path = Path(group) if Path(group).name == cgroup.name(cookie) else None

    def find() -> list[processes.Process]:
        return processes.members(cookie.__eq__, heir, cgroup.members(path))

    cgroup.kill(path)
    survivors = processes.kill_all(find, stopping.KILL_SECONDS)
    cgroup.remove(path)
    return survivors
