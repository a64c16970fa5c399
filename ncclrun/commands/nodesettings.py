"""The settings that a node's NCCL is to have, by the way that `nccl.deliver` names, and what NCCL makes of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pydantic import TypeAdapter

from ncclrun.commands.answers import read_answer
from ncclrun.commands.survey import ASK_TIMEOUT, Participant
from ncclrun.diagnosis.settings import NodeValues, node_values
from ncclrun.model.netevents import NcclSays, Problem
from ncclrun.model.network import NcclAnswer
from ncclrun.model.plan import Variable
from ncclrun.model.settings import ConfFile
from ncclrun.nccl.conf import in_force
from ncclrun.nccl.conf import parse as parse_conf
from ncclrun.nccl.lines import bootstrap_line
from ncclrun.nccl.version import HOME_BY_VARIABLE_SINCE, NEWEST, parse
from ncclrun.planning.delivery import Deliver, Delivered, hidden, missing, refusals
from ncclrun.planning.planner import as_sent
from ncclrun.planning.shown import run_settings

_ANSWER = TypeAdapter(NcclAnswer)
PLACES = {"user": "~/.nccl.conf", "system": "/etc/nccl.conf"}
"""What is said of a file that is not there yet."""


@dataclass(frozen=True)
class Settings:
    """What a node's workers and its NCCL will be given, for the question to NCCL (as for `start`)."""

    environment: tuple[Variable, ...]
    defaults: tuple[Variable, ...] = ()
    conf: bytes | None = None
    """The conf file of the run directory, for `nccl.deliver: file`."""
    file: tuple[Variable, ...] = ()
    """What is to stand in the conf file ..."""
    path: str = ""
    """... of this path, for ``user`` and ``system``."""
    deliver: Deliver = "env"
    refused: tuple[Problem, ...] = ()
    """Why the settings can't reach NCCL this way, or have not yet: then ``environment`` holds all of them."""


def settings_of(
    one: Participant,
    deliver: Deliver,
    delivered: Delivered,
    cluster: str,
    *,
    defaults: Sequence[Variable] = (),
    conf: bytes | None = None,
) -> Settings:
    """The settings of one node; ``cluster`` is what `nccl push` is to be called with."""
    version = parse(one.facts.python.nccl)
    refused = list(refusals(deliver, version, delivered.file))
    file = conf_file(one, deliver)
    path = file.path if file is not None else ""
    if deliver in ("user", "system"):
        holds = None
        if file is not None and file.text is not None:
            holds = {s.name: s.value for s in in_force(parse_conf(file.data, version or NEWEST))}
        problem = missing(delivered.file, holds, path or PLACES[deliver], cluster)
        refused += [problem] if problem is not None else []
    environment = delivered.environment
    if refused:
        environment, conf = (*environment, *delivered.file), None
    return Settings(environment, tuple(defaults), conf, delivered.file, path, deliver, tuple(refused))


def conf_file(one: Participant, deliver: Deliver) -> ConfFile | None:
    """The file that ``user`` or ``system`` stand for on that node, if it is there."""
    version = parse(one.facts.python.nccl) or NEWEST
    home = "home" if version >= HOME_BY_VARIABLE_SINCE else "passwd_home"
    role = {"user": home, "system": "system"}.get(deliver)
    return next((file for file in one.facts.settings.conf_files if role in file.roles), None)


def ask_nccl(one: Participant, settings: Settings) -> NcclAnswer:
    """What NCCL itself says on a node with these settings. Raises NcclrunError where the node can't be asked."""
    answer = one.session.call(
        "nccl",
        timeout=ASK_TIMEOUT,
        python=one.facts.python.executable or one.node.launch.python,
        env=as_sent(settings.environment),
        defaults={variable.name: variable.value for variable in settings.defaults},
        unset=list(one.facts.stale),
        conf=None if settings.conf is None else settings.conf.decode("utf-8", "surrogateescape"),
    )
    told = read_answer(_ANSWER, {key: answer[key] for key in NcclAnswer.__dataclass_fields__ if key in answer})
    place = next(filter(None, map(bootstrap_line, reversed(told.lines))), None)
    return replace(told, interface=place.interface, address=place.address) if place else told


def answer_told(one: Participant, agrees: bool | None, answer: NcclAnswer) -> NcclSays:
    """The answer as an event: of conf files it says which there are, not what stands in them, which may be secret."""
    bare = tuple(replace(file, text=None) for file in answer.conf_files)
    shown = replace(answer, conf_files=bare)
    return NcclSays(node=one.node.name, node_rank=one.node_rank, agrees=agrees, answer=shown)


def values_of(one: Participant, settings: Settings, answer: NcclAnswer) -> NodeValues:
    """What NCCL goes by on a node with these settings, as far as its answer and the node's facts tell."""
    node = one.facts.settings
    if answer.conf_files:  # NCCL_CONF_FILE may be one of ours
        node = replace(node, conf_files=answer.conf_files)
    version = parse(answer.version or one.facts.python.nccl)
    # Until it is delivered it is asked for in the environment.
    filed = () if settings.refused else run_settings(settings.file)
    return node_values(one.node.name, run_settings(settings.environment), node, version, filed)


def delivery_problems(settings: Settings, values: NodeValues) -> Iterator[Problem]:
    """What keeps the settings from NCCL: the way is closed, nothing was pushed, or something else comes first."""
    if settings.refused:
        yield from settings.refused
        return
    # The library that answered may be another than the one that the training's Python has as a package.
    late = refusals(settings.deliver, values.version, settings.file)
    yield from late
    if settings.file and not late:
        yield from hidden(settings.file, values.values, settings.path)
