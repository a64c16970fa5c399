"""Lint of an environment, a script, YAML: the mistakes of each, and nothing of what is right there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncclrun.nccl.lint.dumps import lint_dump, lint_environment

PIECES = (
    *"={}[]|,:;#'\"\\ \t\r\n\n\x85\udcff",
    *("NCCL_DEBUG", "NCCL_ALGO=x", "export ", "- ", "env: ", "name: ", "value: ", "a: |\n ", "```", "&a ", "*a", "!x "),
    *("-e ", "-x ", "<<EOF", "EOF\n", "echo ", " > nccl.conf", "${X:-y}", "os.environ[", "\\\n", "(", ")", "~"),
)
"""What texts are made of that set variables, in any order."""


def found(text: str) -> list[tuple[int | None, str, str, str]]:
    return [(f.line, f.level, f.id, f.fix) for f in lint_dump(text, None, "env") if f.level != "info"]


class TestADumpOfAnEnvironment:
    def test_shows_quotes_that_a_tool_took_for_a_part_of_the_value(self) -> None:
        text = 'HOME=/root\nNCCL_DEBUG="INFO"\n'
        assert found(text) == [(2, "error", "quotes", "NCCL_DEBUG=INFO")]

    def test_shows_a_comment_that_came_along(self) -> None:
        assert found("HOME=/\nNCCL_DEBUG=INFO  # x\n") == [(2, "error", "inline_comment", "NCCL_DEBUG=INFO")]

    def test_has_what_nobody_expanded(self) -> None:
        assert [line[2] for line in found("HOME=/\nNCCL_TOPO_FILE=$HOME/t.xml\n")] == ["expansion"]

    def test_of_other_programs_is_not_looked_at(self) -> None:
        assert found('HOME=/\nPS1="$ "  # x\nDEBUG= 1\n') == []


@pytest.mark.parametrize(
    "text",
    [
        "export NCCL_DEBUG='INFO'  # quotes and comments are right here\n",
        'export NCCL_SOCKET_IFNAME="eth0" NCCL_DEBUG=INFO\n',
        "export NCCL_TOPO_FILE=$HOME/topo.xml\n",
        "env:\n  NCCL_DEBUG: 'INFO'  # right\n",
        "#!/bin/bash\nset -x\n#SBATCH -N 2\nNCCL_DEBUG=INFO srun python t.py\n",
        "ENV NCCL_DEBUG=INFO\n",
    ],
)
def test_what_is_right_there_is_not_accused(text: str) -> None:
    assert found(text) == []


def test_quotes_in_a_list_of_yaml_belong_to_the_value() -> None:
    text = 'environment:\n  - NCCL_DEBUG="INFO"\n'
    assert found(text) == [(2, "error", "quotes", "- NCCL_DEBUG=INFO")]


def test_an_environment_itself_has_no_lines() -> None:
    findings = lint_environment({"NCCL_DEBUG": "INFO ", "PATH": "/bin "}, None, "this shell")
    assert [(f.file, f.line, f.id, f.fix) for f in findings] == [
        ("this shell", None, "trailing_blank", "NCCL_DEBUG=INFO")
    ]


def test_a_conf_file_that_a_script_writes_is_read_as_nccl_reads_it() -> None:
    text = "cat > /etc/nccl.conf <<EOF\nNCCL_SOCKET_IFNAME=eth1  # my card\nexport NCCL_DEBUG=INFO\nEOF\n"
    assert found(text) == [
        (2, "error", "inline_comment", "NCCL_SOCKET_IFNAME=eth1"),
        (3, "error", "export", "NCCL_DEBUG=INFO"),
    ]


def test_a_line_that_echo_adds_to_a_conf_file_is_mended_where_it_stands() -> None:
    text = "echo NCCL_IB_DISABLE=true >> /etc/nccl.conf\n"
    assert found(text) == [(1, "error", "word_for_number", "echo NCCL_IB_DISABLE=1 >> /etc/nccl.conf")]


def test_blanks_around_the_equals_of_an_export_set_nothing() -> None:
    assert found("export NCCL_SOCKET_IFNAME = eth1\n") == [
        (1, "error", "blank_around_equals", "export NCCL_SOCKET_IFNAME=eth1")
    ]


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ('nccl: {env: {NCCL_IB_DISABLE: "true"}}', 'nccl: {env: {NCCL_IB_DISABLE: "1"}}'),
        ('{"NCCL_IB_DISABLE": "true", "A": 1}', '{"NCCL_IB_DISABLE": "1", "A": 1}'),
        ('os.environ["NCCL_IB_DISABLE"] = "true"', 'os.environ["NCCL_IB_DISABLE"] = "1"'),
        ('export NCCL_IB_DISABLE="${X:-true}"', 'export NCCL_IB_DISABLE="${X:-1}"'),
        ("NCCL_IB_DISABLE:\n  true\n", "1"),
        ("NCCL_IB_DISABLE: >-\n  true\n", ""),
    ],
)
def test_a_wrong_value_is_found_and_mended_in_every_kind_of_text(text: str, fix: str) -> None:
    assert [(level, id_, mended.strip('"')) for _, level, id_, mended in found(text)] == [
        ("error", "word_for_number", fix.strip('"'))
    ]


@given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join))
def test_any_text_is_read_to_its_end_and_findings_stand_on_its_lines(text: str) -> None:
    count = text.count("\n") + 1
    assert all(f.line is None or 1 <= f.line <= count for f in lint_dump(text, None, "x"))
