"""What many nodes have in common is told once."""

from __future__ import annotations

from typing import Literal

import pytest

from ncclrun.console.findings import Finding, fold, notes


def finding(node: str | None, text: str = "{} resolves to 127.0.1.1") -> Finding:
    return Finding("warning", node, text.format(node), f"mend {node}")


def told(*findings: Finding) -> list[tuple[str, str]]:
    return [(note.level, note.text) for note in notes(findings)]


def test_what_two_nodes_have_in_common_is_told_once() -> None:
    assert told(finding("a"), finding("b")) == [
        ("warning", "a: a resolves to 127.0.1.1"),
        ("fix", "mend a"),
        ("more", "likewise on b"),
    ]


def test_of_many_the_others_are_named() -> None:
    assert told(*(finding(f"gpu{number}") for number in range(20)))[2:] == [
        (
            "more",
            "likewise on gpu1, gpu2, gpu3, gpu4, gpu5, gpu6, gpu7, gpu8 and 11 more",
        )
    ]


def test_the_very_same_is_told_with_all_names_in_front() -> None:
    alike = [Finding("warning", node, "an old driver", "update it") for node in "abc"]
    assert told(*alike) == [("warning", "a, b, c: an old driver"), ("fix", "update it")]


@pytest.mark.parametrize("level", ["warning", "error"])
def test_what_names_both_ends_is_told_once(level: Literal["warning", "error"]) -> None:
    both = [Finding(level, node, "a → b 0.2 Gbit/s", "measure 10.0.0.1 again") for node in "ab"]
    assert told(*both) == [(level, "a, b: a → b 0.2 Gbit/s"), ("fix", "measure 10.0.0.1 again")]


def test_a_node_in_front_of_its_words_stands_there_once() -> None:
    alike = [Finding("error", node, f"{node}: it is gone", "reboot it", host=f"10.0.0.{node}") for node in "12"]
    assert told(*alike) == [("error", "1, 2: it is gone"), ("fix", "reboot it")]


@pytest.mark.parametrize("address", ["10.77.0.{}", "fd00::{}", "2001:db8:0:1:2:3:4:{}", "::{}"])
def test_warnings_are_alike_but_for_addresses_and_names(address: str) -> None:
    both = [
        Finding("warning", name, f"its own name {own} is {ip}", f"write  {ip} {own}", hostname=own)
        for name, own, ip in (("a", "ip-1", address.format(1)), ("b", "ip-2", address.format(2)))
    ]
    assert told(*both)[2:] == [("more", "likewise on b: its own address and name")]


def test_the_address_of_an_error_is_never_left_out() -> None:
    both = [Finding("error", name, f"nobody reaches 10.0.0.{at}", "mend it") for at, name in enumerate("ab")]
    assert [level for level, _ in told(*both)] == ["error", "fix", "error", "fix"]


def test_fixes_that_are_not_alike_are_all_told() -> None:
    both = [Finding("warning", "a", "it is slow", "mend it"), Finding("warning", "b", "it is slow", "buy another")]
    assert [text for level, text in told(*both) if level == "fix"] == ["mend it", "buy another"]


def test_other_words_stay_apart_and_in_their_order() -> None:
    findings = [finding(None, "first"), *(finding(name) for name in "abcd"), finding("a", "second")]
    assert [(one.text, [other.node for other in others]) for one, others in fold(findings)] == [
        ("first", []),
        ("a resolves to 127.0.1.1", ["b", "c", "d"]),
        ("second", []),
    ]


def test_a_name_inside_another_word_is_no_name() -> None:
    assert finding("a", "a has a clash").kind == finding("b", "b has b clash").kind
    assert finding("gpu1", "gpu1 and gpu11").kind[1] == "… and gpu11"
