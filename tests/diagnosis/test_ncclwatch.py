"""What NCCL says in the log of a running job is held against the plan, once a node."""

from __future__ import annotations

import pytest

from ncclrun.diagnosis.ncclwatch import WATCHED, NcclWatch
from ncclrun.model.netevents import Problem
from ncclrun.model.plan import Endpoint

PLAN = Endpoint("eth1", "10.0.0.2", "why")
SIX = Endpoint("eth1", "fd00::2", "why")
LINK_LOCAL = Endpoint("eth1", "fe80::2%eth1", "why")
RDMA = Endpoint("ib0", "10.0.0.2", "why", hca="=mlx5_0:1,mlx5_1:1")


def info(words: str) -> str:
    return f"gpu7:4711:4711 [0] NCCL INFO {words}"


def said(planned: Endpoint, *words: str) -> Problem | None:
    return NcclWatch({0: planned}).line(0, "\n".join(info(word) for word in words))


@pytest.mark.parametrize(
    ("planned", "words"),
    [
        (PLAN, "Bootstrap: Using eth1:10.0.0.2<0>"),
        (PLAN, "Bootstrap : Using eth1:10.0.0.2<0>"),
        (PLAN, "Bootstrap timings total 0.000816 (create 0.000047, send 0.000146)"),
        (PLAN, "NET/Socket : Using [0]eth1:10.0.0.2<0>"),
        (PLAN, "NET/IB : No device found."),
        (PLAN, "NET/IB : Using [RO]; OOB eth1:10.0.0.2<0>"),
        (PLAN, "NET/IB : Using [0]mlx5_9:1/RoCE [RO]; OOB eth1:10.0.0.2<0>"),
        (PLAN, "NET/Plugin: Could not find: libnccl-net.so"),
        (PLAN, "NCCL_SOCKET_IFNAME set by environment to =eth1"),
        (SIX, "Bootstrap: Using eth1:fd00:0:0::2<0>"),
        (LINK_LOCAL, "Bootstrap: Using eth1:fe80::2%eth1<0>"),
        (RDMA, "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB ib0:10.0.0.2<0>"),
        (RDMA, "NET/IB : Using [0]mlx5_1:1/IB ; OOB ib0:10.0.0.2<0>"),
    ],
)
def test_what_is_as_planned_or_says_nothing_of_it_is_passed_over(planned: Endpoint, words: str) -> None:
    assert said(planned, words) is None


@pytest.mark.parametrize(
    ("planned", "words", "message"),
    [
        (PLAN, "Bootstrap: Using eth0:172.20.0.5<0>", "NCCL uses eth0 (172.20.0.5) here, the plan has eth1 (10.0.0.2)"),
        (PLAN, "Bootstrap : Using eth1:10.9.0.2<0>", "NCCL uses eth1 (10.9.0.2) here, the plan has eth1 (10.0.0.2)"),
        (PLAN, "Bootstrap : Using eth1:fe80::1%eth1<0>", "NCCL uses eth1 (fe80::1) here"),
        (PLAN, "NET/Socket : Using [0]eth1:10.0.0.2<0> [1]eth0:172.20.0.5<0>", "NCCL uses eth0 (172.20.0.5) here"),
        (PLAN, "NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:172.20.0.5<0>", "NCCL uses eth0 (172.20.0.5) here"),
        (RDMA, "NET/IB : Using [0]mlx5_2:1/RoCE ; OOB ib0:10.0.0.2<0>", "NCCL uses the RDMA device mlx5_2:1 here"),
        (RDMA, "NET/IB : No device found.", "NCCL finds no RDMA device here and goes by TCP, the plan has mlx5_0:1"),
    ],
)
def test_what_differs_is_told_with_both_sides(planned: Endpoint, words: str, message: str) -> None:
    problem = said(planned, words)
    assert problem is not None
    assert problem.message.startswith(message)
    assert (problem.code, problem.level) == ("nccl_network", "warning")
    assert "NCCL_SOCKET_IFNAME" in problem.fix


def test_the_line_is_found_among_many_others() -> None:
    text = "\n".join(
        [
            "step 1",
            info("Channel 00/02 : 0 1"),
            "Bootstrap: Using eth0:1.2.3.4<0>",
            info("Bootstrap: Using x:1.2.3.4<0>"),
            "",
        ]
    )
    problem = NcclWatch({0: PLAN}).line(0, text)
    assert problem is not None
    assert problem.message.startswith("NCCL uses x (1.2.3.4)")


def test_a_node_is_told_of_once_and_the_others_still_are() -> None:
    watch = NcclWatch({0: PLAN, 1: PLAN})
    wrong = info("Bootstrap: Using eth0:172.20.0.5<0>")
    told = [watch.line(node_rank, wrong) is not None for node_rank in (0, 0, 1, 1)]
    assert told == [True, False, True, False]


def test_a_node_without_a_plan_is_not_watched() -> None:
    assert NcclWatch({}).line(0, info("Bootstrap: Using eth0:172.20.0.5<0>")) is None


def test_what_comes_behind_a_flood_is_not_looked_at() -> None:
    watch = NcclWatch({0: PLAN, 1: PLAN})
    flood = "x" * (1 << 20)
    for _ in range((WATCHED >> 20) + 1):
        assert watch.line(0, flood) is None
    wrong = info("Bootstrap: Using eth0:172.20.0.5<0>")
    assert (watch.line(0, wrong), watch.line(1, wrong) is None) == (None, False)


class TestFaultsThatNoWaitingMends:
    REFUSED = "socketPollConnect: connect to 10.0.0.9<4000> returned Connection refused, retrying ({}/34) after sleep"

    def test_are_told_with_rank_cause_and_the_step(self) -> None:
        problem = NcclWatch({0: PLAN}).line(0, info(self.REFUSED.format(7)), 5)
        assert problem is not None
        assert problem.message.startswith("rank 5: INFO socketPollConnect: connect to 10.0.0.9<4000> returned")
        assert "Nobody listens at 10.0.0.9" in problem.message
        assert problem.fix.startswith("on gpu7:  ip route get 10.0.0.9 ")
        assert "ncclrun ping" in problem.fix

    def test_are_told_once_a_node_and_kind(self) -> None:
        watch = NcclWatch({0: PLAN, 1: PLAN})
        line = info(self.REFUSED.format(7))
        shm = "NCCL WARN Error: failed to extend /dev/shm/nccl-x to 4 bytes"
        said = [watch.line(0, line), watch.line(0, line), watch.line(1, line), watch.line(0, shm)]
        assert [problem and problem.code for problem in said] == [
            "conn-refused-retry",
            None,
            "conn-refused-retry",
            "shm-extend",
        ]

    def test_that_keep_a_node_from_its_peers_are_told_once_in_whatever_words(self) -> None:
        refused, lost = (info(f"Connect to 10.0.0.9<4> returned {why}") for why in ("111", "113(No route to host)"))
        watch = NcclWatch({0: PLAN, 1: PLAN})
        said = [watch.line(0, text) for text in (lost, info(self.REFUSED.format(7)), refused)]
        assert [problem and problem.code for problem in said] == ["conn-noroute", None, None]
        other = [watch.line(1, text) for text in (info("Bootstrap: Using eth0:10.9.0.2<0>"), lost)]
        assert [problem and problem.code for problem in other] == ["nccl_network", None]

    def test_have_a_step_that_names_the_cluster(self) -> None:
        problem = NcclWatch({0: PLAN}, "lab.yaml").line(0, info(self.REFUSED.format(7)))
        assert problem is not None
        assert "ncclrun ping lab.yaml" in problem.fix

    def test_are_not_told_of_the_first_attempts_for_a_peer_may_not_listen_yet(self) -> None:
        assert NcclWatch({0: PLAN}).line(0, info(self.REFUSED.format(1))) is None

    def test_are_found_in_the_middle_of_a_log_that_says_nothing_else(self) -> None:
        text = "\n".join(["x" * 200, info("Connect to 172.17.0.1<4000> returned 113(No route to host)"), "y"])
        watch = NcclWatch({0: PLAN})
        problem = watch.line(0, text)
        assert problem is not None
        assert problem.code == "if-docker-net"
        assert watch.line(0, text) is None  # what it brings about is not told besides

    @pytest.mark.parametrize(
        "words", ["Bootstrap: Using eth1:10.0.0.2<0>", "NET/Plugin: No plugin found (libnccl-net.so)"]
    )
    def test_ordinary_lines_are_none(self, words: str) -> None:
        assert said(PLAN, words) is None


@pytest.mark.parametrize(
    "words",
    [
        "NCCL INFO Bootstrap: Using docker0:172.17.0.1<0>",
        "misc/socket.cc:1 NCCL WARN socketPollConnect: Connect to 10.9.9.9<5> returned 113(No route to host)",
    ],
)
def test_what_the_training_itself_quotes_is_no_word_of_nccls(words: str) -> None:
    line = f"gpu1:1:1 [0] {words}"
    assert NcclWatch({0: PLAN}).line(0, f"answer 8: {line}") is None
    assert NcclWatch({0: PLAN}).line(0, f"[rank3]: [2026-01-02 03:04:05] {line}") is not None
