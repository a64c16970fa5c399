"""What does not fit through between two nodes, told once for all that it holds for, with both ends and the command."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ncclrun.diagnosis.paths import End, path_problems
from ncclrun.model.netevents import Problem
from ncclrun.model.network import Path

NAMES = ["a", "b", "c", "d", "e", "f"]
ENDS = [End(name, f"eth{i}", f"10.0.0.{i}", 1500, "10.0.0.0/24") for i, name in enumerate(NAMES)]


def path(node_rank: int, peer: int, mtu: int = 1500, **fields: Any) -> Path:
    return Path(node_rank, peer, ENDS[node_rank].address, ENDS[peer].address, mtu, **fields)


def problems(
    *paths: Path, mtus: tuple[int, ...] = (1500,) * 6, placed: int = 0, finds_port: bool = False
) -> list[tuple[int, Problem]]:
    """``placed``: the port that no kernel picks, of each; ``finds_port``: whether the first has the master's found."""
    ends = [replace(end, mtu=mtu, placed=frozenset({placed})) for end, mtu in zip(ENDS, mtus, strict=True)]
    return list(path_problems([replace(ends[0], finds_port=finds_port), *ends[1:]], paths))


class TestFine:
    """Nothing is said where all fits."""

    def test_what_both_ends_can_take_comes_through(self) -> None:
        assert problems(path(0, 1), path(1, 0)) == []

    def test_a_few_bytes_less_are_the_searchs_own_grain(self) -> None:
        assert problems(path(0, 1, 1497), path(1, 0, 1498)) == []

    def test_loopback_is_larger_than_any_packet(self) -> None:
        assert problems(path(0, 1, 65535), mtus=(65536,) * 6) == []


class TestSize:
    """Packets that are too large for the way."""

    def test_that_vanish_are_an_error_with_both_ends(self) -> None:
        ((rank, problem),) = problems(path(0, 1, 1500), mtus=(9000,) * 6)
        assert (rank, problem.level, problem.code) == (0, "error", "path_mtu")
        assert "up to 1500 bytes come through from a (eth0 10.0.0.0) to b (eth1 10.0.0.1)" in problem.message
        assert "hang at the first large message" in problem.message
        assert "on a:  sudo ip link set dev eth0 mtu 1500\n  on b:  sudo ip link set dev eth1 mtu 1500" in problem.fix

    def test_that_a_router_speaks_of_are_a_warning(self) -> None:
        ((_, problem),) = problems(path(0, 1, 1400, told=True))
        assert (problem.level, problem.code) == ("warning", "path_mtu")

    def test_the_same_with_all_peers_is_told_once_a_node(self) -> None:
        found = problems(*(path(0, peer, 1400) for peer in range(1, 6)), path(1, 0, 1400))
        assert [rank for rank, _ in found] == [0, 1]
        assert "e (eth4 10.0.0.4) and 1 more" in found[0][1].message

    def test_ends_that_differ_are_a_warning_at_the_odd_one(self) -> None:
        ((rank, problem),) = problems(
            path(0, 1), path(1, 2), path(2, 0, 9000), mtus=(9000, 1500, 9000, 1500, 1500, 1500)
        )
        assert (rank, problem.level, problem.code) == (1, "warning", "mtu_differs")
        assert "MTU 1500 at eth1 10.0.0.1, 9000 at eth0 10.0.0.0 of a" in problem.message
        assert problem.fix == "if all switches take 9000 bytes, on b:  sudo ip link set dev eth1 mtu 9000"

    def test_that_nobody_could_measure_are_a_warning(self) -> None:
        ((_, problem),) = problems(path(0, 1, 0))
        assert (problem.level, problem.code) == ("warning", "udp_blocked")
        assert "ping -M do -s 1472 10.0.0.1" in problem.fix

    def test_that_nobody_could_measure_between_any_are_one_warning_of_all(self) -> None:
        found = problems(*(path(a, b, 0) for a in range(3) for b in range(3) if a != b))
        assert [rank for rank, _ in found] == [0, 1, 2]
        assert len({problem.message for _, problem in found}) == 1
        assert found[0][1].message.startswith("no UDP comes through between a, b, c, so ")

    def test_that_nobody_could_measure_to_one_node_are_that_nodes(self) -> None:
        ((rank, problem),) = problems(path(0, 2, 0), path(1, 2, 0))
        assert rank == 2
        assert problem.message.startswith("no UDP comes through from a, b to c, so ")

    def test_that_nobody_could_measure_between_some_pairs_are_those_pairs(self) -> None:
        found = problems(path(0, 1, 0), path(2, 3, 0))
        assert found[0][1].message.startswith("no UDP comes through a -> b, c -> d, so")


class TestPorts:
    """A firewall that lets only some ports through."""

    def test_is_told_at_the_node_that_it_keeps_shut(self) -> None:
        ((rank, problem),) = problems(path(0, 1, blocked=(50001, 40000), passed=(22, 29500)))
        assert (rank, problem.level, problem.code) == (1, "error", "ports_blocked")
        assert (
            "TCP ports 40000, 50001 of eth1 10.0.0.1 do not answer a, though ports 22, 29500 pass:" in problem.message
        )
        assert "NCCL listens on ports that the kernel picks, as ports 40000, 50001" in problem.message
        assert problem.fix.startswith("open all ports between the nodes; on b, by")
        assert "ufw allow from 10.0.0.0/24\n" in problem.fix

    def test_at_each_of_several_with_one_problem_for_all(self) -> None:
        found = problems(*(path(a, b, blocked=(40000 + b,)) for a in range(3) for b in range(3) if a != b))
        assert [rank for rank, _ in found] == [0, 1, 2]
        assert len({problem.message for _, problem in found}) == 1
        assert "TCP port 40000 of eth0 10.0.0.0 does not answer b, c; others of b, c neither" in found[0][1].message
        assert "on each of a, b, c, " in found[0][1].fix

    def test_a_port_that_the_kernel_would_not_pick_is_nothing_to_nccl(self) -> None:
        ((_, problem),) = problems(path(0, 1, blocked=(20345,), passed=(34777,)), placed=20345, finds_port=True)
        assert problem.level == "warning"
        assert "TCP port 20345 of eth1 10.0.0.1 does not answer a, though port 34777 passes: " in problem.message
        assert "NCCL is well with that" in problem.message

    def test_but_to_the_master_whose_port_is_found_automatically(self) -> None:
        shut = path(1, 0, blocked=(20345,), passed=(34777,))
        ((rank, problem),) = problems(shut, placed=20345, finds_port=True)
        assert (rank, problem.level) == (0, "error")
        assert problem.message.endswith("; the master's port, which is found automatically, is none of those")
        assert problem.fix.endswith('\nor write a port that passes under "launch":  master_port: 34777')
        ((_, problem),) = problems(shut, placed=20345)
        assert problem.level == "warning"

    def test_once_for_all_who_ask(self) -> None:
        found = problems(path(0, 1, blocked=(40000,)), path(2, 1, blocked=(40001,)))
        ((_, problem),) = found
        assert "TCP ports 40000, 40001 of eth1 10.0.0.1 do not answer a, c: a firewall" in problem.message

    def test_a_way_on_which_nothing_passes_any_more_is_no_firewalls(self) -> None:
        found = problems(*(path(asker, 1, 0, blocked=(40000, 50001)) for asker in (0, 2)), path(1, 0))
        ((rank, problem),) = found
        assert (rank, problem.level, problem.code) == (1, "error", "path_gone")
        assert "nothing at eth1 10.0.0.1 answers a, c any more" in problem.message
        assert "ip address show dev eth1" in problem.fix
