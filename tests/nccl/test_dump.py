"""Settings found in what is no conf file; other variables, comments and texts in quotes are passed over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncclrun.nccl.dump import is_environment, read
from ncclrun.nccl.found import Found, rewritten


def pairs(text: str) -> list[tuple[str, str]]:
    return [(found.name, found.value) for found in read(text).settings]


class TestAnEnvironment:
    TEXT = 'PATH=/bin\nNCCL_DEBUG=INFO\nNCCL_IB_HCA="mlx5_0"  # x\nHOME=/root\nMY_NCCL=1\n'

    def test_is_read_as_it_is_quotes_and_all(self) -> None:
        assert pairs(self.TEXT) == [("NCCL_DEBUG", "INFO"), ("NCCL_IB_HCA", '"mlx5_0"  # x')]

    def test_is_told_from_a_script(self) -> None:
        assert is_environment(self.TEXT)
        assert not is_environment("#!/bin/sh\nPATH=/bin\n")
        assert not is_environment("NCCL_DEBUG=INFO\n")

    def test_of_a_process_has_no_lines(self) -> None:
        found = read("PATH=/bin\0NCCL_DEBUG=INFO\0TORCH_X=a\nb\0").settings
        assert [(one.name, one.value, one.line) for one in found] == [
            ("NCCL_DEBUG", "INFO", None),
            ("TORCH_X", "a\nb", None),
        ]


SETS = [
    ("export NCCL_DEBUG=INFO", "INFO"),
    ("  export NCCL_DEBUG='INFO'  # why", "INFO"),
    ('declare -x NCCL_DEBUG="INFO"', "INFO"),
    ('bash -c "NCCL_DEBUG=INFO python train.py"', "INFO"),
    ("export OMP_NUM_THREADS=8 NCCL_DEBUG=INFO", "INFO"),
    ("NCCL_DEBUG=INFO python train.py --x=1", "INFO"),
    ("A=1 NCCL_DEBUG=INFO srun python train.py", "INFO"),
    ("if true; then NCCL_DEBUG=INFO; fi", "INFO"),
    ("mpirun -np 2 -x PATH -x NCCL_DEBUG=INFO -x NCCL_IB_HCA ./a", "INFO"),
    ("docker run --rm -e NCCL_DEBUG=INFO image", "INFO"),
    ('docker run --env "NCCL_DEBUG=INFO" image', "INFO"),
    ("docker run --env=NCCL_DEBUG=INFO image", "INFO"),
    ("#SBATCH --export=ALL,NCCL_DEBUG=INFO,OTHER=1", "INFO"),
    ("env NCCL_DEBUG=INFO ./a", "INFO"),
    ("ENV NCCL_DEBUG=INFO OTHER=1", "INFO"),
    ("ENV NCCL_DEBUG INFO", "INFO"),
    ("setenv NCCL_DEBUG INFO", "INFO"),
    ("  NCCL_DEBUG: INFO", "INFO"),
    ('  NCCL_DEBUG: "INFO"  # why', "INFO"),
    ("  NCCL_DEBUG: 'INFO'", "INFO"),
    ('  "NCCL_DEBUG": "INFO",', "INFO"),
    ("  - NCCL_DEBUG=INFO", "INFO"),
    ('  - "NCCL_DEBUG=INFO"', "INFO"),
    ('  - NCCL_DEBUG="INFO"', '"INFO"'),
    ('            "NCCL_DEBUG=INFO",', "INFO"),
    ('["PATH=/bin","NCCL_DEBUG=INFO"]', "INFO"),
    ("[PATH=/bin NCCL_DEBUG=INFO]", "INFO"),
    ("- name: NCCL_DEBUG\n  value: INFO", "INFO"),
    ('- name: "NCCL_DEBUG"\n  value: "INFO"', "INFO"),
    ('- {name: NCCL_DEBUG, value: "INFO"}', "INFO"),
]


@pytest.mark.parametrize(("text", "value"), SETS)
def test_every_way_to_set_a_variable_is_seen(text: str, value: str) -> None:
    assert pairs(f"#!\n{text}\n") == [("NCCL_DEBUG", value)]


PASSED_OVER = [
    "# export NCCL_DEBUG=INFO",
    "export OMP_NUM_THREADS=8  # NCCL_DEBUG=INFO",
    "export NCCL_DEBUG",
    "unset NCCL_DEBUG",
    "echo NCCL_DEBUG=INFO",
    'echo "NCCL_DEBUG=INFO"',
    "grep NCCL_DEBUG=INFO log",
    "mpirun -x NCCL_DEBUG ./a",
    'if [ "$NCCL_DEBUG" = INFO ]; then',
    "- name: NCCL_DEBUG\n  valueFrom: {configMapKeyRef: {name: x}}",
    "NCCL_DEBUG:",
    "NCCL_DEBUG: |",
    "MY_NCCL_DEBUG=INFO",
    "export NCCL_DEBUG='IN",
]


@pytest.mark.parametrize("text", PASSED_OVER)
def test_what_sets_nothing_is_passed_over(text: str) -> None:
    assert pairs(f"{text}\n") == []


@pytest.mark.parametrize(
    "text",
    [
        "export NCCL_X=$IF",
        'export NCCL_X="${IF}0"',
        "NCCL_X=$(ip route | head)",
        "NCCL_X=`cat x`",
        "  NCCL_X: ${IF}",
        "  NCCL_X: x{{ .Values.if }}",
        "  - NCCL_X=${IF}",
    ],
)
def test_a_value_that_is_made_elsewhere_is_not_certain(text: str) -> None:
    assert [(one.name, one.certain) for one in read(text).settings] == [("NCCL_X", False)]


def test_quotes_keep_a_dollar_from_the_shell() -> None:
    (found,) = read("export NCCL_X='$IF'").settings
    assert (found.value, found.certain) == ("$IF", True)


class TestARewrittenLine:
    @pytest.mark.parametrize(
        ("text", "after"),
        [
            ("export NCCL_X=true  # why", "export NCCL_X=1  # why"),
            ('export NCCL_X="true"; ls', 'export NCCL_X="1"; ls'),
            ("  NCCL_X: true # why", '  NCCL_X: "1" # why'),
            ("  NCCL_X: 'true'", "  NCCL_X: '1'"),
            ("  - NCCL_X=true", "  - NCCL_X=1"),
            ('["A=b","NCCL_X=true"]', '["A=b","NCCL_X=1"]'),
            ("#SBATCH --export=NCCL_X=true,B=2", "#SBATCH --export=NCCL_X=1,B=2"),
        ],
    )
    def test_keeps_all_but_the_value(self, text: str, after: str) -> None:
        (found,) = read(text).settings
        assert rewritten([(found, "NCCL_X", "1")]) == after

    def test_has_all_changes_and_new_names(self) -> None:
        one, two = read("export NCCL_A=1 NCCL_B='2'").settings
        line = rewritten([(one, "NCCL_C", "x y"), (two, "NCCL_B", "3")])
        assert line == "export NCCL_C='x y' NCCL_B='3'"


@given(st.text(alphabet="NCL_X=:\"'$#-{}[]`\\ \n\t\0e,;ax", max_size=40).map(lambda text: text.replace("X", "NCCL_X")))
def test_any_text_can_be_read_and_each_value_stands_where_it_is_said_to(text: str) -> None:
    for found in read(text).settings:
        assert isinstance(found, Found)
        assert 0 <= found.start <= found.end <= len(found.text)
