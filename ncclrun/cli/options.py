"""Options and arguments that several commands take."""

from __future__ import annotations

import typer

asked_for_json = False
"""Whether errors that come before the events are to be told as JSON too; known while the options are read."""


def _note_json(asked: bool) -> bool:
    global asked_for_json  # noqa: PLW0603  # one command line a process
    asked_for_json = asked
    return asked


HOSTS = typer.Option("--hosts", help="Hosts in place of CLUSTER: a,b,user@c:2222,gpu[1-4].", metavar="LIST")
NODES = typer.Option("--nodes", help="Only these nodes: names, ranges, indexes, !x to leave out.", metavar="SEL")
JSON = typer.Option("--json", help="One JSON event a line on stdout.", callback=_note_json)
ASK_PASS = typer.Option("--ask-pass", help="Ask once for the SSH password of all hosts (or set NCCLRUN_SSH_PASSWORD).")
OPEN_RUN = typer.Argument(metavar="[RUN]", help="Run id; by default the last that has not ended.")
HTML = typer.Option("--html", help="Write all of it as one self-contained page.", metavar="FILE", dir_okay=False)
STALL = typer.Option(
    "--stall", help="When no rank has printed for so long (90s, 10m, 1h): say where each one waits.", metavar="TIME"
)
STALL_ACTION = typer.Option("--stall-action", help="What else to do then; stop: exit code 123.", metavar="report|stop")
CLUSTER = typer.Argument(help="Cluster file (YAML) or hostfile.", metavar="CLUSTER", show_default=False)
RUN_CLUSTER = typer.Option(
    "--cluster", help="Ask the nodes of this cluster: for a run that another machine started.", metavar="FILE"
)
