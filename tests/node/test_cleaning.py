"""What `clean` removes, and above all what it does not."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ncclrun.node import cleaning, rundir
from ncclrun.node.cleaning import Candidate, Wish, choose
from tests.node.client import Client, Refused

DAY = 86400.0


def ended(node: Client, runs: Path, run_id: str, days: float, size: int = 0) -> Path:
    """A run that ended so long ago; its directory."""
    node.launch(run_id, [sys.executable, "-c", f"print('x' * {size})"])
    node.end()
    (part,) = (runs / run_id).iterdir()
    record = json.loads((part / "exit.json").read_text())
    (part / "exit.json").write_text(json.dumps({**record, "ended_at": time.time() - days * DAY}))
    return part


def clean(node: Client, **wish: object) -> dict[str, Any]:
    usual: dict[str, Any] = {"older_than": None, "keep_size": None, "run_ids": None, "dry_run": False}
    return node.call("clean", **{**usual, **wish})


def named(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["run_id"] for entry in entries]


def test_what_ended_long_ago_goes_and_what_ended_lately_stays(node: Client, runs: Path) -> None:
    old, new = ended(node, runs, "old", 20), ended(node, runs, "new", 3)
    answer = clean(node, older_than=14 * DAY)
    assert named(answer["removed"]) == ["old"]
    assert answer["removed"][0]["size"] > 0
    assert (old.parent.exists(), new.exists()) == (False, True)


def test_a_dry_run_tells_the_same_and_touches_nothing(node: Client, runs: Path) -> None:
    part = ended(node, runs, "old", 20)
    told = clean(node, older_than=DAY, dry_run=True)
    assert part.is_dir()
    assert clean(node, older_than=DAY)["removed"] == told["removed"]
    assert not part.exists()


def test_a_size_takes_the_oldest_first_and_no_more_than_it_must(node: Client, runs: Path) -> None:
    for days, run_id in ((3, "c"), (9, "a"), (6, "b")):
        ended(node, runs, run_id, days, size=1 << 20)
    assert named(clean(node, keep_size=5 << 19)["removed"]) == ["a"]
    assert sorted(path.name for path in runs.iterdir()) == ["b", "c"]


def test_of_named_runs_all_that_ended_go_whatever_their_age(node: Client, runs: Path) -> None:
    ended(node, runs, "a", 0), ended(node, runs, "b", 0)
    assert named(clean(node, run_ids=["a", "never"])["removed"]) == ["a"]
    assert [path.name for path in runs.iterdir()] == ["b"]


def test_a_run_that_lives_is_never_removed(node: Client, runs: Path) -> None:
    node.launch("r", [sys.executable, "-c", "import time; time.sleep(600)"])
    unnamed = clean(node, older_than=0, keep_size=0)
    assert (unnamed["removed"], unnamed["kept"]) == ([], [])
    answer = clean(node, older_than=0, keep_size=0, run_ids=["r"])
    assert (named(answer["removed"]), answer["kept"][0]["why"]) == ([], "it is running")
    (part,) = (runs / "r").iterdir()
    assert (part / "run.json").exists()
    node.call("stop", run_id="r", node_rank=0, how="kill", grace=1)
    assert node.end()["reason"] == "stopped"


def test_a_run_of_which_something_survives_is_kept_though_it_ended(node: Client, runs: Path) -> None:
    part = ended(node, runs, "r", 20)
    node.launch("alive", [sys.executable, "-c", "import time; time.sleep(600)"])
    cookie = json.loads(next((runs / "alive").iterdir()).joinpath("run.json").read_text())["cookie"]
    record = json.loads((part / "run.json").read_text())
    (part / "run.json").write_text(json.dumps({**record, "cookie": cookie}))
    answer = clean(node, older_than=DAY, run_ids=["r"])
    assert (answer["removed"], answer["kept"][0]["why"]) == ([], "1 of its processes live")
    node.call("stop", run_id="alive", node_rank=0, how="kill", grace=1)
    node.end()


def test_what_is_being_prepared_stays_and_starts_all_the_same(node: Client, runs: Path) -> None:
    node.prepare("r")
    assert clean(node, older_than=0, run_ids=["r"])["kept"][0]["why"] == "it is being prepared"
    node.start("r", ["true"])
    node.call("follow", run_id="r", node_rank=0, offsets={}, tail=None)
    assert node.end()["reason"] == "finished"


def test_a_run_that_comes_to_life_at_this_moment_is_put_back(
    node: Client, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = ended(node, runs, "r", 20)
    monkeypatch.setattr(rundir.RunDir, "supervisor", lambda self: self.path if self.path.name.startswith(".") else None)
    chosen = Candidate(rundir.RunDir(part), 0.0, 0, "")
    assert cleaning._remove(chosen) == "it was started at this moment"
    assert (part / "run.json").exists()
    assert [path.name for path in part.parent.iterdir()] == [part.name]


def test_archives_that_no_launch_used_for_long_go_with_them(node: Client, runs: Path) -> None:
    code = runs.parent / "code"
    code.mkdir(parents=True)
    for name, days in (("old.tar.gz", 3), ("new.tar.gz", 0)):
        (code / name).write_bytes(b"x" * 9000)
        os.utime(code / name, (time.time() - days * DAY,) * 2)
    assert clean(node, older_than=0)["code"] > 8192
    assert [path.name for path in code.iterdir()] == ["new.tar.gz"]


def test_what_a_dead_preparation_left_half_made_goes_after_a_day(node: Client, runs: Path) -> None:
    for name, days in ((".0-abc.17", 2), (".0-abc.18", 0)):
        (runs / "r" / name).mkdir(parents=True)
        os.utime(runs / "r" / name, (time.time() - days * DAY,) * 2)
    clean(node, older_than=0)
    assert [path.name for path in (runs / "r").iterdir()] == [".0-abc.18"]


def test_what_the_controller_keeps_in_the_same_place_is_left_to_it(node: Client, runs: Path) -> None:
    part = ended(node, runs, "r", 20)
    (runs / "r" / "logs").mkdir()
    clean(node, older_than=DAY)
    assert (part.exists(), (runs / "r" / "logs").exists()) == (False, True)


@pytest.mark.parametrize(
    "wish", [{}, {"older_than": -1}, {"older_than": True}, {"keep_size": "1G"}, {"run_ids": ["../x"]}, {"run_ids": "r"}]
)
def test_a_wish_without_a_limit_or_of_another_form_is_refused(node: Client, wish: dict[str, object]) -> None:
    with pytest.raises(Refused) as refused:
        clean(node, **wish)
    assert refused.value.code in ("bad_request", "bad_run_id")


@pytest.fixture
def candidates(tmp_path: Path) -> Iterator[list[Candidate]]:
    """Ended at 10, 20, 30, 40; the second may not go."""
    whys = ("", "it is running", "", "")
    yield [
        Candidate(rundir.RunDir(tmp_path / f"r{at}" / "0-m"), 10.0 * at, 100, why)
        for at, why in enumerate(whys, start=1)
    ]


@pytest.mark.parametrize(
    ("older_than", "keep_size", "gone"),
    [
        (15.0, None, ["r1", "r3"]),
        (25.0, 200, ["r1", "r3"]),
        (None, 400, []),
        (None, 399, ["r1"]),
        (None, 0, ["r1", "r3", "r4"]),
        (0.0, 1000, ["r1", "r3", "r4"]),
    ],
)
def test_age_comes_before_size(
    candidates: list[Candidate], older_than: float | None, keep_size: int | None, gone: list[str]
) -> None:
    chosen = choose(candidates, Wish(older_than, keep_size, None, dry_run=False), now=50.0)
    assert [one.part.run_id for one in chosen] == gone
