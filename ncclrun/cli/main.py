"""The command line as a whole: its commands, and the one place for errors and exit codes."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Annotated, Any

import typer

from ncclrun.cli import options
from ncclrun.cli.access import keys, trust
from ncclrun.cli.doctor import doctor
from ncclrun.cli.explain import explain
from ncclrun.cli.launch import LaunchCommand, launch
from ncclrun.cli.nccl import app as nccl
from ncclrun.cli.network import ping, resolve
from ncclrun.cli.runs import attach, logs, stop
from ncclrun.cli.status import clean, runs, status

app = typer.Typer(
    name="ncclrun",
    help="Start one distributed training job on several GPU machines over SSH, and nothing else.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def schema() -> None:
    """Print the JSON schema of the cluster file."""
    import json as json_module

    from ncclrun.commands.schema import cluster_schema
    from ncclrun.console.output import Output

    Output(sys.stdout).write(json_module.dumps(cluster_schema(), indent=2) + "\n")


def version(show: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False) -> None:
    """What is common to all commands."""
    if show:
        from ncclrun.commands.ownversion import own_version

        typer.echo(f"ncclrun {own_version()}")
        raise typer.Exit


app.callback(invoke_without_command=True)(version)
app.command(cls=LaunchCommand)(launch)
app.add_typer(nccl, name="nccl")
for command in (doctor, ping, resolve, status, runs, logs, explain, attach, stop, clean, trust, keys, schema):
    app.command()(command)


def main() -> None:
    """The entry point: every error that a user may meet becomes a message and an exit code here, and nowhere else."""
    from ncclrun.model.errors import NcclrunError

    _open_what_is_closed()
    try:
        code = app(standalone_mode=False)
    except NcclrunError as error:
        code = error.exit_code
        if not isinstance(error.__cause__, BrokenPipeError):  # `| head` has seen what it wanted
            _tell(error.message, error.fix)
            _tell_programs(error.message, error.fix, code, asked=options.asked_for_json)
    except _WRONG_WORDS as error:
        code = error.exit_code
        error.show()
        # Words that can't be told apart: `--json` may be one of the script's, and then it does no harm.
        _tell_programs(error.format_message(), "", code, asked="--json" in sys.argv)
    except typer.Abort:
        code = 130
    sys.exit(code if isinstance(code, int) else 0)


# typer's own refusal of a command line: its class is click's in older versions and typer's own in newer ones.
_WRONG_WORDS: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def _open_what_is_closed() -> None:
    """Gives a standard stream that the caller closed (`>&-`) its number back, before a connection takes it."""
    import os

    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
            setattr(sys, name, open(number, "r" if name == "stdin" else "w", closefd=False))  # noqa: SIM115


def _tell_programs(message: str, fix: str, code: int, *, asked: bool) -> None:
    """The same for who reads `--json`: an `error`, and the `end` with which every output closes."""
    if not asked:
        return
    from ncclrun.console.jsonl import json_lines
    from ncclrun.console.output import Output, OutputClosed
    from ncclrun.model.endevents import Ended
    from ncclrun.model.events import Failure

    failure = Failure(message=message, fix=fix, exit_code=code)
    end = Ended(run_id="", exit_code=code, reason=message.split("\n", maxsplit=1)[0], seconds=0.0)
    with suppress(OutputClosed):  # stderr has it
        Output(sys.stdout).write(json_lines(failure) + json_lines(end))


def _tell(message: str, fix: str) -> None:
    from ncclrun.console.notes import problem, render

    sys.stderr.write(render(problem("error", message, fix), colors=sys.stderr.isatty()))
