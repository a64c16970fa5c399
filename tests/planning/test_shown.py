"""Settings and conf files as they are shown: no secret is, and every change is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ncclrun.model.effective import Effective, Hidden
from ncclrun.model.plan import Variable
from ncclrun.planning.shown import diff, masked, run_settings

FILE = "/etc/nccl.conf"


def test_the_variables_of_a_run_say_in_words_where_they_come_from() -> None:
    network, option = run_settings([Variable("A", "1", "network"), Variable("B", "2", "--env")])
    assert (network.name, network.value, network.file) == ("A", "1", "network choice")
    assert option.file == "--env"


def test_also_a_hidden_secret_is_stars() -> None:
    hides = (Hidden(value="hunter1", source=FILE, line=1),)
    one = Effective(name="NCCL_DEBUG", value="hunter2", source="--env", origin="run", hides=hides)
    (shown,) = masked([one], [Variable("NCCL_DEBUG", "hunter2", "--env", secret=True)])
    assert (shown.value, shown.hides[0].value) == ("***", "***")
    assert masked([one]) == (one,)


class TestADiff:
    def test_shows_what_goes_and_what_comes(self) -> None:
        assert diff(FILE, b"A=1\nB=2\n", b"A=1\nB=3\n") == (
            f"--- {FILE}",
            f"+++ {FILE}",
            "@@ -1,2 +1,2 @@",
            " A=1",
            "-B=2",
            "+B=3",
        )

    def test_is_nothing_where_nothing_changes(self) -> None:
        assert diff(FILE, b"A=1\n", b"A=1\n") == ()
        assert diff(FILE, None, None) == ()

    def test_tells_a_new_file_and_one_that_goes(self) -> None:
        assert diff(FILE, None, b"A=1\n")[0] == "--- /dev/null"
        assert diff(FILE, b"A=1\n", None)[1] == "+++ /dev/null"
        assert diff(FILE, None, b"") == ("--- /dev/null", f"+++ {FILE}"), "an empty file is not none"

    def test_shows_a_line_feed_that_comes_at_the_end(self) -> None:
        assert diff(FILE, b"A=1", b"A=1\n")[3:] == ("-A=1   (no line feed at its end)", "+A=1")

    def test_does_not_show_a_secret_and_yet_that_it_changes(self) -> None:
        assert diff(FILE, b"A_TOKEN=1\n", b"A_TOKEN=2\n")[3:] == ("-A_TOKEN=***", "+A_TOKEN=***")

    @given(st.binary(max_size=40), st.binary(max_size=40))
    def test_is_there_for_any_bytes_that_differ(self, before: bytes, after: bytes) -> None:
        lines = diff(FILE, before, after)
        assert (before == after) == (not lines)
        assert not any("\n" in line for line in lines)
