"""What the person at the keyboard may ask of a running command."""

from __future__ import annotations

import pytest

from ncclrun.commands.control import Control, Interrupted


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

    def test_who_is_leaving_stops_nothing(self) -> None:
        control = Control()
        control.detach = True
        control.press()
        assert control.level == 0

    @pytest.mark.parametrize("how", ["press", "detach"])
    def test_before_the_start_any_request_is_the_end(self, how: str) -> None:
        control = Control()
        if how == "press":
            control.press()
        else:
            control.detach = True
        with pytest.raises(Interrupted) as caught:
            control.check()
        assert caught.value.exit_code == 130
