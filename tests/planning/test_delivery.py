"""Which settings go into a conf file, why some may not, and what keeps them from NCCL once they are there."""

from __future__ import annotations

import pytest

from ncclrun.model.cluster import Deliver
from ncclrun.model.effective import Effective, Origin
from ncclrun.model.errors import PlanError
from ncclrun.model.plan import Variable
from ncclrun.model.settings import ConfFile, ConfRole
from ncclrun.nccl import block
from ncclrun.nccl.conf import in_force, parse
from ncclrun.planning.delivery import (
    RUN_CONF_SHOWN,
    Delivered,
    hidden,
    missing,
    refusals,
    run_conf,
    split,
    stays,
)

NEW, OLD = (2, 27, 5), (2, 21, 5)
FILE = "/etc/nccl.conf"
IFNAME = Variable("NCCL_SOCKET_IFNAME", "=eth1", "network")
DISABLE = Variable("NCCL_IB_DISABLE", "1", "nccl.env")
OTHERS = (
    Variable("GLOO_SOCKET_IFNAME", "eth1", "network"),
    Variable("NCCL_DEBUG", "INFO", "--env"),
    Variable("NCCL_P2P_DISABLE", "1", "launch.env"),
    Variable("NCCL_NOBODY_KNOWS_THIS", "1", "nccl.env"),
    Variable("TORCH_NCCL_BLOCKING_WAIT", "1", "nccl.env"),
)
ALL = (IFNAME, DISABLE, *OTHERS)


def conf(path: str, text: str | None, *roles: ConfRole, error: str = "") -> ConfFile:
    return ConfFile(path=path, roles=roles, text=text, error=error)


def names(variables: tuple[Variable, ...]) -> list[str]:
    return [variable.name for variable in variables]


class TestWhatGoesIntoAFile:
    def test_is_nothing_by_environment(self) -> None:
        assert split("env", ALL) == Delivered(ALL, ())

    @pytest.mark.parametrize("deliver", ["user", "system"])
    def test_is_nccls_own_of_the_network_choice_and_nccl_env(self, deliver: Deliver) -> None:
        assert split(deliver, ALL) == Delivered(OTHERS, (IFNAME, DISABLE))

    def test_is_named_to_nccl_when_it_is_the_runs_own(self) -> None:
        delivered = split("file", ALL)
        named = Variable("NCCL_CONF_FILE", RUN_CONF_SHOWN, "nccl.deliver")
        assert delivered.file == (IFNAME, DISABLE)
        assert set(delivered.environment) == {*OTHERS, named}

    def test_is_never_the_name_of_a_file(self) -> None:
        named = Variable("NCCL_CONF_FILE", "/opt/nccl.conf", "nccl.env")
        assert split("user", [named]) == Delivered((named,), ())
        assert [v.value for v in split("file", [named]).environment] == [RUN_CONF_SHOWN], (
            "the run's own takes its place"
        )

    def test_leaves_a_warning_of_what_stays(self) -> None:
        problem = stays(split("user", ALL))
        assert problem is not None
        assert problem.level == "warning"
        assert "NCCL_NOBODY_KNOWS_THIS, TORCH_NCCL_BLOCKING_WAIT of nccl.env" in problem.message
        assert stays(split("user", [IFNAME, OTHERS[0]])) is None


class TestTheRunsOwnFile:
    def read(self, *files: ConfFile) -> dict[str, str]:
        data = run_conf((IFNAME, DISABLE), files, "gpu1")
        return {one.name: one.value for one in in_force(parse(data, NEW))}

    def test_has_the_settings(self) -> None:
        assert self.read() == {"NCCL_SOCKET_IFNAME": "=eth1", "NCCL_IB_DISABLE": "1"}

    def test_keeps_what_stood_in_the_file_in_whose_place_it_is_read(self) -> None:
        home = conf("/home/me/.nccl.conf", "NCCL_SOCKET_IFNAME=eth0\nNCCL_DEBUG=WARN", "home", "passwd_home")
        found = self.read(home, conf(FILE, "NCCL_ALGO=Ring\n", "system"))
        assert found == {"NCCL_SOCKET_IFNAME": "=eth1", "NCCL_IB_DISABLE": "1", "NCCL_DEBUG": "WARN"}

    def test_leaves_the_system_file_which_nccl_reads_all_the_same(self) -> None:
        assert "NCCL_ALGO" not in self.read(conf(FILE, "NCCL_ALGO=Ring\n", "system"))

    def test_goes_over_what_was_pushed_before(self) -> None:
        pushed = block.put(b"NCCL_DEBUG=WARN\n", [("NCCL_IB_DISABLE", "0")]).decode()
        assert self.read(conf("/home/me/.nccl.conf", pushed, "home"))["NCCL_IB_DISABLE"] == "1"

    def test_is_not_made_where_a_file_would_be_lost(self) -> None:
        unseen = conf("/opt/nccl.conf", None, "named", error="it has more than 64 KiB")
        with pytest.raises(PlanError, match=r"takes the place of /opt/nccl\.conf.*more than 64 KiB") as refused:
            self.read(unseen)
        assert "deliver: env" in refused.value.fix

    def test_is_made_where_there_was_none(self) -> None:
        assert len(self.read(conf("/opt/nccl.conf", None, "named"))) == 2


class TestRefused:
    def test_is_the_runs_own_file_by_an_old_nccl(self) -> None:
        (problem,) = refusals("file", OLD, [IFNAME])
        assert problem.code == "conf_file_unread"
        assert "NCCL 2.21.5 does not read $NCCL_CONF_FILE" in problem.message
        assert "2.23.4" in problem.message
        assert "deliver: env" in problem.fix

    @pytest.mark.parametrize(("deliver", "version"), [("file", NEW), ("file", None), ("user", OLD), ("system", OLD)])
    def test_is_no_other_way(self, deliver: Deliver, version: tuple[int, int, int] | None) -> None:
        assert refusals(deliver, version, [IFNAME, DISABLE]) == ()

    @pytest.mark.parametrize("deliver", ["file", "user", "system"])
    def test_is_a_value_that_no_file_can_carry(self, deliver: Deliver) -> None:
        (problem,) = refusals(deliver, NEW, [Variable("NCCL_IB_HCA", "mlx5_0\nmlx5_1", "nccl.env")])
        assert problem.message.startswith("NCCL_IB_HCA can't go into a conf file")
        assert "line feed" in problem.message

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("NCCL_NET_PLUGIN", "load code"),
            ("NCCL_TUNER_PLUGIN", "load code"),
            ("NCCL_DEBUG_FILE", "write files"),
            ("NCCL_NOBODY_KNOWS_THIS", "not known"),
            ("TORCH_NCCL_BLOCKING_WAIT", "not known as a setting that NCCL reads from there"),
        ],
    )
    def test_is_in_everybodys_file_what_is_not_everybodys(self, name: str, reason: str) -> None:
        variable = Variable(name, "/opt/x", "nccl.env")
        (problem,) = refusals("system", NEW, [variable, DISABLE])
        assert problem.level == "error"
        assert reason in problem.message
        assert refusals("user", NEW, [variable]) == ()

    @pytest.mark.parametrize("deliver", ["user", "system"])
    def test_is_a_secret_in_a_file_that_lasts(self, deliver: Deliver) -> None:
        secret = Variable("NCCL_IB_HCA", "hunter2", "nccl.env", secret=True)
        (problem,) = refusals(deliver, NEW, [secret])
        assert "secret" in problem.message
        assert "hunter2" not in problem.message + problem.fix
        assert refusals("file", NEW, [secret]) == (), "the run directory is nobody else's to read"


class TestAFileThatDoesNotHoldThePlan:
    def test_is_one_that_was_not_pushed(self) -> None:
        problem = missing([IFNAME, DISABLE], None, FILE, "lab.yaml")
        assert problem is not None
        assert (problem.code, problem.level, problem.fix) == ("conf_not_pushed", "error", "ncclrun nccl push lab.yaml")
        assert problem.message == f"the settings are not in {FILE} yet: there is no such file"

    def test_is_one_that_lacks_a_setting(self) -> None:
        problem = missing([IFNAME, DISABLE], {"NCCL_SOCKET_IFNAME": "=eth1"}, FILE, "lab.yaml")
        assert problem is not None
        assert problem.message.endswith("it has no NCCL_IB_DISABLE")

    def test_is_one_with_other_values(self) -> None:
        problem = missing([IFNAME, DISABLE], {"NCCL_SOCKET_IFNAME": "=eth0", "NCCL_IB_DISABLE": "1"}, FILE, "lab.yaml")
        assert problem is not None
        assert problem.code == "conf_differs"
        assert problem.message == f"{FILE} has other settings than the plan: NCCL_SOCKET_IFNAME==eth0, not =eth1"

    def test_is_not_one_that_has_more(self) -> None:
        holds = {"NCCL_SOCKET_IFNAME": "=eth1", "NCCL_IB_DISABLE": "1", "NCCL_DEBUG": "WARN"}
        assert missing([IFNAME, DISABLE], holds, FILE, "lab.yaml") is None


def counts(name: str, value: str, source: str, origin: Origin, line: int | None = None) -> dict[str, Effective]:
    return {name: Effective(name=name, value=value, source=source, origin=origin, line=line)}


class TestWhatHidesAPushedSetting:
    def test_is_nothing_where_it_counts(self) -> None:
        assert hidden([IFNAME], counts(IFNAME.name, "=eth1", FILE, "system", 4), FILE) == ()

    def test_is_no_matter_where_it_says_the_same(self) -> None:
        assert hidden([IFNAME], counts(IFNAME.name, "=eth1", "/home/me/.bashrc", "login", 3), FILE) == ()

    def test_is_a_line_of_a_start_up_file(self) -> None:
        (problem,) = hidden([IFNAME], counts(IFNAME.name, "eth0", "/home/me/.bashrc", "login", 3), FILE)
        assert problem.level == "warning"
        assert problem.message == (
            "NCCL_SOCKET_IFNAME=eth0 from line 3 of /home/me/.bashrc hides NCCL_SOCKET_IFNAME==eth1,"
            " which /etc/nccl.conf has"
        )
        assert problem.fix == "take NCCL_SOCKET_IFNAME=eth0 out of line 3 of /home/me/.bashrc, log in anew"

    def test_is_a_variable_of_the_run(self) -> None:
        (problem,) = hidden([DISABLE], counts(DISABLE.name, "0", "--env", "run"), FILE)
        assert problem.fix == "take NCCL_IB_DISABLE out of --env"

    def test_is_an_empty_variable(self) -> None:
        (problem,) = hidden([DISABLE], counts(DISABLE.name, "", "login environment", "login"), FILE)
        assert "NCCL_IB_DISABLE= (empty, it counts as not set) from login environment hides" in problem.message

    def test_is_a_file_that_nccl_reads_in_its_place(self) -> None:
        named = counts("NCCL_CONF_FILE", "/opt/nccl.conf", "/etc/environment", "login", 1)
        (problem,) = hidden([IFNAME, DISABLE], named, "/home/me/.nccl.conf")
        assert problem.message == (
            "NCCL does not read /home/me/.nccl.conf in this run: NCCL_CONF_FILE=/opt/nccl.conf from /etc/environment"
            " has NCCL read another file; NCCL_SOCKET_IFNAME, NCCL_IB_DISABLE of it does not count"
        )
        assert problem.fix == "take NCCL_CONF_FILE out of /etc/environment"

    def test_is_not_what_the_file_itself_has_in_place_of_it(self) -> None:
        assert hidden([IFNAME], counts(IFNAME.name, "eth0", FILE, "system", 1), FILE) == ()

    def test_does_not_tell_a_secret(self) -> None:
        secret = Variable("NCCL_IB_HCA", "hunter2", "nccl.env", secret=True)
        (problem,) = hidden([secret], counts(secret.name, "hunter1", "--env", "run"), FILE)
        assert "hunter" not in problem.message + problem.fix
