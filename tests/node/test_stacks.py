"""A worker tells where it is, without having noticed that it can; what is no armed worker is never signalled."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ncclrun.node import processes, stacktext
from tests.node.client import Client

WAITING = """
import multiprocessing, os, sys, threading, time
def idle():
    time.sleep(1000)
def waits_here():
    time.sleep(1000)
def main():
    print("ready", flush=True)
    waits_here()
if __name__ == "__main__":
    threading.Thread(target=idle, daemon=True).start()
    multiprocessing.Process(target=idle, daemon=True).start()
    main()
"""
LOOK = """
import json, os, sys
ours = [name for name in (*sys.path, os.environ.get("PYTHONPATH", "")) if "stacks" in name]
own = getattr(sys.modules.get("sitecustomize"), "MINE", None)
print(json.dumps([sys.argv, ours, os.environ.get("PYTHONPATH"), own, __name__, sorted(os.listdir("/proc/self/fd"))]))
"""
SHOW = [sys.executable, "-c", LOOK, "a", "-b"]


def answer(node: Client, **more: Any) -> dict[str, Any]:
    """What the only rank's node says of it."""
    (rank,) = node.call("stacks", run_id="r", node_rank=0, seconds=20.0, **more)["ranks"]
    found: dict[str, Any] = rank
    return found


def ready(node: Client, *argv: str, **more: Any) -> None:
    """Runs a worker until it has said that it is ready."""
    process = {"argv": list(argv), "local_rank": 0, "env": {"LOCAL_RANK": "0"}}
    node.prepare("r")
    node.start("r", processes=[process], **{"arm": True, "grace": 1.0, **more})
    node.call("follow", run_id="r", node_rank=0, offsets={}, tail=None)
    node.events.insert(0, node.event("log"))


def stop(node: Client) -> dict[str, Any]:
    node.call("stop", run_id="r", node_rank=0, how="kill")
    return node.end()


def main_thread(rank: dict[str, Any]) -> list[str]:
    (thread,) = [thread for thread in rank["stacks"] if thread["main"]]
    return [frame["function"] for frame in thread["frames"]]


def test_every_python_tells_where_all_its_threads_are(node: Client, every_python: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(WAITING)
    ready(node, every_python, str(script))
    first, again = answer(node), answer(node)
    assert stop(node)["ranks"][0]["signal"] == signal.SIGKILL  # it lived until now
    assert (first["how"], first["error"]) == ("faulthandler", "")
    assert main_thread(first) == main_thread(again) == ["waits_here", "main", "<module>"]
    assert sorted(thread["main"] for thread in first["stacks"]) == [False, True]
    others = [frame["function"] for thread in first["stacks"] if not thread["main"] for frame in thread["frames"]]
    assert others[0] == "idle"
    innermost = next(thread for thread in first["stacks"] if thread["main"])["frames"][0]
    assert innermost == {"function": "waits_here", "file": str(script), "line": 6}
    assert first["state"] == "S"


def seen(node: Client, home: Path, **more: Any) -> list[Any]:
    """What a worker sees of itself."""
    ready(node, *SHOW, **more)
    assert node.end()["reason"] == "finished"
    text: list[Any] = json.loads(node.logs()["0.out"])
    assert "0.err" not in node.logs()
    return text


@pytest.mark.parametrize("arm", [True, False])
def test_a_worker_sees_nothing_of_it(node: Client, home: Path, runs: Path, arm: bool) -> None:
    argv, ours, pythonpath, own, name, descriptors = seen(node, home, arm=arm)
    assert (argv, ours, pythonpath, own, name) == (["-c", "a", "-b"], [], None, None, "__main__")
    assert [fd for fd in descriptors if int(fd) < 100] == ["0", "1", "2", "3"]
    assert len(list(runs.glob("r/*/stacks/[0-9]*.txt"))) == arm


def test_the_user_s_own_sitecustomize_and_pythonpath_are_there(node: Client, home: Path) -> None:
    (home / "sitecustomize.py").write_text("MINE = __file__")
    found = seen(node, home, env={"PYTHONPATH": f"{home}:/nowhere"})
    assert found[1:4] == [[], f"{home}:/nowhere", str(home / "sitecustomize.py")]


def test_a_worker_behind_a_shell_is_found(node: Client, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(WAITING)
    ready(node, "/bin/sh", "-c", f"{sys.executable} {script}; exit 3")
    found = answer(node)
    stop(node)
    assert main_thread(found)[0] == "waits_here"


def test_one_that_was_never_armed_is_not_signalled_and_says_so(node: Client) -> None:
    ready(node, sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(1000)", arm=False)
    found = answer(node)
    assert stop(node)["ranks"][0]["signal"] == signal.SIGKILL
    assert (found["how"], found["stacks"]) == ("none", [])
    assert "not armed" in found["error"]
    assert found["pid"] > 0


def test_one_that_became_another_program_is_not_signalled(node: Client) -> None:
    become = "import os; os.execv('/bin/sh', ['sh', '-c', 'trap \"echo caught\" URG; echo ready; sleep 1000 & wait'])"
    ready(node, sys.executable, "-c", become)
    found = answer(node)
    stop(node)
    assert found["how"] == "none"
    assert node.logs()["0.out"] == b"ready\n"


def test_a_stopped_one_is_told_as_stopped(node: Client) -> None:
    ready(node, sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(1000)")
    process = processes.look(int(node.logs()["0.out"]))
    assert process is not None
    processes.send(process, signal.SIGSTOP)
    deadline = time.monotonic() + 30
    while (now := processes.look(process.pid)) is not None and now.state != "T" and time.monotonic() < deadline:
        time.sleep(0.02)
    found = answer(node)
    stop(node)
    assert (found["how"], found["state"], found["pid"]) == ("none", "T", process.pid)
    assert "stopped" in found["error"]


PYSPY = """#!/bin/sh
echo "$*" >> {calls}
cat <<'END'
[{{"pid": 1, "thread_id": 255, "thread_name": "MainThread", "os_thread_id": 1, "active": true, "owns_gil": false,
   "frames": [{{"name": "spied", "filename": "/x/train.py", "module": null, "short_filename": "train.py", "line": 7,
               "locals": null, "is_entry": true}}]}}]
END
"""


@pytest.mark.parametrize("works", [True, False])
def test_py_spy_is_asked_where_there_is_one_and_the_handler_where_it_may_not_look(
    node: Client, tmp_path: Path, works: bool
) -> None:
    program = tmp_path / "bin/py-spy"
    program.parent.mkdir()
    refuses = "#!/bin/sh\necho 'Permission Denied: Try running again with elevated permissions' >&2; exit 1\n"
    program.write_text(PYSPY.format(calls=tmp_path / "calls") if works else refuses)
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    ready(node, sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(1000)", env={"PATH": path})
    found = answer(node)
    stop(node)
    if works:
        assert (found["how"], main_thread(found)) == ("py-spy", ["spied"])
        assert (tmp_path / "calls").read_text() == f"dump --pid {found['pid']} --nonblocking --json\n"
    else:
        assert (found["how"], main_thread(found)) == ("faulthandler", ["<module>"])


def test_of_a_dump_every_form_of_line_is_read() -> None:
    text = (
        "Thread 0x00007f01 [loader] (most recent call first):\n"
        '  File "/a "b", line 1.py", line ??? in <lambda>\n  ...\n'
        "Current thread 0x00007f02 (most recent call first):\n  Garbage-collecting\n  <no Python frame>\n"
    )
    assert stacktext.faulthandler(text, "0x00007f02") == [
        {
            "thread": "0x00007f01",
            "name": "loader",
            "main": False,
            "frames": [{"function": "<lambda>", "file": '/a "b", line 1.py', "line": 0}],
        },
        {"thread": "0x00007f02", "name": "", "main": True, "frames": []},
    ]


def test_an_answer_that_would_be_too_long_keeps_the_main_thread() -> None:
    frame = {"function": "f", "file": "x.py", "line": 1}
    threads = [{"thread": str(n), "name": "", "main": n == 2, "frames": [frame] * 4} for n in range(3)]
    kept = stacktext.shortened(threads, 6)
    assert [(thread["thread"], len(thread["frames"])) for thread in kept] == [("2", 4), ("0", 2)]


@pytest.mark.torch
@pytest.mark.skipif(find_spec("torch") is None, reason="needs torch, to be installed in this environment")
def test_torchrun_s_workers_are_armed_and_torchrun_is_not(node: Client, runs: Path) -> None:
    from tests.node.test_torchrun import launch

    launch(node, "print('ready', flush=True)\ndef waits_here():\n    time.sleep(1000)\nwaits_here()", arm=True)
    while len([1 for header, _ in node.events if header["ev"] == "log" and header["stream"].endswith("out")]) < 2:
        node.receive(1.0)
    ranks = node.call("stacks", run_id="r", node_rank=0, seconds=20.0)["ranks"]
    stop(node)
    assert [(rank["local_rank"], rank["how"], main_thread(rank)[0]) for rank in ranks] == [
        (0, "faulthandler", "waits_here"),
        (1, "faulthandler", "waits_here"),
    ]
    assert len(list(runs.glob("r/*/stacks/[0-9]*.txt"))) == 2
