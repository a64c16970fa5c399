"""Lint of an environment, a script, YAML: the mistakes of each, and nothing of what is right there."""

from __future__ import annotations

import pytest

from ncclrun.nccl.lintdump import lint_dump, lint_environment


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
