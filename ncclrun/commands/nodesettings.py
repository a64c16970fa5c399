"""The settings that a node's NCCL is to have, by the way that `nccl.deliver` names, and what NCCL makes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import TypeAdapter

from ncclrun.commands.answers import read_answer
from ncclrun.commands.control import Control
from ncclrun.commands.survey import ASK_TIMEOUT, WORKERS, Participant
from ncclrun.diagnosis.settings import NodeValues, node_values
from ncclrun.model.cluster import Deliver
from ncclrun.model.errors import NcclrunError
from ncclrun.model.netevents import NcclSays, Problem
from ncclrun.model.network import NcclAnswer
from ncclrun.model.plan import Variable
from ncclrun.model.settings import ConfFile, ConfRole
from ncclrun.nccl.conf import homes, in_force
from ncclrun.nccl.conf import parse as parse_conf
from ncclrun.nccl.lines import bootstrap_line
from ncclrun.nccl.version import NEWEST, Version, parse
from ncclrun.planning.delivery import Delivered, edited, hidden, missing, refusals
from ncclrun.planning.planner import as_sent
from ncclrun.planning.shown import run_settings
from ncclrun.transport.fleet import for_all

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
    path = ""
    if deliver in ("user", "system"):
        # Of two homes the library that is loaded decides, and it may be another than the facts tell of: where one of
        # the files holds all, NCCL itself says below whether it is the one that counts.
        found = [(file.path, _lacks(one, delivered, file, cluster)) for file in conf_files(one, deliver)]
        found.sort(key=lambda file: file[1] is not None)
        path, problem = found[0] if found else ("", missing(delivered.file, None, PLACES[deliver], cluster))
        refused += [problem] if problem is not None else []
    environment = delivered.environment
    if refused:
        environment, conf = (*environment, *delivered.file), None
    return Settings(environment, tuple(defaults), conf, delivered.file, path, deliver, tuple(refused))


def conf_files(one: Participant, deliver: Deliver) -> list[ConfFile]:
    """The files there that ``user`` or ``system`` may stand for on that node, the likeliest first."""
    roles: tuple[ConfRole, ...] = ("system",) if deliver == "system" else homes(parse(one.facts.python.nccl))
    found = [file for role in roles for file in one.facts.settings.conf_files if role in file.roles]
    return list(dict.fromkeys(found))


def _lacks(one: Participant, delivered: Delivered, file: ConfFile, cluster: str) -> Problem | None:
    """What is wrong with that file as the one that was pushed; None where it holds all."""
    if file.error:
        user = f"chmod a+r {file.path}   (as {file.owner or 'its owner'}, on {one.node.name})"
        return Problem(code="conf_unreadable", message=f"{file.path} can't be read: {file.error}", fix=user)
    version = parse(one.facts.python.nccl) or NEWEST
    holds = {setting.name: setting.value for setting in in_force(parse_conf(file.data, version))}
    lacks = missing(delivered.file, holds, file.path, cluster)
    # A push would be refused, where somebody edited what the last one wrote.
    by_hand = lacks and edited(delivered.file, file.data, file.path, one.node.name, cluster)
    return by_hand or lacks


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


def ask_all(
    asked: Mapping[int, tuple[Participant, Settings]], control: Control
) -> Iterator[tuple[int, NcclAnswer | NcclrunError]]:
    """What NCCL says on each of these nodes, by the caller's numbers, as the answers come. Raises Interrupted."""

    def question(_at: int, what: tuple[Participant, Settings]) -> NcclAnswer:
        return ask_nccl(*what)

    yield from for_all(asked, question, cancelled=control.stopped, workers=WORKERS)
    control.check()


def answer_told(one: Participant, agrees: bool | None, answer: NcclAnswer) -> NcclSays:
    """The answer as an event: of conf files it says which there are, not what stands in them, which may be secret."""
    bare = tuple(replace(file, text=None) for file in answer.conf_files)
    shown = replace(answer, conf_files=bare)
    return NcclSays(node=one.node.name, node_rank=one.node_rank, agrees=agrees, answer=shown)


def values_of(one: Participant, settings: Settings, answer: NcclAnswer, version: Version | None = None) -> NodeValues:
    """What NCCL goes by on a node with these settings, as far as its answer and the node's facts tell.

    ``version`` is taken for the node's own where it is given.
    """
    node = one.facts.settings
    if answer.conf_files:  # NCCL_CONF_FILE may be one of ours
        node = replace(node, conf_files=answer.conf_files)
    judged = version or parse(answer.version or one.facts.python.nccl)
    # Until it is delivered a run asks for it in the environment.
    filed = run_settings(variable for variable in settings.file if variable not in settings.environment)
    return node_values(one.node.name, run_settings(settings.environment), node, judged, filed)


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
