"""The question that Ctrl-C raises in `attach`: leave the run to its nodes, or stop it."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress

from ncclrun.commands.control import Control
from ncclrun.console.keyboard import QUESTION, can_ask, keys


class Asker:
    """Asks in a thread of its own, since the run is followed meanwhile; ``footer``: the view shows the question."""

    def __init__(self, control: Control, *, footer: bool) -> None:
        self._control = control
        self._footer = footer
        self._over = False
        # The thread waits from the start: one can't safely be made in the middle of a signal.
        self._wanted = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="question")
        self._thread.start()

    def interrupted(self) -> bool:
        """Takes a Ctrl-C; False where it is an order, because nobody can be asked, or is being asked already."""
        control = self._control
        if control.asking or control.stopped() or not control.askable or not can_ask():
            control.asking = False
            return False
        control.asking = True
        self._wanted.set()
        return True

    def close(self) -> None:
        """Takes the question back and leaves the terminal as it was."""
        self._over, self._control.asking = True, False
        self._wanted.set()
        self._thread.join()

    def _run(self) -> None:
        while self._wanted.wait():
            self._wanted.clear()
            if self._over:
                return
            with suppress(OSError):  # the terminal has gone: SIGHUP says so too, and detaches
                self._ask()
            self._control.asking = False

    def _ask(self) -> None:
        if not self._footer:
            sys.stderr.write(f"{QUESTION}\n")
        with keys() as look:
            while self._control.asking and not self._control.stopped():
                key = look()
                if key == "d":
                    self._control.detach = True
                elif key == "s":
                    self._control.press()
                elif key in ("\r", "\n"):
                    return
