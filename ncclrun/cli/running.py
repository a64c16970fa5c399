"""What every command needs to run: the cluster, the way to it, signals, and a view of its events."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import typer

if TYPE_CHECKING:
    from ncclrun.commands.control import Control
    from ncclrun.model.cluster import ClusterSpec
    from ncclrun.model.events import Event
    from ncclrun.transport.base import Transport

LEAVE_LEVEL = 3
"""The press that leaves (``Control.level``)."""
LEAVE_SECONDS = 5.0
"""From that press until the process ends without having said what is left where."""


def find_cluster(cluster: str | None, hosts: str | None, nodes: str | None) -> ClusterSpec:
    from ncclrun.commands.options import only_nodes
    from ncclrun.commands.source import load_cluster

    return only_nodes(load_cluster(cluster, hosts), nodes)


def width(stream: TextIO) -> int | None:
    """Columns of the terminal that this is; None for a pipe or a file, where nothing is folded."""
    import shutil

    return shutil.get_terminal_size().columns if stream.isatty() else None


@contextmanager
def open_transport(ask_pass: bool, cluster: ClusterSpec | None) -> Iterator[Transport]:
    import os

    from ncclrun.transport.fleet import make_transport

    password = os.environ.get("NCCLRUN_SSH_PASSWORD")
    if ask_pass:
        from ncclrun.console.access import ask_password

        password = ask_password()
    transport = make_transport(password, cluster=cluster.source if cluster else "CLUSTER")
    try:
        yield transport
    finally:
        transport.close()


@contextmanager
def signals(*, asks: bool = False, json: bool = False) -> Iterator[Control]:
    """Ctrl-C and SIGTERM ask for a stop; a closed terminal (SIGHUP) leaves the run going.

    With ``asks`` a Ctrl-C at a terminal first asks whether the run is to go on; what is pressed then counts as without.
    Once the verdict is there they change nothing any more: the exit code is the run's. What the caller ignores stays
    ignored: `nohup`, and Ctrl-C for a shell's background job.
    """
    import os
    import threading

    from ncclrun.commands.control import Control
    from ncclrun.model.errors import EXIT_INTERRUPTED

    control = Control()
    asker = None
    if asks:
        from ncclrun.cli.asking import Asker
        from ncclrun.console.view import is_live

        asker = Asker(control, footer=not json and is_live(sys.stdout, sys.stderr))

    def interrupt(*_: object) -> None:
        if asker is None or not asker.interrupted():
            stop()

    def stop(*_: object) -> None:
        control.press()
        if control.level == LEAVE_LEVEL:
            # Who wants to leave does so, also when a terminal that takes nothing (Ctrl-S) or a dead link holds us up.
            leaving = threading.Timer(LEAVE_SECONDS, os._exit, [EXIT_INTERRUPTED])
            leaving.daemon = True
            leaving.start()

    def leave(*_: object) -> None:
        control.detach = True

    handlers = {signal.SIGINT: interrupt, signal.SIGTERM: stop, signal.SIGHUP: leave}
    heard = {number: handler for number, handler in handlers.items() if signal.getsignal(number) != signal.SIG_IGN}
    for number, handler in heard.items():
        signal.signal(number, handler)
    try:
        yield control
    finally:
        for number in heard:
            signal.signal(number, signal.SIG_IGN)
        if asker is not None:
            asker.close()


class Page:
    """The events of a command as a page (`--html`), if there is to be one."""

    def __init__(self, path: Path | None, title: str) -> None:
        self._path = path
        self._title = title
        self._events: list[Event] = []
        if path is not None:
            from ncclrun.console.page import PAGE

            PAGE.refuse_unwritable(path)

    def add(self, event: Event) -> None:
        """Takes one event."""
        if self._path is not None:
            self._events.append(event)

    def write(self) -> None:
        """Writes the file, if there is one to write."""
        if self._path is not None:
            from ncclrun.console.page import write_page

            write_page(self._path, self._title, self._events)


def show(
    events: Iterator[Event],
    control: Control,
    *,
    json: bool,
    ranks: str | None = None,
    plan: bool = False,
    unread: bool = False,
    aside: bool = False,
    page: Page | None = None,
) -> None:
    """Shows every event and leaves with the exit code of the last one; see ``tell``."""
    code = tell(events, control, json=json, ranks=ranks, plan=plan, unread=unread, aside=aside, page=page)
    raise typer.Exit(code or 0)


def tell(
    events: Iterator[Event],
    control: Control,
    *,
    json: bool,
    ranks: str | None = None,
    plan: bool = False,
    unread: bool = False,
    aside: bool = False,
    page: Page | None = None,
) -> int | None:
    """Shows every event; the exit code of the one that ends the command, None where the command goes on.

    A reader who takes nothing does not keep a Ctrl-C from being heard (``control``). ``unread``: what the command does
    goes on when nobody reads our output any more (``| head``). ``aside``: all that people read goes to stderr, and
    stdout has the id of the run that was started, alone. ``page`` takes the events too and is written when they end.
    """
    from ncclrun.console.keyboard import QUESTION
    from ncclrun.console.output import Output, OutputClosed, OutputStuck
    from ncclrun.console.view import make_view
    from ncclrun.model.endevents import Ended

    code, started = None, ""
    aside = aside and not json
    view = make_view(
        sys.stderr if aside else sys.stdout,
        sys.stderr,
        json=json,
        ranks=ranks,
        plan=plan,
        hurry=control.stopped,
        prompt=lambda: QUESTION if control.asking else "",
    )
    with suppress(OutputStuck), closing(view):
        for event in events:
            if page is not None:
                page.add(event)
                if isinstance(event, Ended):
                    page.write()  # before the end is told: a page that can't be written is an end of its own
            try:
                view.show(event)
            except OutputStuck as error:
                with suppress(OutputClosed):  # stderr may be the same terminal
                    Output(sys.stderr, control.stopped).write(f"warning: {error}\n")
            except OutputClosed:
                if not unread:
                    raise
            if isinstance(event, Ended):
                code, started = event.exit_code, event.run_id if event.directory else ""
    if aside and started:
        Output(sys.stdout).write(f"{started}\n")
    return code


def may_clean(control: Control, *, json: bool) -> bool:
    """Whether the person at the terminal, who has just been told of them, wants leftovers of dead runs ended."""
    from ncclrun.console.output import Output
    from ncclrun.console.question import agreed

    if json or control.stopped():
        return False
    return agreed("End exactly these processes, and start?", Output(sys.stderr)) and not control.stopped()
