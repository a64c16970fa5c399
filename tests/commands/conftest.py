"""Servers for the commands that deal with keys."""

from __future__ import annotations

from tests.transport.conftest import lab, standin, transport

__all__ = ["lab", "standin", "transport"]
