"""Each view shows every event in its own way, on the right stream."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any, cast

import pytest

from ncclrun.console.jsonl import JsonView, json_lines
from ncclrun.console.output import Output
from ncclrun.console.plain import PlainView
from ncclrun.console.terminal import TerminalView
from ncclrun.model.endevents import Ended, Replaced, Retrying
from ncclrun.model.events import Event, Planned, Refused, Stopping, Unreachable, Warn
from ncclrun.model.netevents import Resolved
from tests.console.samples import ALL, END, NODES, PLAN, RUN, UNFIT, connected, log, pinged, plan_node, state
from tests.console.vt import Terminal


def plain(*events: Event, plan: bool = False) -> tuple[str, str]:
    """What stands on stdout and stderr in the end."""
    out, err = io.StringIO(), io.StringIO()
    view = PlainView(Output(out), Output(err), plan=plan)
    for event in events:
        view.show(event)
    view.close()
    return out.getvalue(), err.getvalue()


class Live:
    """A terminal view whose time stands still until told."""

    def __init__(self, columns: int = 80, *, plan: bool = False) -> None:
        self.terminal = Terminal(columns)
        self.now = 0.0
        self.view = TerminalView(
            Output(cast(Any, self.terminal)),
            colors=256,
            size=lambda: (self.terminal.columns, 24),
            clock=lambda: self.now,
            ticking=False,
            plan=plan,
        )

    def show(self, *events: Event) -> list[str]:
        """What stands on the terminal a moment after these events."""
        for event in events:
            self.view.show(event)
        self.now += 0.1
        self.view.tick()
        return self.terminal.shown()


class TestAPipe:
    def test_gets_logs_on_stdout_and_all_else_on_stderr(self) -> None:
        out, err = plain(*(event for event in ALL if event is not UNFIT))
        assert out == "b    3 | hello\n"
        assert "error: rank 3 on b (10.0.0.7) failed first: exit code 7" in err

    def test_gets_no_escape_at_all(self) -> None:
        out, err = plain(*ALL, log(0, "\x1b[31mred\x1b[0m \x1b]0;x\x07"))
        assert "\x1b" not in out + err
        assert out.endswith("gpu1 0 | red ␛]0;x␇\n")

    def test_is_told_of_a_further_attempt_below_the_end_of_the_one_before(self) -> None:
        changes = (Replaced(node="gpu1", by="gpu9", why="host lost"),)
        retry = Retrying(
            run_id="r.2", attempt=2, most=4, seconds=5.0, reason="gpu1 replaced by gpu9", changes=changes, ended=END
        )
        out, err = plain(RUN, PLAN, log(0, "before"), retry, replace(log(0, "after"), node="gpu9"))
        assert out.splitlines()[-1] == "gpu9 0 | after"
        assert err.endswith("warning: attempt 2 of 4: gpu1 replaced by gpu9; begins in 5 s as run r.2\n")
        assert "failed first: exit code 7" in err

    def test_gets_a_bar_only_when_it_has_ended(self) -> None:
        out, _ = plain(log(0, " 10%", partial=True), log(0, "100%"))
        assert out == "gpu1 0 | 100%\n"

    def test_has_its_lines_in_columns_from_the_first_on(self) -> None:
        wide = Planned(
            run_id="r", launcher="exec", master_addr="a", master_port=1, world_size=128, nodes=(plan_node(0),)
        )
        out, _ = plain(wide, log(2, "x"), log(None, "y", node_rank=0))
        assert out == "b      2 | x\ngpu1   - | y\n"

    def test_gets_the_plan_on_stdout_only_when_asked(self) -> None:
        assert plain(PLAN)[0] == ""
        out, _ = plain(PLAN, plan=True)
        assert "NCCL_SOCKET_IFNAME==eth1" in out
        assert "    /opt/env/bin/python train.py 'a b'\n" in out
        assert "MESSAGE=$'it\\'s\\n$(here)'" in out

    def test_gets_the_table_of_ping_in_the_nodes_order(self) -> None:
        ended = Ended(run_id="", exit_code=1, reason="not fit: b", seconds=1.0)
        out, err = plain(UNFIT, pinged(0, seconds=0.31, gpus=("NVIDIA H100",) * 8), ended)
        assert [line.split()[:3] for line in out.splitlines()] == [
            ["node", "fit", "ssh"],
            ["gpu1", "yes", "0.31"],
            ["b", "NO"],
        ]
        assert err == "error: b: its key is not known\n  fix: ncclrun trust lab.yaml\nerror: 1 of 2 nodes not fit\n"

    def test_is_told_a_reason_that_nodes_share_once_and_in_their_order(self) -> None:
        torch = {"code": "no_torch", "message": "torch is missing", "fix": "pip install torch", "id": "no_torch"}
        _, err = plain(
            RUN,
            Refused(node="b", node_rank=1, **torch),
            Refused(node="gpu1", node_rank=0, **torch),
            Ended(run_id="r1", exit_code=3, reason="nothing was started", seconds=1.0),
        )
        assert err.splitlines()[1:3] == [
            "error: gpu1, b can't prepare: torch is missing [no_torch]",
            "  fix: pip install torch",
        ]

    def test_is_told_a_warning_that_nodes_share_once_before_the_start(self) -> None:
        chosen = [
            Resolved(node=n, node_rank=r, interface="e", address=f"10.0.0.{r}", why="")
            for r, n in enumerate(["gpu1", "b"])
        ]
        udp = [Warn(node=n, text="no UDP comes through", fix="none is needed") for n in ("gpu1", "b")]
        _, err = plain(RUN, *chosen, *udp, Ended(run_id="r1", exit_code=3, reason="nothing was started", seconds=1.0))
        assert err.splitlines()[1:3] == ["warning: gpu1, b: no UDP comes through", "  fix: none is needed"]

    def test_is_told_a_fix_once_below_the_last_that_it_mends_and_no_name_twice(self) -> None:
        fix = "ncclrun trust lab.yaml"
        lost = [
            Unreachable(node=n, node_rank=r, host=h, reason="unknown_key", message=f"{h}: key {r} is unknown", fix=fix)
            for r, (n, h) in enumerate([("gpu1", "gpu1"), ("b", "10.0.0.7")])
        ]
        _, err = plain(*lost, Ended(run_id="r1", exit_code=255, reason="nothing was started", seconds=1.0))
        assert err.splitlines()[:3] == [
            "error: gpu1: key 0 is unknown",
            "error: b (10.0.0.7): key 1 is unknown",
            f"  fix: {fix}",
        ]

    def test_does_not_get_torchruns_words_about_what_is_told_already(self) -> None:
        assert plain(replace(log(None, "Traceback", node_rank=0), folded=True))[0] == ""


class TestATerminal:
    def test_shows_whom_it_waits_for(self) -> None:
        live = Live()
        live.show(RUN, connected(0))
        live.now = 4.0
        assert live.show()[-1] == "connecting 1/2: waiting for b (4 s)"
        assert live.show(connected(1))[-2:] == [
            "ncclrun: 2 nodes connected in 4.1 s",
            "asking gpu1, b for their interfaces, GPUs and Python (0 s)",
        ]

    def test_shows_bars_below_the_lines(self) -> None:
        live = Live()
        shown = live.show(PLAN, log(3, "30%", partial=True), log(0, "10%", partial=True), log(2, "a line"))
        assert shown[-4:] == [
            "b    2 | a line",
            "gpu1 0 | 10%",
            "b    3 | 30%",
            "starting 0/2: waiting for gpu1, b (0 s)",
        ]

    def test_shows_a_bar_as_a_line_when_it_has_ended(self) -> None:
        live = Live()
        live.show(log(0, "10%", partial=True))
        live.show(log(0, "100%"))
        assert live.show() == ["gpu1 0 | 100%"]

    def test_keeps_a_bar_that_goes_on_after_a_line(self) -> None:
        live = Live()
        shown = live.show(log(0, "10%", partial=True), log(0, "a line"), log(0, "20%", partial=True))
        assert shown == ["gpu1 0 | a line", "gpu1 0 | 20%"]

    def test_shows_no_more_than_eight_live_lines(self) -> None:
        live = Live()
        shown = live.show(*(log(rank, "10%", node_rank=0, partial=True) for rank in range(20)))
        assert len(shown) == 8
        assert shown[-1] == "… and 13 progress bars more"

    def test_clips_a_bar_to_the_screen(self) -> None:
        live = Live(columns=20)
        assert live.show(log(0, "日" * 99, partial=True)) == ["gpu1 0 | 日日日 …"]

    def test_takes_the_bars_of_a_node_that_has_ended_away(self) -> None:
        live = Live()
        shown = live.show(log(0, "10%", partial=True), log(2, "10%", partial=True), state(0, "ended", "finished"))
        assert shown == ["b 2 | 10%"]

    def test_shows_how_far_a_stop_is(self) -> None:
        live = Live()
        live.show(*ALL[:10], state(0, "running"), ALL[11], state(0, "ended", "stopped"))
        live.now += 4
        assert live.show()[-1] == "stopping: gpu1 ended, b waiting 4 s of 30"

    def test_says_when_a_node_is_silent_and_when_it_answers_again(self) -> None:
        shown = "\n".join(Live(120).show(state(1, "unknown", "silent for 12 s"), state(1, "running")))
        assert "(silent for 12 s); what runs there may go on" in shown
        assert shown.endswith("b answers again")

    def test_says_once_that_a_node_is_silent_and_then_that_it_is_given_up(self) -> None:
        first, second = Live(120).show(state(1, "unknown", "unreachable"), state(1, "unknown", "unreachable for 15 s"))[
            :2
        ]
        assert first.startswith("warning: b does not answer since ")
        assert first.endswith("; what runs there may go on")
        assert second == "warning: b is given up: unreachable for 15 s; what runs there may go on"

    @pytest.mark.parametrize(
        ("silent", "stopped"),
        [
            ((), "all nodes (SIGTERM now, SIGKILL after 30 s)"),
            ((1,), "gpu1 (SIGTERM now, SIGKILL after 30 s), b as soon as it answers"),
            ((0, 1), "gpu1, b as soon as they answer"),
        ],
    )
    def test_says_of_a_node_that_does_not_answer_that_its_stop_waits(
        self, silent: tuple[int, ...], stopped: str
    ) -> None:
        live = Live(120)
        live.show(*(state(rank, "unknown", "silent") for rank in silent))
        stopping = Stopping(reason="interrupted", how="term", nodes=("gpu1", "b"), grace=30)
        assert f"warning: interrupted: stopping {stopped}" in live.show(*ALL[:2], stopping)

    def test_does_not_say_that_a_run_may_go_on_where_its_host_was_restarted(self) -> None:
        shown = "\n".join(Live(120).show(state(1, "unknown", "the host was rebooted")))
        assert "nothing of the run lives there any more" in shown
        assert "may go on" not in shown

    def test_colours_a_node_alike_and_resets_it(self) -> None:
        live = Live()
        live.show(log(2, "x"), log(3, "\x1b[1my"))
        assert live.terminal.writes[0] == "\x1b[38;5;133mb 2 |\x1b[0m x\n"
        assert live.terminal.writes[1] == "\x1b[38;5;133mb 3 |\x1b[0m \x1b[1my\x1b[0m\n"

    def test_draws_pings_table_again_with_each_answer(self) -> None:
        live = Live()
        live.show(UNFIT)
        shown = live.show(pinged(0, seconds=0.31))
        assert [line.split()[0] for line in shown] == ["node", "gpu1", "b"]
        live.view.close()
        assert live.terminal.shown()[3:] == [
            "error: b: its key is not known",
            "  fix: ncclrun trust lab.yaml",
            "error: 1 of 2 nodes not fit",
        ]

    def test_is_left_without_a_footer(self) -> None:
        live = Live()
        live.show(*ALL[:-1], log(0, "10%", partial=True))
        live.view.close()
        assert "10%" not in "\n".join(live.terminal.shown())

    def test_ticks_by_itself(self) -> None:
        terminal = Terminal(80)
        view = TerminalView(Output(cast(Any, terminal)), colors=8, size=lambda: (80, 24))
        view.show(log(0, "10%", partial=True))
        view.show(log(0, "a line"))
        view.close()
        assert terminal.shown() == ["gpu1 0 | a line"]


class TestTheEnd:
    @pytest.mark.parametrize("columns", [120, 60])
    def test_says_where_to_look(self, columns: int) -> None:
        shown = "".join(Live(columns).show(END))
        for words in (
            "rank 3 on b (10.0.0.7) failed first",
            "ValueError: boom",
            "ncclrun logs r1 --rank 3",
            "/runs/r1",
        ):
            assert words in shown

    def test_has_a_row_a_node(self) -> None:
        _, err = plain(END)
        rows = [line.split() for line in err.splitlines()[1:4]]
        assert rows == [
            ["node", "host", "ranks", "state", "exit", "time", "left", "running"],
            ["gpu1", "gpu1", "0-1", "stopped", "SIGTERM", "1", "min", "01", "s", "nothing"],
            ["b", "10.0.0.7", "2-3", "failed", "7", "UNCONFIRMED"],
        ]
        assert "warning: not confirmed that nothing of the run lives on b\n" in err

    def test_of_a_good_run_is_one_table_and_one_line(self) -> None:
        _, err = plain(Ended(run_id="r1", exit_code=0, reason="finished", seconds=12.0, nodes=END.nodes[:1]))
        assert err.splitlines()[-1] == "ncclrun: finished after 12 s, exit code 0"
        assert "error" not in err


class TestJson:
    def test_is_one_object_a_line_with_the_events_name(self) -> None:
        out = io.StringIO()
        view = JsonView(Output(out))
        for event in ALL:
            view.show(event)
        view.close()
        assert [json.loads(line)["event"] for line in out.getvalue().splitlines()] == [event.event for event in ALL]

    def test_has_an_event_for_each_line_of_a_log_and_none_for_a_bar(self) -> None:
        assert json_lines(log(0, "10%", partial=True)) == ""
        first, second = map(json.loads, json_lines(log(2, 'a "b"\n\udcffé\x1b')).splitlines())
        assert first == {
            **{"event": "log", "node": NODES[1], "node_rank": 1, "rank": 2, "local_rank": 0},
            **{"stream": "out", "time": 1.5, "folded": False, "text": 'a "b"'},
        }
        assert second["text"] == "\udcffé\x1b"

    def test_is_ascii(self) -> None:
        assert all(json_lines(event).isascii() for event in ALL)
