"""What happens during a command, one frozen value each; `--json` writes them one a line (docs/events.md)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from ncclrun.model.network import Link, NcclAnswer, Path
from ncclrun.model.runevents import Cleaned, LeftOnNode, RecordedRun, RunOnNode
from ncclrun.model.settingevents import (
    ConfCompared,
    ConfDiff,
    ConfPushed,
    ConfRestored,
    ConfRolledBack,
    SettingDiffers,
    SettingFound,
    SettingsSeen,
)
from ncclrun.model.stallevents import Stalled

NodeStateName = Literal["starting", "running", "unknown", "stopping", "ended"]
Stream = Literal["out", "err"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunCreated:
    """The run has an id and a directory here; nothing was contacted yet."""

    event: ClassVar[str] = "run"
    run_id: str
    cluster: str
    directory: str
    nnodes: int
    nodes: tuple[str, ...] = ()
    resumed: bool = False
    """It was started before, and is taken up by `attach` or `stop`."""
    """Names in order of node_rank."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Connecting:
    """All nodes are being called, by `ping` and `resolve`; names in order of node_rank."""

    event: ClassVar[str] = "connecting"
    nodes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Connected:
    """A node answers; ``seconds`` from the first packet to the node part's first word."""

    event: ClassVar[str] = "connected"
    node: str
    node_rank: int
    host: str
    hostname: str
    seconds: float
    local: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Unreachable:
    """A host could not be reached, or not be talked to.

    ``reason``: ``refused``, ``timeout``, ``no_route``, ``name``, ``unknown_key``, ``changed_key``, ``revoked_key``,
    ``auth``, ``gateway``, ``protocol``, ``shell``, ``no_python``, ``lost``.
    """

    event: ClassVar[str] = "unreachable"
    node: str
    node_rank: int
    host: str
    reason: str
    message: str
    fix: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolved:
    """The network choice for a node; ``hca`` is what NCCL_IB_HCA is set to ("": left to NCCL)."""

    event: ClassVar[str] = "network"
    node: str
    node_rank: int
    interface: str
    address: str
    why: str
    hca: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Probing:
    """The nodes begin to try each other's addresses; `links` follow as each is done, then `probed`."""

    event: ClassVar[str] = "probing"
    nodes: int
    pairs: int
    """Directed pairs of nodes that are to be tried."""
    connections: int
    """Attempts to come."""
    scheme: str
    """As in `probed`: ``all pairs``, …"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Probed:
    """The nodes have tried each other's addresses: ``connections`` attempts, ``reached`` of them proven."""

    event: ClassVar[str] = "probed"
    nodes: int
    pairs: int
    """Directed pairs of nodes that were tried."""
    connections: int
    reached: int
    seconds: float
    scheme: str
    """Which pairs: ``all pairs``, or ``ring, star to node 0 and 4 random partners each``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Linked:
    """All attempts of one node to reach the others."""

    event: ClassVar[str] = "links"
    node: str
    node_rank: int
    links: tuple[Link, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """What became of one address of one node in the network choice, and why."""

    event: ClassVar[str] = "candidate"
    node: str
    node_rank: int
    interface: str
    address: str
    prefix: int
    verdict: Literal["chosen", "usable", "rejected"]
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PathFound:
    """What fits through from one node to another on the chosen addresses, and whether high ports pass."""

    event: ClassVar[str] = "path"
    node: str
    peer: str
    path: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class NcclSays:
    """Which interface NCCL itself would use on a node; ``agrees`` is None where there is no libnccl to ask."""

    event: ClassVar[str] = "nccl"
    node: str
    node_rank: int
    agrees: bool | None
    answer: NcclAnswer


@dataclass(frozen=True, kw_only=True, slots=True)
class Measuring:
    """A round of `ping --bandwidth` begins: ``pairs`` of nodes at once, first one way and then the other."""

    event: ClassVar[str] = "measuring"
    round: int
    rounds: int
    """How many there are, as far as is known: `--deep` adds some."""
    pairs: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Transferred:
    """A measured throughput between two nodes (`ping --bandwidth`); ``error`` says why there is none."""

    event: ClassVar[str] = "bandwidth"
    node: str
    peer: str
    round: int
    gbits: float | None
    seconds: float
    error: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """A file was written (`resolve --write`); ``backup`` is what it was before, "" where nothing had to change."""

    event: ClassVar[str] = "written"
    path: str
    backup: str
    changes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """The plan as shown by `--dry-run`: one mapping a node, secrets masked."""

    event: ClassVar[str] = "plan"
    run_id: str
    launcher: str
    master_addr: str
    master_port: int
    world_size: int
    nodes: tuple[dict[str, Any], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeSent:
    """The script's directory as it travelled (``size``: bytes, packed); ``sent_to`` lacks the nodes that had it."""

    event: ClassVar[str] = "code"
    directory: str
    files: int
    size: int
    sha256: str
    sent_to: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    """What .gitignore files kept back, by the topmost name, at most 20."""
    dry_run: bool = False
    """Only packed: nothing was sent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A node is ready to start."""

    event: ClassVar[str] = "prepared"
    node: str
    node_rank: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """A node can't prepare; nothing is started anywhere."""

    event: ClassVar[str] = "refused"
    node: str
    node_rank: int
    code: str
    message: str
    fix: str


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeState:
    """A node's state changed, as far as known here; ``since`` is seconds of Unix time on this machine's clock.

    A node that is lost stays ``unknown``. ``reason`` is for people.
    """

    event: ClassVar[str] = "node"
    node: str
    node_rank: int
    state: NodeStateName
    since: float
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Log:
    """Output of a worker (``rank``) or, with ``rank`` None, of the node's launcher.

    ``text`` is one or more whole lines without the last line feed; with ``partial`` it is the line as it stands now (a
    progress bar), replaced by what follows. In JSON each line is an event of its own and partial lines are left out.
    ``time`` is when the node read it, seconds of Unix time on the node's clock.
    """

    event: ClassVar[str] = "log"
    node: str
    node_rank: int
    rank: int | None
    local_rank: int | None
    stream: Stream
    time: float
    text: str
    partial: bool = False
    folded: bool = False
    """The launcher's own words about a failure or stop that is told already: in the logs, not shown to people."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Warn:
    """Something that will not stop the run, and what to do about it."""

    event: ClassVar[str] = "warning"
    text: str
    fix: str = ""
    node: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Stopping:
    """The run is being stopped on these nodes; ``how`` is ``term`` (SIGTERM, grace, SIGKILL) or ``kill``."""

    event: ClassVar[str] = "stopping"
    reason: str
    how: Literal["term", "kill"]
    nodes: tuple[str, ...]
    grace: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """The first failure of a run."""

    node: str
    node_rank: int
    host: str
    rank: int | None
    how: str
    """``exit code 7``, ``signal 9 (SIGKILL)``, ``host lost``, …"""
    exit_code: int
    exception: str = ""
    """Last line of the traceback, or the error file's message."""
    tail: tuple[str, ...] = ()
    """Last lines of that rank's stderr."""
    time: float | None = None
    hint: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeSummary:
    """A row of the closing table; ``confirmed``: the node itself said that nothing of the run lives there.

    ``state``: ``finished``, ``failed``, ``stopped``, ``lost``, ``rebooted``, ``not started``, ``unknown``, ``running``.
    """

    node: str
    node_rank: int
    host: str
    ranks: str
    state: str
    exit: str
    seconds: float | None
    confirmed: bool
    detail: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """The end of the command: the exit code and why.

    ``reason`` of a run that was started: ``finished``, ``failed``, ``stopped``, ``timeout``, ``stalled``, ``lost`` or
    ``detached`` (it goes on, and nobody here follows it); else a sentence.
    """

    event: ClassVar[str] = "end"
    run_id: str
    exit_code: int
    reason: str
    seconds: float
    nodes: tuple[NodeSummary, ...] = ()
    cause: Cause | None = None
    victims: tuple[str, ...] = ()
    """Nodes or ranks that we stopped, or that failed, as a consequence."""
    directory: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Replaced:
    """A node that a further attempt can't count on; ``by`` takes its place: "" none, its own name it itself again."""

    node: str
    by: str
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Retrying:
    """An attempt has ended as ``ended`` says, and the next one (``run_id``) begins in ``seconds``.

    ``attempt`` of ``most`` is that next one's number, from 1; ``reason`` is why there is another.
    """

    event: ClassVar[str] = "retry"
    run_id: str
    attempt: int
    most: int
    seconds: float
    reason: str
    changes: tuple[Replaced, ...]
    ended: Ended


@dataclass(frozen=True, kw_only=True, slots=True)
class RanksMoved:
    """The workers of a node have other global ranks than planned: its local rank 0 is ``first_rank`` (c10d)."""

    event: ClassVar[str] = "ranks"
    node: str
    node_rank: int
    first_rank: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """The command can't go on: the message (several lines where there is a table) and the one step that mends it."""

    event: ClassVar[str] = "error"
    message: str
    fix: str
    exit_code: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One reason why a node is not fit, and the command or line that mends it."""

    code: str
    message: str
    fix: str
    level: Literal["error", "warning"] = "error"


@dataclass(frozen=True, kw_only=True, slots=True)
class Pinged:
    """A row of `ping`: seconds, versions ("" where unknown), and every problem found."""

    event: ClassVar[str] = "ping"
    node: str
    node_rank: int
    host: str
    fit: bool
    seconds: float | None = None
    hostname: str = ""
    interface: str = ""
    address: str = ""
    gpus: tuple[str, ...] = ()
    python: str = ""
    torch: str = ""
    nccl: str = ""
    clock_offset: float | None = None
    problems: tuple[Problem, ...] = field(default=())


Event = (
    RunCreated
    | Connecting
    | Connected
    | Unreachable
    | Resolved
    | Planned
    | CodeSent
    | Prepared
    | Refused
    | NodeState
    | Log
    | Warn
    | Stalled
    | Stopping
    | Ended
    | Retrying
    | RanksMoved
    | Failure
    | Pinged
    | Probing
    | Probed
    | Linked
    | Judged
    | PathFound
    | NcclSays
    | Measuring
    | Transferred
    | Written
    | SettingsSeen
    | SettingDiffers
    | SettingFound
    | ConfDiff
    | ConfCompared
    | ConfPushed
    | ConfRestored
    | ConfRolledBack
    | RunOnNode
    | LeftOnNode
    | RecordedRun
    | Cleaned
)
