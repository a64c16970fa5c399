"""A cure can be typed as it is printed: by a shell, with options that there are, and with what the log told put in."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest
import yaml
from typer.testing import CliRunner

from ncclrun.cli.main import app
from ncclrun.diagnosis.explain.catalogue import ALL, BY_ID
from ncclrun.diagnosis.explain.signature import Signature
from ncclrun.diagnosis.explain.steps import LAUNCH, OWN, Step, here, in_file, mended, there
from tests.diagnosis.explain.logs import explained

HOST = {"host": "gpu3"}
BLANK = re.compile(r"\{\w+\}|…|\.\.\.|\b(?:HOST|NAME|FILE|ADDRESS|PORT|INTERFACE|VALUE|SUBNET|PATH|NODE|DIR)\b")
"""What a person would have to fill in."""


def commands(signature: Signature) -> list[str]:
    """All that is typed of its cure, whatever is known."""
    told = signature.match(signature.sample) or {}
    named = {name.rstrip("_") for name in re.compile(signature.pattern).groupindex}
    known = {**dict.fromkeys(named | {"value"}, "x1"), **told, **HOST}
    steps = [step for step in signature.cure if step.where != in_file("").where]
    forms = [there(form) for step in steps for form in step.forms]
    assert all(form.command(known) for form in forms), "a capture that the pattern does not have"
    return [form.command(known) for form in forms]


@pytest.mark.parametrize("signature", ALL, ids=lambda one: one.id)
def test_nothing_is_left_to_fill_in_but_the_readers_own_files(signature: Signature) -> None:
    for known in ({}, HOST, {**HOST, **(signature.match(signature.sample) or {})}):
        assert not BLANK.search(mended(signature.cure, known))
    assert bool(mended(signature.cure, {})) == bool(signature.cure)


def test_a_shell_can_read_every_command() -> None:
    script = "".join(
        f"f{at}() {{\n{command}\n}}\n" for at, command in enumerate(c for one in ALL for c in commands(one))
    )
    read = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert read.stderr == ""


def test_every_command_of_ours_has_options_that_there_are() -> None:
    ours = {command for one in ALL for command in commands(one) if command.startswith("ncclrun ")}
    assert len(ours) > 10
    for command in ours:
        typed = shlex.split(command)[1:]
        verb = next((at for at, word in enumerate(typed) if word.startswith("-") or word in OWN.values()), len(typed))
        result = CliRunner().invoke(app, [*typed[:verb], "--help", *typed[verb:]])
        assert result.exit_code == 0, f"{command}: {result.output}"


def test_every_line_of_the_cluster_file_is_one() -> None:
    lines = [step.command({}) for one in ALL for step in one.cure if step.where == in_file("").where]
    assert lines
    assert all(set(yaml.safe_load(line)) <= {"launch", "nccl", "network"} for line in lines)


def test_a_sentence_is_a_whole_one() -> None:
    for one in ALL:
        for step in one.cure:
            assert step.forms or step.note[0].isupper() or "(" in step.note.partition(" ")[0] or "." in step.note
            assert set(OWN.values()).isdisjoint(re.findall(r"\w+", step.note))


@pytest.mark.parametrize(
    ("log", "typed"),
    [
        ("OSError: [Errno 28] No space left on device: '/data/my runs/7.pt'", "df -h \"$(dirname '/data/my runs/7.pt')\""),
        ("gpu2: ModuleNotFoundError: No module named 'einops'", "on gpu2:  pip install einops"),
        ("srun: error: Node failure on n12", "scontrol show node n12"),
        ("message: bind to [::]:29511 (errno: 98 - Address already in use)", "ss -ltnp 'sport = :29511'"),
        ("x NCCL WARN Connect to 10.3.0.9<41001> failed : Network is unreachable", "ip route get 10.3.0.9 "),
        ("[E socket.cpp:1] [c10d] The client socket has timed out after 60000ms while trying to connect to (10.2.0.1, 29511).", "on node 0:  ss -ltn 'sport = :29511'"),
        ("gpu4:1:1 [0] NCCL WARN Cuda failure 'uncorrectable ECC error encountered'", "--nodes '!'gpu4 "),
    ],
)  # fmt: skip
def test_what_the_log_knows_is_put_in(log: str, typed: str) -> None:
    fault = explained(log).found
    assert fault is not None
    assert typed in fault.fix


def test_what_no_line_tells_leaves_the_step_out_or_takes_its_other_form() -> None:
    step = Step(("rm {path}", "ls"), "what is there")
    assert step.told({"path": "/a b"}) == "rm '/a b'   (what is there)"
    assert step.told({}) == "ls   (what is there)"
    assert there("rm {path}").told({}) == ""
    assert there("ls").told({}) == "on that host:  ls"


def test_a_value_is_never_shell_text() -> None:
    step = BY_ID["modmissing"].cure[0]
    assert step.command({"name": "x; reboot"}) == "pip install 'x; reboot'"


def test_who_was_launched_by_ncclrun_is_not_told_to_launch_unless_that_is_all() -> None:
    look, launch = there("ss -ltn", note="who listens"), here(LAUNCH, note="takes a free port")
    assert mended((look, launch), {}).splitlines()[1] == "ncclrun launch CLUSTER SCRIPT   (takes a free port)"
    assert mended((look, launch), {"cluster": "lab.yaml"}) == "on that host:  ss -ltn   (who listens)"
    assert mended((launch,), {"cluster": "lab.yaml"}) == "ncclrun launch lab.yaml SCRIPT   (takes a free port)"


def test_what_names_the_cluster_is_words_of_a_command_line_already() -> None:
    for source in ("'my lab.yaml'", "--hosts gpu1,gpu2"):
        assert mended((here("ncclrun ping {cluster}"),), {"cluster": source}) == f"ncclrun ping {source}"
