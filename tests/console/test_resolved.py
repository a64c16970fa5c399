"""`resolve` shows every candidate with its verdict, and in a few lines what it comes to."""

from __future__ import annotations

import io
import re
from dataclasses import replace

from ncclrun.console.network import NetworkBoard
from ncclrun.console.output import Output
from ncclrun.console.pairs import Seen
from ncclrun.console.plain import PlainView
from ncclrun.console.resolved import candidates_text, conclusion_lines, resolved_text
from ncclrun.model.endevents import Ended
from ncclrun.model.events import Connected, Event, Failure, Planned, Refused, RunCreated, Warn
from ncclrun.model.netevents import Judged, Problem, Written
from tests.console.networks import judged, link, linked, name, path, resolved, says
from tests.console.samples import pinged

HOSTNAMES = (("ip-10-0-0-1", "gpu0"), ("ip-10-0-0-2", "gpu1"))
CUT = {(0, 1): (link(0, 1, "timeout"),)}
FAILURE = Failure(message="no network", fix="cable", exit_code=3)
END = Ended(run_id="", exit_code=0, reason="the network is proven", seconds=1.0)


def plain(*events: Event) -> tuple[str, str]:
    """What stands on stdout and stderr in the end."""
    out, err = io.StringIO(), io.StringIO()
    view = PlainView(Output(out), Output(err))
    for event in events:
        view.show(event)
    view.close()
    return out.getvalue(), err.getvalue()


def together(*events: Event) -> str:
    """The same as with 2>&1."""
    both = io.StringIO()
    view = PlainView(Output(both), Output(both))
    for event in events:
        view.show(event)
    view.close()
    return both.getvalue()


def unchosen(nodes: int) -> list[Event]:
    """Where no network was found."""
    return [replace(row, verdict="rejected") for row in rows(nodes)]


def rows(nodes: int) -> list[Judged]:
    return [event for event in judged(nodes) if isinstance(event, Judged)]


class TestCandidates:
    def test_stand_node_by_node_with_the_chosen_first_and_marked(self) -> None:
        lines = [line.split() for line in candidates_text(rows(2), None).splitlines()]
        assert [line[:4] for line in lines[1:4]] == [
            ["*", "gpu0", "eth1", "10.77.0.1/24"],
            ["gpu0", "eth0", "192.168.1.0/24", "usable"],
            ["gpu0", "eth2", "192.168.2.0/24", "rejected"],
        ]
        assert lines[4][:2] == ["*", "gpu1"]

    def test_name_their_node_once_on_a_terminal(self) -> None:
        assert candidates_text(rows(2), 80).count("gpu0") == 1

    def test_of_many_nodes_are_folded_by_kind(self) -> None:
        text = candidates_text(rows(12), None)
        lines = text.splitlines()
        assert sum(line.startswith("*") for line in lines) == 12
        assert lines[13] == "all: proven by all others"
        assert lines[-2].split(maxsplit=6) == [
            *("eth2", "192.168.2.0", "…", "12", "nodes", "rejected"),
            "nobody reaches it",
        ]
        assert lines[-1] == "left out on all nodes: containers and VMs (docker0)"
        assert len(lines) == 1 + 12 + 1 + 2 + 1 + 2 + 1

    def test_wrap_their_reasons_at_eighty_columns(self) -> None:
        row = Judged(
            node="a",
            node_rank=0,
            interface="eth0",
            address="fd00::1",
            prefix=64,
            verdict="rejected",
            reason="why " * 60,
        )
        lines = re.sub(r"\x1b\[\d*m", "", candidates_text([row], 80)).splitlines()
        assert max(map(len, lines)) <= 80
        assert sum(line.count("why") for line in lines) == 60


class TestConclusion:
    def test_says_why_and_what_fits_and_whether_nccl_agrees(self) -> None:
        events = [*linked(2), *resolved(2), path(0, 1, passed=(1,)), path(1, 0), says(0, True), says(1, True)]
        assert conclusion_lines(Seen(events)) == [
            ("network", "eth1 on all 2 nodes: proven by all"),
            ("paths", "9000 bytes fit through on all 2 pairs; all high TCP ports that were tried pass"),
            ("NCCL", "2.27.5 agrees on all 2 nodes"),
        ]

    def test_says_what_nccl_would_do_instead(self) -> None:
        against = says(1, False, interface="eth0", address="192.168.1.1")
        lines = conclusion_lines(Seen([*linked(3), *resolved(3), says(0, True), against, says(2, None, version="")]))
        assert lines[1:] == [
            ("NCCL", "2.27.5 agrees on gpu0"),
            ("NCCL", "2.27.5 would use eth0 192.168.1.1 on gpu1, not eth1 10.77.0.2"),
            ("NCCL", "was not asked on gpu2: no libnccl there"),
        ]

    def test_says_where_ports_or_udp_are_blocked(self) -> None:
        events = [*linked(2), path(0, 1, blocked=(40001,)), path(1, 0, 0)]
        assert conclusion_lines(Seen(events)) == [
            (
                "paths",
                "9000 bytes fit through on 1 pair; UDP is blocked, so the MTU is not known on 1 pair; "
                "high TCP ports are blocked on 1 pair",
            )
        ]

    def test_takes_no_lack_of_any_answer_for_blocked_udp(self) -> None:
        events = [*linked(2), path(0, 1, 0, blocked=(40001,)), path(1, 0)]
        ((_, words),) = conclusion_lines(Seen(events))
        assert words == "9000 bytes fit through on 1 pair; nothing passes any more on 1 pair"

    def test_says_where_nccl_could_be_asked_nowhere(self) -> None:
        unasked = [says(rank, None, version="", error="there is no libnccl") for rank in range(3)]
        assert conclusion_lines(Seen([*linked(3), *unasked])) == [
            ("NCCL", "was asked on none of the 3 nodes: there is no libnccl")
        ]


class TestResolve:
    def test_tells_how_many_failed_only_where_all_did(self) -> None:
        _, err = plain(*linked(2, {pair: (link(*pair, "timeout"),) for pair in ((0, 1), (1, 0))}), FAILURE, END)
        assert err.startswith(
            "ncclrun: network: 2 pairs of 2 nodes probed (all pairs) by 2 attempts in 0.10 s, none of"
        )

    def test_shows_the_matrix_only_when_something_is_wrong(self) -> None:
        well = [*linked(2), *judged(2), *resolved(2)]
        assert "connect times" not in resolved_text(Seen(well), None)
        assert "connect times" in resolved_text(Seen([*well, path(0, 1, 1500)]), None)

    def test_shows_the_table_once_and_before_the_warnings(self) -> None:
        board = NetworkBoard()
        told = []
        for event in [*linked(2), *judged(2), *resolved(2), Warn(text="a"), Warn(text="b"), END]:
            board.add(event)
            told.append((event.event, bool(board.due(event, None))))
        assert [event for event, shown in told if shown] == ["end"]

    def test_shows_what_confirms_a_choice_that_has_a_warning(self) -> None:
        choice: list[Event] = [*linked(2), *judged(2), *resolved(2), Warn(text="two cards")]
        proof: list[Event] = [path(0, 1), path(1, 0), says(0, True), says(1, True)]
        shown = together(*choice, *proof, Warn(text="slow names"), END)
        told = ("eth1", "9000 bytes fit through", "agrees on all 2 nodes", "two cards", "slow names", "exit code 0")
        places = [shown.index(words) for words in told]
        assert places == sorted(places)
        assert [shown.count(words) for words in told[1:]] == [1] * 5

    def test_has_its_table_on_stdout_and_all_else_on_stderr(self) -> None:
        out, err = plain(*linked(2), *judged(2), *resolved(2), Warn(text="beware"), END)
        assert out.startswith("   node  interface")
        assert err.splitlines() == [
            "ncclrun: network: 2 pairs of 2 nodes probed (all pairs) by 2 attempts in 0.10 s",
            "warning: beware",
            "ncclrun: the network is proven (1 s), exit code 0",
        ]

    def test_tells_a_warning_of_many_nodes_once(self) -> None:
        warnings = [Warn(text="slow names", fix="mend", node=name(rank)) for rank in range(5)]
        _, err = plain(*linked(5), *judged(5), *resolved(5), *warnings, END)
        assert err.splitlines()[1:3] == [
            "warning: gpu0, gpu1, gpu2, gpu3, gpu4: slow names",
            "  fix: mend",
        ]

    def test_knows_a_warning_of_another_node_by_its_host_name(self) -> None:
        warnings = [Warn(text=f"{own} is 127.0.1.1", fix=f"mend {own}", node=node) for own, node in HOSTNAMES]
        called = [
            Connected(node=node, node_rank=rank, host=node, hostname=own, seconds=0.1, local=False)
            for rank, (own, node) in enumerate(HOSTNAMES)
        ]
        _, err = plain(*linked(2), *called, *judged(2), *resolved(2), *warnings, END)
        assert "likewise on gpu1" in err
        assert err.count("fix:") == 1

    def test_that_is_broken_off_still_tells_its_warnings(self) -> None:
        _, err = plain(*linked(2), *judged(2), *resolved(2), Warn(text="beware"))
        assert err.endswith("warning: beware\n")

    def test_without_an_answer_shows_who_reaches_whom_then_the_addresses_and_the_fix_last(self) -> None:
        shown = together(*linked(2, CUT), *unchosen(2), FAILURE, END)
        places = [shown.index(words) for words in ("error: no network", "gpu0  ->  gpu1", "eth0", "fix: cable")]
        assert places == sorted(places)
        assert shown.splitlines()[-2:] == [
            "  fix: cable",
            "ncclrun: the network is proven (1 s), exit code 0",
        ]
        assert [shown.count(words) for words in ("no network", "fix: cable", "gpu0  ->  gpu1")] == [1, 1, 1]

    def test_has_neither_a_blank_line_first_nor_an_open_one_last_in_a_file(self) -> None:
        out, err = plain(*linked(2, CUT), *unchosen(2), FAILURE, END)
        for text in (out, err):
            assert text[0] != "\n"
            assert text[-1] == "\n"

    def test_says_what_it_has_written(self) -> None:
        written = Written(path="lab.yaml", backup="lab.yaml.bak", changes=("gpu0: interface eth1",))
        assert plain(written)[1] == (
            "ncclrun: lab.yaml is written (what it was before: lab.yaml.bak)\n           gpu0: interface eth1\n"
        )

    def test_tells_what_is_wrong_on_a_node_that_was_to_prepare_nothing(self) -> None:
        refused = Refused(node="gpu0", node_rank=0, code="nccl_differs", message="NCCL takes eth0", fix="mend it")
        assert plain(refused, END)[1].splitlines()[:2] == ["error: gpu0: NCCL takes eth0", "  fix: mend it"]

    def test_says_that_there_was_nothing_to_write(self) -> None:
        written = Written(path="lab.yaml", backup="", changes=())
        assert plain(written)[1] == "ncclrun: lab.yaml has this choice already, and is left as it is\n"


class TestPing:
    def test_has_the_matrix_below_its_table(self) -> None:
        events = [*linked(2, names=["gpu1", "b"]), *judged(2), *resolved(2, ["gpu1", "b"]), pinged(0), pinged(1), END]
        out, _ = plain(*events)
        assert out.index("node  fit") < out.index("connect times in ms") < out.index("network  eth1 on all 2 nodes")
        assert "docker0" not in out

    def test_that_fails_tells_its_fix_once_and_last(self) -> None:
        row = pinged(1, fit=False, problems=(Problem(code="network", message="no network joins it", fix="cable"),))
        slow = pinged(0, problems=(Problem(code="n", message="slow names", fix="mend", level="warning"),))
        shown = together(*linked(2, CUT, ["gpu1", "b"]), *unchosen(2), FAILURE, slow, row, END)
        told = ("error: no network", "node  fit", "->", "eth0", "slow names", "no network joins it", "fix: cable")
        places = [shown.index(words) for words in told]
        assert places == sorted(places)
        assert shown.count("cable") == 1

    def test_tells_its_fix_once_where_nothing_could_be_tried(self) -> None:
        row = pinged(0, fit=False, problems=(Problem(code="network", message="no network joins it", fix="cable"),))
        assert together(*unchosen(2), FAILURE, row, END).count("fix: cable") == 1

    def test_tells_the_fix_also_when_no_node_has_it(self) -> None:
        assert together(*linked(2, CUT), FAILURE, pinged(0), END).count("fix: cable") == 1

    def test_of_a_part_says_who_is_left_out(self) -> None:
        events = [*linked(3), FAILURE, *resolved(2)]
        assert conclusion_lines(Seen(events))[0] == ("network", "without gpu2: eth1 on gpu0, gpu1: proven by all")

    def test_shows_the_last_verdict_on_an_address(self) -> None:
        seen = Seen([*unchosen(2), *judged(2)])
        assert [row.verdict for row in seen.candidates].count("chosen") == 2
        assert len(seen.candidates) == 8

    def test_is_as_it_was_where_nothing_was_probed(self) -> None:
        out, _ = plain(pinged(0), END)
        assert out == "node  fit\ngpu1  yes\n"


class TestLaunch:
    RUN = RunCreated(run_id="r", cluster="lab", directory="/r", nnodes=2, nodes=(name(0), name(1)))
    PLAN = Planned(
        run_id="r",
        launcher="torchrun",
        master_addr="10.77.0.1",
        master_port=1,
        world_size=2,
        nodes=({"node": name(0)}, {"node": name(1)}),
    )

    def test_says_its_network_and_the_proof_in_one_line(self) -> None:
        out, err = plain(self.RUN, *linked(2), *resolved(2), says(0, True), says(1, True), self.PLAN)
        assert out == ""
        assert (
            "ncclrun: network: eth1 on gpu0, eth1 on gpu1 (proven by all); proven by 2 connections in 0.10 s; "
            "NCCL 2.27.5 agrees on all 2 nodes\n"
        ) in err
        assert "probed" not in err

    def test_says_what_nccl_thinks_when_that_comes_later(self) -> None:
        _, err = plain(self.RUN, *linked(2), *resolved(2), self.PLAN, says(0, True), says(1, True))
        assert err.splitlines()[-1] == "ncclrun: NCCL 2.27.5 agrees on all 2 nodes"
