"""docs/findings has a page for each fault that is known, and says what the data says."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from ncclrun.diagnosis.checks.registry import KINDS
from ncclrun.diagnosis.explain.catalogue import ALL

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_finding_pages", DOCS / "finding_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_up_to_date(generator: ModuleType) -> None:
    there = {file.name: file.read_text(encoding="utf-8") for file in (DOCS / "findings").glob("*.md")}
    assert there == generator.pages(), "run: python docs/finding_pages.py"


def test_each_fault_has_one_with_symptom_cause_and_where_there_is_one_the_cure(generator: ModuleType) -> None:
    pages = generator.pages()
    for signature in ALL:
        text = pages[f"{signature.id}.md"]
        assert signature.sample.strip("\n") in text
        assert "## Cause\n" in text
        assert ("## Cure\n" in text) == bool(signature.cure)
    for name, kind in KINDS.items():
        assert kind.cure.strip("\n") in pages[f"{name}.md"]


def test_the_index_leads_to_all_of_them(generator: ModuleType) -> None:
    pages = generator.pages()
    linked = set(re.findall(r"\]\(([a-z0-9_-]+\.md)\)", pages["README.md"]))
    assert linked == set(pages) - {"README.md"}


def test_a_page_of_a_host_leads_to_what_logs_show_of_it_and_names_who_tells_it(generator: ModuleType) -> None:
    pages = generator.pages()
    assert (
        "In logs it shows as: [The limit of locked memory is too low for RDMA](ib-memlock.md)." in pages["memlock.md"]
    )
    assert "\n`ncclrun launch` tells it before a start" in pages["gpu_locked.md"]
