"""Does NCCL agree with the plan, and what won over it: on lines as each version words them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ncclrun.diagnosis.ncclsays import Asked, judge, problems, repeats
from ncclrun.model.netevents import Problem
from ncclrun.model.network import NcclAnswer
from ncclrun.model.plan import Endpoint, Variable
from ncclrun.model.settings import ConfFile

PLANNED = Endpoint("eth1", "10.0.0.1", "")
LIBRARY = "/v/nvidia/nccl/lib/libnccl.so.2"
OWN = (Variable("NCCL_SOCKET_FAMILY", "AF_INET", "network"), Variable("NCCL_SOCKET_IFNAME", "=eth1", "network"))


def plan(name: str, value: str, origin: str, *, secret: bool = False) -> tuple[Variable, ...]:
    """The plan's variables, one of them set by somebody else."""
    return (*(variable for variable in OWN if variable.name != name), Variable(name, value, origin, secret=secret))


def answer(interface: str = "", address: str = "", *said: str, result: int = 0, **more: object) -> NcclAnswer:
    lines = tuple(f"n:1:1 [0] NCCL INFO {text}" for text in said)
    known = {"library": LIBRARY, "version": "2.27.5", "conf_files": (), "error": "", **more}
    return NcclAnswer(result=result, interface=interface, address=address, lines=lines, **known)  # type: ignore[arg-type]  # a bag for tests


def conf_file(path: str, text: str) -> ConfFile:
    return ConfFile(path, ("system",) if path.startswith("/etc/") else ("home", "passwd_home"), text)


def differs(found: tuple[bool | None, Problem | None]) -> Problem:
    agrees, problem = found
    assert agrees is False
    assert problem is not None
    assert problem.level == "error"
    return problem


def judged(*asked: Any) -> tuple[bool | None, Problem | None]:
    """The judgement on (node, endpoint, answer, environment)."""
    return judge(Asked(*asked))


def test_the_planned_interface_and_address_agree() -> None:
    assert judged("gpu1", PLANNED, answer("eth1", "10.0.0.1"), OWN) == (True, None)
    assert judged("gpu1", PLANNED, answer("eth1:0", "10.0.0.1"), OWN) == (True, None)


class TestNobodyKnows:
    def test_without_a_library(self) -> None:
        inside = answer(library="", error="NCCL is inside torch (/t/lib/libtorch_cuda.so)")
        assert judged("gpu1", PLANNED, inside, OWN) == (None, None)

    def test_when_the_line_is_worded_in_an_unknown_way(self) -> None:
        assert judged("gpu1", PLANNED, answer(), OWN) == (None, None)

    def test_when_it_crashed_which_is_said(self) -> None:
        crashed = NcclAnswer(library=LIBRARY, error="it crashed by signal 11 (SIGSEGV)")
        agrees, problem = judged("gpu1", PLANNED, crashed, OWN)
        assert agrees is None
        assert problem is not None
        assert problem.level == "warning"
        assert LIBRARY in problem.message
        assert "SIGSEGV" in problem.message


class TestAnotherInterface:
    def test_a_filter_of_the_cluster_file_is_named(self) -> None:
        said = answer("eth0", "172.20.0.5", "NCCL_SOCKET_IFNAME set by environment to eth")
        problem = differs(judged("gpu1", PLANNED, said, plan("NCCL_SOCKET_IFNAME", "eth", "nccl.env")))
        assert "on gpu1 takes eth0 (172.20.0.5); the plan is eth1 (10.0.0.1)" in problem.message
        assert "NCCL_SOCKET_IFNAME=eth from nccl.env in the cluster file decides it" in problem.message
        assert problem.fix == "take NCCL_SOCKET_IFNAME out of nccl.env in the cluster file"

    def test_an_option_is_named(self) -> None:
        said = answer("lo", "127.0.0.1")
        problem = differs(judged("gpu1", PLANNED, said, plan("NCCL_SOCKET_IFNAME", "lo", "--env")))
        assert problem.fix == "leave out  --env NCCL_SOCKET_IFNAME=…"

    def test_what_was_forwarded_is_not_shown(self) -> None:
        said = answer("lo", "127.0.0.1")
        forwarded = plan("NCCL_SOCKET_IFNAME", "hidden", "forward_env", secret=True)
        problem = differs(judged("gpu1", PLANNED, said, forwarded))
        assert "hidden" not in problem.message
        assert problem.fix == "take NCCL_SOCKET_IFNAME out of forward_env in the cluster file"

    def test_a_conf_file_is_named_with_its_line(self) -> None:
        files = (
            conf_file("/root/.nccl.conf", "NCCL_COMM_ID=172.20.0.1:4000\nNCCL_COMM_ID=later\n"),
            conf_file("/etc/nccl.conf", "NCCL_COMM_ID=later\n"),
        )
        said = answer("eth0", "172.20.0.5", "NCCL_COMM_ID set by environment to 172.20.0.1:4000", conf_files=files)
        problem = differs(judged("gpu1", PLANNED, said, OWN))
        assert "NCCL_COMM_ID=172.20.0.1:4000 from /root/.nccl.conf" in problem.message
        assert problem.fix == "take the line NCCL_COMM_ID=172.20.0.1:4000 out of /root/.nccl.conf on gpu1"

    def test_the_login_environment_is_blamed_for_what_nobody_else_set(self) -> None:
        files = (conf_file("/etc/nccl.conf", "NCCL_COMM_ID=10.0.0.1:4000\n"),)
        said = answer("eth0", "172.20.0.5", "NCCL_COMM_ID set by environment to 172.20.0.1:1", conf_files=files)
        problem = differs(judged("gpu1", PLANNED, said, OWN))
        assert "from the login environment" in problem.message
        assert "grep -n NCCL_COMM_ID ~/.bashrc" in problem.fix

    def test_a_family_that_is_not_the_planned_one_is_named(self) -> None:
        said = answer("eth1", "fd00::1")
        problem = differs(judged("gpu1", PLANNED, said, plan("NCCL_SOCKET_FAMILY", "AF_INET6", "launch.env")))
        assert "NCCL_SOCKET_FAMILY=AF_INET6 from launch.env" in problem.message

    def test_a_family_is_named_though_a_filter_of_the_users_stands_beside_it(self) -> None:
        both = (
            Variable("NCCL_SOCKET_FAMILY", "AF_INET6", "nccl.env"),
            Variable("NCCL_SOCKET_IFNAME", "eth", "nccl.env"),
        )
        problem = differs(judged("gpu1", PLANNED, answer("eth1", "fd00::1"), both))
        assert "NCCL_SOCKET_FAMILY=AF_INET6 from nccl.env" in problem.message

    def test_an_empty_filter_takes_the_place_of_the_plans(self) -> None:
        said = answer("eth0", "172.20.0.5")
        problem = differs(judged("gpu1", PLANNED, said, plan("NCCL_SOCKET_IFNAME", "", "nccl.env")))
        assert "NCCL_SOCKET_IFNAME= from nccl.env in the cluster file decides it (empty" in problem.message
        assert problem.fix == "take NCCL_SOCKET_IFNAME out of nccl.env in the cluster file"

    def test_a_conf_file_with_dos_line_ends_is_named(self) -> None:
        files = (conf_file("/root/.nccl.conf", "NCCL_COMM_ID=172.20.0.1:4000\r\n"),)
        said = answer("eth0", "172.20.0.5", "NCCL_COMM_ID set by environment to 172.20.0.1:4000", conf_files=files)
        problem = differs(judged("gpu1", PLANNED, said, OWN))
        assert "from /root/.nccl.conf decides it" in problem.message

    def test_an_empty_variable_hides_the_file_and_is_no_setting(self) -> None:
        files = (conf_file("/etc/nccl.conf", "NCCL_COMM_ID=10.0.0.1:4000\n"),)
        said = answer("eth0", "172.20.0.5", conf_files=files)
        problem = differs(judged("gpu1", PLANNED, said, (*OWN, Variable("NCCL_COMM_ID", "", "--env"))))
        assert "no setting is known" in problem.message
        assert "ip address show dev eth1" in problem.fix


class TestAnotherAddress:
    def test_nccls_first_address_is_an_error_with_what_to_write(self) -> None:
        problem = differs(judged("gpu1", PLANNED, answer("eth1", "192.168.7.1"), OWN))
        assert "takes 192.168.7.1 of eth1, its first address, and not 10.0.0.1" in problem.message
        assert problem.fix == "on gpu1, if nothing needs that one:  sudo ip address del 192.168.7.1 dev eth1"

    def test_where_the_other_is_wished_for_the_first_may_do_as_well(self) -> None:
        wished = replace(PLANNED, why="the cluster file names the address")
        problem = differs(judged("gpu1", wished, answer("eth1", "192.168.7.1"), OWN))
        assert problem.fix.startswith("write  address: 192.168.7.1  to gpu1 in the cluster file, if")

    def test_a_temporary_ipv6_address_agrees_with_a_warning(self) -> None:
        agrees, problem = judged("gpu1", Endpoint("eth1", "fd00::1", ""), answer("eth1", "fd00::a:b:c:d"), OWN)
        assert agrees is True
        assert problem is not None
        assert (problem.code, problem.level) == ("nccl_temporary_address", "warning")
        assert "use_tempaddr=0" in problem.fix

    def test_an_ipv6_address_of_another_subnet_does_not(self) -> None:
        assert judged("gpu1", Endpoint("eth1", "fd00::1", ""), answer("eth1", "fd01::1"), OWN)[0] is False


class TestNoInterface:
    WARN = "Bootstrap : no socket interface found"

    def test_a_filter_that_matches_nothing_is_named(self) -> None:
        said = answer("", "", self.WARN, result=5)
        problem = differs(judged("gpu1", PLANNED, said, plan("NCCL_SOCKET_IFNAME", "ens5", "nccl.env")))
        assert problem.code == "nccl_no_interface"
        assert "finds no interface that its settings allow (planned: eth1)" in problem.message
        assert "NCCL_SOCKET_IFNAME=ens5 from nccl.env" in problem.message

    def test_a_comment_in_the_value_is_explained(self) -> None:
        said = answer("", "", self.WARN, result=3)
        problem = differs(judged("gpu1", PLANNED, said, plan("NCCL_SOCKET_IFNAME", "eth1  # card", "nccl.env")))
        assert "comments" in problem.message

    def test_a_subnet_that_is_not_here_came_from_the_login_environment(self) -> None:
        said = answer("", "", "NET/Socket : No usable listening interface found", result=2)
        problem = differs(judged("gpu1", PLANNED, said, OWN))
        assert "NCCL_COMM_ID=… from the login environment" in problem.message

    def test_an_interface_that_has_gone_down_is_to_be_looked_at(self) -> None:
        problem = differs(judged("gpu1", PLANNED, answer("", "", self.WARN, result=5), OWN))
        assert problem.fix.startswith("see whether the interface is up with its address, and that without a label")
        assert problem.fix.endswith(" like eth1:1:  ip address show dev eth1   (on gpu1)")


class TestSeveralNodes:
    """One setting that leads all astray is one problem."""

    @staticmethod
    def asked(at: int, environment: tuple[Variable, ...] = OWN, **more: object) -> Asked:
        own = Endpoint(f"eth{at}", f"10.0.0.{at}", "")
        return Asked(f"gpu{at}", own, answer("ens3", f"10.9.0.{at}", **more), environment)  # type: ignore[arg-type]  # a bag for tests

    def test_a_variable_of_the_cluster_file_is_told_once_for_all(self) -> None:
        wrong = plan("NCCL_SOCKET_IFNAME", "ens3", "nccl.env")
        first, second = problems([self.asked(1, wrong), self.asked(2, wrong)])
        assert first == second
        assert first is not None
        assert first.message == (
            "NCCL 2.27.5 takes other interfaces than planned (on gpu1 ens3 10.9.0.1 instead of eth1 10.0.0.1,"
            " on gpu2 ens3 10.9.0.2 instead of eth2 10.0.0.2): NCCL_SOCKET_IFNAME=ens3 from nccl.env in the cluster"
            " file decides it"
        )

    def test_the_same_line_of_a_file_names_all_that_have_it(self) -> None:
        files = (conf_file("/etc/nccl.conf", "NCCL_COMM_ID=10.9.0.1:4000\n"),)
        first, _ = problems([self.asked(at, conf_files=files) for at in (1, 2)])
        assert first is not None
        assert first.fix == "take the line NCCL_COMM_ID=10.9.0.1:4000 out of /etc/nccl.conf on gpu1, gpu2"

    def test_what_has_other_causes_stays_apart(self) -> None:
        files = (conf_file("/etc/nccl.conf", "NCCL_COMM_ID=10.9.0.1:4000\n"),)
        wrong = plan("NCCL_SOCKET_IFNAME", "ens3", "nccl.env")
        right = Asked("gpu3", PLANNED, answer("eth1", "10.0.0.1"), OWN)
        first, second, third, unknown = problems(
            [self.asked(1, wrong), self.asked(2, conf_files=files), right, self.asked(4)]
        )
        assert len({first, second, third, unknown}) == 4
        assert third is None


class TestAFileThatIsNotRead:
    """The plan's settings stand in a conf file, and NCCL looks at another."""

    def told(self, *files: ConfFile) -> Problem:
        return differs(judged("gpu1", PLANNED, answer("eth0", "172.20.0.5", conf_files=files), ()))

    def test_is_laid_to_the_variable_that_names_another(self) -> None:
        problem = self.told(ConfFile("/nope", ("named",)), conf_file("/root/.nccl.conf", "NCCL_SOCKET_IFNAME==eth1\n"))
        assert "NCCL_CONF_FILE=/nope from the login environment decides it" in problem.message
        assert "NCCL_CONF_FILE" in problem.fix
        unread = Problem(code="conf_unread", message="NCCL does not read /root/.nccl.conf", fix="")
        assert repeats(unread, problem)

    def test_is_laid_to_the_home_where_this_version_does_not_look(self) -> None:
        problem = self.told(ConfFile("/other/.nccl.conf", ("home",), "NCCL_SOCKET_IFNAME==eth1\n"))
        assert "/other/.nccl.conf, which has the settings, is not read by it" in problem.message
        assert "no setting is known" not in problem.message


def test_a_variable_that_leads_elsewhere_is_told_once_and_others_that_are_hidden_too() -> None:
    said = answer("eth0", "172.20.0.5", "NCCL_SOCKET_IFNAME set by environment to eth0")
    against = differs(judged("gpu1", PLANNED, said, ()))
    hidden = [
        Problem(code="conf_hidden", message=f"{name}=x hides", fix="") for name in ("NCCL_SOCKET_IFNAME", "NCCL_ALGO")
    ]
    assert [repeats(one, against) for one in hidden] == [True, False]
