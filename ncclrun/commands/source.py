"""Where a cluster comes from: the file that the user named (YAML or hostfile), or `--hosts`."""

from __future__ import annotations

import shlex
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from ncclrun.model.cluster import ClusterSpec
from ncclrun.model.errors import UsageError
from ncclrun.planning.clusterfile import parse_cluster
from ncclrun.planning.hostfile import is_hostfile, parse_hostfile, parse_hosts
from ncclrun.planning.strictyaml import MAX_BYTES


def load_cluster(cluster: str | None, hosts: str | None) -> ClusterSpec:
    """The cluster of the file ``cluster`` or of the list ``hosts``, whichever is given.

    Its ``source`` is the word or words of the command line that name it, for the commands that messages propose.

    Raises UsageError where not exactly one of them is, or the file can't be read; SpecError for what is wrong in it.
    """
    if cluster is not None and hosts is not None:
        raise UsageError(f"both a cluster file ({cluster}) and --hosts are given", fix="Leave one of them out.")
    if hosts is not None:
        return replace(parse_hosts(hosts, "--hosts"), source=f"--hosts {shlex.quote(hosts)}")
    if not cluster:
        raise UsageError("no cluster is given", fix="Name a cluster file, or list the hosts: --hosts gpu1,gpu2")
    return replace(_from_file(cluster), source=shlex.quote(cluster))


def _from_file(cluster: str) -> ClusterSpec:
    content = _read(Path(cluster))
    if cluster.endswith(".py"):
        raise UsageError(f"{cluster} is a script, not a cluster file", fix="ncclrun launch CLUSTER SCRIPT [ARGS]…")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return parse_cluster(content, cluster)  # says where
    # By content: DeepSpeed's hostfiles have no ending, and MPI's have any.
    if len(content) <= MAX_BYTES and is_hostfile(text):
        return parse_hostfile(text, cluster)
    return parse_cluster(content, cluster)


def _read(path: Path) -> bytes:
    """The file's content; of one that is too large no more than it takes to see that."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}", fix=near_misses(path)) from None
    except IsADirectoryError:
        inside = sorted(item.name for item in path.iterdir() if item.suffix in (".yaml", ".yml"))
        fix = f"Did you mean {path / inside[0]}?" if inside else "Name the cluster file in it."
        raise UsageError(f"{path} is a directory", fix=fix) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the name
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{path} can't be read: {reason}", fix="Check the file and its permissions.") from error


def near_misses(path: Path, endings: tuple[str, ...] = (".yaml", ".yml")) -> str:
    """What may have been meant by a path to no file: a name that is near, else some files with these ``endings``."""
    folder = path.parent
    if not folder.is_dir():
        return f"There is no directory {folder} either."
    try:
        names = sorted(item.name for item in folder.iterdir() if item.is_file())
    except PermissionError:
        return f"The directory {folder} can't be listed."
    close = get_close_matches(path.name, names, n=3) or [name for name in names if name.endswith(endings)][:3]
    return f"Did you mean {' or '.join(str(folder / name) for name in close)}?" if close else "Check the path."
