"""The script's directory travels: once, without what .gitignore names, and not when it is too much."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.jobs.bench import Bench, Done

pytestmark = pytest.mark.cluster

LIST = "import os; print(sorted(os.path.relpath(os.path.join(d, f)) for d, _, fs in os.walk('.') for f in fs))"


def launch(bench: Bench, *words: str) -> Done:
    """The directory as a worker sees it; exec, so that nothing waits for torch."""
    done = bench.exec(sys.executable, *words)
    assert done.code == 0, done
    return done


def test_it_is_sent_once_and_again_only_when_it_changed(bench: Bench) -> None:
    bench.script("import helper; print(helper.NAME)")
    bench.script("NAME = 'first'", "helper.py")
    first = launch(bench, "worker.py")
    assert sorted(first.of("code")[0]["sent_to"]) == ["node0", "node1", "node2"]
    assert first.lines == {rank: ["first"] for rank in range(3)}
    os.utime(bench.work / "helper.py", (1, 1))
    second = launch(bench, "worker.py")
    assert second.of("code")[0]["sent_to"] == []
    assert second.of("code")[0]["sha256"] == first.of("code")[0]["sha256"]
    bench.script("NAME = 'other'", "helper.py")
    third = launch(bench, "worker.py")
    assert sorted(third.of("code")[0]["sent_to"]) == ["node0", "node1", "node2"]
    assert third.lines == {rank: ["other"] for rank in range(3)}


def test_only_a_node_that_lacks_it_gets_it(bench: Bench) -> None:
    bench.script("print(1)")
    assert bench.exec(sys.executable, "worker.py", options=("--nodes", "1")).code == 0
    assert sorted(launch(bench, "worker.py").of("code")[0]["sent_to"]) == ["node0", "node2"]


def test_what_gitignore_names_stays_here(bench: Bench) -> None:
    bench.script(LIST)
    (bench.work / "data").mkdir()
    (bench.work / "sub").mkdir()
    for name in ("data/big.bin", "secret.env", "sub/keep.py", "sub/drop.log", "sub/keep.log", "a b ü.txt"):
        (bench.work / name).write_text("x")
    (bench.work / ".gitignore").write_text("data/\n*.env\n*.log\n!keep.log\n")
    subprocess.run(["git", "init", "-q"], cwd=bench.work, check=False)
    for lines in launch(bench, "worker.py").lines.values():
        assert lines == [str([".gitignore", "a b ü.txt", "sub/keep.log", "sub/keep.py", "worker.py"])]


def test_too_much_is_refused_before_anyone_is_called_and_names_the_largest(bench: Bench) -> None:
    bench.script("print(1)")
    with (bench.work / "checkpoint.pt").open("wb") as large:
        large.truncate(200 << 20)
    before = [host.log() for host in bench.cluster.hosts]
    done = bench.exec(sys.executable, "worker.py")
    assert done.code == 2
    assert "checkpoint.pt" in done.err
    assert "100 MiB" in done.err
    assert ".gitignore" in done.err
    assert [host.log() for host in bench.cluster.hosts] == before
    assert bench.runs_here() == []


def test_with_a_workdir_the_hosts_own_copy_runs(bench: Bench) -> None:
    bench.script("print('here')")
    for host in bench.cluster.hosts:
        host.write("/root/job/worker.py", f"import os; print('{host.name}', os.getcwd())")
    done = bench.exec(sys.executable, "worker.py", options=("--workdir", "/root/job"))
    assert done.code == 0, done
    assert done.of("code") == []
    assert done.lines == {rank: [f"node{rank} /root/job"] for rank in range(3)}


def test_a_module_and_a_script_in_another_directory_run_by_torchrun(bench: Bench) -> None:
    pytest.importorskip("torch")
    (bench.work / "package").mkdir()
    (bench.work / "package/__init__.py").write_text("")
    (bench.work / "package/main.py").write_text("import sys, package; print(sys.argv[1:], __name__)")
    done = bench.run("launch", "--json", "--nodes", "1", "-m", bench.file, "package.main", "--x", "-m")
    assert done.code == 0, done
    assert done.lines == {0: ["['--x', '-m'] __main__"]}
    (bench.work / "main.py").write_text("import sibling")
    (bench.work / "package/sibling.py").write_text("")
    (bench.work / "package/run.py").write_text("import sibling, os; print(sorted(set(os.listdir()) - {'__pycache__'}))")
    done = bench.run("launch", "--json", "--nodes", "1", bench.file, "package/run.py")
    assert done.code == 0, done
    assert done.lines == {0: [str(["__init__.py", "main.py", "run.py", "sibling.py"])]}
