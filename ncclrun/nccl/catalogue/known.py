"""One entry of the catalogue: what is known of a variable."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Literal

from ncclrun.nccl.version import Version

Kind = Literal[
    "integer",  # strtoll, base 0
    "flag",  # an integer of which only 0 or not 0 counts
    "boolean",  # torch's: 1/t/true/y/yes or 0/f/false/n/no, anything else is refused
    "choice",  # one word of `allowed`
    "words",  # words of `allowed`, joined by `separator`
    "level",  # how far apart two devices may be: a word of `allowed`, or an old number
    "interfaces",  # [^][=]name[,name...]
    "hcas",  # [^][=]device[:port][,...]
    "names",  # full names with commas between, nothing else
    "functions",  # words of `allowed`; from 2.24 also one list a function: ring;allreduce:tree
    "path",
    "address",
    "text",
]
Side = Literal["nccl", "torch", "gloo", "tensorpipe", "plugin", "tool"]
"""Who reads it. plugin: a library inside NCCL or a vendor's NCCL; tool: builds, tests, scripts and other programs."""
Same = Literal["must", "should", "may differ", "unique", ""]
"""On all ranks of a job: must (documented), should (seen or inferred), may differ, unique per host; "" is not known."""


@dataclass(frozen=True, slots=True)
class Known:
    """A variable, or a family of them where ``name`` holds a ``*``."""

    name: str
    meaning: str
    """One line."""
    _: KW_ONLY
    side: Side = "nccl"
    kind: Kind = "text"
    allowed: tuple[str, ...] = ()
    """The words, or the numbers where only a few are; empty where there is no short list of them."""
    exact: bool = False
    """The case of a word counts."""
    separator: str = ","
    low: int | None = None
    high: int | None = None
    """Bounds of an integer, both included."""
    default: str | None = None
    """As it would be written in a file; None: chosen by NCCL itself, or nothing (``otherwise``)."""
    otherwise: str = ""
    """What happens while it is not set, where no value says it."""
    since: Version | None = None
    """No NCCL before this one reads it; None: not known, or not a matter of NCCL's version."""
    removed: Version | None = None
    """First NCCL that reads it no more."""
    deprecated: str = ""
    """From when and why it should not be used."""
    instead: str = ""
    """The name that took its place."""
    same: Same = ""
    documented: bool = True
    """In the documentation of who reads it."""
    source: str = "NCCL user guide, 2.30.7"
    conf: bool = True
    """Works in a conf file; False: who reads it looks in the environment alone, or has looked before NCCL reads it."""
    loads_code: bool = False
    """Makes NCCL load a library into the job."""
    writes_files: bool = False
    """Makes NCCL write a file."""

    @property
    def family(self) -> bool:
        """Known by a pattern alone."""
        return "*" in self.name


Flag = partial(Known, kind="flag", allowed=("0", "1"))
Integer = partial(Known, kind="integer")
Choice = partial(Known, kind="choice")
Words = partial(Known, kind="words")
Path = partial(Known, kind="path")
