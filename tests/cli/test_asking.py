"""The question that a Ctrl-C in `attach` raises, at a keyboard that is played here."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from ncclrun.cli import asking
from ncclrun.cli.asking import Asker
from ncclrun.commands.control import Control
from ncclrun.console.keyboard import QUESTION


class Keyboard:
    """Gives the keys that are put into it; ``there``: whether anybody sits before it."""

    def __init__(self) -> None:
        self.pressed: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.restored: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self.there = True

    @contextmanager
    def keys(self) -> Iterator[Callable[[], str]]:
        def look() -> str:
            try:
                return self.pressed.get(timeout=0.05)
            except queue.Empty:
                return ""

        yield look
        self.restored.put(True)


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Keyboard:
    played = Keyboard()
    monkeypatch.setattr(asking, "keys", played.keys)
    monkeypatch.setattr(asking, "can_ask", lambda: played.there)
    return played


@pytest.fixture
def control() -> Control:
    """Of a run that is followed."""
    made = Control()
    made.askable = True
    return made


@pytest.fixture
def asker(keyboard: Keyboard, control: Control) -> Iterator[Asker]:
    made = Asker(control, footer=True)
    yield made
    made.close()
    assert not control.asking


@pytest.mark.parametrize(
    ("keys", "level", "detach"), [("d", 0, True), ("s", 1, False), ("\n", 0, False), ("\r", 0, False), ("x?d", 0, True)]
)
def test_a_key_says_what_becomes_of_the_run(
    asker: Asker, keyboard: Keyboard, control: Control, keys: str, level: int, detach: bool
) -> None:
    assert asker.interrupted()
    for key in keys:
        keyboard.pressed.put(key)
    keyboard.restored.get(timeout=20)
    assert (control.level, control.detach) == (level, detach)


def test_a_second_ctrl_c_is_an_order_and_ends_the_question(asker: Asker, keyboard: Keyboard, control: Control) -> None:
    assert asker.interrupted()
    assert control.asking
    assert not asker.interrupted()
    assert not control.asking
    keyboard.restored.get(timeout=20)


def test_it_can_be_asked_again(asker: Asker, keyboard: Keyboard, control: Control) -> None:
    for _ in range(2):
        assert asker.interrupted()
        keyboard.pressed.put("\n")
        keyboard.restored.get(timeout=20)
        control.asking = False
    assert not control.stopped()


def test_where_nobody_can_be_asked_it_is_an_order_at_once(asker: Asker, keyboard: Keyboard, control: Control) -> None:
    keyboard.there = False
    assert not asker.interrupted()
    assert not control.asking


def test_before_the_run_is_followed_and_once_it_stops_there_is_nothing_to_ask(asker: Asker, control: Control) -> None:
    control.askable = False
    assert not asker.interrupted()
    control.askable = True
    control.press()
    assert not asker.interrupted()


def test_where_the_view_has_no_footer_it_is_a_line_on_stderr(
    keyboard: Keyboard, control: Control, capsys: pytest.CaptureFixture[str]
) -> None:
    asker = Asker(control, footer=False)
    assert asker.interrupted()
    keyboard.pressed.put("\n")
    keyboard.restored.get(timeout=20)
    asker.close()
    assert capsys.readouterr().err == f"{QUESTION}\n"
