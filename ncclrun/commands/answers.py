"""Nodes' answers as data: what makes no sense is said of the host, and goes no further."""

from __future__ import annotations

from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from ncclrun.model.errors import HostError

_T = TypeVar("_T")


def read_answer(adapter: TypeAdapter[_T], value: object, what: str = "what it says of the network makes") -> _T:
    """Raises HostError where ``value`` is not what the adapter knows; ``what`` begins that sentence."""
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        raise HostError("protocol", f"{what} no sense: {error}") from error
