"""`ncclrun nccl lint`: what is wrong with settings, and the line as it should be."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ncclrun.cli.options import ASK_PASS, HOSTS, NODES
from ncclrun.cli.running import find_cluster, open_transport, signals, width

if TYPE_CHECKING:
    from ncclrun.commands.lint import Linted
    from ncclrun.nccl.version import Version

TARGET = typer.Argument(
    metavar="[FILE|CLUSTER|-]",
    help="A conf file, a cluster file, or - for a conf file on standard input; by default this machine's own.",
    show_default=False,
)
# Not the option of the other commands: this prints one list and no events, also where it fails.
AS_JSON = typer.Option("--json", help="One JSON list of all findings on stdout.")


def lint(
    target: Annotated[str | None, TARGET] = None,
    env: Annotated[
        str | None,
        typer.Option("--env", help="An environment's dump, a script or YAML; - for standard input.", metavar="FILE|-"),
    ] = None,
    fix: Annotated[bool, typer.Option("--fix", help="Put the file right; the old one is kept beside it.")] = False,
    nccl_version: Annotated[
        str | None, typer.Option("--nccl-version", help="Judge for this NCCL; by default for all.", metavar="V")
    ] = None,
    hosts: Annotated[str | None, HOSTS] = None,
    nodes: Annotated[str | None, NODES] = None,
    json: Annotated[bool, AS_JSON] = False,
    ask_pass: Annotated[bool, ASK_PASS] = False,
) -> None:
    """What NCCL really sees of its settings, and the line as it should be.

    Exit code 1 if there is an error, 2 if there is nothing to look at, 255 if a node can't be reached.
    """
    from ncclrun.commands.lint import exit_code, not_done
    from ncclrun.console.lint import as_json, as_text
    from ncclrun.console.output import Output
    from ncclrun.model.errors import NcclrunError

    out = Output(sys.stdout)
    try:
        version = _version(nccl_version)
        if fix and target == "-":
            _mended_stdin(version, json=json)
        texts = _texts(target, env, version, _Cluster(hosts, nodes, ask_pass), fix=fix)
    except NcclrunError as error:
        if json and not (fix and target == "-"):  # programs get their list in any case
            out.write(as_json([not_done(error, target or env or "")]))
        raise
    out.write(as_json(texts) if json else as_text(texts, colors=sys.stdout.isatty(), width=width(sys.stdout)))
    raise typer.Exit(exit_code(texts))


class _Cluster(NamedTuple):
    """Options that say which nodes are meant, and how they are reached."""

    hosts: str | None
    nodes: str | None
    ask_pass: bool


def _texts(
    target: str | None, env: str | None, version: Version | None, cluster: _Cluster, *, fix: bool
) -> list[Linted]:
    import os

    from ncclrun.commands import lint as command
    from ncclrun.model.errors import UsageError

    if fix and target is None:
        raise UsageError("--fix wants the conf file that is to be put right", fix="ncclrun nccl lint --fix FILE")
    if target == env == "-":
        raise UsageError("standard input can be read once", fix="name a file in place of one -")
    texts: list[Linted] = []
    data = b"" if target is None else _stdin() if target == "-" else command.read(target)
    if cluster.hosts is not None or (target not in (None, "-") and command.is_cluster_file(str(target), data)):
        if fix:
            raise UsageError("--fix puts one conf file right, on this machine", fix="ncclrun nccl lint --fix FILE")
        texts += _of_cluster(target, data, cluster, version)
    elif target == "-":
        texts.append(command.lint_text(data, version))
    elif target is not None:
        texts.append(command.lint_file(target, data, version, fix=fix))
    if env is not None:
        other = _stdin() if env == "-" else command.read(env)
        texts.append(command.lint_other(other, version, command.STDIN if env == "-" else env))
    return texts or list(command.lint_here(os.environ, version))


def _stdin() -> bytes:
    from ncclrun.commands.lint import read_stdin

    return read_stdin(None if sys.stdin is None else sys.stdin.buffer)


def _of_cluster(target: str | None, data: bytes, cluster: _Cluster, version: Version | None) -> list[Linted]:
    """The cluster file, and what its nodes have of their own."""
    import os

    from ncclrun.commands import lint as command
    from ncclrun.commands.lintcluster import lint_cluster
    from ncclrun.model.errors import SpecError

    try:
        spec = find_cluster(target, cluster.hosts, cluster.nodes)
    except SpecError as error:
        if target is None:
            raise
        return [command.cluster_file(error, data, version, target)]
    texts = [] if target is None else [command.lint_other(data, version, target)]
    with signals() as control, open_transport(cluster.ask_pass, spec) as transport:
        return texts + lint_cluster(spec, transport, control, os.environ, version)


def _mended_stdin(version: Version | None, *, json: bool) -> None:
    """The corrected text goes to stdout, and what is left to say to stderr."""
    from ncclrun.commands.lint import STDIN, exit_code, lint_text, refuse_others
    from ncclrun.console.lint import as_text
    from ncclrun.console.output import Output
    from ncclrun.model.errors import UsageError
    from ncclrun.nccl.lint.mend import mend

    if json:
        raise UsageError("`--fix -` writes the file to stdout, where --json would be too", fix="leave one of them out")
    before = _stdin()
    refuse_others(STDIN, before)
    after = mend(before, version)
    sys.stdout.buffer.write(after)
    sys.stdout.flush()
    text = lint_text(after, version)
    Output(sys.stderr).write(as_text([text], colors=sys.stderr.isatty(), width=width(sys.stderr)))
    raise typer.Exit(exit_code([text]))


def _version(text: str | None) -> Version | None:
    from ncclrun.model.errors import UsageError
    from ncclrun.nccl.version import parse

    version = None if text is None else parse(text)
    if text is not None and version is None:
        raise UsageError(f"--nccl-version {text} is no version of NCCL", fix="--nccl-version 2.27.5")
    return version
