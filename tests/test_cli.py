"""The command line: which words are options and which are the script's own, exit codes, and how soon help answers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from ncclrun.cli.main import app

HEAVY = ("fabric", "paramiko", "pydantic", "yaml", "netifaces", "rich.table", "ncclrun.commands.launch")


def parsed(*args: str) -> dict[str, Any]:
    """The options and words of a `launch` command line."""
    group: Any = typer.main.get_command(app)
    params: dict[str, Any] = group.commands["launch"].make_context("launch", list(args)).params
    return params


def run(*args: str) -> subprocess.CompletedProcess[str]:
    program = "import sys; from ncclrun.cli.main import main; main()"
    return subprocess.run([sys.executable, "-c", program, *args], capture_output=True, text=True, check=False)


class TestTheWordsOfLaunch:
    @pytest.mark.parametrize(
        "args",
        [
            ("--grace", "3", "c.yaml", "train.py", "--grace", "9"),
            ("c.yaml", "--grace", "3", "train.py", "--grace", "9"),
            ("--grace=3", "c.yaml", "train.py", "--grace", "9"),
        ],
    )
    def test_options_stand_before_the_script_and_what_follows_is_its_own(self, args: tuple[str, ...]) -> None:
        params = parsed(*args)
        assert (params["grace"], params["words"]) == (3.0, ["c.yaml", "train.py", "--grace", "9"])

    def test_two_dashes_behind_the_script_are_the_scripts(self) -> None:
        assert parsed("c.yaml", "train.py", "--", "-x", "--")["words"] == ["c.yaml", "train.py", "--", "-x", "--"]

    def test_two_dashes_before_the_script_end_the_options(self) -> None:
        assert parsed("c.yaml", "--json", "--", "--odd.py")["words"] == ["c.yaml", "--odd.py"]

    def test_with_hosts_the_first_word_is_the_script(self) -> None:
        params = parsed("--hosts", "a,b", "train.py", "--nodes", "x")
        assert (params["hosts"], params["words"], params["nodes"]) == ("a,b", ["train.py", "--nodes", "x"], None)

    def test_a_module_may_be_named_behind_the_cluster(self) -> None:
        params = parsed("c.yaml", "-m", "pkg.train", "-m")
        assert (params["module"], params["words"]) == (True, ["c.yaml", "pkg.train", "-m"])


class TestExitCodes:
    @pytest.mark.parametrize(
        ("args", "says"),
        [
            (("launch",), "needs a cluster and a script"),
            (("launch", "nowhere.yaml", "x.py"), "nowhere.yaml"),
            (("launch", "--hosts", "a", "--ranks"), "requires an argument"),
            (("lauch", "c.yaml"), "launch"),
            (("logs", "no-such-run"), "no-such-run"),
            (("ping", "--hosts", "a b"), "a b"),
            (("ping", "--hosts", "localhost", "--seconds", "3"), "--bandwidth"),
        ],
    )
    def test_wrong_words_are_2_and_say_why(self, args: tuple[str, ...], says: str) -> None:
        done = run(*args)
        assert done.returncode == 2
        assert says in done.stderr
        assert "Traceback" not in done.stderr

    @pytest.mark.parametrize(
        "args",
        [
            ("launch", "--json", "nowhere.yaml", "x.py"),
            ("launch", "--json", "--hosts", "a", "--ranks", "x", "x.py"),
            ("ping", "--hosts", "a b", "--json"),
            ("ping", "--json", "--no-such-option"),
            ("logs", "--json", "no-such-run"),
        ],
    )
    def test_programs_that_read_json_learn_of_them_too(self, args: tuple[str, ...]) -> None:
        done = run(*args)
        error, end = (json.loads(line) for line in done.stdout.splitlines())
        assert (error["event"], end["event"]) == ("error", "end")
        assert error["exit_code"] == end["exit_code"] == done.returncode == 2
        assert error["message"].split("\n")[0] in done.stderr

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
    def test_a_page_that_cant_be_written_is_the_one_end_of_the_command(self) -> None:
        done = run("resolve", "--hosts", "localhost", "--json", "--html", "/dev/full")
        (end,) = [event for event in map(json.loads, done.stdout.splitlines()) if event["event"] == "end"]
        assert end["exit_code"] == done.returncode == 2

    def test_the_scripts_own_json_is_not_ours(self) -> None:
        assert run("launch", "nowhere.yaml", "x.py", "--json").stdout == ""

    def test_a_script_in_place_of_the_cluster_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "train.py").write_text("import torch\n")
        assert "is a script, not a cluster file" in run("launch", str(tmp_path / "train.py"), "x").stderr

    @pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
    def test_closed_streams_are_nobodys(self, closed: str) -> None:
        program = "from ncclrun.cli.main import main; main()"
        command = ["sh", "-c", f'"$0" -c "$1" schema {closed}', sys.executable, program]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert bool(done.stdout) is (">&-" not in closed.split())

    def test_a_reader_that_leaves_is_no_news(self) -> None:
        program = "from ncclrun.cli.main import main; main()"
        command = ["sh", "-c", '"$0" -c "$1" schema | true', sys.executable, program]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stderr == ""

    def test_help_is_0(self) -> None:
        done = run("launch", "--help")
        assert (done.returncode, done.stderr) == (0, "")
        assert "CLUSTER SCRIPT [ARGS]..." in done.stdout


def test_help_imports_nothing_heavy() -> None:
    program = f"import sys, ncclrun.cli.main; print(*(m for m in {HEAVY!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_ctrl_c_during_the_imports_ends_it_without_a_traceback() -> None:
    program = """
import os, signal, sys
class Interrupts:
    def find_spec(self, name, *_):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
from ncclrun.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
