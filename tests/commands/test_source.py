"""A cluster is found where the user says, or the error says what to do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ncclrun.commands.source import load_cluster
from ncclrun.model.errors import SpecError, UsageError


def test_yaml_is_read_whatever_its_ending(tmp_path: Path) -> None:
    file = tmp_path / "hosts.txt"
    file.write_text("nodes: [a, b]\n")
    spec = load_cluster(str(file), None)
    assert ([node.name for node in spec.nodes], spec.source) == (["a", "b"], str(file))


def test_a_hostfile_is_read_whatever_its_ending(tmp_path: Path) -> None:
    file = tmp_path / "hosts.yaml"
    file.write_bytes(b"\xef\xbb\xbfa slots=2\nb slots=2\n")
    assert [node.launch.nproc_per_node for node in load_cluster(str(file), None).nodes] == [2, 2]


def test_hosts_take_the_place_of_a_file() -> None:
    assert [node.host for node in load_cluster(None, "gpu[1-2]").nodes] == ["gpu1", "gpu2"]


@pytest.mark.parametrize(("cluster", "hosts", "words"), [("c.yaml", "a", "both"), (None, None, "no cluster")])
def test_exactly_one_source_is_wanted(cluster: str | None, hosts: str | None, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        load_cluster(cluster, hosts)
    assert caught.value.fix


def test_a_missing_file_names_its_like(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text("")
    with pytest.raises(UsageError, match="there is no file") as caught:
        load_cluster(str(tmp_path / "clustr.yaml"), None)
    assert caught.value.fix == f"Did you mean {tmp_path / 'cluster.yaml'}?"


def test_a_missing_file_in_a_missing_directory_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load_cluster(str(tmp_path / "none" / "c.yaml"), None)
    assert caught.value.fix == f"There is no directory {tmp_path / 'none'} either."


def test_a_directory_names_the_file_in_it(tmp_path: Path) -> None:
    (tmp_path / "lab.yml").write_text("")
    with pytest.raises(UsageError, match="is a directory") as caught:
        load_cluster(str(tmp_path), None)
    assert str(tmp_path / "lab.yml") in caught.value.fix


@pytest.mark.skipif(os.name != "posix" or not Path("/proc/self/mem").exists(), reason="needs Linux's /proc")
def test_a_file_that_can_not_be_read_says_why() -> None:
    with pytest.raises(UsageError, match="can't be read"):
        load_cluster("/proc/self/mem", None)  # refuses a read at offset 0, to root as well


def test_a_name_that_is_no_file_name_says_so() -> None:
    with pytest.raises(UsageError, match="can't be read"):
        load_cluster("a\0b", None)


@pytest.mark.parametrize("line", [b"gpu1 slots=8\n", b"nodes: [a]\n"])
def test_a_file_over_one_mebibyte_is_refused(tmp_path: Path, line: bytes) -> None:
    file = tmp_path / "big"
    file.write_bytes(line * (2 * (1 << 20) // len(line)))
    with pytest.raises(SpecError, match="larger than 1 MiB"):
        load_cluster(str(file), None)


def test_a_file_that_is_not_utf8_says_where(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_bytes(b"nodes: [\xff]\n")
    with pytest.raises(SpecError, match=":1:9: this is not UTF-8"):
        load_cluster(str(file), None)
