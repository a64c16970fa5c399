"""A diagnosis as a person reads it."""

from __future__ import annotations

from dataclasses import replace

from ncclrun.console.explain import explanation, page_text
from ncclrun.console.report import report
from ncclrun.model.endevents import Cause, Ended
from ncclrun.model.explainevents import Evidence, Explained, FindingPage, FoundFault

LINE = Evidence(file="rank3.err", line=12, host="gpu2", rank=3, text="boom \x1b]0;x\x07")
FAULT = FoundFault(
    id="gpu-oom",
    title="The GPU's memory is full",
    cause="Too large.",
    fix="nvidia-smi   on gpu2",
    check="it is looked at",
    evidence=(LINE,),
    lines=5,
    ranks="3,5",
    hosts=("gpu2",),
)
FOLLOWED = replace(FAULT, id="closed-remote", title="A peer went away", lines=14, ranks="0-6", hosts=())
DIAGNOSIS = Explained(
    verdict="cause",
    found=FAULT,
    confidence="sure",
    consequences=(FOLLOWED,),
    others=(),
    remarks=(),
    more=(),
    files=16,
    lines=4000,
    hosts=("gpu1", "gpu2"),
    ranks="0-7",
)


def test_the_cause_its_evidence_and_the_step_come_first_and_the_rest_is_folded() -> None:
    text = explanation(DIAGNOSIS, width=None)
    assert text.splitlines() == [
        "error: The GPU's memory is full (ranks 3,5) on gpu2",
        "       Too large.",
        "  fix: nvidia-smi   on gpu2",
        "       rank3.err:12  (rank 3 on gpu2)",
        "       | boom ␛]0;x␇",
        "       and 4 lines like it",
        "       how sure: sure",
        "       before a start: it is looked at",
        "       more about it: ncclrun explain gpu-oom",
        "       what followed from it, or shows beside it:",
        "       - A peer went away (closed-remote): 14 lines (ranks 0-6), the first is rank3.err:12",
        "ncclrun: looked at 16 logs, 4000 lines, of gpu1, gpu2, ranks 0-7",
    ]


def test_a_terminal_has_colours_and_a_pipe_none() -> None:
    assert "\x1b[" in explanation(DIAGNOSIS, width=80)
    assert "\x1b" not in explanation(DIAGNOSIS, width=None)


def test_a_healthy_log_is_said_to_be_so() -> None:
    healthy = replace(DIAGNOSIS, verdict="healthy", found=None, confidence="all is well", consequences=())
    assert explanation(healthy, width=None).startswith("ncclrun: all is well\n")


def test_what_would_say_more_is_listed() -> None:
    nothing = replace(DIAGNOSIS, verdict="nothing", found=None, consequences=(), more=("NCCL_DEBUG=INFO: much",))
    assert "       NCCL_DEBUG=INFO: much\n" in explanation(nothing, width=None)


def test_the_end_of_a_run_has_a_line_of_it_with_the_step() -> None:
    cause = Cause(node="gpu2", node_rank=1, host="gpu2", rank=3, how="exit code 1", exit_code=1, hint="Mostly a crash.")
    ended = Ended(run_id="r7", exit_code=1, reason="failed", seconds=1.0, cause=cause, finding=FAULT)
    text = report(ended, width=None)
    assert "its logs show: The GPU's memory is full [gpu-oom]\n  fix: nvidia-smi   on gpu2\n" in text
    assert "the evidence:  ncclrun explain r7\n" in text
    assert "Mostly a crash." not in text
    assert "Mostly a crash." in report(replace(ended, finding=None), width=None)


def test_a_run_that_hung_until_its_time_was_up_has_it_too() -> None:
    ended = Ended(run_id="r7", exit_code=124, reason="timeout", seconds=1.0, finding=FAULT)
    assert "warning: its logs show: The GPU's memory is full [gpu-oom]\n  fix: nvidia-smi" in report(ended, width=None)


def test_a_run_whose_logs_say_nothing_has_its_record() -> None:
    crash = replace(
        DIAGNOSIS,
        verdict="failed",
        found=None,
        consequences=(),
        recorded="failed: rank 2 on b: signal 11 (SIGSEGV)",
        hint="A crash in native code.",
    )
    assert explanation(crash, width=None).splitlines() == [
        "error: failed: rank 2 on b: signal 11 (SIGSEGV)",
        "       A crash in native code.",
        "       how sure: sure",
        "ncclrun: looked at 16 logs, 4000 lines, of gpu1, gpu2, ranks 0-7",
    ]


def test_a_page_names_the_commands_that_show_the_pages_which_it_links() -> None:
    page = FindingPage(id="memlock", text="# Title\n\nIn logs: [Locked](ib-memlock.md).\n")
    assert page_text(page) == "# Title\n\nIn logs: Locked (ncclrun explain ib-memlock).\n"
