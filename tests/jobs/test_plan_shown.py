"""What was decided can be seen before anything starts: the network of each node, its ranks, environment, command."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.jobs.bench import ROOT, Bench, Done, assert_nothing_was_started, run_directories

pytestmark = pytest.mark.cluster


def planned(bench: Bench, *options: str) -> list[dict[str, Any]]:
    """The nodes of the plan that torchrun would start by."""
    bench.script("")
    done = bench.run("launch", "--dry-run", "--json", *options, bench.file, "worker.py")
    assert done.code == 0, done
    (plan,) = done.of("plan")
    nodes: list[dict[str, Any]] = plan["nodes"]
    return nodes


def network(nodes: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Interface and address of each node, once every place that shall have them was looked at."""
    for node in nodes:
        environment = {name: entry["value"] for name, entry in node["environment"].items()}
        assert environment["NCCL_SOCKET_IFNAME"] == f"={node['interface']}"
        assert environment["GLOO_SOCKET_IFNAME"] == node["interface"]
        assert f"--local-addr={node['address']}" in node["command"]
        assert f"--master-addr={nodes[0]['address']}" in node["command"]
        assert f"--node-rank={node['node_rank']}" in node["command"]
    return [(node["interface"], node["address"]) for node in nodes]


DATA = [("eth1", "10.77.0.1"), ("enp7s0", "10.77.0.2"), ("ens5f0np0", "10.77.0.3")]


class TestDryRun:
    def test_it_starts_nothing_and_shows_all(self, bench: Bench) -> None:
        bench.yaml(launch={"python": sys.executable, "env": {"OMP_NUM_THREADS": 8, "MY_TOKEN": "abc123"}})
        bench.script("")
        words = ("--dry-run", "--nproc-per-node", "2", "--env", "A=b c", bench.file, "worker.py", "--lr", "$(x)")
        done = bench.run("launch", *words)
        assert done.code == 0, done
        for index, (interface, address) in enumerate(DATA):
            assert f"node {index}: node{index} (host {bench.cluster.hosts[index].address})" in done.out
            assert f"{interface} {address}: the subnet 10.77.0.0/24 that they share" in done.out
            assert f"ranks        {2 * index}-{2 * index + 1}\n" in done.out
        assert "OMP_NUM_THREADS=8 " in done.out
        assert "A='b c' " in done.out
        assert "MY_TOKEN='***'" in done.out
        assert "abc123" not in done.out + done.err
        assert f"{sys.executable} -m torch.distributed.run --nnodes=3 --node-rank=1 --rdzv-backend=static " in done.out
        assert done.out.count("worker.py --lr '$(x)'\n") == 3
        assert bench.runs_here() == []
        assert [run_directories(host) for host in bench.cluster.hosts] == [[], [], []]

    def test_what_goes_over_the_found_network_is_told_once_beside_what_was_found(self, bench: Bench) -> None:
        bench.script("")
        done = bench.run("launch", "--dry-run", "--env", "GLOO_SOCKET_IFNAME=ens9", bench.file, "worker.py")
        assert done.code == 0, done
        found = ", ".join(f"{interface} on node{index}" for index, (interface, _) in enumerate(DATA))
        told = f"warning: --env sets GLOO_SOCKET_IFNAME=ens9; found was {found}\n"
        assert told + "  fix: take GLOO_SOCKET_IFNAME out: each node gets what was found for it\n" in done.err

    def test_a_node_may_differ_in_workers_python_and_environment(self, bench: Bench) -> None:
        bench.yaml(nodes={1: {"nproc_per_node": 4, "env": {"X": "own"}}})
        nodes = planned(bench, "--env", "Y=all")
        assert [node["ranks"] for node in nodes] == [[0, 0], [1, 4], [5, 5]]
        assert [node["environment"].get("X", {}).get("value") for node in nodes] == [None, "own", None]
        assert [node["environment"]["Y"] for node in nodes] == [{"value": "all", "from": "--env"}] * 3

    @pytest.mark.parametrize(
        ("selection", "chosen"),
        [
            ("node1", ["node1"]),
            ("node[1-2]", ["node1", "node2"]),
            ("2,0", ["node0", "node2"]),
            ("!node0", ["node1", "node2"]),
            ("0-2,!1", ["node0", "node2"]),
        ],
    )
    def test_nodes_are_selected_and_the_first_of_them_is_the_master(
        self, bench: Bench, selection: str, chosen: list[str]
    ) -> None:
        nodes = planned(bench, "--nodes", selection)
        assert [node["node"] for node in nodes] == chosen
        network(nodes)


class TestNetwork:
    def test_the_subnet_that_all_share_is_taken_and_no_decoy(self, bench: Bench) -> None:
        assert network(planned(bench)) == DATA

    def test_the_users_wish_counts(self, bench: Bench) -> None:
        for own in (
            {"network": {"subnet": "10.77.0.0/24"}},
            {"nodes": {index: {"interface": name} for index, (name, _) in enumerate(DATA)}},
            {"nodes": {index: {"address": address} for index, (_, address) in enumerate(DATA)}},
        ):
            bench.yaml(**own)
            assert network(planned(bench)) == DATA

    @pytest.mark.parametrize(
        "own",
        [
            {"network": {"subnet": "192.168.77.0/24"}},
            {"network": {"interface": "eth1"}},
            {"nodes": {1: {"address": "10.77.0.99"}}},
        ],
        ids=["subnet", "interface", "address"],
    )
    def test_a_wish_that_a_node_cant_fulfil_names_the_node_and_what_it_has(
        self, bench: Bench, own: dict[str, Any]
    ) -> None:
        bench.yaml(**own)
        done = bench.sh("sleep 1000")
        assert_nothing_was_started(bench, done, 3)
        (error,) = done.of("error")
        assert "node1" in error["message"]
        assert "enp7s0" in error["message"]
        assert error["fix"]

    def test_of_two_that_all_share_the_better_is_taken_and_the_file_may_say_otherwise(
        self, two_networks: Bench
    ) -> None:
        assert network(planned(two_networks)) == DATA[:2]  # jumbo frames
        management = two_networks.cluster.hosts[0].address.rpartition(".")[0] + ".0/24"
        two_networks.yaml(network={"subnet": management})
        assert network(planned(two_networks)) == [("ens3", host.address) for host in two_networks.cluster.hosts]

    @pytest.fixture
    def two_networks(
        self, make_cluster: Callable[..., Cluster], make_bench: Callable[[Cluster], Bench]
    ) -> Iterator[Bench]:
        yield make_bench(make_cluster(2, shared_management=True))

    def test_ipv6_alone_is_enough(
        self, make_cluster: Callable[..., Cluster], make_bench: Callable[[Cluster], Bench]
    ) -> None:
        bench = make_bench(make_cluster(2, data_ipv6=True))
        bench.yaml(network={"family": "ipv6"})
        assert network(planned(bench)) == [("eth1", "fd77::1"), ("enp7s0", "fd77::2")]
        done = bench.sh('echo "$MASTER_ADDR $NCCL_SOCKET_FAMILY"')
        assert done.code == 0, done
        assert done.lines == {0: ["fd77::1 AF_INET6"], 1: ["fd77::1 AF_INET6"]}


@pytest.fixture(scope="module")
def valid() -> Callable[[Done], None]:
    """Checks every line against the published schema."""
    # By name: it ships no types, and its stubs are a package more.
    validator = importlib.import_module("jsonschema").Draft202012Validator(
        json.loads((ROOT / "docs/events.schema.json").read_text())
    )

    def check(done: Done) -> None:
        for event in done.events:
            validator.validate(event)
        assert done.end["event"] == "end"
        assert done.end["exit_code"] == done.code

    return check


class TestJson:
    def test_launch(self, bench: Bench, valid: Callable[[Done], None]) -> None:
        bench.script("echo out; echo err >&2; test $RANK != 1 || exit 7; exec sleep 1000", "w.sh")
        done = bench.exec("sh", "w.sh")
        valid(done)
        kinds = {event["event"] for event in done.events}
        assert kinds >= {"run", "connected", "network", "code", "prepared", "plan", "node", "log", "stopping", "end"}

    def test_launch_that_never_starts(self, bench: Bench, valid: Callable[[Done], None]) -> None:
        bench.yaml(nodes={1: {"port": 1}})
        valid(bench.sh("true"))
        bench.yaml(nodes={1: {"workdir": "/nowhere"}, 0: {"workdir": "/"}, 2: {"workdir": "/"}})
        valid(bench.sh("true"))

    def test_dry_run(self, bench: Bench, valid: Callable[[Done], None]) -> None:
        bench.script("")
        valid(bench.run("launch", "--dry-run", "--json", bench.file, "worker.py"))

    def test_ping(self, bench: Bench, valid: Callable[[Done], None]) -> None:
        valid(bench.run("ping", "--json", bench.file))
        bench.yaml(nodes={1: {"port": 1}, 2: {"python": "/nowhere/python"}})
        valid(bench.run("ping", "--json", bench.file))


class TestPing:
    def test_all_are_fit(self, bench: Bench) -> None:
        done = bench.run("ping", bench.file)
        assert done.code == 0, done
        for index, (interface, address) in enumerate(DATA):
            (row,) = [line for line in done.out.splitlines() if line.startswith(f"node{index} ")]
            assert interface in row
            assert address in row

    def test_each_that_is_not_says_why_and_what_mends_it(self, bench: Bench, tmp_path: Path) -> None:
        bench.yaml(
            nodes={
                0: {"known_hosts": str(tmp_path / "empty")},
                1: {"port": 1},
                2: {"python": "/opt/nothing/python"},
            }
        )
        (tmp_path / "empty").touch()
        done = bench.run("ping", bench.file)
        assert done.code == 1, done
        said = done.out + done.err
        assert "SHA256:" in said
        assert f"ncclrun trust {bench.file}" in said
        assert "refused" in said
        assert "/opt/nothing/python" in said
        as_json = bench.run("ping", "--json", bench.file)
        assert as_json.code == 1
        rows = {row["node"]: row for row in as_json.of("ping")}
        assert [rows[f"node{index}"]["fit"] for index in range(3)] == [False] * 3
        assert all(
            problem["fix"] for row in rows.values() for problem in row["problems"] if problem["level"] == "error"
        )

    def test_a_host_without_power_keeps_nobody_waiting_for_ever(self, bench: Bench) -> None:
        bench.yaml(ssh={"connect_timeout": 8})
        bench.cluster.hosts[2].kill()
        done = bench.run("ping", "--json", bench.file)
        assert done.code == 1
        assert {row["node"]: row["fit"] for row in done.of("ping")} == {"node0": True, "node1": True, "node2": False}
