"""The page is whole without a network or JavaScript, has every pair, and nothing of a stranger is markup in it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncclrun.console.metrics import metrics
from ncclrun.console.page import render_page, write_page
from ncclrun.console.pairs import Seen
from ncclrun.model.endevents import Ended
from ncclrun.model.events import Event, Failure, Warn
from tests.console.networks import judged, link, linked, path, resolved, says, transfer

VOID = {"meta", "link", "br", "img", "input", "hr"}
END = Ended(run_id="", exit_code=0, reason="all nodes are fit", seconds=1.0)


@dataclass
class Read(HTMLParser):
    """What a browser would make of it; fails where an element is not closed by its own end."""

    text: str
    open: list[str] = field(default_factory=list)
    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    cells: list[str] = field(default_factory=list)
    data: str = ""

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th", "i") and self.cells:
            self.cells[-1] += data
        if self.open and self.open[-1] == "script" and self.tags[-1][1].get("id") == "data":
            self.data += data

    def json(self) -> Any:
        """What the script is given."""
        return json.loads(self.data)


def network(nodes: int = 3, names: list[str] | None = None, *more: Event) -> list[Event]:
    called = names or []
    return [*linked(nodes, names=called), *judged(nodes, called), *resolved(nodes, called), *more, END]


class TestWhatIsOnIt:
    @pytest.mark.parametrize("nodes", [2, 3, 30])
    def test_every_pair_has_a_cell_that_says_all_about_it(self, nodes: int) -> None:
        page = Read(render_page("ping", network(nodes)))
        tips = [attributes["title"] for tag, attributes in page.tags if tag == "td" and "title" in attributes]
        heads = {str(tip).split("\n", maxsplit=1)[0] for tip in tips}
        assert heads == {f"gpu{a} → gpu{b}" for a in range(nodes) for b in range(nodes) if a != b}
        assert {(pair[0], pair[1]) for pair in page.json()["pairs"]} == {
            (a, b) for a in range(nodes) for b in range(nodes) if a != b
        }

    def test_a_tip_has_outcome_source_address_time_and_mtu(self) -> None:
        page = render_page("ping", network(2, None, path(0, 1), transfer(0, 1, 94.0)))
        assert (
            "gpu0 → gpu1&#10;connected in 0.31 ms&#10;from 10.77.0.1 (as the kernel routes) to 10.77.0.2:40000"
            "&#10;path MTU 9000 bytes&#10;94 Gbit/s"
        ) in page

    def test_what_is_broken_has_its_symbol_and_no_colour_of_the_scale(self) -> None:
        odd = {(0, 1): (link(0, 1, "timeout"),)}
        page = Read(render_page("ping", [*linked(2, odd), *resolved(2)]))
        classes = {attributes.get("class") for tag, attributes in page.tags if tag == "td" and "title" in attributes}
        assert classes == {"broken", "q9"}
        assert ">" in page.cells
        assert [pair[5] for pair in page.json()["pairs"] if pair[:2] == [0, 1]] == [[">"]]

    def test_the_throughput_comes_first_when_it_was_measured(self) -> None:
        events = network(2, None, path(0, 1), transfer(0, 1, 94.0))
        assert [one["key"] for one in Read(render_page("ping", events)).json()["metrics"]] == [
            *("gbits", "seconds", "mtu")
        ]

    def test_candidates_nodes_and_findings_are_there(self) -> None:
        more = (Warn(text="beware", fix="mend it", node="gpu1"), says(0, True))
        page = render_page("lab", network(2, None, *more))
        for words in (
            "<td>docker0</td>",
            "<td>it is the network of containers</td>",
            "gpu1: beware",
            "mend it",
            "agrees",
        ):
            assert words in page

    def test_an_error_without_any_network_is_a_page_too(self) -> None:
        page = Read(render_page("lab", [Failure(message="no\n  table", fix="mend", exit_code=3), END]))
        assert page.json()["pairs"] == []

    def test_a_fix_of_several_lines_keeps_them(self) -> None:
        fix = "on gpu1:\n  sudo ufw allow from 10.0.0.0/24\n  sudo ufw reload"
        assert f"<code>{fix}</code>" in render_page("lab", network(2, None, Warn(text="shut", fix=fix, node="gpu1")))

    def test_what_there_is_to_say_of_a_sound_pair_is_said_once(self) -> None:
        assert "what" not in Read(render_page("lab", network(2))).cells
        odd = {(0, 1): (link(0, 1, "timeout"),)}
        page = Read(render_page("lab", [*linked(3, odd), *judged(3), *resolved(3)]))
        assert "what" in page.cells
        assert not any("connected in" in cell for cell in page.cells)

    def test_it_asks_nothing_of_a_network(self) -> None:
        text = render_page("ping", network())
        page = Read(text)
        loading = {name for _, attributes in page.tags for name in attributes} & {"src", "href", "srcset", "action"}
        assert loading == set()
        assert "http:" not in text and "https:" not in text and "url(" not in text


EVIL = ["</script><script>alert(1)</script>", '" onmouseover="alert(2)', "<b>&amp;", "%%{data} \u202e\ud800é日", "<!--"]


class TestStrangers:
    def test_can_put_no_markup_on_it(self) -> None:
        good = [tag for tag, _ in Read(render_page("x", network(5))).tags]
        page = Read(render_page("<i>", network(5, EVIL, Warn(text=EVIL[0], fix=EVIL[1], node=EVIL[2]))))
        assert [tag for tag, _ in page.tags if tag in ("script", "b", "td")].count("script") == good.count("script")
        assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
        assert page.json()["nodes"][:3] == EVIL[:3]

    @settings(max_examples=30, deadline=None)
    @given(st.lists(st.text(min_size=1), min_size=2, max_size=2, unique=True))
    def test_can_not_break_it_by_any_name(self, names: list[str]) -> None:
        text = render_page(names[0], network(2, names, Warn(text=names[1], node=names[0])))
        page = Read(text)
        text.encode("utf-8")
        assert len(page.json()["nodes"]) == 2
        assert [tag for tag, _ in page.tags].count("script") == 2


class TestTheScale:
    def test_is_darkest_for_the_slowest_and_brightest_for_the_fastest(self) -> None:
        pairs = list(Seen([*linked(2), transfer(0, 1, 94.0), transfer(1, 0, 1.0)]).pairs().values())
        gbits = metrics(pairs)[0]
        assert (gbits.level(94.0), gbits.level(1.0)) == (9, 0)

    def test_makes_no_drama_of_connect_times_that_are_all_alike(self) -> None:
        odd = {(0, 1): (link(0, 1, seconds=0.0002),), (1, 0): (link(1, 0, seconds=0.0003),)}
        times = metrics(list(Seen(linked(2, odd)).pairs().values()))[0]
        assert (times.level(0.0002), times.level(0.0003)) == (9, 8)


class TestTheFile:
    def test_is_written_as_utf8(self, tmp_path: Path) -> None:
        write_page(tmp_path / "n.html", "lab", network(2, ["日", "b"]))
        assert "日" in (tmp_path / "n.html").read_text(encoding="utf-8")

    def test_is_known_as_one_and_may_be_written_again(self, tmp_path: Path) -> None:
        for title in ("one", "two"):
            write_page(tmp_path / "n.html", title, network(2))
        assert "<title>two</title>" in (tmp_path / "n.html").read_text(encoding="utf-8")
