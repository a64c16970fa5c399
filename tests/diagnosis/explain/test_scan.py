"""One pass over a log, in pieces of any size, whatever is in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncclrun.diagnosis.explain.catalogue import ALL, BY_ID
from ncclrun.diagnosis.explain.judge import judge
from ncclrun.diagnosis.explain.scan import AROUND, KEPT, MOST, LogScan
from ncclrun.diagnosis.explain.signature import Signature
from tests.diagnosis.explain.logs import scan

PIECES = st.sampled_from(
    [word for signature in ALL for word in signature.words] + ["\n", " ", "x", "<4000>", "172.17.0.1"]
)


@given(st.lists(st.one_of(PIECES, st.text(max_size=20)), max_size=40))
def test_no_text_makes_it_fail(pieces: list[str]) -> None:
    judge([scan("".join(pieces))])


@given(
    st.lists(st.sampled_from(["x", "step 1", BY_ID["if-none"].sample, BY_ID["gpu-oom"].sample]), min_size=1), st.data()
)
def test_the_pieces_in_which_a_log_comes_make_no_difference(lines: list[str], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(lines)))
    whole, parted = LogScan("a"), LogScan("a")
    whole.feed("\n".join(lines))
    for part in (lines[:cut], lines[cut:]):
        if part:
            parted.feed("\n".join(part))
    assert (whole.hits, whole.lines, whole.progress.steps) == (parted.hits, parted.lines, parted.progress.steps)


def test_a_line_is_found_by_its_number_and_all_are_counted_though_few_are_kept() -> None:
    log = scan("\n".join(["x", "x", *["RuntimeError: CUDA out of memory"] * 10, "x"]))
    hits = log.hits["gpu-oom"]
    assert (hits.lines, [place.line for place in hits.places]) == (10, [3, 4, 5])
    assert len(hits.places) == KEPT


def test_colours_in_the_middle_of_the_decisive_words_do_not_hide_them() -> None:
    assert "gpu-oom" in scan("\x1b[1;31mRuntimeError: CUDA out\x1b[0m of memory").hits


def test_only_the_surroundings_of_a_word_are_matched_so_that_no_line_is_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []
    match = Signature.match

    def measured(self: Signature, line: str) -> dict[str, str] | None:
        sizes.append(len(line))
        return match(self, line)

    monkeypatch.setattr(Signature, "match", measured)
    log = LogScan("a")
    log.feed("NET/IB : Got completion with error " * 30000)
    assert sizes
    assert max(sizes) <= 2 * AROUND
    assert len(sizes) < 10  # once a signature, not once a word


def test_each_log_is_told_by_its_own_host_and_rank_before_what_its_lines_say() -> None:
    log = scan("gpu9:1:1 [0] NCCL WARN Bootstrap : no socket interface found", "rank4.err", "node-b", 4)
    place = log.hits["if-none"].places[0]
    assert (place.host, place.rank) == ("node-b", 4)


def test_whoever_says_it_only_so_many_hosts_and_ranks_are_remembered() -> None:
    log = scan("\n".join(f"[rank{rank}]: RuntimeError: CUDA out of memory" for rank in range(MOST + 9)))
    assert (log.hits["gpu-oom"].lines, len(log.hits["gpu-oom"].speakers)) == (MOST + 9, MOST)
