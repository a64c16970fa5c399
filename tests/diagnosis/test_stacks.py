"""Who waits where, and who is elsewhere, told from the stacks of all ranks."""

from __future__ import annotations

from typing import Any

from ncclrun.diagnosis.stacks import grouped, verdict
from ncclrun.model.stallevents import Frame, RankStacks, Thread

HOME = "/root/.local/state/ncclrun/runs/r/{node}-abc/code/train.py"
TORCH = "/{node}/venv/lib/python3.11/site-packages/torch/"
REDUCE = [
    ("all_reduce", TORCH + "distributed/distributed_c10d.py", 2806),
    ("wrapper", TORCH + "distributed/c10d_logger.py", 83),
    ("main", HOME, 88),
    ("<module>", HOME, 95),
]
LOADER = [
    ("wait", "/{node}/lib/python3.11/threading.py", 331),
    ("get", "/{node}/lib/python3.11/queue.py", 180),
    ("_try_get_data", TORCH + "utils/data/dataloader.py", 1133),
    ("__next__", TORCH + "utils/data/dataloader.py", 701),
    ("main", HOME, 41),
    ("<module>", HOME, 95),
]
ASLEEP = [("asleep", HOME, 12), ("main", HOME, 41), ("<module>", HOME, 95)]


def at(rank: int, frames: list[tuple[str, str, int]], **more: Any) -> RankStacks:
    """A rank of a node of its own, with another thread beside."""
    node = f"gpu{rank}"
    stack = tuple(Frame(function, file.format(node=node), line) for function, file, line in frames)
    other = Thread("", False, (Frame("idle", "/x.py", rank),))
    usual = {"pid": 100 + rank, "how": "faulthandler", "threads": (other, Thread("MainThread", True, stack))}
    return RankStacks(rank=rank, node=node, **{**usual, **more})


def told(*stacks: RankStacks) -> str:
    return verdict(grouped(stacks))


def test_the_one_that_is_not_in_the_collective_is_named() -> None:
    assert told(*(at(rank, LOADER if rank == 3 else REDUCE) for rank in range(15))) == (
        "14 ranks wait in all_reduce (train.py:88); "
        "rank 3 on gpu3 differs: is in __next__ of torch/utils/data/dataloader.py (train.py:41)"
    )


def test_all_in_one_place_are_told_so_wherever_their_files_lie() -> None:
    assert told(at(0, REDUCE), at(1, REDUCE)) == "all 2 ranks wait in the same place, all_reduce (train.py:88)"
    assert told(at(0, ASLEEP), at(1, ASLEEP)) == "all 2 ranks are in the same place, asleep (train.py:12)"


def test_who_waits_for_others_is_the_rule_be_it_one_among_many() -> None:
    assert told(at(0, ASLEEP), at(1, ASLEEP), at(2, REDUCE)) == (
        "rank 2 on gpu2 waits in all_reduce (train.py:88); ranks 0-1 on gpu0, gpu1 differ: are in asleep (train.py:12)"
    )


def test_two_collectives_from_different_lines_are_two_places() -> None:
    other = [*REDUCE[:2], ("main", HOME, 90), REDUCE[3]]
    assert told(at(0, REDUCE), at(1, REDUCE), at(2, other)) == (
        "2 ranks wait in all_reduce (train.py:88); rank 2 on gpu2 differs: waits in all_reduce (train.py:90)"
    )


def test_where_a_library_waits_inside_does_not_part_those_that_called_the_same() -> None:
    deeper = [("sleep", "/{node}/lib/python3.11/threading.py", 1), *LOADER]
    assert len(grouped([at(0, LOADER), at(1, deeper)])) == 1


def test_by_whom_a_stack_was_told_does_not_part_ranks_either() -> None:
    spied = [
        (f"_Iterator.{function}" if "next" in function else function, file, line) for function, file, line in LOADER
    ]
    assert len(grouped([at(0, LOADER), at(1, spied, how="py-spy")])) == 1


def test_without_a_majority_and_without_a_collective_nobody_differs() -> None:
    assert told(at(0, ASLEEP), at(1, LOADER)) == (
        "rank 0 on gpu0 is in asleep (train.py:12); "
        "rank 1 on gpu1 is in __next__ of torch/utils/data/dataloader.py (train.py:41)"
    )


def test_a_stopped_rank_is_told_as_stopped_with_the_command_that_lets_it_go_on() -> None:
    stopped = at(1, [], state="T", how="none", threads=(), error="it is stopped")
    groups = grouped([at(0, REDUCE), stopped, at(2, REDUCE)])
    assert verdict(groups) == (
        "2 ranks wait in all_reduce (train.py:88); rank 1 on gpu1 differs: is stopped by a signal (state T)"
    )
    assert groups[1].fix == "kill -CONT 101   (on gpu1)"


def test_a_stopped_one_in_the_collective_is_no_waiter_like_the_others() -> None:
    assert told(at(0, REDUCE), at(1, REDUCE, state="T", how="py-spy")) == (
        "rank 0 on gpu0 waits in all_reduce (train.py:88); "
        "rank 1 on gpu1 differs: is stopped by a signal (state T), in all_reduce (train.py:88)"
    )


def test_what_holds_a_rank_without_a_stack_is_told_as_far_as_it_is_known() -> None:
    none: dict[str, Any] = {"how": "none", "threads": ()}
    asleep = at(1, [], state="D", wchan="nfs_wait", **none)
    gone = at(2, [], **{**none, "pid": None})
    untold = at(3, [], state="S", error="it is not armed", **none)
    assert told(at(0, REDUCE), asleep, gone, untold) == (
        "rank 0 on gpu0 waits in all_reduce (train.py:88); "
        "rank 1 on gpu1 differs: sleeps in the kernel (state D), in nfs_wait; rank 2 on gpu2 differs: has no process; "
        "rank 3 on gpu3 differs: tells no stack (it is not armed)"
    )
    assert told() == "no rank told where it is"


def test_the_frames_of_a_group_begin_with_the_user_s_own() -> None:
    (group,) = grouped([at(0, LOADER)])
    assert group.frames == (
        "main (train.py:41)",
        "<module> (train.py:95)",
        "wait (python3.11/threading.py:331)",
        "get (python3.11/queue.py:180)",
        "_try_get_data (torch/utils/data/dataloader.py:1133)",
        "__next__ (torch/utils/data/dataloader.py:701)",
    )


def test_a_program_that_is_a_library_s_own_is_told_by_its_outermost_place() -> None:
    frames = [("wait", "/u/lib/python3.11/threading.py", 1), ("main", TORCH + "bench/run.py", 5)]
    assert told(at(0, frames)) == "rank 0 on gpu0 is in main (torch/bench/run.py:5)"
    assert told(at(0, [])) == "rank 0 on gpu0 is in no Python code"
