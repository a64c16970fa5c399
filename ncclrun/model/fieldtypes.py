"""Types of the cluster file's fields that a range or a pattern can't describe: each refuses in words for its reader."""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_interface
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema

from ncclrun.model.amounts import bytes_of
from ncclrun.model.target import check_host, parse_target

MAX_INTERFACE = 15
"""Longest name that Linux gives an interface (IFNAMSIZ less the closing NUL), in bytes."""
MAX_VALUE = 127 << 10
"""Longest value of a variable, in bytes: Linux starts no program with ``NAME=value`` of 128 KiB (MAX_ARG_STRLEN)."""


LEAST_LEASE = 3.0
"""Seconds: supervisors say a word each second, and a busy host may be late."""
LEAST_LOG = 1 << 20
"""Bytes: the disk gets whole blocks back, and less would say little."""


def _one_line(text: str) -> str:
    if not text.strip():
        raise ValueError("this is empty; write a value or take the line out")
    if not text.isprintable():
        raise ValueError(f"{text!r} holds a line break or another control character")
    return text


def _gateway(text: str) -> str:
    for hop in text.split(","):
        try:
            check_host(parse_target(hop.strip()).host)
        except ValueError as error:
            raise ValueError(f"{error}; a gateway is written [user@]host[:port]") from None
    return text


def _apart(user: str, host: str) -> str:
    """``host: box, user: root, port: 22``, each as a field of its own."""
    name, colon, port = host.rpartition(":")
    one_colon = colon and ":" not in name and port.isdigit()
    return f"host: {name if one_colon else host}, user: {user}" + (f", port: {port}" if one_colon else "")


def _host_pattern(text: str) -> str:
    target = text[1:-1] if re.fullmatch(r"\[[^\]]*:[^\]]*\]", text) else text  # brackets of an IPv6 literal
    if "@" in target:
        user, _, host = target.rpartition("@")
        raise ValueError(f"write user and host apart: {_apart(user, host)}")
    plain = re.sub(r"\[[^\[\]:]*\]", "0", target)  # a range stands for digits
    if "[" not in plain and "]" not in plain:  # what is wrong with a bracket is said where ranges expand
        check_host(plain)
    return target


def _address(text: str) -> str:
    try:
        address = ip_address(text)
    except ValueError:
        raise ValueError(_no_address(text)) from None
    if "%" in text:
        raise ValueError(f"write {text.partition('%')[0]} here and the interface as `interface: …`")
    if address.is_unspecified or address.is_multicast:
        raise ValueError(f"{text} is no address of one node")
    return str(address)


def _no_address(text: str) -> str:
    try:
        return f"{text!r} is a network; write the node's address alone: {ip_interface(text).ip}"
    except ValueError:
        return f"{text!r} is not an IP address such as 10.0.0.3 (names are not looked up here)"


def _interface(text: str) -> str:
    wildcard = next((mark for mark in "^=,*" if mark in text), None)
    if wildcard:
        raise ValueError(
            f"{text!r}: one plain interface name is wanted, such as eth1; NCCL's {wildcard!r} means nothing here"
        )
    too_long = len(text.encode("utf-8", "replace")) > MAX_INTERFACE
    if not text or too_long or re.search(r"[/:\s]", text) or text in (".", ".."):
        raise ValueError(
            f"{text!r} is no interface name: 1 to {MAX_INTERFACE} characters, without space, slash or colon"
        )
    return _one_line(text)


def _subnet(value: object) -> IPv4Network | IPv6Network:
    if isinstance(value, IPv4Network | IPv6Network):
        return value
    try:
        interface = ip_interface(value) if isinstance(value, str) and "/" in value else None
    except ValueError:
        interface = None
    if interface is None:
        raise ValueError(f"{value!r} is not a network such as 10.0.0.0/24")
    if interface.ip != interface.network.network_address:
        raise ValueError(f"{value} is an address in the network {interface.network}; write that")
    return interface.network


def _workdir(text: str) -> str:
    if not _one_line(text).startswith(("/", "~")):
        raise ValueError(f"{text!r} depends on where one stands; write a path that starts with / or ~")
    return text


def _env_value(text: str) -> str:
    if "\0" in text:
        raise ValueError("a variable can't hold a NUL byte")
    if len(text.encode("utf-8", "surrogatepass")) > MAX_VALUE:
        raise ValueError(f"a variable can't hold more than {MAX_VALUE >> 10} KiB; put this into a file")
    return text


def _lease(seconds: float) -> float:
    if 0 < seconds < LEAST_LEASE:
        raise ValueError(
            f"{seconds:g} s is too short to tell a busy host from a dead one; write 0 (off) or {LEAST_LEASE:g} and more"
        )
    return seconds


def _log_limit(text: str) -> str:
    size = bytes_of(text)
    if size is None:
        raise ValueError(f"{text!r} is no size such as 500M or 2GiB")
    if size < LEAST_LOG:
        raise ValueError(f"{text} is too little; 1MiB is the least")
    return text


def _distinct(gpus: tuple[int, ...]) -> tuple[int, ...]:
    twice = sorted({gpu for gpu in gpus if gpus.count(gpu) > 1})
    if twice:
        raise ValueError(f"GPU {twice[0]} is listed twice")
    return gpus


Auto = Literal["auto"]
Line = Annotated[str, AfterValidator(_one_line)]
Port = Annotated[int, Field(ge=1, le=65535)]
Seconds = Annotated[float, Field(ge=0, le=3600)]
Timeout = Annotated[float, Field(gt=0, le=600)]
Lease = Annotated[float, Field(ge=0, le=3600), AfterValidator(_lease)]
LogLimit = Annotated[str, AfterValidator(_log_limit)]
Gateway = Annotated[str, AfterValidator(_gateway)]
HostPattern = Annotated[str, AfterValidator(_host_pattern)]
Address = Annotated[str, AfterValidator(_address)]
Interface = Annotated[str, AfterValidator(_interface)]
Subnet = Annotated[IPv4Network | IPv6Network, PlainValidator(_subnet), WithJsonSchema({"type": "string"})]
Workdir = Annotated[str, AfterValidator(_workdir)]
Nproc = Annotated[int, Field(ge=1, le=1024)]
Gpus = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1), AfterValidator(_distinct)]
EnvName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
# Numbers are let in by the loader, which takes them as they are written (1.50 stays 1.50).
EnvValue = Annotated[str, AfterValidator(_env_value), WithJsonSchema({"type": ["string", "number"]})]
