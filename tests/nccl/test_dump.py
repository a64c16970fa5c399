"""Settings found in what is no conf file; other variables, comments and texts in quotes are passed over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncclrun.nccl.dump.found import Found, rewritten
from ncclrun.nccl.dump.reader import is_environment, read


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
    ("docker run --env OTHER=1,NCCL_DEBUG=INFO image", "INFO"),
    ('OPTIONS="-e NCCL_DEBUG=INFO -e OTHER=1"', "INFO"),
    ('OPTIONS="\\\n  -e OTHER=1 \\\n  -e NCCL_DEBUG=INFO \\\n  -e LAST=1"', "INFO"),
    ('EXPORTS="--export=ALL,NCCL_DEBUG=INFO,OTHER=1"', "INFO"),
    ('srun --export="OTHER=1,NCCL_DEBUG=INFO" ./a', "INFO"),
    ("mpiexec -genv NCCL_DEBUG INFO ./a", "INFO"),
    ("run \\\n  -x OTHER=1 \\\n  -x NCCL_DEBUG=INFO ./a", "INFO"),
    ("ENV OTHER=1 \\\n    # why\n    NCCL_DEBUG=INFO", "INFO"),
    ("RUN NCCL_DEBUG=INFO make", "INFO"),
    ("list=(\n  -e OTHER=1 -e NCCL_DEBUG=INFO\n)", "INFO"),
    ('list=(\n  "NCCL_DEBUG=INFO"\n)', "INFO"),
    ('export NCCL_DEBUG="${NCCL_DEBUG:-INFO}"', "INFO"),
    (': "${NCCL_DEBUG:=INFO}"', "INFO"),
    ("echo 'export NCCL_DEBUG=INFO' >> ~/.bashrc", "INFO"),
    ('Environment=NCCL_DEBUG=INFO "OTHER=1"', "INFO"),
    ('$env:NCCL_DEBUG = "INFO"', "INFO"),
    ("set -gx NCCL_DEBUG INFO", "INFO"),
    ("!NCCL_DEBUG=INFO python t.py", "INFO"),
    ("%env NCCL_DEBUG=INFO", "INFO"),
    ('os.environ["NCCL_DEBUG"] = "INFO"  # why', "INFO"),
    ("os.environ.setdefault('NCCL_DEBUG', 'INFO')", "INFO"),
    ('setenv("NCCL_DEBUG", "INFO", 0);', "INFO"),
    ('env = {"OTHER": "1", "NCCL_DEBUG": "INFO"}', "INFO"),
    ('{"name": "NCCL_DEBUG", "value": "INFO"},', "INFO"),
    ('dict(\n    NCCL_DEBUG="INFO",\n)', "INFO"),
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
    "Please set the variable: set it, then NCCL_DEBUG=INFO works.",
    "NCCL_DEBUG=INFO, NCCL_ALGO=Ring and more are known",
    'os.environ.get("NCCL_DEBUG", "INFO")',
    'if os.environ["NCCL_DEBUG"] == "INFO":',
    '"nccl_debug": "INFO",',
    "NCCL_THINGS=(a b)",
    "services:\n  a:\n    environment:\n      - NCCL_DEBUG",
    "a: {nccl_debug: INFO}",
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
        "export NCCL_X=~/t.xml",
        "NCCL_X: lets you choose the way",
        'env = {"NCCL_X": args.x, "OTHER": "1"}',
        'env = {"NCCL_X": "a" if big else "b"}',
        '{"name": "NCCL_X", "value": ",".join(names)},',
        '"NCCL_X": f"{name}",',
        '"NCCL_X=%s" % name,',
        "a: !Ref NCCL_X\nNCCL_X: !Ref b",
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


class TestYaml:
    """What parses is read by the parser, not by the look of its lines."""

    @pytest.mark.parametrize(
        "text",
        [
            'nccl: {env: {NCCL_X: "a"}}',
            "env: [{name: NCCL_X, value: a}, {name: OTHER, value: b}]",
            '{"Environment": [{"Name": "NCCL_X", "Value": "a"}]}',
            "a: 1\n---\nNCCL_X: a",
            "NCCL_X:\n  a",
            "NCCL_X: &anchor a",
            "args: [bash, -c, export NCCL_X=a && true]",
            "args: [mpirun, -x, NCCL_X=a]",
            "script:\n  - NCCL_X=a python t.py",
            "run: NCCL_X=a python t.py",
            "run: |\n  export NCCL_X=a",
            "run: |\n  if true; then\n    export NCCL_X=a\n  fi",
            'cells: [{"source": ["os.environ[\\"NCCL_X\\"] = \\"a\\""]}]',
        ],
    )
    def test_is_seen_in_every_form(self, text: str) -> None:
        assert pairs(text) == [("NCCL_X", "a")]

    def test_that_is_named_twice_is_found_once(self) -> None:
        assert pairs("x: &e\n  - {name: NCCL_X, value: a}\ny: *e\nz: {<<: {NCCL_Y: b}}\n") == [
            ("NCCL_X", "a"),
            ("NCCL_Y", "b"),
        ]

    def test_has_its_places(self) -> None:
        text = "a:\n  b: {NCCL_X: 'a', NCCL_Y: &z b}\n  c: |\n    true\n    export NCCL_Z=c\n"
        found = read(text).settings
        assert [(one.line, one.text[one.start : one.end]) for one in found] == [(2, "'a'"), (2, "b"), (5, "c")]

    def test_of_a_template_is_read_line_by_line(self) -> None:
        assert pairs("{{- if .x }}\nenv:\n  - name: NCCL_X\n    value: a\n{{- end }}\n") == [("NCCL_X", "a")]

    def test_keeps_the_quotes_of_a_list_and_takes_those_of_a_script_away(self) -> None:
        assert pairs('environment:\n  - NCCL_X="a"\nscript:\n  - NCCL_Y="b"\n') == [("NCCL_X", '"a"'), ("NCCL_Y", "b")]


class TestADocument:
    def test_sets_what_stands_in_its_blocks_of_code(self) -> None:
        text = "NCCL_X=prose\n\n   ```bash\n   export NCCL_Y=a\n   ```\n```yaml\nNCCL_Z: b\n```\nset NCCL_W=c\n"
        found = read(text).settings
        assert [(one.line, one.name, one.text[one.start : one.end]) for one in found] == [
            (4, "NCCL_Y", "a"),
            (7, "NCCL_Z", "b"),
        ]


CONFS = [
    ("cat > /etc/nccl.conf <<'EOF'\nNCCL_X=a # b\nEOF\n", [(2, "NCCL_X=a # b")]),
    ("sudo tee -a /etc/nccl.conf >/dev/null <<EOF\nNCCL_X=a\nNCCL_Y=$B\nEOF\n", [(2, "NCCL_X=a"), (3, "#")]),
    ("cat <<-EOF >> ~/.nccl.conf\n\tNCCL_X=a\n\tEOF\n", [(2, "NCCL_X=a")]),
    ("x:\n  y: |\n    cat > nccl.conf << EOF\n    NCCL_X=a\n    EOF\n", [(4, "NCCL_X=a")]),
    ('echo "NCCL_X=a\\nNCCL_Y=b" | sudo tee /etc/nccl.conf\n', [(1, "NCCL_X=a"), (1, "NCCL_Y=b")]),
    ("RUN echo NCCL_X=a  b >> /etc/nccl.conf\n", [(1, "NCCL_X=a b")]),
    (
        "kubectl apply -f - <<EOF\ndata:\n  nccl.conf: |\n    NCCL_X=a # b\nEOF\n",
        [(4, "NCCL_X=a # b")],
    ),
    ("data:\n  nccl.conf: |\n    NCCL_X=a\n", [(3, "NCCL_X=a")]),
    ("- copy:\n    dest: /etc/nccl.conf\n    content: |\n      NCCL_X=a\n", [(4, "NCCL_X=a")]),
    ("- path: /etc/nccl.conf\n  contents:\n    inline: |\n      NCCL_X=a\n", [(4, "NCCL_X=a")]),
    ("```\ncat > nccl.conf <<EOF\n NCCL_X=a\nEOF\n```\n", [(3, " NCCL_X=a")]),
]


@pytest.mark.parametrize(("text", "lines"), CONFS)
def test_lines_that_become_a_conf_file_are_known_as_such(text: str, lines: list[tuple[int, str]]) -> None:
    dump = read(text)
    assert [(number, conf) for one in dump.confs for number, _, conf in one.lines] == lines
    assert dump.settings == ()


def test_blanks_around_the_equals_of_an_export_are_seen_and_taken_out() -> None:
    (found,) = read("export NCCL_X = eth1  # why").settings
    assert (found.value, found.spaced) == ("eth1", True)
    assert rewritten([(found, "NCCL_X", "eth1")]) == "export NCCL_X=eth1  # why"
    assert read("export NCCL_X= NCCL_Y=1").settings[0].spaced is False
