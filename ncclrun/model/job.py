"""What the user wants to run, as typed: the job half of a plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Stall:
    """`--stall`: when a run has printed nothing for ``after`` seconds, its ranks' stacks are looked at.

    ``stop``: it is stopped then; exit code 123.
    """

    after: float
    stop: bool = False


@dataclass(frozen=True)
class Retry:
    """`--retries`: a run that loses a node is started again, ``times`` at most.

    ``min_nodes``: with as few nodes as that where no spare is left; None: never with fewer. ``on_failure``: also when a
    rank fails by itself.
    """

    times: int
    min_nodes: int | None = None
    on_failure: bool = False


@dataclass(frozen=True)
class Attempt:
    """Which attempt of a run this is, from 1, and the name by which people know the run."""

    name: str
    number: int


@dataclass(frozen=True)
class JobSpec:
    """One job: its program, its arguments byte for byte, and the options of `launch`.

    ``program`` is a script path, a module name (``kind="module"``) or, with ``launcher="exec"``, the command itself
    (``kind="command"``, run once a rank). ``None`` in an option means "what the cluster file says".
    """

    kind: Literal["script", "module", "command"]
    program: str
    args: tuple[str, ...] = ()
    launcher: Literal["torchrun", "exec"] = "torchrun"
    run_id: str | None = None
    nproc_per_node: int | Literal["auto"] | None = None
    master_port: int | Literal["auto"] | None = None
    python: str | None = None
    workdir: str | None = None
    grace: float | None = None
    timeout: float | None = None
    """Seconds after which the run is stopped; exit code 124."""
    stall: Stall | None = None
    env: dict[str, str] = field(default_factory=dict)
    """From ``--env``, forwarded values already looked up."""
    from_shell: frozenset[str] = frozenset()
    """Names in ``env`` whose value is this shell's (``--env NAME``): they are masked where a plan is shown."""
    sync: bool = True
    share_gpus: bool = False
    """Take no locks of GPUs: another run may use them at the same time."""
    clean_leftovers: bool = False
    """End what dead runs of this user left on the nodes, before anything is prepared."""
    checkpoint_dir: str | None = None
    """Directory on the nodes that the script finds as NCCLRUN_CHECKPOINT_DIR."""
    min_nodes: int | None = None
    """With the c10d rendezvous: torchrun begins with so many nodes when others do not come."""
    attempt: Attempt | None = None
    """None: nobody asked for retries, and this is the only one."""

    @property
    def title(self) -> str:
        """What people call the job: the program, and for a command of two words that runs a script, the script too.

        No other argument: those may be long, or secret.
        """
        script = next(iter(self.args), "")
        shown = self.kind == "command" and script.endswith((".py", ".sh", ".pl", ".lua")) and "=" not in script
        return f"{self.program} {script}" if shown else self.program
