"""Hostfiles and lists of hosts, and how a hostfile is told from a cluster file."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncclrun.model.cluster import ClusterSpec
from ncclrun.model.errors import SpecError
from ncclrun.planning.hostfile import is_hostfile, parse_hostfile, parse_hosts

DEEPSPEED = "# my cluster\nworker-1 slots=4\n\n  worker-2 slots=8  # the big one\n"
OPENMPI = "aa slots=2 max_slots=4\nme@bb slots = 1 max-slots= 1\ncc\n"
MPICH = "host1:2\nhost2\n[fd00::1]:4\nfd00::2\n"


def summary(spec: ClusterSpec) -> list[tuple[str, str | None, int | None, object]]:
    return [(node.name, node.ssh.user, node.ssh.port, node.launch.nproc_per_node) for node in spec.nodes]


class TestAHostfile:
    @pytest.mark.parametrize(
        ("text", "nodes"),
        [
            (DEEPSPEED, [("worker-1", None, None, 4), ("worker-2", None, None, 8)]),
            (OPENMPI, [("aa", None, None, 2), ("bb", "me", None, 1), ("cc", None, None, "auto")]),
            (
                MPICH,
                [
                    ("host1", None, None, 2),
                    ("host2", None, None, "auto"),
                    ("fd00::1", None, None, 4),
                    ("fd00::2", None, None, "auto"),
                ],
            ),
            ("gpu[1-2] slots=2\r\n", [("gpu1", None, None, 2), ("gpu2", None, None, 2)]),
            ("localhost slots=1\nlocalhost slots=2\n", [("localhost", None, None, 1), ("localhost-1", None, None, 2)]),
        ],
    )
    def test_of_any_kind_is_read(self, text: str, nodes: list[tuple[str, str | None, int | None, object]]) -> None:
        assert is_hostfile(text)
        assert summary(parse_hostfile(text, "hostfile")) == nodes

    @pytest.mark.parametrize(
        ("text", "line", "column", "words"),
        [
            ("a slots=0\n", 1, 3, "from 1 to 1024"),
            ("a slots=x\n", 1, 3, "'x' slots"),
            ("a slots=\n", 1, 3, "'' slots"),
            ("a:0\n", 1, 1, "from 1 to 1024"),
            ("a:2 slots=2\n", 1, 5, "twice; behind a colon are slots too"),
            ("a\nb cores=2\n", 2, 3, "'cores=2' is not understood"),
            ("a\nb\na\n", 3, 1, "at line 1, column 1 already; list each host once"),
            ("@a\n", 1, 1, "no user stands before the @"),
            ("me@ slots=2\n", 1, 1, "no host in 'me@'"),
            ("a$(id)\n", 1, 1, "is not a host"),
            ("g[2-1]\n", 1, 1, "runs backwards"),
            ("# none\n", 1, 1, "no host stands in this file"),
        ],
    )
    def test_with_a_fault_says_where(self, text: str, line: int, column: int, words: str) -> None:
        with pytest.raises(SpecError) as caught:
            parse_hostfile(text, "hostfile")
        (problem,) = caught.value.problems
        assert (problem.line, problem.column, problem.path) == (line, column, "")
        assert words in problem.message

    def test_with_several_faults_says_them_all(self) -> None:
        with pytest.raises(SpecError) as caught:
            parse_hostfile("a slots=0 cores=1\n-b\na\n", "hostfile")
        assert [(p.line, p.column) for p in caught.value.problems] == [(1, 3), (1, 11), (2, 1), (3, 1)]


class TestAListOfHosts:
    def test_has_users_ports_and_ranges(self) -> None:
        spec = parse_hosts("a, me@b:2222,gpu[08-09],[fd00::1]:33,fd00::2")
        assert spec.source == "--hosts"
        assert summary(spec) == [
            ("a", None, None, "auto"),
            ("b", "me", 2222, "auto"),
            ("gpu08", None, None, "auto"),
            ("gpu09", None, None, "auto"),
            ("fd00::1", None, 33, "auto"),
            ("fd00::2", None, None, "auto"),
        ]

    def test_may_name_one_host_with_several_ports(self) -> None:
        assert [node.name for node in parse_hosts("box:1,box:2").nodes] == ["box-1", "box-2"]

    @pytest.mark.parametrize(
        ("text", "column", "words"),
        [
            ("", 1, "a host is wanted"),
            ("a,,b", 3, "a host is wanted"),
            ("a,b,", 5, "a host is wanted"),
            ("a,b:0", 3, "the port in 'b:0'"),
            ("a,a", 3, "stands at line 1, column 1 already"),
            ("a,gpu[1-", 3, "no partner"),
            ("a,b c", 3, "is not a host"),
            ("a,\udcff", 3, "is not UTF-8"),
            ("ssh://me@a:22", 1, "write me@a:22 without ssh://"),
            ("a," + "b" * 300, 3, "more than 253 characters"),
            ("a,..", 3, "is not a host"),
        ],
    )
    def test_with_a_fault_says_where(self, text: str, column: int, words: str) -> None:
        with pytest.raises(SpecError) as caught:
            parse_hosts(text)
        (problem,) = caught.value.problems
        assert (problem.line, problem.column) == (1, column)
        assert words in problem.message


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("gpu1 slots=2\ngpu2 4\n", 2, "after the host stands `slots=N`"),
        ("gpu1, gpu2\n", 1, "is not a host"),
        ("10.0.0.1 gpu1\n", 1, "'gpu1' is not understood"),
    ],
)
def test_what_was_meant_as_a_hostfile_is_told_as_one(text: str, line: int, words: str) -> None:
    assert is_hostfile(text)
    with pytest.raises(SpecError) as caught:
        parse_hostfile(text, "hosts")
    assert caught.value.problems[0].line == line
    assert words in caught.value.problems[0].message


@pytest.mark.parametrize(
    "text",
    ["", "# c\n", "nodes: [a]", "nodes:\n- a\n", "---\nnodes: [a]\n", "- a\n", "{nodes: [a]}", '"nodes": [a]'],
)
def test_yaml_is_no_hostfile(text: str) -> None:
    assert not is_hostfile(text)


@settings(deadline=None)
@given(st.text(alphabet="ab1:=@[]-,# \n", max_size=40))
def test_any_text_is_read_or_refused_with_a_place(text: str) -> None:
    for parse in (parse_hostfile, parse_hosts):
        try:
            assert parse(text, "x").nodes
        except SpecError as error:
            assert all(problem.line >= 1 and problem.column >= 1 for problem in error.problems)
