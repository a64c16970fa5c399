"""What does not fit through between two nodes, told once for all that it holds for, with both ends and the command."""

from __future__ import annotations

from typing import Any

from ncclrun.diagnosis.paths import path_problems
from ncclrun.model.events import Problem
from ncclrun.model.network import Path
from ncclrun.model.plan import Endpoint

NAMES = ["a", "b", "c", "d", "e", "f"]
ENDS = [Endpoint(f"eth{i}", f"10.0.0.{i}", "") for i in range(6)]


def path(node_rank: int, peer: int, mtu: int = 1500, **fields: Any) -> Path:
    return Path(node_rank, peer, ENDS[node_rank].address, ENDS[peer].address, mtu, **fields)


def problems(*paths: Path, mtus: tuple[int, ...] = (1500,) * 6) -> list[tuple[int, Problem]]:
    return list(path_problems(NAMES, ENDS, mtus, paths))


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
        assert "on a:  ip link set dev eth0 mtu 1500   and on b:  ip link set dev eth1 mtu 1500" in problem.fix

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
        assert problem.fix == "if all switches take 9000 bytes, on b:  ip link set dev eth1 mtu 9000"

    def test_that_nobody_could_measure_are_a_warning(self) -> None:
        ((_, problem),) = problems(path(0, 1, 0))
        assert (problem.level, problem.code) == ("warning", "udp_blocked")
        assert "ping -M do -s 1472 10.0.0.1" in problem.fix


class TestPorts:
    """A firewall that lets only some ports through."""

    def test_is_told_at_the_node_that_it_keeps_shut(self) -> None:
        ((rank, problem),) = problems(path(0, 1, blocked=(50001, 40000), passed=(22, 29500)))
        assert (rank, problem.level, problem.code) == (1, "error", "ports_blocked")
        assert (
            "TCP port 40000, 50001 of eth1 10.0.0.1 does not answer a, though port 22, 29500 passes" in problem.message
        )
        assert "on b, by the firewall that is there:" in problem.fix
        assert "ufw allow from 10.0.0.0\n" in problem.fix

    def test_once_for_all_who_ask(self) -> None:
        found = problems(path(0, 1, blocked=(40000,)), path(2, 1, blocked=(40001,)))
        ((_, problem),) = found
        assert "does not answer a, c: a firewall" in problem.message
        assert problem.fix.endswith("and so for each of them")

    def test_a_way_on_which_nothing_passes_any_more_is_no_firewalls(self) -> None:
        found = problems(*(path(asker, 1, 0, blocked=(40000, 50001)) for asker in (0, 2)), path(1, 0))
        ((rank, problem),) = found
        assert (rank, problem.level, problem.code) == (1, "error", "path_gone")
        assert "nothing at eth1 10.0.0.1 answers a, c any more" in problem.message
        assert "ip address show dev eth1" in problem.fix
