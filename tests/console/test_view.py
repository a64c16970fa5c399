"""The streams and the environment choose the view; a reader who leaves is no crash."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import pytest

from ncclrun.console.jsonl import JsonView
from ncclrun.console.output import Output, OutputClosed, OutputStuck
from ncclrun.console.plain import PlainView
from ncclrun.console.terminal import TerminalView
from ncclrun.console.view import make_view
from tests.console.samples import END, PLAN, RUN, log


class Tty(io.StringIO):
    """A terminal whose text can be read."""

    def isatty(self) -> bool:
        return True


@contextmanager
def terminal() -> Iterator[TextIO]:
    """A stream that is a terminal."""
    ours, theirs = pty.openpty()
    try:
        with os.fdopen(theirs, "w") as stream:
            yield stream
    finally:
        os.close(ours)


@contextmanager
def pipe_without_reader() -> Iterator[TextIO]:
    """A stream that nobody reads."""
    ours, theirs = os.pipe()
    os.close(ours)
    with os.fdopen(theirs, "w") as stream:
        yield stream


class TestTheChoice:
    @pytest.mark.parametrize(
        ("environ", "kind"),
        [
            ({"TERM": "xterm-256color"}, TerminalView),
            ({"TERM": "dumb"}, PlainView),
            ({}, PlainView),
            ({"TERM": "xterm", "NO_COLOR": "1"}, TerminalView),
            ({"TERM": "xterm", "NO_COLOR": ""}, TerminalView),
        ],
    )
    def test_on_a_terminal_is_the_environments(self, environ: dict[str, str], kind: type) -> None:
        with terminal() as stream:
            assert type(make_view(stream, stream, json=False, environ=environ)) is kind

    def test_on_a_terminal_has_no_colours_where_nobody_wants_them(self) -> None:
        stream = Tty()
        view = make_view(stream, stream, json=False, environ={"TERM": "xterm-256color", "NO_COLOR": "1"})
        for event in (RUN, log(0, "\x1b[31mred\x1b[0m"), END):
            view.show(event)
        view.close()
        shown = stream.getvalue()
        assert "red" in shown
        assert re.search(r"\x1b\[[0-9;]*m", shown) is None

    def test_is_plain_when_one_stream_is_no_terminal(self) -> None:
        with terminal() as stream:
            view = make_view(stream, io.StringIO(), json=False, environ={"TERM": "xterm"})
        assert type(view) is PlainView

    def test_is_json_when_asked(self) -> None:
        assert type(make_view(io.StringIO(), io.StringIO(), json=True)) is JsonView


def test_only_the_chosen_ranks_and_the_launchers_are_shown() -> None:
    out = io.StringIO()
    view = make_view(out, io.StringIO(), json=False, ranks="1")
    for event in (PLAN, log(0, "no"), log(1, "yes"), log(None, "launcher")):
        view.show(event)
    view.close()
    assert out.getvalue() == "gpu1 1 | yes\ngpu1 - | launcher\n"


class TestAReaderWhoLeft:
    @pytest.mark.parametrize("json", [True, False])
    def test_is_told_once_and_then_forgotten(self, json: bool) -> None:
        with pipe_without_reader() as stream:
            err = io.StringIO()
            view = make_view(stream, err, json=json)
            with pytest.raises(OutputClosed):
                view.show(log(0, "x"))
            view.show(log(0, "y"))
            view.show(RUN)
            view.close()
        assert err.getvalue() == ("" if json else "ncclrun: run r1 on lab: 2 nodes\n")

    def test_makes_python_say_nothing_at_its_exit(self) -> None:
        code = (
            "import sys\n"
            "from ncclrun.console.output import Output, OutputClosed\n"
            "try:\n    Output(sys.stdout).write('x')\n"
            "except OutputClosed as error:\n    sys.exit(error.exit_code)\n"
        )
        with pipe_without_reader() as stream:
            done = subprocess.run([sys.executable, "-c", code], stdout=stream, stderr=subprocess.PIPE, check=False)
        assert (done.returncode, done.stderr) == (141, b"")


def test_a_character_that_the_stream_lacks_is_no_error() -> None:
    raw = io.BytesIO()
    view = make_view(io.TextIOWrapper(raw, encoding="ascii"), io.StringIO(), json=False)
    view.show(log(0, "größe"))
    assert raw.getvalue() == b"gpu1 0 | gr??e\n"


def test_rich_is_not_imported_before_it_is_needed() -> None:
    code = "import sys, ncclrun.console.view; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class TestAReaderWhoTakesNothing:
    @pytest.fixture
    def pipe(self) -> Iterator[tuple[int, TextIO]]:
        """Its reading end, and a stream into it."""
        ours, theirs = os.pipe()
        with os.fdopen(theirs, "w") as stream:
            yield ours, stream
        os.close(ours)

    def test_does_not_hold_up_who_wants_to_leave(self, pipe: tuple[int, TextIO]) -> None:
        output = Output(pipe[1], hurry=lambda: True)
        with pytest.raises(OutputStuck):
            output.write("x" * (1 << 20))
        output.write("dropped")
        assert output.closed
        taken = os.read(pipe[0], 1 << 21)
        assert set(taken) == {ord("x")}
        assert len(taken) < 1 << 20

    def test_is_waited_for_while_nobody_is_in_haste(self, pipe: tuple[int, TextIO]) -> None:
        asked: list[bool] = []

        def hurry() -> bool:
            asked.append(True)
            return len(asked) > 20

        with pytest.raises(OutputStuck):
            Output(pipe[1], hurry=hurry).write("x" * (1 << 20))
        assert len(asked) == 21

    def test_and_comes_back_gets_every_byte(self, pipe: tuple[int, TextIO]) -> None:
        text = "".join(f"line {number} ü\n" for number in range(40000))
        got = bytearray()

        def late() -> None:
            while len(got) < len(text.encode()):
                got.extend(os.read(pipe[0], 1 << 16))

        reader = threading.Timer(0.3, late)
        reader.start()
        Output(pipe[1], hurry=lambda: True).write(text)
        reader.join()
        assert got.decode() == text
