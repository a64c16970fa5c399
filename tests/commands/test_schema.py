"""The schema that editors get agrees with the loader."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest
import yaml

from ncclrun.commands.schema import cluster_schema
from ncclrun.planning.fields import field_at, keys_at, wanted

FULL = """
name: lab
ssh: {user: ubuntu, port: 22, gateway: me@bastion:22, host_keys: accept-new, connect_timeout: 10}
network: {interface: auto, subnet: 10.0.0.0/24, family: ipv4}
nccl: {deliver: env, env: {NCCL_DEBUG: WARN, NCCL_IB_DISABLE: 1}}
launch: {nproc_per_node: auto, master_port: 29500, grace: 30, env: {OMP_NUM_THREADS: 8}, forward_env: [WANDB_API_KEY]}
nodes:
  - gpu1
  - {host: 10.0.0.7, name: b, port: 2222, address: 10.77.0.3, nproc_per_node: 2, gpus: [0, 1], env: {X: y}}
"""


@pytest.fixture(scope="module")
def validator() -> Any:
    # by name, as this library has no types of its own
    return importlib.import_module("jsonschema").Draft202012Validator(cluster_schema())


def test_it_is_a_valid_schema_in_json(validator: Any) -> None:
    validator.check_schema(json.loads(json.dumps(cluster_schema())))


def test_it_takes_a_full_file(validator: Any) -> None:
    assert list(validator.iter_errors(yaml.safe_load(FULL))) == []


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "nodes: []",
        "nodes: [1]",
        "nodes: [{name: a}]",
        "{nodes: [a], prt: 1}",
        "{nodes: [{host: a, prt: 1}]}",
        "{nodes: [a], ssh: {port: '22'}}",
        "{nodes: [a], ssh: {user: null}}",
        "{nodes: [a], launch: {nproc_per_node: all}}",
        "{nodes: [a], launch: {env: {A: true}}}",
        "{nodes: [a], launch: {env: {A-B: x}}}",
    ],
)
def test_it_refuses_what_the_loader_refuses(validator: Any, text: str) -> None:
    assert list(validator.iter_errors(yaml.safe_load(text)))


def test_each_call_gives_a_schema_of_its_own() -> None:
    cluster_schema()["properties"].clear()
    assert "nodes" in cluster_schema()["properties"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (("ssh", "port"), "a whole number from 1 to 65535"),
        (("ssh", "connect_timeout"), "a number above 0, at most 600"),
        (("ssh", "forward_agent"), "true or false"),
        (("launch", "nproc_per_node"), "a whole number from 1 to 1024, or auto"),
        (("nodes", 3, "gpus"), "a list, each item a whole number, at least 0"),
        (("nodes", 0), "text, or a mapping of fields"),
        (("launch", "env"), "a mapping of names to values"),
        (("launch", "env", "A"), "text"),
    ],
)
def test_words_say_what_a_field_takes(path: tuple[str | int, ...], words: str) -> None:
    field = field_at(path)
    assert field is not None
    assert wanted(field) == words


def test_a_field_that_is_not_there_has_no_schema() -> None:
    assert field_at(("ssh", "prt")) is None
    assert field_at(("ssh", "prt", "x")) is None
    assert keys_at(("nope",)) == ()
