"""Does NCCL itself take the interface of the plan? If not: which variable or file won over it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from ipaddress import ip_address, ip_network
from typing import NamedTuple

from ncclrun.model.netevents import Problem
from ncclrun.model.network import NcclAnswer
from ncclrun.model.plan import Endpoint, Variable
from ncclrun.model.secrets import value_shown
from ncclrun.model.settings import Mention
from ncclrun.model.words import listed
from ncclrun.nccl.conf import homes, in_force, parse, read_files
from ncclrun.nccl.effective import login_setting
from ncclrun.nccl.lines import setting_line
from ncclrun.nccl.version import NEWEST, Version
from ncclrun.nccl.version import parse as parse_version

LOGIN_FILES = "~/.bashrc ~/.profile ~/.bash_profile /etc/environment /etc/profile.d/*"
NODE = "{node}"
DIFFERS = ("nccl_differs", "nccl_no_interface")
"""Codes of problems that tell what NCCL takes in place of the plan's."""
# With NCCL_COMM_ID NCCL looks for an interface in that subnet and does not read the other two.
CONF_VARIABLE = "NCCL_CONF_FILE"
DECIDING = ("NCCL_COMM_ID", "NCCL_SOCKET_IFNAME", "NCCL_SOCKET_FAMILY")


class Cause(NamedTuple):
    """A setting that leads NCCL elsewhere: where it comes from, in words, and what takes it away."""

    name: str
    shown: str
    """Its value, or stars for a secret."""
    value: str
    source: str
    fix: str
    """With NODE for the nodes that have it."""


class Asked(NamedTuple):
    """What NCCL was asked on a node, and what it said; ``environment`` is the plan's."""

    node_name: str
    endpoint: Endpoint
    answer: NcclAnswer
    environment: Sequence[Variable]
    mentions: Sequence[Mention] = ()
    """Lines of the node's start-up files that name a variable."""


def judge(asked: Asked) -> tuple[bool | None, Problem | None]:
    """Whether NCCL would use the planned interface and address, and the problem if it would not.

    None: nobody knows, because the node has no libnccl that can be asked, or because that failed at the question (then
    with a warning).
    """
    known = _without_difference(asked)
    return (False, _against([asked])) if known is None else known


def problems(asked: Sequence[Asked]) -> list[Problem | None]:
    """For each of these what is wrong there: where one setting decides it on several, that is one problem of all."""
    found: list[Problem | None] = []
    causes: dict[tuple[object, ...], list[int]] = {}
    for at, one in enumerate(asked):
        known = _without_difference(one)
        found.append(None if known is None else known[1])
        if known is None:
            setting = _deciding(one)
            cause = (at,) if setting is None else (setting.name, setting.shown, setting.source)
            causes.setdefault((bool(one.answer.interface), *cause), []).append(at)
    for places in causes.values():
        common = _against([asked[at] for at in places])
        found = [common if at in places else problem for at, problem in enumerate(found)]
    return found


def _without_difference(asked: Asked) -> tuple[bool | None, Problem | None] | None:
    """The judgement where NCCL takes the planned interface, or nobody knows; None where it takes another or none."""
    node_name, endpoint, answer = asked[:3]
    if not answer.library:
        return None, None
    if answer.result is None:
        return None, _silent(node_name, answer)
    if not answer.interface and answer.result == 0:
        return None, None  # a version that words its line in a way that is not known here
    # An IPv4 address may carry a label: `eth0:1` is eth0.
    if answer.interface.split(":")[0] == endpoint.interface:
        if answer.address == endpoint.address:
            return True, None
        if (":" in answer.address) == (":" in endpoint.address):
            return _other_address(node_name, endpoint, answer)
    return None


def _against(asked: Sequence[Asked]) -> Problem:
    """It takes another interface than planned on these nodes, or none, all for one reason."""
    name, endpoint, answer = asked[0][:3]
    names, setting = listed([one.node_name for one in asked]), _deciding(asked[0])
    code = "nccl_differs" if answer.interface else "nccl_no_interface"
    if not answer.interface:
        planned = listed(list(dict.fromkeys(one.endpoint.interface for one in asked)))
        said = f"finds no interface that its settings allow (planned: {planned})"
    elif len(asked) == 1:
        said = f"takes {answer.interface} ({answer.address}); the plan is {endpoint.interface} ({endpoint.address})"
    else:
        each = [
            f"on {n} {a.interface} {a.address} instead of {e.interface} {e.address}"
            for n, e, a in (one[:3] for one in asked)
        ]
        said = f"takes other interfaces than planned ({listed(each)})"
    message = f"NCCL {answer.version} {said}" if len(asked) > 1 else f"NCCL {answer.version} on {name} {said}"
    if setting is not None:
        decided = f"{setting.name}={setting.shown} from {setting.source} decides it{_hint(setting)}"
        return Problem(code=code, message=f"{message}: {decided}", fix=setting.fix.replace(NODE, names))
    if unread := _in_the_other_home(answer):
        return Problem(
            code=code,
            message=f"{message}: {unread}, which has the settings, is not read by it",
            fix="put them where it looks:  ncclrun nccl push CLUSTER",
        )
    return Problem(
        code=code,
        message=f"{message}, though no setting is known that makes it do so",
        # NCCL compares with the address's label, where it has one, and can't be told it: a colon ends a name.
        fix="see whether the interface is up with its address, and that without a label of its own like"
        f" {endpoint.interface}:1:  ip address show dev {endpoint.interface}   (on {name})",
    )


def _deciding(asked: Asked) -> Cause | None:
    """The setting that leads away from the plan; None if none is known."""
    settings = _settings(asked)
    return next((one for one in settings if _decides(one, asked.endpoint, asked.answer)), None)


def repeats(told: Problem, against: Problem) -> bool:
    """Whether a warning on a setting that is hidden, or not read, tells what leads NCCL elsewhere as well."""
    if against.code not in DIFFERS:
        return False
    if told.code == "conf_unread":
        return f" {CONF_VARIABLE}=" in against.message or "is not read by it" in against.message
    return told.code == "conf_hidden" and f" {told.message.partition('=')[0]}=" in against.message


def _silent(node_name: str, answer: NcclAnswer) -> Problem:
    return Problem(
        code="nccl_broken",
        level="warning",
        message=f"{answer.library} was asked which interface it would use, and {answer.error}",
        fix=f"the training on {node_name} would load this file: reinstall its package, or set launch.python to another",
    )


def _other_address(node_name: str, endpoint: Endpoint, answer: NcclAnswer) -> tuple[bool, Problem]:
    """NCCL takes the first address of an interface and knows no setting for another."""
    interface, planned, taken = endpoint.interface, endpoint.address, answer.address
    said = f"NCCL {answer.version} on {node_name} takes {taken} of {interface}, its first address, and not {planned}"
    # Privacy extensions (RFC 4941) put a passing address before the lasting one; both lead to the same wire.
    if ":" in taken and ip_address(taken) in ip_network(f"{planned}/64", strict=False):
        return True, Problem(
            code="nccl_temporary_address",
            level="warning",
            message=f"{said}: harmless until that one expires (a temporary address lasts some days)",
            fix=f"sudo sysctl -w net.ipv6.conf.{interface}.use_tempaddr=0   (on {node_name}, for runs of several days)",
        )
    out = f"on {node_name}, if nothing needs that one:  sudo ip address del {taken} dev {interface}"
    # Without a wish the plan would have it, if the others reached it.
    wished = endpoint.why == "the cluster file names the address"
    return False, Problem(
        code="nccl_differs",
        message=said,
        fix=f"write  address: {taken}  to {node_name} in the cluster file, if the others reach it there;\nor {out}"
        if wished
        else out,
    )


def _decides(setting: Cause, endpoint: Endpoint, answer: NcclAnswer) -> bool:
    """Whether a setting leads away from the plan."""
    if setting.name == "NCCL_SOCKET_IFNAME":
        elsewhere = answer.interface.split(":")[0] != endpoint.interface
        return elsewhere and setting.value != f"={endpoint.interface}"
    if setting.name == "NCCL_SOCKET_FAMILY":
        return setting.value != ("AF_INET6" if ":" in endpoint.address else "AF_INET")
    return True


def _hint(setting: Cause) -> str:
    if not setting.value:
        return " (empty, it counts as not set and takes the place of the plan's)"
    if setting.name == CONF_VARIABLE:
        return " (NCCL reads that file alone in place of ~/.nccl.conf, also where it is not there)"
    if setting.name == "NCCL_SOCKET_IFNAME" and re.search(r"[\s#\"'*]", setting.value):
        return " (NCCL takes the value as it stands: blanks, quotes, comments and stars belong to the name)"
    return ""


def _settings(asked: Asked) -> Iterator[Cause]:
    """What NCCL goes by, most deciding first. The environment wins over files, of two files and lines the first."""
    answer = asked.answer
    said = dict(found for found in map(setting_line, reversed(answer.lines)) if found is not None)
    planned = {variable.name: variable for variable in asked.environment}
    for name in DECIDING:
        filed = list(_filed(answer, name))
        if name in planned:
            if planned[name].value or name != "NCCL_COMM_ID":  # an empty one of these takes the place of the plan's own
                yield _from_plan(planned[name])
        elif filed and said.get(name, filed[0][1]).strip() == filed[0][1].strip():  # a CR at its end is not in the line
            path, value = filed[0]
            yield Cause(name, value, value, path, f"take the line {name}={value} out of {path} on {NODE}")
        elif name in said or (name == "NCCL_COMM_ID" and _wants_subnet(answer)):
            yield _from_login(name, said.get(name, "…"), asked.mentions)
    if "NCCL_SOCKET_IFNAME" not in planned and not any(_filed(answer, "NCCL_SOCKET_IFNAME")):
        # The plan has it in a file that is not read.
        named = next((file for file in read_files(answer.conf_files, _version(answer)) if "named" in file.roles), None)
        if named is not None and CONF_VARIABLE in planned:
            yield _from_plan(planned[CONF_VARIABLE])
        elif named is not None:
            yield _from_login(CONF_VARIABLE, named.path, asked.mentions)


def _version(answer: NcclAnswer) -> Version:
    return parse_version(answer.version) or NEWEST


def _in_the_other_home(answer: NcclAnswer) -> str:
    """The .nccl.conf that names an interface in the one of two homes where this NCCL does not look; "" for none."""
    version = _version(answer)
    read = read_files(answer.conf_files, version)
    homely = [file for file in answer.conf_files if homes(version)[1] in file.roles and file not in read]
    named = [file.path for file in homely for one in parse(file.data, version) if one.name == "NCCL_SOCKET_IFNAME"]
    return named[0] if named and not any(_filed(answer, "NCCL_SOCKET_IFNAME")) else ""


def _filed(answer: NcclAnswer, name: str) -> Iterator[tuple[str, str]]:
    """The conf files that this NCCL reads and that set a variable, the deciding one first: path and value."""
    version = _version(answer)
    for file in read_files(answer.conf_files, version):
        yield from ((file.path, one.value) for one in in_force(parse(file.data, version)) if one.name == name)


def _wants_subnet(answer: NcclAnswer) -> bool:
    """It failed in a way that only NCCL_COMM_ID brings about, before it said so."""
    return any("No usable listening interface" in line for line in answer.lines)


def _from_plan(variable: Variable) -> Cause:
    name, origin = variable.name, variable.origin
    fix = f"leave out  {origin} {name}=…" if origin.startswith("--") else f"take {name} out of {variable.place}"
    return Cause(name, value_shown(name, variable.value, variable.secret), variable.value, variable.place, fix)


def _from_login(name: str, value: str, mentions: Sequence[Mention]) -> Cause:
    known = login_setting(name, value, mentions)
    source = f"{known.file}:{known.line}" if known.line else f"the {known.file}"
    fix = f"take {name} out of {known.file}, line {known.line}, on {NODE}"
    if not known.line:
        fix = f"take {name} out of the start-up files on {NODE}:  grep -n {name} {LOGIN_FILES}"
    return Cause(name, value, value, source, fix)
