"""Logs as values: what the tests of `explain` look through."""

from __future__ import annotations

from textwrap import dedent

from ncclrun.diagnosis.explain.judge import judge
from ncclrun.diagnosis.explain.scan import LogScan
from ncclrun.model.explainevents import Explained


def scan(text: str, name: str = "a.log", host: str = "", rank: int | None = None) -> LogScan:
    log = LogScan(name, host, rank)
    log.feed(dedent(text).strip("\n"))
    return log


def explained(*texts: str) -> Explained:
    """The diagnosis of logs of which nothing is known but their text."""
    return judge([scan(text, f"{number}.log") for number, text in enumerate(texts)])


def found(*texts: str) -> str:
    """The id of the one cause; "" for none."""
    fault = explained(*texts).found
    return "" if fault is None else fault.id
