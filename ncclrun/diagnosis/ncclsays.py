"""Does NCCL itself take the interface of the plan? If not: which variable or file won over it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from ipaddress import ip_address, ip_network
from typing import NamedTuple

from ncclrun.model.events import Problem
from ncclrun.model.network import NcclAnswer
from ncclrun.model.plan import Endpoint, Variable
from ncclrun.nccl.lines import setting_line

PLACES = {
    "nccl.env": "`nccl.env` in the cluster file",
    "launch.env": "`launch.env` (or the node's `env`) in the cluster file",
    "forward_env": "`forward_env` in the cluster file",
}
LOGIN_FILES = "~/.bashrc ~/.profile ~/.bash_profile /etc/environment /etc/profile.d/*"
# With NCCL_COMM_ID NCCL looks for an interface in that subnet and does not read the other two.
DECIDING = ("NCCL_COMM_ID", "NCCL_SOCKET_IFNAME", "NCCL_SOCKET_FAMILY")


class Setting(NamedTuple):
    """A setting as NCCL has it: where it comes from, in words, and what takes it away."""

    name: str
    shown: str
    """Its value, or stars for a secret."""
    value: str
    source: str
    fix: str


def judge(
    node_name: str, endpoint: Endpoint, answer: NcclAnswer, environment: Sequence[Variable]
) -> tuple[bool | None, Problem | None]:
    """Whether NCCL would use the planned interface and address, and the problem if it would not.

    ``environment`` is the plan's. None: nobody knows, because the node has no libnccl that can be asked, or because
    that failed at the question (then with a warning).
    """
    if not answer.library:
        return None, None
    if answer.result is None:
        return None, _silent(node_name, answer)
    if not answer.interface and answer.result == 0:
        return None, None  # a version that words its line in a way that is not known here
    version = f"NCCL {answer.version} on {node_name}"
    if not answer.interface:
        said = f"{version} finds no interface that its settings allow (planned: {endpoint.interface})"
        return False, _blame("nccl_no_interface", said, node_name, endpoint, answer, environment)
    # An IPv4 address may carry a label: `eth0:1` is eth0.
    if answer.interface.split(":")[0] == endpoint.interface:
        if answer.address == endpoint.address:
            return True, None
        if (":" in answer.address) == (":" in endpoint.address):
            return _other_address(node_name, endpoint, answer)
    planned = f"the plan is {endpoint.interface} ({endpoint.address})"
    said = f"{version} takes {answer.interface} ({answer.address}); {planned}"
    return False, _blame("nccl_differs", said, node_name, endpoint, answer, environment)


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
            fix=f"sysctl -w net.ipv6.conf.{interface}.use_tempaddr=0   (on {node_name}, for runs of several days)",
        )
    return False, Problem(
        code="nccl_differs",
        message=said,
        fix=f"write  address: {taken}  to node {node_name} in the cluster file if the others reach it there; "
        f"else on that host:  ip address del {taken} dev {interface}",
    )


def _blame(
    code: str, said: str, node_name: str, endpoint: Endpoint, answer: NcclAnswer, environment: Sequence[Variable]
) -> Problem:
    for setting in _settings(node_name, answer, environment):
        if _decides(setting, endpoint, answer):
            message = f"{said}: {setting.name}={setting.shown} from {setting.source} decides it{_hint(setting)}"
            return Problem(code=code, message=message, fix=setting.fix)
    return Problem(
        code=code,
        message=f"{said}, though no setting is known that makes it do so",
        # NCCL compares with the address's label, where it has one, and can't be told it: a colon ends a name.
        fix="see whether the interface is up with its address, and that without a label of its own like"
        f" {endpoint.interface}:1:  ip address show dev {endpoint.interface}   (on {node_name})",
    )


def _decides(setting: Setting, endpoint: Endpoint, answer: NcclAnswer) -> bool:
    """Whether a setting leads away from the plan."""
    if setting.name == "NCCL_SOCKET_IFNAME":
        elsewhere = answer.interface.split(":")[0] != endpoint.interface
        return elsewhere and setting.value != f"={endpoint.interface}"
    if setting.name == "NCCL_SOCKET_FAMILY":
        return setting.value != ("AF_INET6" if ":" in endpoint.address else "AF_INET")
    return True


def _hint(setting: Setting) -> str:
    if not setting.value:
        return " (empty, it counts as not set and takes the place of the plan's)"
    if setting.name == "NCCL_SOCKET_IFNAME" and re.search(r"[\s#\"'*]", setting.value):
        return " (NCCL takes the value as it stands: blanks, quotes, comments and stars belong to the name)"
    return ""


def _settings(node_name: str, answer: NcclAnswer, environment: Sequence[Variable]) -> Iterator[Setting]:
    """What NCCL goes by, most deciding first. The environment wins over files, of two files and lines the first."""
    said = dict(found for found in map(setting_line, reversed(answer.lines)) if found is not None)
    planned = {variable.name: variable for variable in environment}
    for name in DECIDING:
        filed = [(file.path, value) for file in answer.conf_files for key, value in file.settings if key == name]
        if name in planned:
            if planned[name].value or name != "NCCL_COMM_ID":  # an empty one of these takes the place of the plan's own
                yield _from_plan(planned[name])
        elif filed and said.get(name, filed[0][1]).strip() == filed[0][1].strip():  # a CR at its end is not in the line
            path, value = filed[0]
            yield Setting(name, value, value, path, f"take the line {name}={value} out of {path} on {node_name}")
        elif name in said or (name == "NCCL_COMM_ID" and _wants_subnet(answer)):
            yield _from_login(node_name, name, said.get(name, "…"))


def _wants_subnet(answer: NcclAnswer) -> bool:
    """It failed in a way that only NCCL_COMM_ID brings about, before it said so."""
    return any("No usable listening interface" in line for line in answer.lines)


def _from_plan(variable: Variable) -> Setting:
    name, origin = variable.name, variable.origin
    place = PLACES.get(origin)
    fix = f"leave out  {origin} {name}=…" if origin.startswith("--") else f"take {name} out of {place or origin}"
    return Setting(name, "***" if variable.secret else variable.value, variable.value, place or origin, fix)


def _from_login(node_name: str, name: str, value: str) -> Setting:
    fix = f"take {name} out of the start-up files on {node_name}:  grep -n {name} {LOGIN_FILES}"
    return Setting(name, value, value, "the login environment", fix)
