"""Doctor against real hosts with real faults: each is found where it is, on no other host, and from a file alike."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import cluster as namespaces
from tests.cluster.cluster import Cluster
from tests.jobs.bench import Bench, Done

pytestmark = pytest.mark.cluster

H200 = (Path(__file__).parents[1] / "node" / "recorded" / "h200.xml").read_text("utf-8")
ILL = H200.replace("<current_mig>Disabled", "<current_mig>Enabled").replace(
    "<dram_uncorrectable>0", "<dram_uncorrectable>2"
)
LISTED = "\n".join(f"{index}, NVIDIA H200, GPU-{index}, 143771, 470.82.01, 5" for index in range(2))
SMI = f"""#!/bin/sh
case "$*" in
*--query-gpu=*) echo '{LISTED}' ;;
*-q*) cat <<'REPORT'
{ILL}
REPORT
esac
"""
MISMATCH = """#!/bin/sh
echo "Failed to initialize NVML: Driver/library version mismatch"
exit 18
"""
BASHRC = """\
echo Welcome to the lab
export PET_NNODES=3 https_proxy=http://proxy:3128 NCCL_SOCKET_IFNAME=ens99 NCCL_AUTH_TOKEN=hunter2
ulimit -n 512
"""
RULES = """\
table inet lab {
chain rules {
type filter hook input priority 0; policy accept;
iif lo accept
ct state established,related accept
tcp dport 22 accept
reject
}
}
"""
ON_FIRST = {"login_noise", "stale", "proxy", "no_such_interface", "nofile", "shared_memory", "nccl_override"} | {
    "driver_fails",
    "reverse_slow",
}
ON_SECOND = {"firewall", "two_nics", "torch_cpu", "gpu_mig", "gpu_ecc", "inodes_low", "disk_low"} | {
    "mtu_differs",
    "name_foreign",
}


def _break(cluster: Cluster) -> None:
    first, second, _ = cluster.hosts
    first.write("/root/.bashrc", BASHRC)
    first.write("/usr/local/bin/nvidia-smi", MISMATCH, mode=0o755)
    first.write("/etc/resolv.conf", f"nameserver {first.address[:-1]}77\n")  # nobody is there
    first.write("/opt/nccl/libnccl.so.2", b"NCCL version 2.16.2+cuda11.8")
    first.exec(["mount", "-o", "remount,size=32m", "/dev/shm"], check=True)
    second.exec(["nft", "-f", "-"], input=RULES, check=True)
    second.exec(["ip", "link", "set", second.data_interface, "mtu", "1400"], check=True)
    second.write("/etc/hosts", f"127.0.0.1 localhost\n192.0.2.9 {second.name}\n")
    second.write("/usr/local/bin/nvidia-smi", SMI, mode=0o755)
    second.exec(["ip", "address", "add", f"{second.address[:-1]}9/24", "dev", second.data_interface], check=True)
    second.exec(["mkdir", "-p", "/root/.local/state"], check=True)
    second.exec(["mount", "-t", "tmpfs", "-o", "size=3m,nr_inodes=4000", "tmpfs", "/root/.local/state"], check=True)
    second.exec(
        ["sh", "-c", "mkdir -p /root/.local/state/x && cd /root/.local/state/x && touch $(seq 3880)"], check=True
    )


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Three hosts, two of them ill; the third is as they were."""
    if reason := namespaces.why_not():
        pytest.skip(reason)
    with Cluster(3) as cluster:
        _break(cluster)
        bench = Bench(cluster, tmp_path_factory.mktemp("doctor"))
        bench.yaml(launch={"nproc_per_node": 2, "env": {"LD_LIBRARY_PATH": "/opt/nccl"}})  # only the first host has it
        yield bench
        bench.close()


@pytest.fixture(scope="module")
def told(bench: Bench) -> Done:
    """One visit, whose facts are saved."""
    return bench.run(
        "doctor", "--json", "--save", "facts.json", "--html", "page.html", bench.file, env={"COLUMNS": "100"}
    )


def ids(done: Done, node: str) -> set[str]:
    return {event["id"] for event in done.of("finding") if event["node"] == node}


def test_each_fault_is_found_on_its_host(told: Done) -> None:
    assert ids(told, "node0") >= ON_FIRST, ON_FIRST - ids(told, "node0")
    assert ids(told, "node1") >= ON_SECOND, ON_SECOND - ids(told, "node1")


def test_and_on_no_other(told: Done) -> None:
    assert not ids(told, "node2") & (ON_FIRST | ON_SECOND)
    assert not ids(told, "node0") & ON_SECOND
    assert not ids(told, "node1") & ON_FIRST


def test_every_node_has_its_row(told: Done) -> None:
    rows = {event["node"]: event for event in told.of("examined")}
    assert set(rows) == {"node0", "node1", "node2"}
    assert rows["node1"]["gpus"] == ["NVIDIA H200"] * 2
    assert rows["node1"]["driver"] == "470.82.01"
    assert "+cpu" in rows["node1"]["torch"]


def test_the_evidence_names_the_place_and_no_secret(told: Done) -> None:
    (setting,) = [event for event in told.of("finding") if event["id"] == "no_such_interface"]
    assert "/root/.bashrc:2" in setting["evidence"]
    assert "hunter2" not in told.out


def test_the_command_that_opens_a_firewall_is_for_the_chain_that_refuses(told: Done) -> None:
    (rule,) = [event for event in told.of("finding") if event["id"] == "firewall"]
    assert re.fullmatch(r"on node1:  sudo nft insert rule inet lab rules ip saddr \S+/\d+ accept", rule["fix"])


def test_the_saved_facts_tell_the_same_without_a_host(bench: Bench, told: Done) -> None:
    text = (bench.work / "facts.json").read_text()
    assert "hunter2" not in text
    again = bench.run("doctor", "--json", "--from", "facts.json")
    assert again.of("finding") == told.of("finding")
    assert again.code == told.code == 0, told.end


def test_the_page_stands_alone(bench: Bench, told: Done) -> None:
    page = (bench.work / "page.html").read_text()
    assert told.of("finding")
    assert "another launcher&#x27;s variables" in page
    assert "http://" not in page.replace("http://proxy:3128", "")


def test_people_read_a_table_and_what_mends_it(bench: Bench, told: Done) -> None:
    assert told.of("facts_saved")[0]["path"] == "facts.json"
    done = bench.run("doctor", "--from", "facts.json")
    assert "node1" in done.out
    assert "MIG is on" in done.err
    assert "sudo nvidia-smi -i 0 -mig 0" in done.err


def test_a_launch_tells_the_quick_ones_and_starts(bench: Bench, told: Done) -> None:
    assert told.code == 0
    words = ("launch", "--json", "--launcher", "exec", "--nodes", "node0", bench.file, "/bin/true")
    done = bench.run(*words)
    assert done.code == 0
    assert {"stale", "nofile", "shared_memory"} <= {event["id"] for event in done.of("warning")}


def test_what_nobody_may_look_at_is_asked_of_nobody(bench: Bench, told: Done) -> None:
    saved = json.loads((bench.work / "facts.json").read_text())
    assert told.of("examined")
    assert saved["nodes"][0]["exam"]["unknown"].keys() >= {"health"}


def test_a_host_that_is_off_is_told_with_the_others(bench: Bench, told: Done) -> None:
    assert told.code == 0
    bench.cluster.hosts[0].kill()
    done = bench.run("doctor", "--json", bench.file)
    assert done.code == 255
    assert [event["node"] for event in done.of("unreachable")] == ["node0"]
    assert [event["node"] for event in done.of("examined") if event["lost"]] == ["node0"]
    assert ids(done, "node1") >= ON_SECOND - {"mtu_differs"}  # of two nobody knows which is odd
