"""The file for a bug report: all that is known, nothing that is secret, and no names where that is asked."""

from __future__ import annotations

import json
import tarfile
import tempfile
from pathlib import Path

import pytest

from ncclrun.commands import bundle
from ncclrun.commands.bundle import FOLDER
from ncclrun.commands.control import Control
from ncclrun.commands.explain import explain
from ncclrun.model.explainevents import Bundled
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
    assert log.startswith("host1:1:1 [0] NCCL WARN")


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
