"""Turns the bytes of one stream, in whatever pieces they come, into whole lines and the line as it stands now."""

from __future__ import annotations

import codecs

CAP = 64 << 10
"""Characters after which a line that does not end is cut; the rest goes on as a line of its own."""


class LineAssembler:
    """One stream's bytes in, whole lines out.

    ``\\n`` and ``\\r\\n`` end a line. A lone ``\\r`` starts the line anew, as a terminal would show it: of a
    progress bar only the last state stays. UTF-8 may be split anywhere; what is no UTF-8 becomes U+FFFD. Whatever the
    stream does, no more than ``cap`` characters and one piece are held. Each piece of a line that is cut ends in
    ``cut``, but for its last one.
    """

    def __init__(self, cap: int = CAP, cut: str = "") -> None:
        self._cap = cap
        self._cut = f"{cut}\n"
        self._decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        self._open = ""

    @property
    def partial(self) -> str:
        """The line that has not ended, as a terminal would show it now."""
        return _shown(self._open)

    def feed(self, data: bytes) -> str | None:
        """The lines that ``data`` completes, joined by line feeds, without the last one.

        None when there is none; "" is one empty line.
        """
        text = self._decode(data)
        end = text.rfind("\n")
        if end < 0:
            self._open = _compact(self._open + text)
            return self._chop() if len(self._open) > self._cap else None
        whole = self._open + text[:end]
        self._open = _compact(text[end + 1 :])
        if "\r" in whole:
            whole = "\n".join([_shown(line) for line in whole.split("\n")])
        if len(whole) > self._cap:
            whole = _cut_long(whole, self._cap, self._cut)
        if len(self._open) > self._cap:
            whole += "\n" + self._chop()
        return whole

    def flush(self) -> str | None:
        """The last line, if the stream ended without a line feed; None otherwise."""
        last, self._open = self._open + self._decode(b"", True), ""
        return _cut_long(_shown(last), self._cap, self._cut) if last else None

    def _chop(self) -> str:
        """Takes full pieces off the open line; at least one character stays, so that its end makes no empty line."""
        size = len(self._open) - 1
        size -= size % self._cap
        chopped, self._open = self._open[:size], self._open[size:]
        return _cut_long(chopped, self._cap, self._cut) + self._cut[:-1]


def _shown(line: str) -> str:
    """What stands after the last carriage return; those at the very end belong to the line end."""
    line = line.rstrip("\r")
    return line[line.rfind("\r") + 1 :]


def _compact(line: str) -> str:
    """An open line without what it wrote over; one ``\\r`` at its end stays: the next byte decides what it means."""
    if "\r" not in line:
        return line
    return _shown(line) + ("\r" if line.endswith("\r") else "")


def _cut_long(text: str, cap: int, cut: str) -> str:
    """``text`` with ``cut`` put into lines of more than ``cap`` characters; it steps by windows, not by lines."""
    pieces: list[str] = []
    done = start = 0
    while len(text) - start > cap:
        feed = text.rfind("\n", start, start + cap + 1)
        if feed >= 0:
            start = feed + 1
        else:
            pieces.append(text[done : start + cap])
            done = start = start + cap
    pieces.append(text[done:])
    return cut.join(pieces)
