"""One question to many nodes, and what the person at the keyboard may ask meanwhile."""

from __future__ import annotations

import threading

import pytest

from ncclrun.commands import parallel
from ncclrun.commands.control import Control, Interrupted
from ncclrun.commands.parallel import ask_all
from ncclrun.model.errors import HostError


class TestAskAll:
    """Answers as they come."""

    def test_every_item_is_asked_once_by_its_key(self) -> None:
        answers = dict(ask_all({1: "a", 2: "b", 3: "c"}, lambda key, item: f"{key}{item}"))
        assert answers == {1: "1a", 2: "2b", 3: "3c"}

    def test_nobody_asked_is_no_answer(self) -> None:
        assert list(ask_all({}, lambda key, item: None)) == []

    def test_a_quick_answer_does_not_wait_for_a_slow_one(self) -> None:
        release = threading.Event()

        def question(key: str, item: None) -> str:
            if key == "slow":
                release.wait(30)
            return key

        found = []
        for key, _ in ask_all({"slow": None, "quick": None}, question):
            found.append(key)
            release.set()
        assert found == ["quick", "slow"]

    def test_errors_for_people_are_answers(self) -> None:
        error = HostError("timeout", "no answer")

        def question(key: int, item: None) -> int:
            if key == 1:
                raise error
            return key

        assert dict(ask_all({1: None, 2: None}, question)) == {1: error, 2: 2}

    def test_other_errors_are_raised(self) -> None:
        def question(key: int, item: None) -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            list(ask_all({1: None}, question))

    def test_no_more_are_asked_at_a_time_than_there_are_workers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(parallel, "WORKERS", 2)
        names = {thread for _, thread in ask_all(dict.fromkeys(range(20)), lambda *_: threading.current_thread().name)}
        assert len(names) <= 2

    @pytest.mark.parametrize("how", ["press", "detach"])
    def test_a_request_to_stop_ends_it_though_nobody_answers(self, how: str) -> None:
        control, release = Control(), threading.Event()

        def question(key: int, item: None) -> None:
            if how == "press":
                control.press()
            else:
                control.detach = True
            release.wait(30)

        with pytest.raises(Interrupted) as caught:
            list(ask_all({1: None, 2: None}, question, control))
        release.set()
        assert caught.value.exit_code == 130


class TestControl:
    """Nothing, stop, kill, leave."""

    def test_nothing_was_asked_at_first(self) -> None:
        control = Control()
        control.check()
        assert not control.stopped()

    def test_each_press_asks_for_more(self) -> None:
        control = Control()
        levels = []
        for _ in range(3):
            control.press()
            levels.append(control.level)
        assert levels == [1, 2, 3]
        assert control.stopped()
