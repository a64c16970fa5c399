"""Doctor's table and findings as people read them: a fault once, with all hosts that have it, and what mends it."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest

from ncclrun.console.doctor import DoctorBoard
from ncclrun.console.notes import render
from ncclrun.console.output import Output
from ncclrun.console.page import render_page
from ncclrun.console.plain import PlainView
from ncclrun.console.terminal import TerminalView
from ncclrun.console.view import View
from ncclrun.model.doctorevents import DoctorFinding, Examined
from ncclrun.model.endevents import Ended
from ncclrun.model.events import Event

END = Ended(run_id="", exit_code=1, reason="errors on gpu2", seconds=3.0)


def examined(rank: int, **fields: Any) -> Examined:
    given: dict[str, Any] = {
        "system": "Ubuntu 22.04",
        "container": "",
        "kernel": "6.8",
        "gpus": ("NVIDIA H100", "NVIDIA H100"),
        "driver": "570.1",
        "python": "3.11.4",
        "torch": "2.7",
        "cuda": "12.6",
        "nccl": "2.26.2",
    }
    return Examined(
        node=f"gpu{rank + 1}", node_rank=rank, host=f"gpu{rank + 1}", hostname=f"h{rank + 1}", **{**given, **fields}
    )


def finding(rank: int, **fields: Any) -> DoctorFinding:
    given: dict[str, Any] = {
        "id": "stale",
        "level": "warning",
        "title": "another launcher's variables",
        "evidence": "its login sets RANK",
        "cause": "A start-up file exports it.",
        "fix": f"on gpu{rank + 1}:  vi ~/.bashrc",
    }
    return DoctorFinding(
        node=f"gpu{rank + 1}", node_rank=rank, host=f"gpu{rank + 1}", hostname=f"h{rank + 1}", **{**given, **fields}
    )


def shown(*events: Event) -> tuple[str, str]:
    board = DoctorBoard()
    for event in events:
        assert board.said(event, None) == ("", [])
    text, notes = board.said(END, None)
    return text, render(notes, colors=False)


def test_a_row_a_node() -> None:
    table, _ = shown(examined(0), examined(1, worst="error", container="docker", unknown={"kernel_log": "closed"}))
    head, first, second = table.splitlines()
    assert head.split()[0] == "node"
    assert "gpu1  ok" in first
    assert "2 x H100" in first
    assert "error" in second
    assert "(docker)" in second
    assert second.endswith("kernel log")


def test_a_host_without_gpus_lacks_nothing_of_theirs() -> None:
    unknown = {"health": "no nvidia-smi", "acs": "closed", "firewall": "closed"}
    without, with_some = shown(examined(0, gpus=(), unknown=unknown), examined(1, unknown=unknown))[0].splitlines()[1:]
    assert without.endswith("2.26.2  firewall")
    assert with_some.endswith("GPU health, ACS, firewall")


def test_the_same_on_many_nodes_is_told_once() -> None:
    _, notes = shown(*(finding(rank) for rank in range(3)))
    assert notes.count("another launcher's variables [stale]") == 1
    assert "gpu1: its login sets RANK" in notes
    assert "fix: on gpu1:  vi ~/.bashrc" in notes
    assert "likewise on gpu2, gpu3" in notes
    assert notes.endswith("ncclrun: 1 warning; symptom, cause and cure of one:  ncclrun explain stale\n")


def test_the_cause_stands_before_the_step_and_folds_with_the_sentence() -> None:
    board = DoctorBoard()
    board.said(finding(0, cause="A start-up file exports it, " + "time and again " * 6), 60)
    lines = render(board.said(END, 60)[1], colors=False, width=60).splitlines()
    why, fix = (next(n for n, line in enumerate(lines) if word in line) for word in ("why: ", "fix: "))
    assert why < fix
    assert max(map(len, lines)) <= 60


def test_errors_stand_last_where_a_reader_looks() -> None:
    error = finding(1, id="fabric_manager", level="error", title="the fabric is not up", evidence="In Progress")
    _, notes = shown(error, finding(0))
    assert notes.index("[stale]") < notes.index("[fabric_manager]")
    assert "1 error, 1 warning" in notes


def test_what_could_not_be_looked_at_is_said_to_be_unknown() -> None:
    _, notes = shown(examined(0, unknown={"kernel_log": "closed to this user", "health": "no nvidia-smi"}))
    assert "gpu1: kernel log unknown: closed to this user" in notes
    bare = replace(examined(0, unknown={"health": "there is no nvidia-smi"}), gpus=())
    assert shown(bare)[1] == ""


def test_the_page_has_all_of_it_and_nothing_of_it_is_markup() -> None:
    wild = finding(0, evidence="prints <script>alert(1)</script>")
    page = render_page("doctor", [examined(0, worst="warning"), wild, finding(1), END])
    assert "another launcher&#x27;s variables" in page
    assert "A start-up file exports it." in page
    assert "2 x H100" in page
    assert '<td class="state">warning</td>' in page
    assert "<script>alert" not in page
    assert "<section hidden>\n<h2>Who reaches whom</h2>" in page


@pytest.mark.parametrize("colors", [False, True])
def test_what_was_found_is_told_even_if_no_end_follows(colors: bool) -> None:
    out = io.StringIO()
    view: View = PlainView(Output(out), Output(out))
    if colors:
        view = TerminalView(Output(out), colors=8, size=lambda: (100, 24), ticking=False)
    view.show(examined(0))
    view.show(finding(0))
    view.close()
    assert "its login sets RANK" in out.getvalue()
    assert "Ubuntu 22.04" in out.getvalue()


def test_what_root_alone_may_see_on_every_host_is_said_in_the_table_and_in_no_line_of_its_own() -> None:
    table, err = shown(examined(0, unknown={"acs": "for root alone"}))
    assert table.splitlines()[1].endswith("ACS")
    assert "ACS" not in err
