"""How a node's settings reach NCCL: which variables go into the environment and which into a conf file."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from ncclrun.model.cluster import Deliver
from ncclrun.model.effective import Effective
from ncclrun.model.errors import PlanError
from ncclrun.model.netevents import Problem
from ncclrun.model.plan import Variable
from ncclrun.model.secrets import value_shown
from ncclrun.model.settings import ConfFile
from ncclrun.model.words import listed
from ncclrun.nccl import block
from ncclrun.nccl.catalogue.names import find
from ncclrun.nccl.version import NAMED_CONF_SINCE, Version, shown

RUN_CONF = "nccl.conf"
"""Name of the conf file in the run directory (``file``)."""
RUN_CONF_SHOWN = f"(run directory)/{RUN_CONF}"
"""What stands for its path in a plan; the node puts the real one in its place."""
FILED = ("network", "nccl.env")
"""Origins of what holds for every run on the cluster; the others are one job's own."""
CONF_VARIABLE = "NCCL_CONF_FILE"
_RUN_NOTES = ("Written for one run. Below the block stands the file that NCCL would read if this one were not here.",)
_BY_ENVIRONMENT = "write  nccl: {deliver: env}  in the cluster file"


@dataclass(frozen=True)
class Delivered:
    """A node's variables, parted by the way they go."""

    environment: tuple[Variable, ...]
    file: tuple[Variable, ...]


def split(deliver: Deliver, variables: Sequence[Variable]) -> Delivered:
    """Which of a node's variables go into a conf file: NCCL's own, of the network choice and of `nccl.env`.

    What others than NCCL read stays in the environment, and so does what is one job's own (``--env``, `launch.env`).
    With ``file`` the environment gains NCCL_CONF_FILE, of the value RUN_CONF_SHOWN.
    """
    if deliver == "env":
        return Delivered(tuple(variables), ())
    file = tuple(variable for variable in variables if _goes_into_a_file(variable))
    environment = [variable for variable in variables if variable not in file]
    if deliver == "file":
        environment = [variable for variable in environment if variable.name != CONF_VARIABLE]
        environment.append(Variable(name=CONF_VARIABLE, value=RUN_CONF_SHOWN, origin="nccl.deliver"))
        environment.sort(key=lambda variable: variable.name)
    return Delivered(tuple(environment), file)


def _goes_into_a_file(variable: Variable) -> bool:
    """A name that nobody knows may be one that is looked for before NCCL reads its file: it stays where it works."""
    known = find(variable.name)
    named = variable.name.startswith("NCCL_") and variable.name != CONF_VARIABLE
    return variable.origin in FILED and named and known is not None and known.conf


def run_conf(file: Sequence[Variable], read: Sequence[ConfFile], node: str) -> bytes:
    """The conf file for the run directory: the settings, and below them the file in whose place NCCL reads it.

    ``read``: the files that NCCL would read on ``node`` without it, in order (nccl/conf.py: read_files). Raises
    PlanError where the first of them could not be read, for what stands in it would be lost to this run.
    """
    rest = b""
    if read and read[0].roles != ("system",):
        if read[0].error:
            raise PlanError(
                f"nccl.deliver: file takes the place of {read[0].path} on {node}, which can't be read: {read[0].error}",
                fix=_BY_ENVIRONMENT,
                nodes=(node,),
            )
        rest = read[0].data
    return block.put(rest, pairs(file), _RUN_NOTES)


def pairs(file: Sequence[Variable]) -> tuple[tuple[str, str], ...]:
    """(name, value) of each, as nccl/block.py takes them."""
    return tuple((variable.name, variable.value) for variable in file)


def refusals(deliver: Deliver, version: Version | None, file: Sequence[Variable]) -> tuple[Problem, ...]:
    """Why these settings can't go this way on a node with this NCCL; () where they can."""
    found = []
    if deliver == "file" and version is not None and version < NAMED_CONF_SINCE:
        found.append(
            Problem(
                code="conf_file_unread",
                message=f"NCCL {shown(version)} does not read $NCCL_CONF_FILE, which nccl.deliver: file needs:"
                f" {shown(NAMED_CONF_SINCE)} was the first to do so",
                fix=f"{_BY_ENVIRONMENT}, or  nccl: {{deliver: user}}",
            )
        )
    reasons = {variable.name: block.refusal(variable.name, variable.value) for variable in file}
    if deliver in ("user", "system"):
        for variable in file:
            reasons[variable.name] = reasons[variable.name] or _unfit_to_last(deliver, variable)
    found += [
        Problem(
            code="conf_unfit",
            message=f"{name} can't go into a conf file by nccl.deliver: {deliver}, because {reason}",
            fix=f"write it to launch.env instead of nccl.env in the cluster file, or {_BY_ENVIRONMENT}",
        )
        for name, reason in reasons.items()
        if reason
    ]
    return tuple(found)


def _unfit_to_last(deliver: Deliver, variable: Variable) -> str:
    """Why a variable may not stand in a file that outlives the run; "" where it may."""
    if variable.secret:
        return "it looks like a secret, and others may be able to read that file"
    if deliver == "user":
        return ""
    known = find(variable.name)
    if known is None or not known.conf:
        return "it is not known as a setting that NCCL reads from there, and the file is that of all users"
    if known.loads_code:
        return "it makes NCCL load code into the jobs of all users"
    if known.writes_files:
        return "it makes NCCL write files in the jobs of all users"
    return ""


def taken_out(delivered: Delivered, names: Collection[str]) -> Problem | None:
    """A warning for `nccl push` on what others have in the file (``names``) and this node's own `env` keeps out."""
    others = [one for one in delivered.environment if one.name in names and one.origin not in FILED]
    out = [one.name for one in others if _goes_into_a_file(replace(one, origin="nccl.env"))]
    if not out:
        return None
    return Problem(
        code="conf_left_out",
        level="warning",
        message=f"{listed(out)} is not put into its conf file, since launch.env, or the node's own env, has it:"
        " it stays in the environment of runs",
        fix=f"for the file, too: write {listed(out)} to nccl.env alone",
    )


def stays(delivered: Delivered) -> Problem | None:
    """A warning for `nccl push` on what of `nccl.env` can't stand in a conf file; None where all can."""
    names = [variable.name for variable in delivered.environment if variable.origin == "nccl.env"]
    if not names:
        return None
    return Problem(
        code="conf_left_out",
        level="warning",
        message=f"{listed(names)} of nccl.env can't stand in a conf file, where NCCL alone looks, and late",
        fix="nothing to do for runs by  ncclrun launch,  which set it in the environment; for others set it there, too",
    )


def missing(file: Sequence[Variable], holds: Mapping[str, str] | None, path: str, cluster: str) -> Problem | None:
    """The problem where a node's file does not hold what the plan wants in it; None where it does.

    ``holds``: the values that NCCL finds in that file alone; None: there is no such file. ``cluster`` is what `nccl
    push` is to be called with.
    """
    there = holds or {}
    differing = [variable for variable in file if there.get(variable.name) != variable.value]
    if not differing:
        return None
    lacking = [variable.name for variable in differing if variable.name not in there]
    if lacking:
        none = "there is no such file" if holds is None else f"it has no {listed(lacking)}"
        code, message = "conf_not_pushed", f"the settings are not in {path} yet: {none}"
    else:
        words = [f"{_line(v, there[v.name])}, not {value_shown(v.name, v.value, v.secret)}" for v in differing]
        code, message = "conf_differs", f"{path} has other settings than the plan: {listed(words)}"
    return Problem(code=code, message=message, fix=f"ncclrun nccl push {cluster}")


def edited(file: Sequence[Variable], data: bytes, path: str, node: str, cluster: str) -> Problem | None:
    """The problem where somebody changed our block in a node's file of these bytes; None where nobody did.

    A push would be refused for that. ``cluster`` as for `missing`.
    """
    changed = block.edited(data)
    if not changed:
        return None
    where = f"{path} on {node}"
    lines = block.difference(data, pairs(file))
    fix = f"ncclrun nccl push {cluster} --discard-edits   (the file as it is now is kept beside it)"
    return Problem(
        code="conf_edited",
        message="\n  ".join([f"{where}: {block.NOT_AS_IT_WAS}: {changed}", *lines]),
        fix=fix if block.is_whole(data) else block.by_hand(where),
    )


def hidden(file: Sequence[Variable], found: Mapping[str, Effective], path: str) -> tuple[Problem, ...]:
    """Warnings on settings of the conf file at ``path`` that do not count on a node, since others come first.

    ``found``: the node's effective values, those of the run's environment included.
    """
    problems = [
        _hides(variable, found[variable.name], path)
        for variable in file
        if variable.name in found
        and found[variable.name].source != path  # what it holds itself is for `missing` to judge
        and found[variable.name].value != variable.value
    ]
    if unread := [variable.name for variable in file if variable.name not in found]:
        problems.append(_unread(unread, found, path))
    return tuple(problems)


def _hides(variable: Variable, by: Effective, path: str) -> Problem:
    where = by.source if by.line is None else f"line {by.line} of {by.source}"
    what = _line(variable, by.value)
    empty = " (empty, it counts as not set)" if not by.value else ""
    return Problem(
        code="conf_hidden",
        level="warning",
        message=f"{what}{empty} from {where} hides {_line(variable, variable.value)}, which {path} has",
        fix=f"take {variable.name} out of {where}"
        if by.origin != "login"
        else f"take {what} out of {where}, log in anew",
    )


def _unread(names: Collection[str], found: Mapping[str, Effective], path: str) -> Problem:
    named = found.get(CONF_VARIABLE)
    reason = ""
    if named and named.value:
        reason = f": {CONF_VARIABLE}={named.value} from {named.source} has NCCL read another file"
    return Problem(
        code="conf_unread",
        level="warning",
        message=f"NCCL does not read {path} in this run{reason}; {listed(list(names))} of it does not count",
        fix=f"take {CONF_VARIABLE} out of {named.source}" if reason and named else _BY_ENVIRONMENT,
    )


def _line(variable: Variable, value: str) -> str:
    return f"{variable.name}={value_shown(variable.name, value, variable.secret)}"
