"""The view for a terminal: log lines in their node's colour, progress bars and what is waited for alive below them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ncclrun.console.doctor import DoctorBoard
from ncclrun.console.dryrun import plan_text
from ncclrun.console.explain import bundle_note, explanation, page_text
from ncclrun.console.labels import Labels
from ncclrun.console.network import NetworkBoard
from ncclrun.console.notes import render
from ncclrun.console.output import Output, OutputClosed
from ncclrun.console.ping import PingBoard
from ncclrun.console.progress import Progress
from ncclrun.console.report import report, retry_report
from ncclrun.console.sanitize import RESET, one_line
from ncclrun.console.screen import FRAME, MARGIN, Screen, clip
from ncclrun.console.settingsboard import SettingsBoard
from ncclrun.console.status import RunsBoard
from ncclrun.console.words import count
from ncclrun.model.endevents import Ended, Retrying
from ncclrun.model.events import Event, Log, NodeState, Planned, RunCreated
from ncclrun.model.explainevents import Bundled, Explained, FindingPage
from ncclrun.model.netevents import Pinged

BARS = 8
"""Live lines at the bottom, at most."""
DIM = "\x1b[2m"
BOLD = "\x1b[1m"

Key = tuple[int, int, str]


class TerminalView:
    """Everything goes to one stream, since stdout and stderr are the same screen.

    A thread of its own redraws the footer while there is one; with ``ticking`` off ``tick`` is the caller's.
    """

    def __init__(
        self,
        output: Output,
        *,
        colors: int,
        size: Callable[[], tuple[int, int]],
        clock: Callable[[], float] = time.monotonic,
        ticking: bool = True,
        plan: bool = False,
        prompt: Callable[[], str] = lambda: "",
    ) -> None:
        self._colors = colors
        self._clock = clock
        self._labels = Labels(colors)
        self._progress = Progress(clock)
        self._screen = Screen(output, size, clock)
        self._board = PingBoard()
        self._network = NetworkBoard()
        self._settings = SettingsBoard()
        self._runs = RunsBoard()
        self._doctor = DoctorBoard()
        self._plan = plan
        self._prompt = prompt
        self._bars: dict[Key, Log] = {}
        self._ending: set[Key] = set()
        """Bars whose line has ended: they go at the next tick, unless a new one has taken their place by then."""
        self._lock = threading.RLock()
        self._ticking = ticking
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self._trouble: OutputClosed | None = None

    def show(self, event: Event) -> None:
        """One event; raises OutputClosed when the terminal is gone."""
        with self._lock:
            if self._trouble is not None:
                trouble, self._trouble = self._trouble, None
                raise trouble
            if isinstance(event, Log):
                self._log(event)  # a bar is drawn at the next tick
            else:
                self._other(event)
                self._screen.footer(self._footer())
        if self._ticking and self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True, name="console")
            self._thread.start()

    def tick(self) -> None:
        """Brings the footer up to date: seconds go by and bars move also when nothing else happens."""
        with self._lock:
            for key in self._ending:
                self._bars.pop(key, None)
            self._ending.clear()
            self._screen.footer(self._footer())
            self._screen.tick()

    def close(self) -> None:
        """Takes the footer away and leaves the terminal as it was."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            self._bars.clear()
            self._screen.footer([])
            table = self._board.table(self._screen.columns)
            if table:
                table += self._network.below_ping(self._screen.columns)
            runs, told = self._runs.rest(self._screen.columns)
            examined, ills = self._doctor.rest(self._screen.columns)
            notes = [*told, *ills, *self._progress.rest(), *self._board.verdict()]
            self._screen.write(table + runs + examined + render(notes, colors=True, width=self._screen.columns))
            self._screen.close()

    def _run(self) -> None:
        while not self._over.wait(FRAME):
            try:
                self.tick()
            except OutputClosed as error:
                self._trouble = error  # for the caller's next `show`
                return

    def _log(self, event: Log) -> None:
        if event.folded:
            return
        key = (event.node_rank, -1 if event.rank is None else event.rank, event.stream)
        if event.partial:
            self._bars[key] = event
            self._ending.discard(key)
            return
        if key in self._bars:
            self._ending.add(key)
        self._screen.write(self._labels.lines(event))

    def _other(self, event: Event) -> None:
        if isinstance(event, Retrying):
            self._retry(event)
            return
        if isinstance(event, (RunCreated, Planned)):
            self._labels.learn(event)
        elif isinstance(event, NodeState) and event.state == "ended":
            self._bars = {key: bar for key, bar in self._bars.items() if bar.node_rank != event.node_rank}
        self._network.add(event)
        found, said = self._settings.said(event, self._screen.columns)
        runs, told = self._runs.said(event, self._screen.columns)
        examined, ills = self._doctor.said(event, self._screen.columns)
        text = self._network.due(event, self._screen.columns) + found + runs + examined
        text += render([*said, *told, *ills, *self._progress.note(event)], colors=True, width=self._screen.columns)
        if isinstance(event, Planned) and self._plan:
            text += plan_text(event)
        elif isinstance(event, Explained):
            text += explanation(event, width=self._screen.columns)
        elif isinstance(event, FindingPage):
            text += page_text(event)
        elif isinstance(event, Bundled):
            text += render([bundle_note(event)], colors=True, width=self._screen.columns)
        elif isinstance(event, Pinged):
            self._board.add(event)
        elif isinstance(event, Ended):
            self._bars.clear()
            if self._board.empty:  # a ping ends with the board's own verdict
                text += report(event, width=self._screen.columns)
        if text:
            self._screen.write(text)

    def _retry(self, event: Retrying) -> None:
        """The end of an attempt; the next one has other nodes, and all from the beginning."""
        self._bars.clear()
        notes = render(self._progress.rest(), colors=True, width=self._screen.columns)
        self._screen.write(notes + retry_report(event, width=self._screen.columns))
        self._labels, self._progress = Labels(self._colors), Progress(self._clock)

    def _footer(self) -> list[str]:
        columns = self._screen.columns - MARGIN
        lines = self._board.table(max(columns, 1)).splitlines()
        live = self._progress.live()
        prompt = self._prompt()
        room = min(BARS, self._screen.room()) - bool(live) - bool(prompt)
        bars = [self._bars[key] for key in sorted(self._bars)]
        if len(bars) > room:
            more = len(bars) - room + 1
            lines += [self._bar(bar, columns) for bar in bars[: room - 1]]
            lines.append(DIM + clip(f"… and {count(more, 'progress bar')} more", columns) + RESET)
        else:
            lines += [self._bar(bar, columns) for bar in bars]
        if live:
            lines.append(DIM + clip(one_line(live), columns) + RESET)
        if prompt:
            lines.append(BOLD + clip(prompt, columns) + RESET)
        return lines

    def _bar(self, event: Log, columns: int) -> str:
        """A bar clipped to the screen: its label gives way when there is no room for both."""
        label, width = self._labels.label(event), self._labels.width
        if width + MARGIN > columns:
            label, width = "", 0
        return label + clip(one_line(event.text[: 4 * max(columns, 1)]), columns - width)
