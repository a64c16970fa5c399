"""The view for pipes and files: logs and results on stdout, all else on stderr, without colours."""

from __future__ import annotations

import time

from ncclrun.console.doctor import DoctorBoard
from ncclrun.console.dryrun import plan_text
from ncclrun.console.explain import bundle_note, explanation, page_text
from ncclrun.console.labels import Labels
from ncclrun.console.network import NetworkBoard
from ncclrun.console.notes import render
from ncclrun.console.output import Output
from ncclrun.console.ping import PingBoard
from ncclrun.console.progress import Progress
from ncclrun.console.report import report, retry_report
from ncclrun.console.settingsboard import SettingsBoard
from ncclrun.console.status import RunsBoard
from ncclrun.model.endevents import Ended, Retrying
from ncclrun.model.events import Event, Log, Planned, RunCreated
from ncclrun.model.explainevents import Bundled, Explained, FindingPage
from ncclrun.model.netevents import Pinged


class PlainView:
    """Progress bars show only when they end; what is waited for is not shown at all."""

    def __init__(self, stdout: Output, stderr: Output, *, plan: bool = False) -> None:
        self._stdout = stdout
        self._stderr = stderr
        self._plan = plan
        self._labels = Labels()
        self._progress = Progress(time.monotonic)
        self._board = PingBoard()
        self._network = NetworkBoard()
        self._settings = SettingsBoard()
        self._runs = RunsBoard()
        self._doctor = DoctorBoard()

    def show(self, event: Event) -> None:
        """One event; raises OutputClosed when a reader has left."""
        if isinstance(event, Log):
            if not event.partial and not event.folded:
                self._stdout.write(self._labels.lines(event))
            return
        if isinstance(event, Retrying):
            self._stderr.write(render(self._progress.rest(), colors=False) + retry_report(event, width=None))
            self._labels, self._progress = Labels(), Progress(time.monotonic)  # other nodes, and all from the beginning
            return
        if isinstance(event, (RunCreated, Planned)):
            self._labels.learn(event)
        self._network.add(event)
        found, said = self._settings.said(event, None)
        runs, told = self._runs.said(event, None)
        examined, ills = self._doctor.said(event, None)
        self._stdout.write(self._network.due(event, None) + found + runs + examined)
        self._stderr.write(render([*said, *told, *ills, *self._progress.note(event)], colors=False))
        if isinstance(event, Planned) and self._plan:
            self._stdout.write(plan_text(event))
        elif isinstance(event, Explained):
            self._stdout.write(explanation(event, width=None))
        elif isinstance(event, FindingPage):
            self._stdout.write(page_text(event))
        elif isinstance(event, Bundled):
            self._stderr.write(render([bundle_note(event)], colors=False))
        elif isinstance(event, Pinged):
            self._board.add(event)
        elif isinstance(event, Ended):
            self._ended(event)

    def _ended(self, event: Ended) -> None:
        """The report; after a ping the table of all nodes in their order, so that two pings can be compared."""
        if self._board.empty:
            self._stderr.write(report(event, width=None))
        else:
            self._stdout.write(self._board.table(None) + self._network.below_ping(None))

    def close(self) -> None:
        """Says what ping found, and what was held back."""
        runs, told = self._runs.rest(None)
        examined, ills = self._doctor.rest(None)
        self._stdout.write(runs + examined)
        self._stderr.write(render([*told, *ills], colors=False))
        self._stderr.write(render([*self._progress.rest(), *self._board.verdict()], colors=False))
