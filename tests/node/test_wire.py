"""Frames: whatever the pieces, the frames come out whole and in order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncclrun.node import wire

headers = st.dictionaries(st.text(max_size=8), st.none() | st.integers() | st.text(max_size=20), max_size=4)


@given(frames=st.lists(st.tuples(headers, st.binary(max_size=60)), max_size=6), data=st.data())
def test_any_split_of_the_bytes_gives_the_same_frames(
    frames: list[tuple[dict[str, Any], bytes]], data: st.DataObject
) -> None:
    stream = b"".join(wire.encode(header, body) for header, body in frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    decoder = wire.Decoder()
    found: list[wire.Frame] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += decoder.feed(stream[start:end])
    assert found == frames


def test_bytes_that_are_no_utf8_survive_as_surrogates() -> None:
    value = b"caf\xe9 \xff".decode("utf-8", "surrogateescape")
    ((header, _),) = wire.Decoder().feed(wire.encode({"v": value}))
    assert header["v"].encode("utf-8", "surrogateescape") == b"caf\xe9 \xff"


@pytest.mark.parametrize("noise", [b"Last login: Mon\n" * 2, b"\0\0\0\2\0\0\0\0{]", b"\0\0\0\2\0\0\0\0[]"])
def test_what_is_no_frame_is_an_error(noise: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.Decoder().feed(noise)


def test_a_frame_that_is_too_large_is_not_sent() -> None:
    with pytest.raises(wire.WireError):
        wire.encode({}, bytes(wire.MAX_BODY + 1))
