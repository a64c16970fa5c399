"""Who wrote a line: the host and rank that launchers, containers, loggers and NCCL itself put before it."""

from __future__ import annotations

import re
from typing import NamedTuple

MOST_PREFIXES = 6
_DAY = r"(?:\d{4}[-/.]\d\d[-/.]\d\d[T ]|\d\d[-/.]\d\d[-/.]\d{4} |[A-Z][a-z]{2} [ \d]\d )"
_STAMP = rf"(?:{_DAY}?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?|\d{{10}}\.\d+)"
"""Also those of `ts`: the time alone, or seconds since 1970."""
_LEVEL = r"(?:DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL)"
_PREFIXES = tuple(
    re.compile(pattern)
    for pattern in (
        r'\{"log":"',  # docker's files
        _STAMP + r" (?:stdout|stderr) [FP] ",  # Kubernetes' files
        r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?P<host>[\w.-]+) [^\s\[:]+(?:\[\d+\])?: ",  # syslog, journald
        r"\[?" + _STAMP + r"(?:\] ?|[:,]? )",
        r"\[ *\d+\.\d{6}\] ",  # the kernel
        rf"\[{_LEVEL}\]:? |\| *{_LEVEL} *\| ",  # loggers
        r"(?P<host>[\w.…-]+) +(?P<rank>\d+|-) \| ",  # ncclrun
        r"(?P<host>[\w.-]+) +\| ",  # docker compose
        r"\[rank(?P<rank>\d+)\]: ?",  # torch
        r"\((?:[A-Za-z][\w.:]* pid=\d+|raylet)(?:, ip=(?P<host>[\w.:-]+))?\) ",  # Ray, vLLM
        r"(?:ERROR|WARNING|INFO|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[[\w./]+:\d+\] ",  # vLLM
        r"\[pod/[^\]]+\] ",  # kubectl logs --prefix
        r"\[[a-z]+\d+(?:\|\d+)?\]: ?",  # torchrun --tee: the local rank
        r"\[\d+,(?P<rank>\d+)\]<std(?:out|err|diag)>: ?",  # mpirun
        r"(?P<host>[\w.-]+):\d+:\d+ \[\d+\] ",  # NCCL
        r"(?P<rank>\d+): ",  # srun --label
        r"(?=[\w.-]*\d)(?![\w.-]*(?:Error|Exception|\.py))(?P<host>[a-z][\w.-]*|\d+(?:\.\d+){3}): ",  # pdsh, clush
    )
)
_IN_WORDS = re.compile(r"\[(?:PG [^\]]{0,60})?Rank (?P<rank>\d+)\]")
"""torch's own messages."""
_DOCKER_END = '\\n","stream":'


class Speaker(NamedTuple):
    """``host`` "" and ``rank`` None where the line does not say; ``rest`` is the line without all that."""

    host: str
    rank: int | None
    rest: str


def speaker(line: str) -> Speaker:
    """Takes the line's prefixes off, of whatever kinds and in whatever order they stand."""
    host, rank, at = "", None, 0
    for _ in range(MOST_PREFIXES):
        found = next((match for prefix in _PREFIXES if (match := prefix.match(line, at)) and match.end() > at), None)
        if found is None:
            break
        said = found.groupdict()
        host = host or (said.get("host") or "")
        if rank is None and (said.get("rank") or "-") != "-":
            rank = int(said["rank"])
        at = found.end()
    rest = line[at:]
    if line.startswith('{"log":"'):
        rest = rest.partition(_DOCKER_END)[0]
    if rank is None and (named := _IN_WORDS.search(rest)):
        rank = int(named["rank"])
    return Speaker(host, rank, rest)
