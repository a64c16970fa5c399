"""Ranges of names (`gpu[03-16]`) and selections of nodes and ranks (`gpu[1-3],!gpu2`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import product
from math import prod

from ncclrun.model.errors import UsageError

MAX_NAMES = 4096
"""Most names that one pattern may stand for."""
MAX_DIGITS = 18
SHOWN = 10
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_GROUP = re.compile(r"\[([^\[\]]*)\]")


class HostlistError(UsageError, ValueError):
    """A pattern or a selection that stands for nothing sensible."""


class BadRangeError(HostlistError):
    """A bracket that is no range: empty, reversed, unbalanced, not made of numbers."""


class TooManyNamesError(HostlistError):
    """A pattern that stands for more than MAX_NAMES names."""


class SelectionError(HostlistError):
    """A selection that names something unknown, or leaves nothing."""


def expand(pattern: str) -> list[str]:
    """All names that ``pattern`` stands for, in order: ``gpu[03-05,9]`` is gpu03, gpu04, gpu05, gpu9.

    Several brackets multiply, the last one running fastest. Zero padding is kept. A bracket with a colon in it is an
    IPv6 literal and left alone. Raises BadRangeError or TooManyNamesError.
    """
    literals, groups = _split(pattern)
    counts = [sum(last - first + 1 for first, last, _ in group) for group in groups]
    if prod(counts) > MAX_NAMES:
        raise TooManyNamesError(f"{pattern!r} stands for more than {MAX_NAMES} names")
    names = [
        literals[0] + "".join(number + literal for number, literal in zip(numbers, literals[1:], strict=True))
        for numbers in product(*(_numbers(group) for group in groups))
    ]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadRangeError(f"{pattern!r} names {twice} more than once")
    return names


def select(sel: str, names: Sequence[str]) -> tuple[int, ...]:
    """Indexes of the nodes that ``--nodes SEL`` means, in file order.

    SEL is a comma-separated list of names, ranges of names, indexes (``0``) and ranges of indexes (``0-2``); ``!``
    before one takes it out, wherever it stands. With exclusions alone all others are meant. Raises HostlistError.
    """
    position = {name: index for index, name in enumerate(names)}

    def resolve(part: str) -> Iterable[int]:
        if part in position:  # first, so that a node named 7 is meant by 7
            return [position[part]]
        if _RANGE.fullmatch(part):
            return _indexes(part, len(names), "node")
        wanted = expand(part)
        unknown = next((name for name in wanted if name not in position), None)
        if unknown is not None:
            raise SelectionError(f"no node is named {unknown!r}", fix=_nearest(unknown, names))
        return [position[name] for name in wanted]

    return _select(sel, resolve, len(names), "node")


def select_ranks(sel: str, world_size: int) -> tuple[int, ...]:
    """Ranks that ``--ranks SEL`` means, ascending: ``0``, ``0-3``, ``!5``, comma-separated.

    Raises SelectionError or BadRangeError.
    """

    def resolve(part: str) -> Iterable[int]:
        check_ranks(part)
        return _indexes(part, world_size, "rank")

    return _select(sel, resolve, world_size, "rank")


def check_ranks(sel: str) -> None:
    """Raises BadRangeError for a SEL of ranks that means nothing, however many ranks there will be."""
    for _, part in split_commas(sel):
        name = part.removeprefix("!").strip()
        if not name:
            raise _empty_part(sel, "rank")
        if not _RANGE.fullmatch(name):
            raise BadRangeError(f"{name!r} is not a rank: write a number (0) or a range (0-3)")
        _ranges(name, name)


def split_commas(text: str) -> Iterator[tuple[int, str]]:
    """Each comma-separated part, stripped, with the offset where it starts; commas in brackets don't split."""
    start = depth = 0
    for offset, char in enumerate(text + ","):
        if char == "," and (depth == 0 or offset == len(text)):
            part = text[start:offset]
            yield start + len(part) - len(part.lstrip()), part.strip()
            start = offset + 1
        depth += (char == "[") - (char == "]")


def _select(sel: str, resolve: Callable[[str], Iterable[int]], total: int, noun: str) -> tuple[int, ...]:
    taken: set[int] = set()
    excluded: set[int] = set()
    only_exclusions = True
    for _, part in split_commas(sel):
        out = part.startswith("!")
        name = part[1:].strip() if out else part
        if not name:
            raise _empty_part(sel, noun)
        only_exclusions = only_exclusions and out
        (excluded if out else taken).update(resolve(name))
    chosen = (set(range(total)) if only_exclusions else taken) - excluded
    if not chosen:
        raise SelectionError(f"the selection {sel!r} leaves no {noun}")
    return tuple(sorted(chosen))


def _empty_part(sel: str, noun: str) -> SelectionError:
    return SelectionError(f"an empty part in the selection {sel!r}", fix=f"Write {noun}s separated by commas.")


def _indexes(part: str, total: int, noun: str) -> range:
    ((first, last, _),) = _ranges(part, part)
    if last >= total:
        raise SelectionError(f"there is no {noun} {last}: {noun}s count from 0 to {total - 1}")
    return range(first, last + 1)


def _nearest(name: str, names: Sequence[str]) -> str:
    close = get_close_matches(name, names, n=1)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"The nodes are: {', '.join(names[:SHOWN])}{', …' if len(names) > SHOWN else ''}."


Range = tuple[int, int, int]
"""First, last (included), and the width to pad to with zeros."""


def _split(pattern: str) -> tuple[list[str], list[list[Range]]]:
    """The text around the brackets (one more than there are brackets), and the ranges inside each."""
    literals, groups, rest = [""], [], 0
    for match in _GROUP.finditer(pattern):
        literals[-1] += pattern[rest : match.start()]
        rest = match.end()
        if ":" in match[1]:
            literals[-1] += match[0]
        else:
            groups.append(_ranges(match[1], pattern))
            literals.append("")
    literals[-1] += pattern[rest:]
    if any(mark in _GROUP.sub("", pattern) for mark in "[]"):
        raise BadRangeError(f"a bracket in {pattern!r} has no partner")
    return literals, groups


def _ranges(text: str, pattern: str) -> list[Range]:
    found = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if not match:
            raise BadRangeError(f"{part.strip() or text!r} in {pattern!r} is no range: write numbers, as in [1-3,7]")
        low, high = match[1], match[2] or match[1]
        if max(len(low), len(high)) > MAX_DIGITS:
            raise TooManyNamesError(f"a number in {pattern!r} has more than {MAX_DIGITS} digits")
        if int(high) < int(low):
            raise BadRangeError(f"the range {low}-{high} in {pattern!r} runs backwards")
        if len(high) != len(low) and high.startswith("0"):
            raise BadRangeError(f"the ends of {low}-{high} in {pattern!r} are padded differently")
        found.append((int(low), int(high), len(low) if low.startswith("0") else 0))
    return found


def _numbers(group: list[Range]) -> Iterator[str]:
    for first, last, width in group:
        for number in range(first, last + 1):
            yield str(number).zfill(width)
