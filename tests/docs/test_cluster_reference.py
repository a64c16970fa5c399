"""docs/cluster.md says what the models say."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from ncclrun.planning.clusterfile import parse_cluster

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_up_to_date(generate: ModuleType) -> None:
    assert (DOCS / "cluster.md").read_text(encoding="utf-8") == generate.reference(), "run: python docs/generate.py"


def test_every_field_of_the_models_has_a_description(generate: ModuleType) -> None:
    for block in ((), ("ssh",), ("network",), ("nccl",), ("launch",), ("nodes", 0)):
        for row in generate.table(block).splitlines()[2:]:
            assert row.split("|")[-2].strip(), row


def test_the_examples_load() -> None:
    blocks = (DOCS / "cluster.md").read_text(encoding="utf-8").split("```yaml\n")[1:]
    examples = [block.split("```")[0] for block in blocks if "nodes:" in block]
    specs = [parse_cluster(example, "cluster.md") for example in examples]
    assert [len(spec.nodes) for spec in specs] == [2, 16]
