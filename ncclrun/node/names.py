"""What this node's name service says, each question asked in a child of its own: a dead server hangs nobody else."""

from __future__ import annotations

import socket
import time
from typing import Any, Callable

from .tasks import Tasks

Question = Callable[[str], "list[str]"]
MOST_SECONDS = 30.0


def _forward(name: str) -> list[str]:
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]).split("%")[0] for entry in found))


def _reverse(address: str) -> list[str]:
    where = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)[0][4]
    return [socket.getnameinfo(where, socket.NI_NAMEREQD)[0]]


def _ask(question: Question, text: str) -> dict[str, Any]:
    begin = time.monotonic()
    try:
        answers, error = question(text), ""
    except (OSError, UnicodeError) as failure:  # gaierror is an OSError; a label of over 63 letters is the other
        answers, error = [], str(getattr(failure, "strerror", None) or failure)
    return {"question": text, "answers": answers, "seconds": time.monotonic() - begin, "error": error}


def ask(tasks: Tasks, addresses: list[str], limit: float, done: Callable[[dict[str, Any]], None]) -> None:
    """Calls ``done`` with the fields of model Names: gethostname() looked up, and the names of these addresses.

    All questions are asked at once; none takes longer than ``limit`` seconds.
    """
    hostname = socket.gethostname()
    questions: list[tuple[Question, str]] = [(_forward, hostname), *((_reverse, address) for address in addresses)]
    found: dict[int, dict[str, Any]] = {}

    def begin(number: int, question: Question, text: str) -> None:
        def answered(answer: dict[str, Any]) -> None:
            if not answer.pop("ok"):
                late = answer["error"]["code"] == "timeout"
                error = f"no answer within {limit:g} s" if late else str(answer["error"]["message"])
                answer = {"question": text, "answers": [], "seconds": limit if late else 0.0, "error": error}
            found[number] = answer
            if len(found) == len(questions):
                rest = [found[index] for index in range(1, len(questions))]
                done({"ok": True, "hostname": hostname, "forward": found[0], "reverse": rest})

        tasks.spawn(lambda: _ask(question, text), answered, limit)

    for number, (question, text) in enumerate(questions):
        begin(number, question, text)
