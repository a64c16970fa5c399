"""What happens during a command, one frozen value each; `--json` writes them one a line (docs/events.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ncclrun.model.doctorevents import DoctorFinding, Examined, FactsSaved
from ncclrun.model.endevents import Ended, Retrying
from ncclrun.model.explainevents import Bundled, Explained, FindingPage
from ncclrun.model.netevents import (
    Judged,
    Linked,
    Measuring,
    NcclSays,
    PathFound,
    Pinged,
    Probed,
    Probing,
    Resolved,
    Transferred,
    Written,
)
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


def _with_page(text: str, page: str) -> str:
    return f"{text} [{page}]" if page else text


@dataclass(frozen=True, kw_only=True, slots=True)
class RunCreated:
    """The run has an id and a directory here; nothing was contacted yet."""

    event: ClassVar[str] = "run"
    run_id: str
    cluster: str
    directory: str
    nnodes: int
    nodes: tuple[str, ...] = ()
    """Names in order of node_rank."""
    resumed: bool = False
    """It was started before, and is taken up by `attach` or `stop`."""


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
    id: str = ""
    """Names the page docs/findings/ID.md; "" where there is none."""

    @property
    def told(self) -> str:
        """The message with the page's name."""
        return _with_page(self.message, self.id)


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
    id: str = ""
    """Names the page docs/findings/ID.md; "" where there is none."""

    @property
    def told(self) -> str:
        """The text with the page's name."""
        return _with_page(self.text, self.id)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stopping:
    """The run is being stopped on these nodes; ``how`` is ``term`` (SIGTERM, grace, SIGKILL) or ``kill``."""

    event: ClassVar[str] = "stopping"
    reason: str
    how: Literal["term", "kill"]
    nodes: tuple[str, ...]
    grace: float


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
    | Examined
    | DoctorFinding
    | FactsSaved
    | Explained
    | Bundled
    | FindingPage
)
