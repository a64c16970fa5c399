"""The heartbeat: silence is counted only while somebody listens."""

from __future__ import annotations

import threading

import pytest

from ncclrun.transport import pulse
from ncclrun.transport.pulse import TICK_SECONDS, Pulse, Silence


class TestSilence:
    def test_grows_while_nothing_is_heard(self) -> None:
        silence = Silence()
        assert [silence.tick(5.0, 0.5) for _ in range(4)] == [0.0, 0.5, 1.0, 1.5]

    def test_ends_with_the_next_word(self) -> None:
        silence = Silence()
        for _ in range(10):
            silence.tick(5.0, 0.5)
        assert silence.tick(9.0, 0.5) == 0.0

    def test_is_not_the_time_that_we_slept(self) -> None:
        silence = Silence()
        silence.tick(5.0, 0.5)
        assert silence.tick(5.0, 180.0) == 2 * TICK_SECONDS


class Quiet:
    """A session that never says a word, and whose link may be stuck."""

    def __init__(self, *, stuck: bool = False) -> None:
        self.last_heard = 1.0
        self.gone = False
        self.closed = threading.Event()
        self.beaten = threading.Event()
        self.reason = ""
        self._stuck = stuck

    def beat(self) -> None:
        self.beaten.set()
        if self._stuck:
            self.closed.wait(60)

    def close(self, reason: str = "closed", detail: str = "") -> None:
        self.gone, self.reason = True, reason
        self.closed.set()


class TestThePulse:
    @pytest.fixture(autouse=True)
    def quick(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pulse, "BEAT_SECONDS", 0.05)
        monkeypatch.setattr(pulse, "TICK_SECONDS", 0.05)
        monkeypatch.setattr(pulse, "SILENCE_SECONDS", 0.5)

    def test_beats_and_ends_a_silent_session(self) -> None:
        session = Quiet()
        Pulse().watch(session)
        assert session.beaten.wait(30)
        assert session.closed.wait(30)
        assert session.reason == "silent"

    def test_is_not_held_up_by_a_link_that_is_stuck(self) -> None:
        watched, stuck = Pulse(), Quiet(stuck=True)
        watched.watch(stuck)
        assert stuck.closed.wait(30)
        late = Quiet()
        watched.watch(late)
        assert late.beaten.wait(30)
        assert late.closed.wait(30)
