"""Lines come out whole and the same, however the bytes were cut."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from ncclrun.model.lines import LineAssembler


def lines_of(*pieces: bytes, cap: int = 1000) -> list[str]:
    """Every line of a stream that ends after these pieces."""
    assembler = LineAssembler(cap)
    found = [assembler.feed(piece) for piece in pieces] + [assembler.flush()]
    return [line for text in found if text is not None for line in text.split("\n")]


class TestALine:
    def test_ends_at_a_line_feed(self) -> None:
        assembler = LineAssembler()
        assert assembler.feed(b"one\ntw") == "one"
        assert assembler.partial == "tw"
        assert assembler.feed(b"o\nthree\n") == "two\nthree"
        assert assembler.flush() is None

    def test_that_is_empty_is_told_from_none(self) -> None:
        assembler = LineAssembler()
        assert assembler.feed(b"\n") == ""
        assert assembler.feed(b"") is None

    def test_without_its_end_is_kept(self) -> None:
        assert lines_of(b"one\nlast") == ["one", "last"]

    def test_may_end_as_on_windows_even_when_cut_between(self) -> None:
        assert lines_of(b"one\r\ntwo\r", b"\n\r\n") == ["one", "two", ""]

    def test_keeps_nul_and_odd_bytes_apart_from_line_ends(self) -> None:
        assert lines_of(b"a\x00\x0b\x0c\xc2\x85b\xff\n") == ["a\x00\x0b\x0c\x85b\ufffd"]


class TestAProgressBar:
    def test_is_seen_as_it_stands(self) -> None:
        assembler = LineAssembler()
        assert assembler.feed(b"\r 10%") is None
        assert assembler.partial == " 10%"
        assert assembler.feed(b"\r 20%\r") is None
        assert assembler.partial == " 20%"

    def test_leaves_only_its_last_state(self) -> None:
        assert lines_of(b"\r 10%\r 20%", b"\r100%", b"\nnext\n") == ["100%", "next"]

    def test_of_any_length_takes_no_room(self) -> None:
        assembler = LineAssembler(cap=100)
        for _ in range(100):
            assert assembler.feed(b"\r" * 50 + b"step\r") is None
        assert assembler.partial == "step"


class TestSplitCharacters:
    def test_are_joined(self) -> None:
        data = "größe 日本 🚀\n".encode()
        assert lines_of(*(bytes([byte]) for byte in data)) == ["größe 日本 🚀"]

    def test_that_never_end_are_replaced(self) -> None:
        assert lines_of(b"ab\xe6\x97") == ["ab\ufffd"]


class TestALineWithoutEnd:
    def test_is_cut_at_the_cap(self) -> None:
        assert lines_of(b"x" * 25, b"\nnext\n", cap=10) == ["x" * 10, "x" * 10, "x" * 5, "next"]

    def test_is_cut_inside_a_chunk_of_others(self) -> None:
        assert lines_of(b"a\n" + b"x" * 25 + b"\nb\n", cap=10) == ["a", "x" * 10, "x" * 10, "x" * 5, "b"]

    def test_of_exactly_the_cap_makes_no_empty_line(self) -> None:
        assert lines_of(b"x" * 10, b"\n", cap=10) == ["x" * 10]
        assert lines_of(b"x" * 20, b"\n", cap=10) == ["x" * 10, "x" * 10]

    def test_keeps_memory_flat(self) -> None:
        assembler, piece = LineAssembler(), b"x" * (64 << 10)
        tracemalloc.start()
        try:
            got = sum(len(assembler.feed(piece) or "") for _ in range(500))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert got == 499 * len(piece)
        assert peak < 2 << 20


@given(
    st.lists(st.sampled_from([b"a", b"\r", b"\n", b"\r\n", "é".encode(), b"\xff", b"long word"]).map(bytes)), st.data()
)
def test_cuts_never_change_the_lines(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)))))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert lines_of(*pieces) == lines_of(whole)
    expected = [line.rstrip("\r").split("\r")[-1] for line in whole.decode(errors="replace").split("\n")]
    assert lines_of(whole) == (expected if not whole.endswith(b"\n") and whole else expected[:-1])
