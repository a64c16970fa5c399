"""Ranges, names and overrides of nodes, and what they may not contradict."""

from __future__ import annotations

import pytest

from ncclrun.model.cluster import Node
from ncclrun.model.errors import SpecError
from ncclrun.planning.clusterfile import parse_cluster
from ncclrun.planning.hostlist import select


def nodes(*entries: str, head: str = "") -> tuple[Node, ...]:
    return parse_cluster(f"{head}\nnodes:\n" + "".join(f"- {entry}\n" for entry in entries), "c").nodes


def fault(*entries: str, head: str = "") -> tuple[int, str, str]:
    """Line (the first entry stands in line 3), path and message of the one fault."""
    with pytest.raises(SpecError) as caught:
        nodes(*entries, head=head)
    (problem,) = caught.value.problems
    return problem.line, problem.path, problem.message


class TestNames:
    @pytest.mark.parametrize(
        ("entries", "names"),
        [
            (["a", "{host: b, name: n}"], ["a", "n"]),
            (["{host: 'g[1-2]', name: 'n[8-9]'}"], ["n8", "n9"]),
            (["localhost", "localhost", "localhost"], ["localhost", "localhost-1", "localhost-2"]),
            (["127.0.0.1", "127.0.0.1"], ["127.0.0.1", "127.0.0.1-1"]),
            (["::1", "::1", "localhost"], ["::1", "::1-1", "localhost"]),
            (["{host: box, port: 2201}", "{host: box, port: 2202}"], ["box-2201", "box-2202"]),
            (["box", "{host: box, port: 2202}"], ["box", "box-2202"]),
            (["{host: box, port: 2201}"], ["box"]),
            (["{host: box, name: a}", "{host: box, name: b}", "box"], ["a", "b", "box"]),
            (["{host: localhost, port: 1}", "{host: localhost, port: 2}"], ["localhost-1", "localhost-2"]),
            (["fe80::1", "'[fe80::2]'"], ["fe80::1", "fe80::2"]),
        ],
    )
    def test_are_distinct_and_can_be_selected(self, entries: list[str], names: list[str]) -> None:
        assert [node.name for node in nodes(*entries)] == names
        assert [select(name, names) for name in names] == [(index,) for index in range(len(names))]

    def test_a_host_listed_twice_says_where_and_what_to_do(self) -> None:
        line, path, message = fault("a", "b", "a")
        assert (line, path) == (5, "nodes[2].host")
        assert "'a' stands at line 3, column 3 already; give one of them a `name`" in message

    def test_the_same_host_and_port_twice_is_refused(self) -> None:
        assert fault("{host: a, port: 1}", "{host: a, port: 1}")[:2] == (4, "nodes[1].host")

    def test_two_nodes_with_one_name_are_refused(self) -> None:
        line, path, message = fault("{host: a, name: n}", "{host: b, name: n}")
        assert (line, path) == (4, "nodes[1].name")
        assert message == "a node named 'n' stands at line 3, column 19 already"

    def test_a_host_within_a_range_listed_again_is_refused(self) -> None:
        assert fault("g[1-3]", "g2")[:2] == (4, "nodes[1].host")

    @pytest.mark.parametrize("name", ["-a", "a b", "'a,b'", "'a!'", "é", "x" * 64])
    def test_what_could_not_be_typed_or_told_apart_is_no_name(self, name: str) -> None:
        _, path, message = fault(f"{{host: a, name: {name}}}")
        assert path == "nodes[0].name"
        assert "is no name for a node" in message


class TestRanges:
    def test_expand_with_everything_that_the_entry_says(self) -> None:
        found = nodes("{host: 'g[09-10]', port: 7}")
        assert [(node.host, node.ssh.port) for node in found] == [("g09", 7), ("g10", 7)]

    @pytest.mark.parametrize(
        ("entry", "path", "words"),
        [
            ("{host: 'g[1-2]', name: 'n[1-3]'}", "name", "3 names for 2 hosts"),
            ("{host: 'g[1-2]', name: n}", "name", "1 names for 2 hosts"),
            ("{host: g, name: 'n[1-2]'}", "name", "2 names for 1 hosts"),
            ("{host: 'g[1-2]', name: 'n[2-1]'}", "name", "runs backwards"),
            ("{host: 'g[1-2]', address: 10.0.0.1}", "address", "belongs to one node"),
            ("{host: 'g[1-2'}", "host", "no partner"),
        ],
    )
    def test_that_do_not_fit_are_refused(self, entry: str, path: str, words: str) -> None:
        found = fault(entry)
        assert found[1] == f"nodes[0].{path}"
        assert words in found[2]

    def test_do_not_fill_the_memory(self) -> None:
        line, path, message = fault("a[1-4000]", "b[1-4000]", "c[1-4000]")
        assert (line, path) == (4, "nodes[1]")
        assert "more than 4096" in message


class TestOverrides:
    def test_reach_every_field_of_the_blocks(self) -> None:
        (node,) = nodes(
            "{host: a, user: u, port: 1, identity_file: i, gateway: g, host_keys: accept-new, known_hosts: k,"
            " connect_timeout: 2.5, config: c, forward_agent: true,"
            " interface: e, subnet: 10.0.0.0/8, family: ipv4, nproc_per_node: 3, master_port: 4,"
            " python: p, workdir: /w, rendezvous: c10d, max_restarts: 5, grace: 6, lease: 7, checkpoint_dir: /c,"
            " log_limit: 2G, env: {A: b}, forward_env: [F]}"
        )
        assert node.ssh.model_dump() == {
            "user": "u",
            "port": 1,
            "identity_file": "i",
            "gateway": "g",
            "host_keys": "accept-new",
            "known_hosts": "k",
            "connect_timeout": 2.5,
            "config": "c",
            "forward_agent": True,
        }
        assert node.network.model_dump(mode="json") == {"interface": "e", "subnet": "10.0.0.0/8", "family": "ipv4"}
        assert node.launch.model_dump() == {
            "nproc_per_node": 3,
            "master_port": 4,
            "python": "p",
            "workdir": "/w",
            "rendezvous": "c10d",
            "max_restarts": 5,
            "checkpoint_dir": "/c",
            "grace": 6,
            "lease": 7,
            "log_limit": "2G",
            "env": {"A": "b"},
            "forward_env": ("F",),
        }

    def test_of_variables_add_up_and_the_node_wins(self) -> None:
        head = "launch: {env: {A: 1, B: 2}, forward_env: [X, Y]}"
        (node,) = nodes("{host: a, env: {B: 3, C: 4}, forward_env: [Y, Z]}", head=head)
        assert node.launch.env == {"A": "1", "B": "3", "C": "4"}
        assert node.launch.forward_env == ("X", "Y", "Z")

    @pytest.mark.parametrize("field", ["master_port: 29501", "rendezvous: c10d", "max_restarts: 1"])
    def test_of_what_must_be_alike_are_for_the_master(self, field: str) -> None:
        assert len(nodes(f"{{host: a, {field}}}", f"{{host: b, {field}}}")) == 2
        line, path, message = fault("a", f"{{host: b, {field}}}")
        assert (line, path) == (4, f"nodes[1].{field.partition(':')[0]}")
        assert "write it under `launch:`" in message


class TestNetwork:
    def test_an_address_of_another_family_is_refused(self) -> None:
        assert fault("{host: a, address: '10.0.0.1'}", head="network: {family: ipv6}")[1] == "nodes[0].address"

    def test_an_address_outside_the_node_s_own_subnet_is_refused(self) -> None:
        assert fault("{host: a, address: 10.1.0.1, subnet: 10.0.0.0/24}")[1] == "nodes[0].address"

    def test_an_address_outside_the_common_subnet_is_the_node_s_own_wish(self) -> None:
        assert nodes("{host: a, address: 10.1.0.1}", head="network: {subnet: 10.0.0.0/24}")[0].address == "10.1.0.1"

    def test_which_wishes_are_a_nodes_own_is_known_and_no_difference_between_nodes(self) -> None:
        head = "network: {interface: e}"
        given, own = nodes("a", "{host: b, interface: f}", head=head)
        assert (given.own_network, own.own_network) == ((), ("interface",))
        assert nodes("{host: a, interface: e}", head=head)[0] == given

    def test_a_common_fault_is_said_once(self) -> None:
        assert fault("a", "b", head="network: {family: ipv4, subnet: 'fd00::/64'}")[:2] == (1, "network.subnet")

    def test_addresses_are_written_in_one_way(self) -> None:
        assert nodes("{host: a, address: 'FD00::0001'}")[0].address == "fd00::1"
