"""What the person at the keyboard asked of a running command: nothing, stop, kill, leave."""

from __future__ import annotations

from ncclrun.model.errors import EXIT_INTERRUPTED, NcclrunError


class Interrupted(NcclrunError):
    """The user asked to stop before anything was started."""

    exit_code = EXIT_INTERRUPTED


class Control:
    """Counts the requests to stop; a signal handler calls ``press``, the command looks at ``level``.

    0: go on; 1: stop (SIGTERM, grace); 2: kill; 3: leave without waiting. ``detach`` set: leave, and let the run go on.
    ``askable``: the run is followed, so that there is something to choose from; ``asking``: the user is being asked.
    """

    def __init__(self) -> None:
        self.level = 0
        self.detach = False
        self.askable = False
        self.asking = False

    def press(self) -> None:
        """One more request, as Ctrl-C makes it; nothing to who is leaving (a logout sends SIGHUP and SIGTERM)."""
        if not self.detach:
            self.level += 1

    def stopped(self) -> bool:
        """Whether anything was asked."""
        return self.level > 0 or self.detach

    def check(self) -> None:
        """Raises Interrupted when anything was asked."""
        if self.stopped():
            raise Interrupted("interrupted")
