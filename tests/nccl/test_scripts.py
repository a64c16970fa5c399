"""Lint of a shell's script: what no program sees of it, Windows' line ends, lists with blanks, prompts."""

from __future__ import annotations

import pytest

from ncclrun.nccl.lint.dumps import lint_dump
from ncclrun.nccl.lint.scripts import ScriptRun


def found(text: str, run: ScriptRun | None = "run") -> list[tuple[int | None, str, str, str]]:
    return [(f.line, f.level, f.id, f.fix) for f in lint_dump(text, None, "job", run) if f.level != "info"]


class TestWhatIsNotExported:
    @pytest.mark.parametrize(
        ("line", "fix"),
        [
            ("NCCL_P2P_DISABLE=1", "export NCCL_P2P_DISABLE=1"),
            ("  NCCL_P2P_DISABLE=1  # why", "export NCCL_P2P_DISABLE=1  # why"),
            ("A=1 NCCL_P2P_DISABLE=1", "export A=1 NCCL_P2P_DISABLE=1"),
            ("NCCL_P2P_DISABLE=1 && python t.py", "export NCCL_P2P_DISABLE=1 && python t.py"),
            ("if true; then NCCL_P2P_DISABLE=1; fi", "if true; then export NCCL_P2P_DISABLE=1; fi"),
            ("declare NCCL_P2P_DISABLE=1", "declare -x NCCL_P2P_DISABLE=1"),
        ],
    )
    def test_is_told_with_the_line_that_exports_it(self, line: str, fix: str) -> None:
        assert found(f"{line}\npython t.py\n") == [(1, "warning", "not_exported", fix)]

    def test_gets_one_line_with_all_corrections(self) -> None:
        assert found("NCCL_P2P_DISABLE=yes\n") == [
            (1, "error", "word_for_number", "export NCCL_P2P_DISABLE=1"),
            (1, "warning", "not_exported", "export NCCL_P2P_DISABLE=1"),
        ]

    @pytest.mark.parametrize(
        "text",
        [
            "set -a\nNCCL_P2P_DISABLE=1\n",
            "set -o allexport\nNCCL_P2P_DISABLE=1\n",
            "NCCL_P2P_DISABLE=1\nexport OTHER NCCL_P2P_DISABLE\n",
            "declare -x NCCL_P2P_DISABLE\nNCCL_P2P_DISABLE=1\n",
            "export NCCL_P2P_DISABLE=0\nNCCL_P2P_DISABLE=1\n",
            "NCCL_P2P_DISABLE=1\nexport ${!NCCL_@}\n",
            "NCCL_P2P_DISABLE=1 python t.py\n",
            "NCCL_P2P_DISABLE=1 \\\n  python t.py\n",
            "NCCL_P2P_DISABLE=1\nmpirun -x NCCL_P2P_DISABLE=$NCCL_P2P_DISABLE ./a\n",
            "vars=(\n  NCCL_P2P_DISABLE=1\n)\n",
            "cat > job.env <<EOF\nNCCL_P2P_DISABLE=1\nEOF\n",
            "docker run -e NCCL_P2P_DISABLE=1 image\n",
            "declare -x NCCL_P2P_DISABLE=1\n",
        ],
    )
    def test_is_no_matter_where_a_job_sees_it_all_the_same(self, text: str) -> None:
        assert found(text) == []

    @pytest.mark.parametrize("run", [None, "perhaps"])
    def test_is_right_in_a_list_of_variables(self, run: ScriptRun | None) -> None:
        assert found("NCCL_P2P_DISABLE=1\n", run) == []


class TestLineEndsOfWindows:
    def test_belong_to_the_value(self) -> None:
        text = "export NCCL_DEBUG=INFO\r\nNCCL_ALGO=Ring python t.py\r\nexport NCCL_PROTO=LL  # x\r\n"
        assert found(text, "perhaps") == [(1, "error", "cr", "export NCCL_DEBUG=INFO")]
        assert lint_dump(text, None, "job", "run")[0].value == "INFO\r"

    def test_do_a_number_no_harm(self) -> None:
        assert found("export NCCL_P2P_DISABLE=1\r\n") == []

    def test_are_taken_away_by_those_who_read_other_texts(self) -> None:
        assert found("NCCL_DEBUG=INFO\r\n", None) == []


class TestAListWithBlanks:
    def test_ends_at_the_first_for_a_shell(self) -> None:
        for written in ("eth0, eth1", "eth0 , eth1", "eth0 ,eth1"):
            assert found(f"export NCCL_SOCKET_IFNAME={written}  # x\n") == [
                (1, "error", "blank_in_value", 'export NCCL_SOCKET_IFNAME="eth0,eth1"  # x')
            ]

    @pytest.mark.parametrize(
        "line", ["export NCCL_SOCKET_IFNAME=eth0 OTHER", "export NCCL_SOCKET_IFNAME=eth0; ls", "export NCCL_ALGO=Ring,"]
    )
    def test_is_another_thing_than_a_second_name(self, line: str) -> None:
        assert [one for one in found(line) if one[2] == "blank_in_value"] == []

    def test_in_quotes_is_one_value(self) -> None:
        assert [one[2] for one in found('export NCCL_SOCKET_IFNAME="eth0, eth1"\n')] == ["blank_in_list"]


@pytest.mark.parametrize(
    "prompt", ["$ ", "  $ ", "> ", "user@gpu1:~$ ", "[me@gpu1 src]$ ", "root@gpu1:/etc# ", "(venv) $ ", "% "]
)
@pytest.mark.parametrize("line", ["NCCL_DEBUG=VERBOSE python t.py", "export NCCL_DEBUG=VERBOSE"])
def test_a_prompt_in_front_of_a_command_hides_nothing(prompt: str, line: str) -> None:
    mended = prompt.strip() + " " + line.replace("VERBOSE", "INFO")
    assert found(f"{prompt}{line}\n", None) == [(1, "error", "debug_silent", mended)]


def test_a_comment_is_no_prompt_of_root() -> None:
    assert found("# NCCL_DEBUG=VERBOSE python t.py\n") == []


class TestWhatIsTakenBack:
    def test_has_no_finding(self) -> None:
        assert found("export NCCL_IB_DISABLE=true\nmake\nunset OTHER NCCL_IB_DISABLE\n") == []

    def test_has_one_where_it_is_set_again(self) -> None:
        text = "export NCCL_IB_DISABLE=true\nunset NCCL_IB_DISABLE\nexport NCCL_IB_DISABLE=yes\n"
        assert [line for line, *_ in found(text)] == [3]

    def test_in_another_block_of_a_document_is_another_matter(self) -> None:
        text = "Do\n```\nexport NCCL_IB_DISABLE=true\n```\nand then\n```\nunset NCCL_IB_DISABLE\n```\n"
        assert [line for line, *_ in found(text, None)] == [3]
