"""Doctor on recorded facts: what is told, in which order, with which exit code, and what of it leaves the house."""

from __future__ import annotations

import json
import re
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from ncclrun.commands.doctor import from_file
from ncclrun.commands.recordfile import load, save
from ncclrun.diagnosis.checks.subject import Subject
from ncclrun.model.doctorevents import DoctorFinding, Examined
from ncclrun.model.endevents import Ended
from ncclrun.model.errors import EXIT_UNREACHABLE, UsageError
from ncclrun.model.events import Event, Refused
from ncclrun.model.facts import GpuProcess
from ncclrun.model.netevents import Problem
from ncclrun.model.record import NodeRecord, Records
from ncclrun.model.settings import ConfFile, Mention, NodeSettings
from tests.diagnosis.checks.hosts import sound, with_facts, with_gpu, with_kernel
from tests.planning.makers import card

LOST = Problem(code="timeout", message="gpu9: no answer within 10 s", fix="ssh gpu9 uptime")


def record(rank: int, subject: Subject, host: str = "") -> NodeRecord:
    return NodeRecord(
        name=f"gpu{rank + 1}",
        node_rank=rank,
        host=host or f"gpu{rank + 1}",
        python="python3",
        nproc="auto",
        facts=subject.facts,
        exam=subject.exam,
        connected=0.2,
    )


def records(*nodes: NodeRecord) -> Records:
    return Records(nodes, "lab.yaml", 1.7e9, "ncclrun 0.1")


def lost(rank: int) -> NodeRecord:
    return NodeRecord(name="gpu9", node_rank=rank, host="gpu9", python="python3", nproc=2, lost=LOST)


def told(*nodes: NodeRecord) -> list[Event]:
    return list(from_file(records(*nodes)))


def end(events: list[Event]) -> Ended:
    assert isinstance(events[-1], Ended)
    return events[-1]


class TestJudging:
    def test_sound_nodes(self) -> None:
        events = told(record(0, sound("gpu1")), record(1, sound("gpu2")))
        assert [type(event) for event in events] == [Examined, Examined, Ended]
        row = events[0]
        assert isinstance(row, Examined)
        assert (row.worst, row.torch, row.nccl, row.system) == (None, "2.7.1+cu126", "2.26.2", "Ubuntu 22.04.5 LTS")
        assert end(events).exit_code == 0

    def test_the_worst_comes_first_and_decides(self) -> None:
        ill = with_gpu(fabric="In Progress")
        ill = replace(ill, facts=replace(ill.facts, machine="another"))
        events = told(record(0, with_facts(stale=("RANK",))), record(1, ill))
        found = [event for event in events if isinstance(event, DoctorFinding)]
        assert [(one.id, one.node, one.level) for one in found] == [
            ("fabric_manager", "gpu2", "error"),
            ("stale", "gpu1", "warning"),
        ]
        assert found[0].title
        assert found[0].cause
        assert end(events).exit_code == 1
        assert end(events).reason == "errors on gpu2"

    def test_warnings_alone_are_no_failure(self) -> None:
        assert end(told(record(0, with_facts(stale=("RANK",))))).exit_code == 0

    def test_a_host_out_of_reach_is_told_and_the_others_all_the_same(self) -> None:
        events = told(record(0, with_gpu(fabric="In Progress")), lost(1))
        assert [event.message for event in events if isinstance(event, Refused)] == [LOST.message]
        assert [event.id for event in events if isinstance(event, DoctorFinding)] == ["fabric_manager"]
        rows = [event for event in events if isinstance(event, Examined)]
        assert [(row.node, row.lost) for row in rows] == [("gpu1", ""), ("gpu9", LOST.message)]
        assert end(events).exit_code == 255
        assert end(events).reason == "no answer from gpu9; errors on gpu1"

    def test_nobody_could_be_asked(self) -> None:
        assert end(told(lost(0))).exit_code == 255


SECRET = "hunter2hunter2"


def loaded_with_secrets() -> Records:
    settings = NodeSettings(
        login={"NCCL_AUTH_TOKEN": SECRET, "NCCL_DEBUG": "INFO"},
        conf_files=(ConfFile("/root/.nccl.conf", ("home",), text=f"NCCL_X_PASSWORD={SECRET}\nNCCL_DEBUG=INFO\n"),),
        mentions=(Mention("/root/.bashrc", 1, "NCCL_AUTH_TOKEN", f"export NCCL_AUTH_TOKEN={SECRET}"),),
    )
    process = GpuProcess(9, "GPU-0", 5, "python", "anton", f"python /home/anton/train.py --api-token={SECRET}")
    first = with_facts(
        settings=settings,
        gpu_processes=(process,),
        user="anna",
        hostname="lab-a",
        interfaces=(card("eth0", "10.1.2.3/24"),),
    )
    own = with_facts(user="anna", hostname="lab-b", interfaces=(card("eth0", "10.1.2.4/24"),))
    second = replace(with_kernel("nfs: server vault not responding, still trying"), facts=own.facts)
    return records(record(0, first, "lab-a.example"), record(1, second, "192.168.7.9"))


class TestSaving:
    def test_what_is_saved_is_judged_as_it_was_seen(self, tmp_path: Path) -> None:
        seen = records(record(0, with_gpu(uncorrected=2)), record(1, sound("gpu2")), lost(2))
        path = tmp_path / "facts.json"
        event = save(path, seen, mask=False)
        assert (event.nodes, event.size) == (3, path.stat().st_size)
        assert load(path) == seen
        assert list(from_file(load(path)))[:-1] == list(from_file(seen))[:-1]

    def test_no_secret_leaves_and_nobody_else_reads_it(self, tmp_path: Path) -> None:
        path = tmp_path / "facts.json"
        save(path, loaded_with_secrets(), mask=False)
        text = path.read_text()
        assert SECRET not in text
        assert "10.1.2.3" in text
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        facts = load(path).nodes[0].facts
        assert facts is not None
        assert facts.settings.login == {"NCCL_AUTH_TOKEN": "***", "NCCL_DEBUG": "INFO"}

    def test_addresses_and_names_become_pseudonyms_that_keep_their_networks(self, tmp_path: Path) -> None:
        path = tmp_path / "facts.json"
        save(path, loaded_with_secrets(), mask=True)
        text = path.read_text()
        assert not re.search(r"10\.1\.2\.|192\.168\.7\.|lab-a|lab-b|anna|anton|vault", text)
        masked = load(path)
        assert masked.masked
        nets = [one.facts.interfaces[0].addresses[0].address for one in masked.nodes if one.facts is not None]
        assert len(set(nets)) == 2
        assert len({net.rpartition(".")[0] for net in nets}) == 1
        assert all(net.startswith("10.") for net in nets)

    @pytest.mark.parametrize("text", ["", "{}", '{"nodes": 3}', "not json"])
    def test_what_is_no_such_file_is_refused(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "facts.json"
        path.write_text(text)
        with pytest.raises(UsageError, match="no file of facts"):
            load(path)

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="No such file"):
            load(tmp_path / "none")

    def test_of_a_later_format_too(self, tmp_path: Path) -> None:
        path = tmp_path / "facts.json"
        save(path, records(lost(0)), mask=False)
        path.write_text(json.dumps({**json.loads(path.read_text()), "format": "ncclrun facts 2"}))
        with pytest.raises(UsageError, match="of another version of ncclrun"):
            load(path)

    @pytest.mark.parametrize(
        ("where", "value"),
        [
            (("facts", "cpus"), "many"),
            (("facts", "interfaces", 0, "addresses", 0, "prefix"), -5),
            (("facts", "interfaces", 0, "addresses", 0, "address"), ""),
            (("python",), ""),
            (("nproc",), -1),
        ],
    )
    def test_with_a_value_that_can_not_be(self, tmp_path: Path, where: tuple[str | int, ...], value: object) -> None:
        path = tmp_path / "facts.json"
        save(path, records(record(0, with_facts(interfaces=(card("eth0", "10.1.2.3/24"),)))), mask=False)
        data = json.loads(path.read_text())
        inner = data["nodes"][0]
        for step in where[:-1]:
            inner = inner[step]
        inner[where[-1]] = value
        path.write_text(json.dumps(data))
        with pytest.raises(UsageError, match=rf"facts.json: node \S+: nodes\.0\.{where[0]}\S* can't be read \("):
            load(path)

    def test_a_node_that_fell_silent_after_its_facts_is_not_called_sound(self) -> None:
        silent = replace(
            record(0, sound("gpu1")), exam=None, lost=Problem(code="unreachable", message="silent", fix="look")
        )
        rows = [event for event in told(silent) if isinstance(event, Examined)]
        assert [row.worst for row in rows] == ["error"]

    def test_a_node_whose_facts_were_taken_out_is_no_sound_one(self) -> None:
        assert end(told(replace(record(0, sound("gpu1")), facts=None))).exit_code == EXIT_UNREACHABLE


def test_a_node_that_told_no_examination_is_judged_by_its_facts() -> None:
    events = told(record(0, replace(with_facts(stale=("RANK",)), exam=None)))
    assert [event.id for event in events if isinstance(event, DoctorFinding)] == ["stale"]
