"""A conf file as it should be: the lines that `lint` corrects, and every other byte as it was."""

from __future__ import annotations

from ncclrun.nccl.lint.conffile import LintedLine, linted
from ncclrun.nccl.version import Version

MOST_PASSES = 8
"""A line put right may show that another says the same; two or three passes come to an end."""


def mend(data: bytes, version: Version | None) -> bytes:
    """The file with every correction that `lint_conf` knows; what it can't know stays as it is."""
    for _ in range(MOST_PASSES):
        mended = b"".join(map(_line, linted(data, version, "")))
        if mended == data:
            break
        data = mended
    return data


def _line(line: LintedLine) -> bytes:
    if line.mended is None:
        return line.raw
    feed = b"\n" if line.raw.endswith(b"\n") else b""
    # A carriage return that does no harm stays: an editor that wrote it wants it.
    dropped = any(finding.id == "cr" for finding in line.findings)
    end = (b"\r" if line.raw.removesuffix(b"\n").endswith(b"\r") and not dropped else b"") + feed
    parts = line.mended.encode("utf-8", "surrogateescape").split(b"\n")
    return (end or b"\n").join(parts) + end
