"""No value is ever shell text: arguments and environment arrive byte for byte, and secrets are seen nowhere."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from tests.cluster.host import all_pids
from tests.jobs.bench import NODE_STATE, Bench, run_directories

pytestmark = pytest.mark.cluster

HOSTILE = [
    b"two words",
    b'it\'s "quoted"',
    b"$(touch /root/ran) `touch /root/ran` ${HOME} $HOME",
    b"; touch /root/ran & | > /root/ran",
    b"line\nfeed\r\ttab",
    "Grüße, 世界 \U0001f600".encode(),
    b"\xff\xfe\x80 not UTF-8",
    b"*",
    b"~",
    b"--help",
    b"-",
    b"--",
    b"",
    b" ",
    b"\\",
    b"\\n%s{}",
    b"@RUN@/x",
    b"@WORKER@",
    b"a=b=c",
    b"\x01\x1b[31m\x7f",
    b"x" * 20_000,
]
SHOW = """
import os, sys
said = ([os.fsencode(word) for word in sys.argv[1:]], {k: v for k, v in os.environb.items() if k.startswith(b"V_")})
print(repr(said), flush=True)
"""


def test_arguments_and_environment_arrive_byte_for_byte(bench: Bench) -> None:
    bench.script(SHOW)
    options: list[bytes | str] = []
    for number, value in enumerate(HOSTILE):
        options += ["--env", f"V_{number}=".encode() + value]
    done = bench.exec(sys.executable, "worker.py", *HOSTILE, options=tuple(options))
    assert done.code == 0, done
    assert sorted(done.lines) == [0, 1, 2]
    for lines in done.lines.values():
        arguments, environment = ast.literal_eval(lines[0])
        assert arguments == HOSTILE
        assert environment == {b"V_%d" % number: value for number, value in enumerate(HOSTILE)}
    assert not any(host.path("/root/ran").exists() for host in bench.cluster.hosts)


def test_so_do_those_of_the_cluster_file_and_those_of_this_shell(bench: Bench) -> None:
    bench.script(SHOW)
    text = "a 'b' \"c\" $(touch /root/ran)\nü: #{}"
    raw = b"\xff $(touch /root/ran)\n"
    launch = {"env": {"V_FILE": text, "V_NUMBER": 8}, "forward_env": ["V_SHELL"], "python": sys.executable}
    bench.yaml(launch=launch, nodes={1: {"env": {"V_FILE": "its own"}}})
    options = ("--env", "V_OPTION")
    done = bench.exec(sys.executable, "worker.py", options=options, env={b"V_SHELL": raw, b"V_OPTION": raw})
    assert done.code == 0, done
    shown = [ast.literal_eval(done.lines[rank][0])[1] for rank in range(3)]
    common = {b"V_NUMBER": b"8", b"V_SHELL": raw, b"V_OPTION": raw}
    assert shown == [{**common, b"V_FILE": own} for own in (text.encode(), b"its own", text.encode())]
    assert not any(host.path("/root/ran").exists() for host in bench.cluster.hosts)


def test_torchruns_workers_get_them_as_well(bench: Bench) -> None:
    pytest.importorskip("torch")
    bench.script(SHOW)
    words = [value for value in HOSTILE if len(value) < 1000]
    own = ("--nodes", "0", "--env", b"V_X=" + HOSTILE[2], "--env", b"V_Y=" + HOSTILE[6])
    done = bench.run("launch", "--json", *own, bench.file, "worker.py", *words)
    assert done.code == 0, done
    arguments, environment = ast.literal_eval(done.lines[0][0])
    assert arguments == words
    assert environment == {b"V_X": HOSTILE[2], b"V_Y": HOSTILE[6]}


SECRET = "hunter2-and-a-half"


def test_a_secret_stands_in_no_command_line_no_file_no_log(bench: Bench) -> None:
    bench.yaml(launch={"forward_env": ["API_KEY"], "python": sys.executable})
    # It says whether it has the secret without saying it.
    job = bench.start_sh(
        'test "$API_KEY" = "$OTHER" && echo same ${#API_KEY}; exec sleep 1000',
        options=("--env", "OTHER"),
        env={"API_KEY": SECRET, "OTHER": SECRET},
    )
    job.until(lambda: len(job.events("log")) == 3)
    assert {event["text"] for event in job.events("log")} == {f"same {len(SECRET)}"}
    assert seen_in_command_lines(SECRET) == []
    job.press()
    done = job.wait()
    assert done.code == 130
    assert SECRET not in done.out + done.err
    assert '"***"' in done.out
    trees = [host.path(NODE_STATE) for host in bench.cluster.hosts] + [bench.state]
    files = [path for tree in trees for path in tree.rglob("*") if path.is_file()]
    assert len(files) > 20
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
    assert not any(SECRET in host.log() for host in bench.cluster.hosts)


def seen_in_command_lines(text: str) -> list[str]:
    """Processes of this machine and of every host that show the text in ``ps``."""
    found = []
    for pid in all_pids():
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if text.encode() in line:
            found.append(line.decode(errors="replace"))
    return found


def test_run_files_are_for_their_owner_alone(bench: Bench) -> None:
    assert bench.sh("umask; echo x").code == 0
    for host in bench.cluster.hosts:
        (run,) = run_directories(host)
        assert run.stat().st_mode & 0o077 == 0
        assert [path for path in run.rglob("*") if path.is_dir() and path.stat().st_mode & 0o077] == []
    (here,) = bench.runs_here()
    assert [path for path in here.rglob("*") if path.is_dir() and path.stat().st_mode & 0o077] == []


def test_the_workers_own_umask_is_the_logins(bench: Bench) -> None:
    done = bench.sh("umask")
    login = bench.cluster.hosts[0].exec(["sh", "-c", "umask"]).stdout.strip()
    assert {lines[0] for lines in done.lines.values()} == {login}
