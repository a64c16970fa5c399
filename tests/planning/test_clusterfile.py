"""A cluster file becomes a cluster, or every fault in it is said with its place."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncclrun.model.cluster import ClusterSpec
from ncclrun.model.errors import SpecError
from ncclrun.planning.clusterfile import parse_cluster

FULL = """\
name: lab
ssh:      {user: ubuntu, port: 22, identity_file: ~/.ssh/id_ed25519, gateway: me@bastion:22, host_keys: strict,
           known_hosts: ~/.ssh/known_hosts, connect_timeout: 10, config: ~/.ssh/config}
network:  {interface: auto, subnet: 10.0.0.0/24, family: auto}
nccl:     {deliver: env, env: {NCCL_DEBUG: WARN, NCCL_IB_DISABLE: 1}}
launch:   {nproc_per_node: auto, master_port: auto, python: /opt/env/bin/python, workdir: /data/job, rendezvous: static,
           max_restarts: 0, grace: 30, lease: 30, env: {OMP_NUM_THREADS: 8}, forward_env: [WANDB_API_KEY]}
nodes:
  - host: gpu1                       # the first node is the master
  - {host: 10.0.0.7, name: b, user: root, port: 2222, interface: enp7s0, address: 10.77.0.3, nproc_per_node: 2,
     gpus: [0, 1], python: /usr/bin/python3, workdir: /scratch, env: {X: y}}
  - host: gpu[03-16]                 # ranges expand
"""

WRONG = [
    # text, line, column, path, a piece of the message
    ("a\n", 1, 1, "", "a mapping with a list of `nodes`"),
    ("[a]\n", 1, 1, "", "a mapping with a list of `nodes`"),
    ("name: x\n", 1, 1, "nodes", "the list of nodes is missing"),
    ("nodes:\n", 1, 7, "nodes", "there is no value here"),
    ("nodes: []\n", 1, 8, "nodes", "this list is empty"),
    ("nodes: a\n", 1, 8, "nodes", 'not the text "a"'),
    ("nodes: [7]\n", 1, 9, "nodes[0]", 'write "7" in quotes'),
    ("nodes: [[a]]\n", 1, 9, "nodes[0]", "not a list"),
    ("nodes:\n- {name: x}\n", 2, 3, "nodes[0].host", "write `host: …`"),
    ("nodes: [a]\nssh: {prot: 1}\n", 2, 7, "ssh.prot", "did you mean `port`?"),
    ("nodes: [a]\nport: 1\n", 2, 1, "port", "`port` belongs under `ssh:`"),
    ("nodes: [a]\nzzz: 1\n", 2, 1, "zzz", "there are name, ssh, network, nccl, launch, nodes"),
    ("nodes:\n- {host: a, prt: 1}\n", 2, 13, "nodes[0].prt", "did you mean `port`?"),
    ("nodes: [a]\nssh: x\n", 2, 6, "ssh", "a mapping of fields is wanted"),
    ("nodes: [a]\nssh: {port: '22'}\n", 2, 13, "ssh.port", "write 22 without quotes"),
    ("nodes: [a]\nssh: {port: 0}\n", 2, 13, "ssh.port", "from 1 to 65535 is wanted, not the number 0"),
    ("nodes: [a]\nssh: {port: true}\n", 2, 13, "ssh.port", "not the boolean true"),
    ("nodes: [a]\nssh: {port: 22.0}\n", 2, 13, "ssh.port", "a whole number"),
    ("nodes: [a]\nssh: {forward_agent: 'true'}\n", 2, 22, "ssh.forward_agent", "write true without quotes"),
    ("nodes: [a]\nssh: {host_keys: off}\n", 2, 18, "ssh.host_keys", "YAML reads off as the boolean false"),
    ("nodes: [a]\nssh: {host_keys: none}\n", 2, 18, "ssh.host_keys", "strict or accept-new is wanted"),
    ("nodes: [a]\nssh: {user: 7}\n", 2, 13, "ssh.user", 'write "7" in quotes'),
    ("nodes: [a]\nssh: {user: ''}\n", 2, 13, "ssh.user", "this is empty"),
    ("nodes: [a]\nssh: {gateway: 'me@'}\n", 2, 16, "ssh.gateway", "[user@]host[:port]"),
    ("nodes: [a]\nssh: {gateway: 'b:x'}\n", 2, 16, "ssh.gateway", "the port in 'b:x'"),
    ("nodes: [a]\nssh: {gateway: $(id)}\n", 2, 16, "ssh.gateway", "is not a host"),
    ("nodes: [a]\nnetwork: {interface: =eth0}\n", 2, 22, "network.interface", "one plain interface name"),
    ("nodes: [a]\nnetwork: {interface: ^lo}\n", 2, 22, "network.interface", "one plain interface name"),
    ("nodes: [a]\nnetwork: {interface: 'a,b'}\n", 2, 22, "network.interface", "one plain interface name"),
    ("nodes: [a]\nnetwork: {interface: abcdefghijklmnop}\n", 2, 22, "network.interface", "1 to 15 characters"),
    ("nodes: [a]\nnetwork: {interface: a/b}\n", 2, 22, "network.interface", "slash"),
    ("nodes: [a]\nnetwork: {subnet: 10.0.0.5/24}\n", 2, 19, "network.subnet", "in the network 10.0.0.0/24"),
    ("nodes: [a]\nnetwork: {subnet: 10.0.0.0}\n", 2, 19, "network.subnet", "is not a network"),
    ("nodes: [a]\nnetwork: {family: ipv6, subnet: 10.0.0.0/8}\n", 2, 33, "network.subnet", "is IPv4, but `family`"),
    ("nodes: [a]\nlaunch: {workdir: job}\n", 2, 19, "launch.workdir", "starts with / or ~"),
    ('nodes: [a]\nlaunch: {python: "a\\nb"}\n', 2, 18, "launch.python", "line break"),
    ('nodes: [a]\nlaunch: {workdir: "/a\\0"}\n', 2, 19, "launch.workdir", "control character"),
    ("nodes: [a]\nlaunch: {nproc_per_node: all}\n", 2, 26, "launch.nproc_per_node", "or auto is wanted"),
    ("nodes: [a]\nlaunch: {forward_env: [A=1]}\n", 2, 24, "launch.forward_env[0]", "no name of a variable"),
    ("nodes: [a]\nlaunch: {forward_env: A}\n", 2, 23, "launch.forward_env", "a list"),
    ("nodes: [a]\nlaunch: {env: {A-B: x}}\n", 2, 16, "launch.env.A-B", "'A-B' is no name of a variable"),
    ("nodes: [a]\nlaunch: {env: {A: true}}\n", 2, 19, "launch.env.A", 'write "true" in quotes'),
    ("nodes: [a]\nlaunch: {env: {A: }}\n", 2, 18, "launch.env.A", "there is no value here"),
    ("nodes: [a]\nlaunch: {env: {A: 010}}\n", 2, 19, "launch.env.A", "an octal number"),
    ("nodes: [a]\nlaunch: {env: {A: [1]}}\n", 2, 19, "launch.env.A", "not a list"),
    ('nodes: [a]\nlaunch: {env: {A: "\\0"}}\n', 2, 19, "launch.env.A", "NUL"),
    ("nodes: [a]\nlaunch: {env: {A: " + "é" * 66_000 + "}}\n", 2, 19, "launch.env.A", "more than 127 KiB"),
    ("nodes: [a]\nnccl: {env: {NCCL_X: true}}\n", 2, 22, "nccl.env.NCCL_X", "NCCL reads that word as 0: 1 is what"),
    ("nodes: [a]\nnccl: {deliver: mail}\n", 2, 17, "nccl.deliver", "env or file or user or system"),
    ("nodes: [a]\nnccl: {env: {NCCL_P2P_DISABLE: yes}}\n", 2, 32, "nccl.env.NCCL_P2P_DISABLE", "as 0; write 1"),
    ("nodes: [a]\nnccl: {env: {NCCL_P2P_DISABLE: off}}\n", 2, 32, "nccl.env.NCCL_P2P_DISABLE", "as 0; write 0"),
    ("nodes:\n- {host: a, env: {NCCL_IB_DISABLE: True}}\n", 2, 36, "nodes[0].env.NCCL_IB_DISABLE", "as 0; write 1"),
    ("nodes: [a]\nlaunch: {env: {USE_LIBUV: true}}\n", 2, 27, "launch.env.USE_LIBUV", 'write "true" in quotes'),
    ("nodes:\n- {host: a, env: {A: no}}\n", 2, 22, "nodes[0].env.A", "the boolean false"),
    ("nodes:\n- {host: a, gpus: [0, 0]}\n", 2, 19, "nodes[0].gpus", "GPU 0 is listed twice"),
    ("nodes:\n- {host: a, gpus: []}\n", 2, 19, "nodes[0].gpus", "this list is empty"),
    ("nodes:\n- {host: a, gpus: [0, x]}\n", 2, 23, "nodes[0].gpus[1]", "at least 0"),
    ("nodes:\n- {host: a, address: b}\n", 2, 22, "nodes[0].address", "not an IP address"),
    ("nodes:\n- {host: a, address: 10.0.0.1/24}\n", 2, 22, "nodes[0].address", "the node's address alone: 10.0.0.1"),
    ("nodes:\n- {host: a, address: 0.0.0.0}\n", 2, 22, "nodes[0].address", "no address of one node"),
    ("nodes:\n- {host: a, address: fe80::1%eth0}\n", 2, 22, "nodes[0].address", "the interface as `interface: …`"),
    ("nodes: [a b]\n", 1, 9, "nodes[0]", "'a b' is not a host"),
    ("nodes: [-a]\n", 1, 9, "nodes[0]", "'-a' is not a host"),
    ("nodes: [a/b]\n", 1, 9, "nodes[0]", "'a/b' is not a host"),
    ("nodes: [me@a]\n", 1, 9, "nodes[0]", "host: a, user: me"),
    ("nodes: ['a:22']\n", 1, 9, "nodes[0]", "a port is written apart"),
]


def faults(text: str | bytes) -> list[tuple[int, int, str, str]]:
    with pytest.raises(SpecError) as caught:
        parse_cluster(text, "cluster.yaml")
    return [(p.line, p.column, p.path, p.message) for p in caught.value.problems]


@pytest.fixture(scope="module")
def spec() -> ClusterSpec:
    return parse_cluster(FULL, "cluster.yaml")


class TestTheFullExample:
    def test_has_all_nodes_in_order(self, spec: ClusterSpec) -> None:
        assert (spec.name, spec.source) == ("lab", "cluster.yaml")
        assert [node.name for node in spec.nodes] == ["gpu1", "b", *(f"gpu{number:02}" for number in range(3, 17))]

    def test_gives_a_plain_node_the_blocks_as_they_are(self, spec: ClusterSpec) -> None:
        node = spec.nodes[0]
        assert (node.host, node.ssh.user, node.ssh.port, node.ssh.gateway) == ("gpu1", "ubuntu", 22, "me@bastion:22")
        assert (node.network.interface, node.network.subnet) == ("auto", ip_network("10.0.0.0/24"))
        assert (node.launch.python, node.launch.workdir) == ("/opt/env/bin/python", "/data/job")
        assert (node.launch.env, node.launch.forward_env) == ({"OMP_NUM_THREADS": "8"}, ("WANDB_API_KEY",))
        assert (node.address, node.gpus) == (None, None)

    def test_lands_each_override_of_a_node(self, spec: ClusterSpec) -> None:
        node = spec.nodes[1]
        assert (node.host, node.ssh.user, node.ssh.port) == ("10.0.0.7", "root", 2222)
        assert node.ssh.identity_file == "~/.ssh/id_ed25519"
        assert (node.network.interface, node.address, node.gpus) == ("enp7s0", "10.77.0.3", (0, 1))
        assert (node.launch.nproc_per_node, node.launch.python) == (2, "/usr/bin/python3")
        assert (node.launch.workdir, node.launch.grace) == ("/scratch", 30)
        assert node.launch.env == {"OMP_NUM_THREADS": "8", "X": "y"}

    def test_takes_numbers_among_nccl_variables_as_text(self, spec: ClusterSpec) -> None:
        assert spec.nccl.env == {"NCCL_DEBUG": "WARN", "NCCL_IB_DISABLE": "1"}


@pytest.mark.parametrize(("text", "line", "column", "path", "words"), WRONG)
def test_a_fault_is_said_with_its_place(text: str, line: int, column: int, path: str, words: str) -> None:
    found = faults(text)
    assert len(found) == 1, found
    assert found[0][:3] == (line, column, path)
    assert words in found[0][3]


def test_nothing_of_pydantic_shows() -> None:
    for text, *_ in WRONG:
        message = "\n".join(fault[3] for fault in faults(text))
        assert not any(word in message for word in ("pydantic", "Input should", "Value error", "http", "type="))


def test_all_faults_of_a_file_are_said_at_once_in_order() -> None:
    text = """\
ssh: {port: '22', user: me, user: you}
network: {subnet: 10.0.0.5/24}
launch: {env: {A: no, B: true}}
nodes:
  - {host: a, master_port: 1}
  - {host: b, prt: 1, gpus: [0, 0], rendezvous: c10d}
  - {host: a, port: '1'}
  - {host: "c[3-1]"}
  - 'd e'
"""
    assert [(line, path) for line, _, path, _ in faults(text)] == [
        (1, "ssh.port"),
        (1, "ssh.user"),
        (2, "network.subnet"),
        (3, "launch.env.A"),
        (3, "launch.env.B"),
        (6, "nodes[1].prt"),
        (6, "nodes[1].gpus"),
        (6, "nodes[1].rendezvous"),
        (7, "nodes[2].host"),
        (7, "nodes[2].port"),
        (8, "nodes[3].host"),
        (9, "nodes[4]"),
    ]


def test_of_very_many_faults_the_first_hundred_are_shown() -> None:
    found = faults("nodes: [a]\n" + "".join(f"x{number}: 1\n" for number in range(150)))
    assert len(found) == 101
    assert found[-1] == (102, 1, "", "from here on there are 50 more faults")


def test_the_message_names_the_file_line_column_and_field() -> None:
    with pytest.raises(SpecError) as caught:
        parse_cluster("nodes: [a]\nssh: {prot: 1}\n", "lab/cluster.yaml")
    assert str(caught.value) == "lab/cluster.yaml:2:7: ssh.prot: there is no such field; did you mean `port`?"
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("8", "8"),
        ("1.50", "1.50"),
        ("-0.10", "-0.10"),
        ("1e3", "1e3"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("'true'", "true"),
        ("'010'", "010"),
        ('""', ""),
        ('"a\\nb"', "a\nb"),
        ("|-\n    a\n    $(b)\n", "a\n$(b)"),
        ("été 'x' \"y\"", "été 'x' \"y\""),
    ],
)
def test_variables_arrive_as_they_are_written(written: str, value: str) -> None:
    spec = parse_cluster(f"nodes: [a]\nlaunch:\n  env:\n   A: {written}\n", "c")
    assert spec.nodes[0].launch.env == {"A": value}


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_mutilated_file_loads_or_says_why(data: st.DataObject) -> None:
    text = FULL
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = start + data.draw(st.integers(0, 12))
        piece = data.draw(st.text(alphabet=" \n\t:-,[]{}'\"#&*!~0123ax", max_size=6) | st.sampled_from(text.split()))
        text = text[:start] + piece + text[end:]
    try:
        assert parse_cluster(text, "c").nodes
    except SpecError as error:
        assert error.problems
        assert all(problem.message and problem.line >= 1 for problem in error.problems)


values = st.recursive(
    st.sampled_from(["a", "''", "1", "0.5", "true", "auto", "[]", "{}", "10.0.0.0/8", '"gpu[1-2]"', '"a:1"', "x" * 70]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.dictionaries(
            st.sampled_from(["host", "name", "env", "port", "gpus", "subnet", "A", "nodes", "'[key]'", "int", "str"]),
            inner,
            max_size=4,
        ).map(lambda fields: f"{{{', '.join(f'{key}: {value}' for key, value in fields.items())}}}")
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(["name", "ssh", "network", "nccl", "launch", "nodes"]), values))
def test_any_shape_of_data_loads_or_says_why(blocks: dict[str, str]) -> None:
    text = "".join(f"{key}: {value}\n" for key, value in blocks.items())
    try:
        assert parse_cluster(text, "c").nodes
    except SpecError as error:
        assert error.problems
