"""The file for a bug report: all that is known, nothing that is secret, and no names where that is asked."""

from __future__ import annotations

import json
import re
import tarfile
import tempfile
from pathlib import Path

import pytest

from ncclrun.commands import bundle
from ncclrun.commands.bundle import FOLDER
from ncclrun.commands.control import Control
from ncclrun.commands.explain import explain
from ncclrun.model.endevents import Ended
from ncclrun.model.explainevents import Bundled, Explained
from tests.commands.test_logs import ERR0, NoTransport, make_run, write

LOG = b"HF_TOKEN=hunter2\ngpu7:1:1 [0] NCCL WARN Connect to 10.1.2.3<4000> failed : Connection timed out\n"


def bundled(path: Path, *targets: str, mask: bool = False, stdin: bytes = LOG) -> dict[str, str]:
    """The files in the bundle, by their names."""
    with tempfile.TemporaryFile() as stream:
        stream.write(stdin)
        stream.seek(0)
        events = list(explain(targets, NoTransport(), Control(), stream.fileno(), bundle=path, mask=mask))
    told = next(event for event in events if isinstance(event, Bundled))
    assert (told.path, told.size, told.masked) == (str(path), path.stat().st_size, mask)
    with tarfile.open(path) as archive:
        entries = {entry.name: archive.extractfile(entry) for entry in archive}
        return {name.removeprefix(f"{FOLDER}/"): file.read().decode() for name, file in entries.items() if file}


def test_it_has_the_diagnosis_versions_and_the_log(tmp_path: Path) -> None:
    files = bundled(tmp_path / "b.tgz", "-")
    assert json.loads(files["diagnosis.json"])["found"]["id"] == "conn-timeout"
    assert json.loads(files["about.json"])["python"].startswith("3.")
    assert files["logs/0000-stdin"].splitlines()[1] == LOG.decode().splitlines()[1]


def test_secrets_are_stars_whether_or_not_addresses_are_shown(tmp_path: Path) -> None:
    for mask in (False, True):
        assert "hunter2" not in str(bundled(tmp_path / "b.tgz", "-", mask=mask))


def test_addresses_and_hosts_are_pseudonyms_on_demand_the_same_everywhere(tmp_path: Path) -> None:
    files = bundled(tmp_path / "b.tgz", "-", mask=True)
    assert not [name for name, text in files.items() if "gpu7" in text or "10.1.2.3" in text]
    log = files["logs/0000-stdin"].splitlines()[1]
    shown = log.split("Connect to ")[1].split("<")[0]
    assert shown in json.loads(files["diagnosis.json"])["found"]["cause"]
    assert re.match(r"host\d:1:1 \[0\] NCCL WARN", log)


def test_of_a_run_its_record_is_there_and_what_gives_orders_to_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    run = make_run("r")
    run.write("run.json", {**(run.read("run.json") or {}), "token": "0123abcd"})
    write(run, (ERR0, b"RuntimeError: CUDA out of memory\n"))
    files = bundled(tmp_path / "b.tgz", "r")
    assert json.loads(files["end.json"])["reason"] == "finished"
    assert "token" not in json.loads(files["run.json"])
    assert files["logs/0000-rank0.err"] == "RuntimeError: CUDA out of memory\n"


def test_of_a_long_log_the_beginning_and_the_end_are_kept(tmp_path: Path) -> None:
    long = b"first\n" + b"x" * 50 * 4000 + b"\nlast\n"
    text = bundled(tmp_path / "b.tgz", "-", stdin=long)["logs/0000-stdin"]
    assert text.startswith("first\n")
    assert text.endswith("\nlast\n")
    assert "\n[…]\n" in text
    assert len(text) < 80_000


def test_it_is_for_its_owner_alone(tmp_path: Path) -> None:
    bundled(tmp_path / "b.tgz", "-")
    assert (tmp_path / "b.tgz").stat().st_mode & 0o777 == 0o600


def test_of_more_logs_than_it_takes_those_that_are_evidence_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "MOST_LOGS", 1)
    for name, text in (("a.log", "step 1\n"), ("b.log", "RuntimeError: CUDA out of memory\n")):
        (tmp_path / name).write_text(text)
    files = bundled(tmp_path / "b.tgz", str(tmp_path / "a.log"), str(tmp_path / "b.log"))
    assert [name for name in files if name.startswith("logs/")] == ["logs/0000-b.log"]


def test_no_name_and_no_address_is_left_wherever_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/anna")
    log = """\
gpu7.lab.example.org:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.1.2.3<0>
MASTER_ADDR=zeus.lab.example.org; rdzv-endpoint=athena:29500; tcp://ares:1; hermes-ib
  host      : hera.lab.example.org
ssh: connect to host hades port 22; ssh: Could not resolve hostname hestia: Name; to host helios:29500; u:x@hekate/x
The client socket has failed to connect to [hermes.lab]:29500
'/scratch/anna-runs/x.py', /home/berta/train.py, carla@zeus, user: dora
ip-10-1-2-4.ec2.internal 2001:db8:77::5 [::ffff:10.1.2.5]:1 aa:bb:cc:dd:ee:ff aa-bb-cc-dd-ee-ff x_10.1.2.6_y
00:00:10:49:fe:80:00:00:00:00:00:00:aa:bb:cc:dd:ee:ff:00:11 ZEUS zeus
RuntimeError: CUDA out of memory
"""
    file = tmp_path / "anna_gpu7.log"
    file.write_text(log)
    files = bundled(tmp_path / "b.tgz", str(file), mask=True)
    everything = json.dumps(files).lower()
    for name in (
        *(
            "gpu7",
            "zeus",
            "athena",
            "ares",
            "hera",
            "hades",
            "hestia",
            "helios",
            "hekate",
            "hermes",
            "example",
            "anna",
            "berta",
            "carla",
            "dora",
            "ec2",
        ),
        *("10.1.2", "10-1-2", "2001:db8:77", "bb:cc", "bb-cc", str(tmp_path).lower()),
    ):
        assert name not in everything, name
    assert json.loads(files["diagnosis.json"])["found"]["evidence"][0]["file"] == "logs/0000"
    assert "train.py" in files["logs/0000"]
    assert "nvidia-smi" in files["diagnosis.json"], "the step that mends it is not a host"


def test_nothing_that_names_the_file_or_whose_it_is_stands_around_it(tmp_path: Path) -> None:
    bundled(tmp_path / "anna.tgz", "-", mask=True)
    assert b"anna" not in (tmp_path / "anna.tgz").read_bytes()
    with tarfile.open(tmp_path / "anna.tgz") as archive:
        assert {(entry.uid, entry.uname, entry.gname) for entry in archive} == {(0, "", "")}


def test_a_secret_in_the_runs_record_is_known_by_its_name_and_its_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    run = make_run("r")
    more = {"argv": ["train.py", "--api-token", "hunter 2"], "env": {"WANDB_API_KEY": "hunter 2"}}
    run.write("run.json", {**(run.read("run.json") or {}), **more})
    write(run, (ERR0, b"db_password: hunter 2\nRuntimeError: CUDA out of memory HF_TOKEN='hunter 2'\n"))
    assert "hunter" not in str(bundled(tmp_path / "b.tgz", "r"))


def test_what_is_cut_off_of_a_log_does_not_bare_a_secret(tmp_path: Path) -> None:
    log = b"x" * 20_000 + b"\nHF_TOKEN=" + b"s3cret" * 20_000 + b"\nRuntimeError: CUDA out of memory\n"
    assert "s3cret" not in str(bundled(tmp_path / "b.tgz", "-", stdin=log))


def test_a_ctrl_c_while_it_is_made_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(LOG)
    control = Control()
    events = explain([str(tmp_path / "log")], NoTransport(), control, bundle=tmp_path / "b.tgz")
    assert isinstance(next(events), Explained)
    control.press()
    assert [event.exit_code for event in events if isinstance(event, Ended)] == [130]
    assert [file.name for file in tmp_path.iterdir()] == ["log"]
