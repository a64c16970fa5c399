"""The marked block that ncclrun keeps at the top of a conf file, where its settings go over all that stands below."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Sequence

from ncclrun.model.errors import PlanError
from ncclrun.model.secrets import text_shown
from ncclrun.nccl.conf import LONGEST
from ncclrun.nccl.patterns import NAME

PUSHED = (
    "Leave these lines as they are: the next push writes them anew. What stands below them is yours, and stays.",
    "To take them away:  ncclrun nccl restore CLUSTER",
)
# Up to 2.23.4 NCCL takes a comment with an equals sign for a setting (of a name that nobody reads): no mark has one.
_START = re.compile(rb"# >>> ncclrun ([0-9a-f]{12}) >>>")
_END = b"# <<< ncclrun <<<"
_MARK = re.compile(rb"[^=\w]*[<>]{3} ncclrun")
"""Also what is left of a mark that somebody has touched."""
_NAME = re.compile(NAME)
NOT_AS_IT_WAS = "the block of lines that ncclrun wrote there is not as it was"


def put(rest: bytes, settings: Sequence[tuple[str, str]], notes: Sequence[str] = PUSHED) -> bytes:
    """A conf file with these settings, (name, value), in front of the bytes of ``rest``, whatever they are.

    ``notes`` are lines for the reader of the file, without equals signs. The same settings give the same bytes. Raises
    PlanError for a setting that no conf file can carry.
    """
    # First, since of two lines with one name NCCL takes the first: nothing of the rest has to be touched.
    body = "".join(f"# {note}\n" for note in notes).encode()
    body += b"".join(_line(name, value) for name, value in settings)
    return b"# >>> ncclrun %s >>>\n%s%s\n%s" % (_digest(body), body, _END, rest)


def take(data: bytes, where: str, *, discard: bool = False) -> bytes:
    """The file without our block, byte for byte; all of it where there is none.

    ``where`` names the file in the PlanError that is raised where the block is not as it was written, or another one is
    there: what somebody else has written would be lost. With ``discard`` that is meant, as far as the block's marks are
    whole: what stands outside them is never lost.
    """
    changed = edited(data)
    if changed and not (discard and is_whole(data)):
        raise PlanError(f"{where}: {NOT_AS_IT_WAS}: {changed}", fix=by_hand(where))
    block = _block(data)
    return data if block is None else block[1]


def by_hand(where: str) -> str:
    """What is left to do where the marks of our block are not whole."""
    return (
        f"in {where} move what you want to keep below the block, then delete all of it, with its marks"
        " (# >>> ncclrun … to # <<< ncclrun <<<), and try again"
    )


def is_whole(data: bytes) -> bool:
    """Whether one block stands at the top, with both its marks, whatever is between them."""
    marks = [line for line in data.split(b"\n") if _MARK.match(line)]
    return _block(data) is not None and len(marks) == 2


def difference(data: bytes, settings: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """The lines of a whole block that are not as they would be with these settings: ``-`` as written, ``+`` as it is.

    Where another setting is wanted by now than was written, that is among them: what was written is not kept.
    """
    wanted, found = _block(put(b"", settings)), _block(data)
    if wanted is None or found is None:
        return ()
    before, after = (block[0].decode("utf-8", "backslashreplace").split("\n") for block in (wanted, found))
    return tuple(text_shown(line) for line in difflib.ndiff(before, after) if line[:1] in "-+")


def end(data: bytes) -> int:
    """The number of the line that ends our block at the top of the file; 0 where there is none with both its marks."""
    block = _block(data)
    return 0 if block is None else block[0].count(b"\n") + 2


def settings(data: bytes) -> tuple[tuple[str, str], ...] | None:
    """What the block at the top of the file holds now; None where there is none with both its marks."""
    block = _block(data)
    if block is None:
        return None
    lines = [line for line in block[0].split(b"\n") if b"=" in line and not line.startswith(b"#")]
    pairs = [line.decode("utf-8", "surrogateescape").partition("=") for line in lines]
    return tuple((name, value) for name, _, value in pairs)


def edited(data: bytes) -> str:
    """What somebody has done to our block, in words; "" where it is as it was written, and where there is none."""
    marks = [(at, line) for at, line in enumerate(data.split(b"\n"), 1) if _MARK.match(line)]
    if not marks:
        return ""
    start = _START.fullmatch(marks[0][1])
    if start is None:
        return f"line {marks[0][0]} is no longer the mark that it begins with"
    if marks[0][0] > 1:
        return f"it begins at line {marks[0][0]}, not at the top of the file"
    if len(marks) == 1 or marks[1][1] != _END:
        return "the mark at its end is gone, or was changed"
    if len(marks) > 2:
        return f"there is another mark of ncclrun at line {marks[2][0]}"
    block = _block(data)
    if block is None or _digest(block[0]) != start[1]:
        return f"the lines up to line {marks[1][0]} were changed by hand"
    return ""


def _block(data: bytes) -> tuple[bytes, bytes] | None:
    """What stands between the marks at the top, and all behind them."""
    first, _, behind = data.partition(b"\n")
    if _START.fullmatch(first) is None:
        return None
    # A line feed in front finds the end mark also where nothing stands before it.
    body, end, rest = (b"\n" + behind).partition(b"\n" + _END + b"\n")
    return (body[1:] + b"\n" * bool(body), rest) if end else None


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest()[:12].encode()


def _line(name: str, value: str) -> bytes:
    if reason := refusal(name, value):
        raise PlanError(
            f"{name!r} can't be put into a conf file of NCCL: {reason}",
            fix="mend it in the cluster file, or write  nccl: {deliver: env}  there",
        )
    return f"{name}={value}\n".encode("utf-8", "surrogateescape")


def refusal(name: str, value: str) -> str:
    """Why NCCL would not read this name and value back from a line; "" where it would."""
    if not _NAME.fullmatch(name):
        return "that is no name of a variable"
    if "\n" in value:
        return "its value has a line feed, and NCCL reads line by line"
    if "\0" in value:
        return "its value has a NUL, where it ends for NCCL"
    if value.endswith("\r"):
        return "its value ends in a carriage return, which newer versions of NCCL cut off"
    if max(len(name), len(value.encode("utf-8", "surrogateescape"))) > LONGEST:
        return f"it is longer than the {LONGEST} bytes that NCCL takes"
    return ""
