"""The look of `nccl diff`, `push` and `restore`: each change once, with the nodes that get it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ncclrun.console.output import Output
from ncclrun.console.plain import PlainView
from ncclrun.console.settingsboard import SettingsBoard
from ncclrun.console.terminal import TerminalView
from ncclrun.model.endevents import Ended
from ncclrun.model.events import Event
from ncclrun.model.settingevents import ConfCompared, ConfPushed, ConfRestored, ConfRolledBack
from tests.console.settingsamples import SYSTEM, conf_diff, node_name

END = Ended(run_id="", exit_code=0, reason="done", seconds=1.0)
NAMES = tuple(map(node_name, range(3)))
ALL = ConfCompared(changed=NAMES, unchanged=())


def said(events: Sequence[Event], last: Event = END, width: int | None = None) -> tuple[str, list[tuple[str, str]]]:
    board = SettingsBoard()
    for event in events:
        board.said(event, width)
    text, notes = board.said(last, width)
    return text, [(note.level, note.text) for note in notes]


class TestADiff:
    def test_is_shown_once_for_nodes_with_the_same_before_the_question(self) -> None:
        text, notes = said([conf_diff(rank) for rank in range(3)], ALL)
        assert text.splitlines() == [
            "/etc/nccl.conf on all 3 nodes",
            "@@ -1 +1,2 @@",
            "+NCCL_SOCKET_IFNAME==eth1",
            " NCCL_SOCKET_IFNAME=eth0",
            "  NCCL_SOCKET_IFNAME==eth1 then hides eth0 from /etc/nccl.conf:1",
        ]
        assert notes == [("info", "this changes the file on all 3 nodes")]

    def test_is_a_nodes_own_where_its_interface_is(self) -> None:
        text, _ = said([conf_diff(0), conf_diff(1, interface="ens3"), conf_diff(2)], ALL)
        assert [line for line in text.splitlines() if " on " in line] == [
            "/etc/nccl.conf on gpu1, gpu3",
            "/etc/nccl.conf on gpu2",
        ]

    def test_leaves_out_nodes_where_nothing_changes(self) -> None:
        compared = ConfCompared(changed=("gpu1",), unchanged=("gpu2",))
        text, notes = said([conf_diff(0), conf_diff(1, changed=False)], compared)
        assert "gpu2" not in text
        assert notes == [("info", "this changes the file on gpu1; nothing to change on gpu2")]

    def test_is_none_where_all_is_as_it_should_be(self) -> None:
        text, notes = said([conf_diff(0, changed=False)], ConfCompared(changed=(), unchanged=NAMES))
        assert (text, notes) == ("", [("good", "nothing to change on all 3 nodes")])

    @pytest.mark.parametrize(("at", "head"), [(0, "/etc/nccl.conf (new)"), (1, "/etc/nccl.conf (goes)")])
    def test_tells_a_file_that_comes_or_goes(self, at: int, head: str) -> None:
        diff = conf_diff(0)
        lines = list(diff.diff)
        lines[at] = lines[at][:4] + "/dev/null"
        assert said([replace(diff, diff=tuple(lines))], ALL)[0].startswith(f"{head} on gpu1\n")

    def test_has_colours_on_a_terminal_alone_and_no_control_characters(self) -> None:
        diff = replace(conf_diff(0), diff=("--- a", "+++ a", "@@ -1 +1 @@", "-A=\x1b[2J", "+A=1"))
        text = said([diff], ALL, 80)[0]
        assert "\x1b[31m-A=␛[2J\x1b[0m" in text
        assert "\x1b[32m+A=1\x1b[0m" in text
        assert "\x1b" not in said([diff], ALL)[0]

    def test_is_not_lost_where_the_command_ends_before_the_question(self) -> None:
        assert "NCCL_SOCKET_IFNAME==eth1" in said([conf_diff(0)])[0]


class TestWhatWasDone:
    def pushed(self, rank: int, *, changed: bool = True) -> ConfPushed:
        return ConfPushed(node=node_name(rank), node_rank=rank, path=SYSTEM, changed=changed, backup="/etc/x")

    def test_is_one_line_for_nodes_with_the_same(self) -> None:
        assert said([self.pushed(rank) for rank in range(3)])[1] == [
            ("good", "/etc/nccl.conf on all 3 nodes holds the settings (what it was before: /etc/x)")
        ]

    def test_tells_where_nothing_had_to_be_done(self) -> None:
        assert said([self.pushed(0), self.pushed(1, changed=False)])[1] == [
            ("good", "/etc/nccl.conf on gpu1 holds the settings (what it was before: /etc/x)"),
            ("good", "/etc/nccl.conf on gpu2 is as it should be already, and is left so"),
        ]

    def test_tells_a_file_that_is_gone_from_one_that_is_back(self) -> None:
        back = ConfRestored(node="gpu1", node_rank=0, path=SYSTEM, changed=True)
        gone = ConfRestored(node="gpu2", node_rank=1, path=SYSTEM, changed=True, removed=True)
        kept = ConfRestored(node="gpu3", node_rank=2, path=SYSTEM, changed=True, edits_kept=True)
        assert said([back, gone, kept])[1] == [
            ("good", "/etc/nccl.conf on gpu1 is what it was before the first push, to the byte"),
            ("good", "/etc/nccl.conf on gpu2 is gone, as there was none before"),
            ("good", "/etc/nccl.conf on gpu3 is without our lines; what was edited since stays"),
        ]

    def test_names_the_file_with_the_edits_and_the_command_that_undoes_it_on_a_line_of_its_own(self) -> None:
        undo = "ncclrun nccl restore c.yaml"
        assert said([replace(self.pushed(rank), aside="/etc/y", undo=undo) for rank in range(2)])[1] == [
            (
                "good",
                "/etc/nccl.conf on all 2 nodes holds the settings (what it was before: /etc/x);"
                " with the edits in our block it is kept as /etc/y",
            ),
            ("fix", f"to undo it:  {undo}"),
        ]

    def test_is_nothing_good_where_it_was_taken_back(self) -> None:
        assert said([ConfRolledBack(node="gpu1", node_rank=0, path=SYSTEM)])[1] == [
            ("info", "/etc/nccl.conf on gpu1 is as it was before: nothing was changed there")
        ]


EVENTS: tuple[Event, ...] = (conf_diff(0), ConfCompared(changed=("gpu1",), unchanged=()))


def test_a_pipe_gets_the_diff_on_stdout_and_the_rest_on_stderr() -> None:
    out, err = io.StringIO(), io.StringIO()
    view = PlainView(Output(out), Output(err))
    for event in EVENTS:
        view.show(event)
    assert "+NCCL_SOCKET_IFNAME==eth1" in out.getvalue()
    assert err.getvalue() == "ncclrun: this changes the file on gpu1\n"


def test_a_terminal_gets_both_with_the_diff_above_the_question() -> None:
    out = io.StringIO()
    view = TerminalView(Output(out), colors=8, size=lambda: (80, 24), ticking=False)
    for event in EVENTS:
        view.show(event)
    view.close()
    text = out.getvalue()
    assert 0 < text.index("+NCCL_SOCKET_IFNAME==eth1") < text.index("this changes the file on gpu1")
