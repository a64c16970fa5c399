"""What many nodes have in common is told once."""

from __future__ import annotations

from ncclrun.console.findings import Finding, fold, notes


def finding(node: str | None, text: str = "{} resolves to 127.0.1.1") -> Finding:
    return Finding("warning", node, text.format(node), f"mend {node}")


def test_a_few_nodes_have_their_own_words() -> None:
    assert [note.text for note in notes([finding("a"), finding("b")])] == [
        "a: a resolves to 127.0.1.1",
        "mend a",
        "b: b resolves to 127.0.1.1",
        "mend b",
    ]


def test_of_many_the_others_are_named() -> None:
    told = notes([finding(f"gpu{number}") for number in range(20)])
    assert [(note.level, note.text) for note in told] == [
        ("warning", "gpu0: gpu0 resolves to 127.0.1.1"),
        ("fix", "mend gpu0"),
        ("more", "the same on gpu1, gpu2, gpu3, gpu4, gpu5, gpu6, gpu7, gpu8 and 11 more"),
    ]


def test_other_words_stay_apart_and_in_their_order() -> None:
    findings = [finding(None, "first"), *(finding(name) for name in "abcd"), finding("a", "second")]
    assert [(one.text, others) for one, others in fold(findings)] == [
        ("first", []),
        ("a resolves to 127.0.1.1", ["b", "c", "d"]),
        ("second", []),
    ]


def test_a_name_inside_another_word_is_no_name() -> None:
    assert finding("a", "a has a clash").kind == finding("b", "b has b clash").kind
    assert finding("gpu1", "gpu1 and gpu11").kind[1] == "… and gpu11"
