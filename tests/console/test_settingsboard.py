"""The look of `nccl show`: a row for each value, whatever the number of nodes, and what differs stands out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ncclrun.console.settingsboard import SettingsBoard
from ncclrun.model.effective import Effective
from ncclrun.model.endevents import Ended
from ncclrun.model.events import Event
from ncclrun.model.settingevents import SettingFound, SettingsSeen
from ncclrun.model.settings import SettingFinding
from tests.console.settingsamples import SYSTEM, node_name, seen, with_differences

END = Ended(run_id="", exit_code=0, reason="looked at", seconds=1.0)


def shown(events: list[Event], width: int | None = None) -> str:
    """What the last of the events brings forth."""
    board = SettingsBoard()
    assert [board.said(event, width) for event in events] == [("", [])] * len(events)
    return board.said(END, width)[0]


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


class TestOfNodesThatAreAlike:
    def test_each_value_has_one_row(self) -> None:
        assert shown(with_differences([seen(rank) for rank in range(16)])).splitlines() == [
            "NCCL 2.27.5 on all 16 nodes, conf files read: /etc/nccl.conf",
            "",
            "variable            value          from                          on",
            "NCCL_DEBUG          WARN           nccl.env in the cluster file  all 16 nodes",
            "NCCL_DEBUG          hides INFO     /home/me/.bashrc:12           all 16 nodes",
            "NCCL_DEBUG          hides VERSION  /etc/nccl.conf:3              all 16 nodes",
            "NCCL_IB_DISABLE     0              /etc/nccl.conf:1              all 16 nodes",
            "NCCL_SOCKET_IFNAME  =eth1          network choice                all 16 nodes",
        ]

    def test_one_alone_is_not_named_in_each_row(self) -> None:
        assert "variable            value          from\n" in shown([seen(0)])

    def test_without_a_setting_say_so(self) -> None:
        bare = [replace(seen(rank), values=(), files=(), nccl="") for rank in range(2)]
        assert shown([*bare]) == (
            "NCCL of an unknown version on all 2 nodes, no conf file; nothing is set, so it goes by its own defaults\n"
        )


class TestOfNodesThatDiffer:
    def test_the_unusual_value_is_marked_and_the_usual_one_not(self) -> None:
        text = shown(with_differences([seen(0), seen(1, disable="1"), seen(2)]))
        assert ["NCCL_IB_DISABLE", "0", f"{SYSTEM}:1", "gpu1,", "gpu3"] in rows(text)
        assert ["!", "NCCL_IB_DISABLE", "1", f"{SYSTEM}:1", "gpu2"] in rows(text)
        assert "! not as on the other nodes\n" in text

    def test_the_lack_of_a_value_is_a_row_too(self) -> None:
        text = shown(with_differences([seen(0), seen(1, disable=None), seen(2)]))
        assert ["!", "NCCL_IB_DISABLE", "(not", "set)", "gpu2"] in rows(text)

    def test_all_are_marked_where_none_is_usual(self) -> None:
        text = shown(with_differences([seen(0), seen(1, disable="1")]))
        assert [row[:3] for row in rows(text) if "NCCL_IB_DISABLE" in row] == [
            ["!", "NCCL_IB_DISABLE", "0"],
            ["!", "NCCL_IB_DISABLE", "1"],
        ]

    def test_what_may_differ_has_a_mark_of_its_own(self) -> None:
        text = shown(with_differences([seen(0), seen(1, interface="ens3")]))
        assert ["~", "NCCL_SOCKET_IFNAME", "=ens3", "network", "choice", "gpu2"] in rows(text)
        assert "it is each host's own" in text
        assert "!" not in text

    def test_the_same_from_another_place_is_no_difference(self) -> None:
        other = seen(1)
        moved = tuple(replace(one, line=7) if one.name == "NCCL_IB_DISABLE" else one for one in other.values)
        text = shown(with_differences([seen(0), replace(other, values=moved)]))
        assert ["NCCL_IB_DISABLE", "0", f"{SYSTEM}:7", "gpu2"] in rows(text)

    def test_a_terminal_has_them_in_colour_too_and_each_name_once(self) -> None:
        text = shown(with_differences([seen(0), seen(1, disable="1"), seen(2)]), 100)
        (odd,) = [line for line in text.splitlines() if "!" in line and "gpu2" in line]
        assert "\x1b[1;33m" in odd
        assert text.count("NCCL_IB_DISABLE") == 1

    def test_names_stay_whole_on_a_narrow_terminal(self) -> None:
        text = shown(with_differences([seen(rank, disable=str(rank % 2)) for rank in range(16)]), 80)
        assert "NCCL_SOCKET_IFNAME" in text


@pytest.mark.parametrize(
    ("value", "words"),
    [("", "(empty: not set)"), ("eth0 ", '"eth0 "'), ("a\x1b[2J\n", '"a␛[2J "'), ("1  # x", "1  # x")],
)
def test_a_value_shows_what_is_hard_to_see(value: str, words: str) -> None:
    one = Effective(name="NCCL_X", value=value, source=SYSTEM, origin="system", line=1)
    text = shown([SettingsSeen(node="a", node_rank=0, nccl="2.27.5", files=(SYSTEM,), values=(one,))])
    assert f"NCCL_X    {words}" in text


FINDING = SettingFinding(
    file=SYSTEM,
    line=1,
    name="NCCL_IB_DISABLE",
    value="true",
    level="error",
    id="word_for_number",
    sees="NCCL reads 0 here: InfiniBand stays on",
    fix="NCCL_IB_DISABLE=1",
)


class TestFindings:
    def told(self, events: list[SettingFound]) -> list[tuple[str, str]]:
        board = SettingsBoard()
        for event in events:
            board.said(event, None)
        return [(note.level, note.text) for note in board.said(END, None)[1]]

    def test_are_told_once_for_nodes_with_the_very_same(self) -> None:
        assert self.told([SettingFound(node=node_name(rank), finding=FINDING) for rank in range(10)]) == [
            (
                "error",
                "gpu1, gpu2, gpu3, gpu4, gpu5, gpu6, gpu7, gpu8 and 2 more: /etc/nccl.conf:1: NCCL_IB_DISABLE=true:"
                " NCCL reads 0 here: InfiniBand stays on",
            ),
            ("fix", "NCCL_IB_DISABLE=1"),
        ]

    def test_have_errors_last(self) -> None:
        mild = replace(FINDING, level="info", fix="", line=None)
        levels = [level for level, _ in self.told([SettingFound(node="a", finding=one) for one in (FINDING, mild)])]
        assert levels == ["info", "error", "fix"]

    def test_of_all_nodes_name_none(self) -> None:
        assert self.told([SettingFound(node=None, finding=replace(FINDING, file="", fix=""))])[0][1].startswith(
            "NCCL_IB"
        )

    def test_are_told_once(self) -> None:
        board = SettingsBoard()
        board.said(SettingFound(node="a", finding=FINDING), None)
        assert board.said(END, None)[1]
        assert board.said(END, None) == ("", [])
