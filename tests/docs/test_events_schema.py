"""docs/events.md and its schema say what the code says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("events_schema", DOCS / "events_schema.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("name", "function"), [("events.md", "page_text"), ("events.schema.json", "schema_text")])
def test_a_page_is_fresh(generator: ModuleType, name: str, function: str) -> None:
    written = (DOCS / name).read_text(encoding="utf-8")
    assert written == getattr(generator, function)(), f"stale: run python docs/events_schema.py to write docs/{name}"


def test_every_event_has_its_own_name(generator: ModuleType) -> None:
    names = [event["properties"]["event"]["const"] for event in generator.line_schema()["oneOf"]]
    assert len(names) == len(set(names)) == len(generator.classes())
