"""Options as typed: values, or an error that says what is wanted."""

from __future__ import annotations

from typing import Any

import pytest

from ncclrun.commands.options import (
    environment_options,
    hold_back,
    job_from_options,
    number_or_auto,
    only_nodes,
    retry_options,
    stream_option,
)
from ncclrun.model.errors import UsageError
from ncclrun.model.job import JobSpec, Retry
from tests.planning.makers import cluster, node


def job(**options: Any) -> JobSpec:
    given: dict[str, Any] = {
        "program": "train.py",
        "args": (),
        "module": False,
        "launcher": "torchrun",
        "nproc_per_node": None,
        "master_port": None,
        "env": [],
        "environ": {},
        "workdir": None,
        "python": None,
        "run_id": None,
        "grace": None,
        "timeout": None,
        "sync": True,
    }
    return job_from_options(**{**given, **options})


class TestJob:
    """The job of a command line."""

    def test_a_script_with_its_words_untouched(self) -> None:
        args = ("--lr", "1e-3", "--", "-h", "", "a\nb")
        assert job(args=args) == JobSpec("script", "train.py", args)

    def test_a_module(self) -> None:
        assert job(program="pkg.train", module=True).kind == "module"

    def test_a_command(self) -> None:
        made = job(program="./run.sh", launcher="exec")
        assert (made.kind, made.launcher) == ("command", "exec")

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"launcher": "slurm"}, "--launcher 'slurm' is not known"),
            ({"launcher": "exec", "module": True}, "-m goes with torchrun"),
            ({"run_id": "../x"}, "can't be a run id"),
            ({"run_id": ""}, "can't be a run id"),
            ({"workdir": "data"}, "depends on where one stands"),
            ({"grace": float("nan")}, "--grace nan: a number of seconds is wanted"),
            ({"timeout": float("inf")}, "--timeout inf"),
            ({"nproc_per_node": "0"}, "--nproc-per-node '0'"),
            ({"master_port": "65536"}, "--master-port '65536'"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, options: dict[str, Any], words: str) -> None:
        with pytest.raises(UsageError, match=words) as caught:
            job(**options)
        assert caught.value.exit_code == 2


class TestNumberOrAuto:
    """A whole number, or auto."""

    def test_within_the_bounds(self) -> None:
        assert [number_or_auto("--n", text, 1, 9) for text in ("1", "9", "auto", None)] == [1, 9, "auto", None]

    @pytest.mark.parametrize("text", ["", "0", "10", "-1", "+1", "1.0", "1e0", " 1", "٣", "AUTO", "9" * 5000, "1\n"])
    def test_anything_else_is_refused(self, text: str) -> None:
        with pytest.raises(UsageError, match="a whole number from 1 to 9 is wanted, or auto"):
            number_or_auto("--n", text, 1, 9)


class TestEnvironment:
    """--env."""

    def test_a_value_stays_as_it_stands(self) -> None:
        assert environment_options(["A=b=c ", "E=", "N=a\nb $(id) '\""], {}) == {
            "A": "b=c ",
            "E": "",
            "N": "a\nb $(id) '\"",
        }

    def test_a_name_alone_takes_the_shells_value(self) -> None:
        assert environment_options(["A"], {"A": "x", "B": "y"}) == {"A": "x"}

    def test_the_last_one_of_a_name_counts(self) -> None:
        assert environment_options(["A=1", "A=2", "A"], {"A": "3"}) == {"A": "3"}

    @pytest.mark.parametrize("option", ["", "=x", "1A=x", "A-B=x", "A B", "Ä=x", "A\n=x"])
    def test_what_is_no_name_is_refused(self, option: str) -> None:
        with pytest.raises(UsageError, match="can't be a variable's name"):
            environment_options([option], {option: "x"})

    def test_a_name_that_the_shell_does_not_export_is_refused(self) -> None:
        with pytest.raises(UsageError, match="this shell does not export A") as caught:
            environment_options(["A"], {})
        assert "export A=" in caught.value.fix

    def test_values_of_the_shell_are_known_as_such(self) -> None:
        made = job(env=["A", "B=1", "C", "C=2", "D=3", "D"], environ={"A": "", "C": "", "D": ""})
        assert made.from_shell == {"A", "D"}


class TestOthers:
    """--stream and --nodes."""

    def test_a_stream_is_out_or_err(self) -> None:
        assert [stream_option(text) for text in (None, "out", "err")] == [None, "out", "err"]
        with pytest.raises(UsageError, match="--stream 'both'"):
            stream_option("both")

    def test_selected_nodes_keep_their_order_and_the_first_is_the_master(self) -> None:
        spec = cluster(*(node(name) for name in ("a", "b", "c")))
        assert [n.name for n in only_nodes(spec, "c,b").nodes] == ["b", "c"]
        assert only_nodes(spec, None) is spec


class TestRetries:
    """--retries, --spares, --min-nodes, --retry-on."""

    SPEC = cluster(*(node(name) for name in ("a", "b", "c", "d")))

    def test_what_is_wished(self) -> None:
        assert retry_options(None, None, None, None, detach=True) is None
        assert retry_options(3, "d", 2, None, detach=False) == Retry(3, 2, on_failure=False)
        assert retry_options(1, None, None, "failure", detach=False) == Retry(1, None, on_failure=True)

    @pytest.mark.parametrize(
        ("spares", "min_nodes", "retry_on", "option"),
        [("d", None, None, "--spares"), (None, 2, None, "--min-nodes"), (None, None, "failure", "--retry-on")],
    )
    def test_what_goes_with_it_is_nothing_alone(
        self, spares: str | None, min_nodes: int | None, retry_on: str | None, option: str
    ) -> None:
        with pytest.raises(UsageError, match=f"{option} is for runs that are tried again"):
            retry_options(None, spares, min_nodes, retry_on, detach=False)

    def test_a_run_that_is_left_can_not_be_tried_again(self) -> None:
        with pytest.raises(UsageError, match="--detach leaves it"):
            retry_options(3, None, None, None, detach=True)

    def test_an_unknown_reason(self) -> None:
        with pytest.raises(UsageError, match="--retry-on 'always'"):
            retry_options(3, None, None, "always", detach=False)

    @pytest.mark.parametrize(("nodes", "begin"), [(None, ["a", "b", "c"]), ("b,c,d", ["b", "c"]), ("a", ["a"])])
    def test_spares_do_not_begin(self, nodes: str | None, begin: list[str]) -> None:
        beginning, held = hold_back(self.SPEC, nodes, "d", None)
        assert [one.name for one in beginning.nodes] == begin
        assert [one.name for one in held] == ["d"]

    def test_without_nodes_to_begin_with_it_is_refused(self) -> None:
        with pytest.raises(UsageError, match="none is left to begin with"):
            hold_back(self.SPEC, "d", "c,d", None)
        with pytest.raises(UsageError, match="--min-nodes 4, but the run begins with 3"):
            hold_back(self.SPEC, None, "d", 4)
