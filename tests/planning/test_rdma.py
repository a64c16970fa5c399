"""NCCL_IB_HCA: set exactly where all nodes agree, left alone with words elsewhere, refused for a mixed cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from ncclrun.model.errors import PlanError
from ncclrun.model.facts import NodeFacts, RdmaDevice, RdmaGid, RdmaPort
from ncclrun.model.plan import Endpoint
from ncclrun.planning.rdma import RdmaPlan, is_off, plan_rdma
from tests.planning.makers import card, facts, node

NAMES = "abc"
NODES = [node(name) for name in NAMES]
ENDS = [Endpoint("eth1", f"10.0.0.{i}", "") for i in (1, 2, 3)]


def device(
    name: str, netdev: str = "", *, layer: str = "Ethernet", rate: float = 100.0, state: str = "ACTIVE"
) -> RdmaDevice:
    port = RdmaPort(1, state, layer, rate, netdevs=(netdev,) if netdev else ())
    return RdmaDevice(name, (port,))


def machine(name: str, *devices: RdmaDevice, verbs: str = "") -> NodeFacts:
    i = NAMES.index(name) + 1
    cards = (card("eth0", f"192.168.0.{i}/24"), card("eth1", f"10.0.0.{i}/24"))
    return facts(name, *cards, rdma=devices, verbs=verbs)


def plan(machines: Sequence[NodeFacts], *environments: Mapping[str, str]) -> RdmaPlan:
    return plan_rdma(NODES[: len(machines)], machines, ENDS[: len(machines)], environments or [{}] * len(machines))


def refusal(machines: Sequence[NodeFacts], *environments: Mapping[str, str]) -> PlanError:
    with pytest.raises(PlanError) as caught:
        plan(machines, *environments)
    return caught.value


class TestSet:
    """All nodes have active ports on the wire of the choice."""

    def test_the_port_of_the_chosen_interface_exactly(self) -> None:
        found = plan([machine(n, device("mlx5_0", "eth1"), device("mlx5_9", "eth0", rate=25.0)) for n in NAMES])
        assert found == RdmaPlan(("=mlx5_0:1",) * 3)

    def test_all_rails_like_it_sorted(self) -> None:
        rails = [device("mlx5_2", "eth3"), device("mlx5_0", "eth1"), device("mlx5_1", "eth2", state="DOWN")]
        assert plan([machine(n, *rails) for n in NAMES]).hcas == ("=mlx5_0:1,mlx5_2:1",) * 3

    def test_names_may_differ_from_node_to_node(self) -> None:
        machines = [machine("a", device("mlx5_0", "eth1")), machine("b", device("rocep1s0", "eth1"))]
        assert plan(machines).hcas == ("=mlx5_0:1", "=rocep1s0:1")

    def test_ipoib_speaks_for_infiniband(self) -> None:
        machines = [machine(n, device("mlx5_0", "eth1", layer="InfiniBand"), device("mlx5_1", "eth0")) for n in NAMES]
        assert plan(machines).hcas == ("=mlx5_0:1",) * 3

    def test_a_device_that_names_no_netdev_is_known_by_its_interface(self) -> None:
        port = RdmaPort(1, "ACTIVE", "Ethernet", 100.0, gids=(RdmaGid(3, "::ffff:10.0.0.1"),))
        cards = card("eth1", "10.0.0.1/24", rdma=("bnxt_re0",))
        machines = [facts(n, cards, rdma=(RdmaDevice("bnxt_re0", (port,)),)) for n in "ab"]
        assert plan(machines).hcas == ("=bnxt_re0:1",) * 2


class TestLeftAlone:
    """NCCL decides by itself, and what it will do is said."""

    def test_without_any_rdma_there_is_nothing_to_say(self) -> None:
        assert plan([machine(n) for n in NAMES]) == RdmaPlan(("",) * 3)

    def test_nodes_on_one_machine_need_none(self) -> None:
        assert plan([machine("a", device("mlx5_0", "eth1"))] * 2) == RdmaPlan(("",) * 2)

    def test_ports_that_are_not_on_the_chosen_network(self) -> None:
        found = plan([machine(n, device("mlx5_0", "eth5"), device("mlx5_1", "eth6")) for n in NAMES])
        assert found.hcas == ("",) * 3
        (note,) = found.notes
        assert "no active RDMA port is on the chosen network of a, b, c" in note.text
        assert "NCCL takes all that are active: mlx5_0:1, mlx5_1:1 on a, b, c" in note.text
        assert 'NCCL_IB_HCA: "=mlx5_0,mlx5_1"' in note.fix

    def test_different_numbers_of_rails(self) -> None:
        one, two = [device("mlx5_0", "eth1")], [device("mlx5_0", "eth1"), device("mlx5_1", "eth2")]
        found = plan([machine("a", *one), machine("b", *two)])
        assert found.hcas == ("", "")
        assert "different numbers of such RDMA ports (1 to 2)" in found.notes[0].text

    def test_the_users_own_setting_wins(self) -> None:
        machines = [machine(n, device("mlx5_0", "eth1")) for n in NAMES]
        assert plan(machines, *[{"NCCL_IB_HCA": "mlx5"}] * 3) == RdmaPlan(("",) * 3)

    @pytest.mark.parametrize("off", [{"NCCL_IB_DISABLE": "1"}, {"NCCL_NET": "Socket"}])
    def test_rdma_that_is_turned_off_everywhere(self, off: dict[str, str]) -> None:
        assert plan([machine(n, device("mlx5_0", "eth1")) for n in NAMES], off, off, off) == RdmaPlan(("",) * 3)


class TestRefused:
    """Some nodes would speak RDMA and others TCP: NCCL fails of that, so it is not started."""

    def test_a_node_whose_port_is_down(self) -> None:
        machines = [machine(n, device("mlx5_0", "eth1", state="DOWN" if n == "b" else "ACTIVE")) for n in NAMES]
        error = refusal(machines)
        assert error.message.startswith("NCCL would use RDMA on a, c and TCP on b, and fail:\n  b: mlx5_0:1 is DOWN")
        assert error.nodes == ("b",)
        assert error.fix.startswith("on b: bring a port up")
        assert error.fix.endswith("nccl: {env: {NCCL_IB_DISABLE: 1}}")

    def test_a_node_without_a_device(self) -> None:
        assert (
            "c: it has no RDMA device"
            in refusal([machine("a", device("m", "eth1")), machine("b", device("m", "eth1")), machine("c")]).message
        )

    def test_a_node_that_can_not_open_its_device(self) -> None:
        machines = [
            machine(n, device("m", "eth1"), verbs="libibverbs.so.1 is missing" if n == "a" else "") for n in NAMES
        ]
        error = refusal(machines)
        assert "a: libibverbs.so.1 is missing" in error.message
        assert "ibverbs-providers" in error.fix

    def test_a_node_where_it_is_turned_off(self) -> None:
        error = refusal([machine(n, device("m", "eth1")) for n in NAMES], {}, {"NCCL_IB_DISABLE": "1"}, {})
        assert "b: its variables turn RDMA off" in error.message

    def test_infiniband_here_and_roce_there(self) -> None:
        layers = {"a": "InfiniBand", "b": "Ethernet", "c": "Ethernet"}
        error = refusal([machine(n, device("m", "eth1", layer=layer)) for n, layer in layers.items()])
        assert "InfiniBand on a; Ethernet on b, c" in error.message
        assert error.nodes == ("a",)

    def test_an_ethernet_port_without_gid_and_netdev_is_none(self) -> None:
        bare = RdmaDevice("x", (RdmaPort(1, "ACTIVE", "Ethernet", 100.0),))
        assert plan([machine(n, bare) for n in NAMES]) == RdmaPlan(("",) * 3)


@pytest.mark.parametrize("value", ["1", " 1", "0x1", "2x", "-1", "010"])
def test_what_nccl_reads_as_a_number_turns_rdma_off(value: str) -> None:
    assert is_off({"NCCL_IB_DISABLE": value})


@pytest.mark.parametrize("value", ["0", "00", "08", "0x0", "true", "yes", "+", ""])
def test_what_it_reads_as_zero_does_not(value: str) -> None:
    assert not is_off({"NCCL_IB_DISABLE": value})
