"""One entry of the catalogue: what is known of a variable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ncclrun.nccl.version import Version

Kind = Literal[
    "integer",  # strtoll, base 0
    "flag",  # an integer that only means 0 or not 0
    "choice",  # one word of `allowed`
    "words",  # words of `allowed`, joined by commas
    "interfaces",  # [^][=]name[,name...]
    "hcas",  # [^][=]device[:port][,...]
    "algorithms",  # a list of words, or from 2.24 one per function
    "path",
    "address",
    "text",
]
Side = Literal["nccl", "torch", "gloo", "tensorpipe", "plugin", "tool"]
"""Who reads it. plugin: a network, tuner or vendor's library inside NCCL; tool: builds, tests and other programs."""
Same = Literal["must", "should", "may differ", "unique", ""]
"""On all ranks of a job: must (documented), should (seen or inferred), may differ, unique per host; "" is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A variable, or a family of them where ``name`` ends in ``*``."""

    name: str
    side: Side = "nccl"
    kind: Kind = "text"
    meaning: str = ""
    """One line."""
    allowed: tuple[str, ...] = ()
    """The words, or the numbers; empty where there is no short list of them."""
    low: int | None = None
    high: int | None = None
    """Bounds of an integer, both included."""
    default: str | None = None
    """As it would be written in a file; None: not set, or chosen by NCCL itself (``otherwise``)."""
    otherwise: str = ""
    """What happens while it is not set, where no value says it."""
    since: Version | None = None
    """First NCCL that reads it; None: not known, or always. Of NCCL alone, not of torch or plugins."""
    removed: Version | None = None
    """First NCCL that reads it no more."""
    deprecated: str = ""
    """Why not to use it any more, and from when."""
    instead: str = ""
    """The name that took its place."""
    same: Same = ""
    documented: bool = True
    """In NCCL's (or torch's) own documentation."""
    source: str = ""
    conf: bool = True
    """Works in a conf file; False: who reads it looks in the environment alone, or has looked before NCCL reads it."""
    loads_code: bool = False
    """Makes NCCL load a library into the job."""
    writes_files: bool = False
    """Makes NCCL write a file."""
