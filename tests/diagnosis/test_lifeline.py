"""Which node the others do not hear any more, from what each of them tells."""

from __future__ import annotations

from ncclrun.diagnosis.lifeline import CutOff, Teller, cut_off

LEASE = 5.0


def judged(*hears: dict[int, float | None], halted: int | None = None, away: int | None = None) -> CutOff | None:
    """What is made of each node's word, in order of node_rank; one may be ``halted``, one not answer."""
    tellers = [Teller(rank, f"n{rank}", rank != away, heard, rank == halted) for rank, heard in enumerate(hears)]
    return cut_off(tellers, LEASE)


def test_nobody_is_cut_off_while_all_are_heard_within_the_lease_and_a_little() -> None:
    assert judged({1: 5.9, 2: 0.2}, {0: 5.5}, {0: 0.1}) is None


def test_who_has_said_its_end_is_not_missed() -> None:
    assert judged({1: None, 2: 0.3}, {}, {0: None}) is None


def test_two_that_do_not_hear_each_other_have_lost_the_link_between_them() -> None:
    found = judged({1: 0.1, 2: 6.4}, {0: 0.3}, {0: 6.1})
    assert found == CutOff(
        2, 6.4, "the data link is cut: its host answers ncclrun, but it and n0 do not hear each other"
    )


def test_all_at_once_are_missed_by_node_0_whose_own_link_it_is() -> None:
    found = judged({1: 6.4, 2: 5.6}, {0: 5.1}, {0: 4.4})
    assert found == CutOff(
        0, 6.4, "the data link is cut: its host answers ncclrun, but it and the other nodes do not hear each other"
    )


def test_one_that_a_signal_halted_is_named_on_either_end() -> None:
    why = "its supervisor is halted by a signal (process state T), and the other nodes do not hear it"
    assert judged({1: 6.4, 2: 0.1}, {0: 0.3}, {0: 0.1}, halted=1) == CutOff(1, 6.4, why)
    assert judged({1: 0.4}, {0: 6.3}, halted=0) == CutOff(0, 6.3, why)


def test_one_that_says_nothing_of_the_silence_itself_hangs() -> None:
    why = "its supervisor hangs: its host answers ncclrun, but the other nodes do not hear it"
    assert judged({1: 0.2, 2: 6.4}, {0: 0.3}, {0: 0.5}) == CutOff(2, 6.4, why)
    assert judged({1: 0.2}, {0: 6.4}) == CutOff(0, 6.4, why)


def test_what_one_said_that_does_not_answer_any_more_is_of_no_account() -> None:
    assert judged({1: 60.0, 2: 60.0}, {0: 0.3}, {0: 0.5}, away=0) is None
    found = judged({1: 0.2, 2: 6.4}, {0: 0.3}, {0: 0.5}, away=2)
    assert found == CutOff(2, 6.4, "the other nodes do not hear it, and its host does not answer ncclrun")
