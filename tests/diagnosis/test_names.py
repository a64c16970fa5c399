"""What a node's names and proxies would do to a run: warnings at most, one of a kind, each with what mends it."""

from __future__ import annotations

from ncclrun.diagnosis.names import name_problems, proxy_problem
from ncclrun.model.netevents import Problem
from ncclrun.model.network import LookUp, Names

OWN = ("10.0.0.1", "192.168.1.1")
PEERS = {"10.0.0.2": "gpu2", "10.0.0.3": "gpu3"}
DEAD = "no answer within 5 s"


def of(*answers: str, error: str = "", seconds: float = 0.001, reverse: tuple[LookUp, ...] = ()) -> tuple[Problem, ...]:
    names = Names("gpu1", LookUp("gpu1", answers, seconds, error), reverse)
    found = name_problems("gpu1", names, "10.0.0.1", OWN, PEERS)
    harmless = {"name_unknown", "name_loopback", "name_other_address"}
    assert all(problem.level == ("info" if problem.code in harmless else "warning") for problem in found)
    return found


def one(found: tuple[Problem, ...], code: str) -> Problem:
    (problem,) = found
    assert problem.code == code
    return problem


class TestItsOwnName:
    def test_the_chosen_address_is_right(self) -> None:
        assert of("10.0.0.1") == ()
        assert of("fe80::1", "10.0.0.1") == ()

    def test_debians_loopback_line_is_told_with_the_line_to_write(self) -> None:
        problem = one(of("127.0.1.1"), "name_loopback")
        assert "harmless for what ncclrun starts" in problem.message
        assert problem.fix == "in /etc/hosts on gpu1 write  10.0.0.1 gpu1  instead of the line  127.0.1.1 gpu1"

    def test_no_answer_at_all_is_told(self) -> None:
        problem = one(of(error="Name or service not known"), "name_unknown")
        assert "resolves to nothing (Name or service not known)" in problem.message
        assert problem.fix == "on gpu1:  printf '%s\\n' '10.0.0.1 gpu1' | sudo tee -a /etc/hosts"

    def test_somebody_elses_address_is_told(self) -> None:
        assert "203.0.113.9, which is no address of this host" in one(of("203.0.113.9"), "name_foreign").message

    def test_another_of_its_own_addresses_is_told(self) -> None:
        assert "192.168.1.1 and not to 10.0.0.1" in one(of("192.168.1.1"), "name_other_address").message

    def test_a_dead_server_is_told_as_that_alone(self) -> None:
        problem = one(of(error=DEAD, seconds=5.0), "name_slow")
        assert DEAD in problem.message
        assert "/etc/resolv.conf" in problem.fix

    def test_a_slow_answer_says_how_slow(self) -> None:
        assert "took 3.0 s" in one(of("10.0.0.1", seconds=3.04), "name_slow").message


class TestNamesOfPeers:
    def test_an_address_without_a_name_is_no_problem(self) -> None:
        assert of("10.0.0.1", reverse=(LookUp("10.0.0.2", (), 0.01, "Name or service not known"),)) == ()

    def test_dead_look_ups_are_one_problem_with_all_peers_lines(self) -> None:
        reverse = (LookUp("10.0.0.2", (), 5.0, DEAD), LookUp("10.0.0.3", (), 5.0, DEAD))
        problem = one(of("10.0.0.1", reverse=reverse), "reverse_slow")
        assert "looking up the name of 10.0.0.2 (gpu2) got no answer within 5 s (2 of 2" in problem.message
        assert "'10.0.0.2 gpu2' '10.0.0.3 gpu3' | sudo tee -a /etc/hosts" in problem.fix

    def test_a_slow_one_among_quick_ones_is_told(self) -> None:
        reverse = (LookUp("10.0.0.2", ("gpu2",), 0.01), LookUp("10.0.0.3", ("gpu3",), 2.5))
        assert "10.0.0.3 (gpu3) took 2.5 s: torch" in one(of("10.0.0.1", reverse=reverse), "reverse_slow").message


class TestProxies:
    def test_a_proxy_without_exceptions_is_told_with_the_line_to_write(self) -> None:
        problem = proxy_problem("gpu1", ["HTTP_PROXY"], ["10.0.0.1", "10.0.0.2"])
        assert problem is not None
        assert problem.level == "warning"
        assert problem.message.startswith("HTTP_PROXY is set on gpu1 and no_proxy is not")
        assert 'no_proxy: "localhost,10.0.0.1,10.0.0.2"' in problem.fix

    def test_with_exceptions_or_without_a_proxy_there_is_nothing_to_say(self) -> None:
        assert proxy_problem("gpu1", ["https_proxy", "NO_PROXY"], []) is None
        assert proxy_problem("gpu1", [], []) is None
