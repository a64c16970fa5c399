"""What counts on a node, and what a run is told of it: on the settings of a login, of files and of a plan."""

from __future__ import annotations

from ncclrun.diagnosis.settings import NodeValues, across, disagreements, findings, node_values, problems
from ncclrun.model.settings import ConfFile, ConfRole, Mention, NodeSettings, Setting
from ncclrun.nccl.version import Version

NEW: Version = (2, 27, 5)


def conf(path: str, text: str, *roles: ConfRole) -> ConfFile:
    return ConfFile(path, roles, text)


def node(
    *run: tuple[str, str], name: str = "a", files: tuple[ConfFile, ...] = (), delivered: bool = False, **login: str
) -> NodeValues:
    """A node whose run has these variables; with ``delivered`` they stand in a file that ncclrun wrote."""
    settings = [Setting(key, value, "nccl.env in the cluster file") for key, value in run]
    own = NodeSettings(login=login, conf_files=files, mentions=(Mention("/root/.bashrc", 3, "NCCL_ALGO", "…"),))
    return node_values(name, [] if delivered else settings, own, NEW, settings if delivered else ())


def ids(found: NodeValues) -> list[tuple[str, str]]:
    return [(finding.id, finding.name) for finding in findings(found)]


class TestWhatCounts:
    def test_the_run_goes_over_the_login_and_the_login_over_the_files(self) -> None:
        etc = conf("/etc/nccl.conf", "NCCL_ALGO=Ring\nNCCL_PROTO=LL\nNCCL_IB_TC=3\n", "system")
        found = node(("NCCL_ALGO", "Tree"), files=(etc,), NCCL_PROTO="Simple", NCCL_ALGO="Ring")
        assert {name: value.value for name, value in found.values.items()} == {
            "NCCL_ALGO": "Tree",
            "NCCL_PROTO": "Simple",
            "NCCL_IB_TC": "3",
        }
        assert [hidden.value for hidden in found.values["NCCL_ALGO"].hides] == ["Ring", "Ring"]

    def test_a_login_variable_is_known_by_the_line_that_sets_it(self) -> None:
        found = node(NCCL_ALGO="Ring")
        assert (found.values["NCCL_ALGO"].source, found.values["NCCL_ALGO"].line) == ("/root/.bashrc", 3)

    def test_what_concerns_neither_nccl_nor_torch_is_left_aside(self) -> None:
        assert set(node(("OMP_NUM_THREADS", "4"), ("GLOO_SOCKET_IFNAME", "eth1")).values) == {"GLOO_SOCKET_IFNAME"}


class TestWhatARunIsTold:
    def test_a_wrong_value_with_the_place_that_it_comes_from_and_the_right_line(self) -> None:
        [problem] = problems(node(("NCCL_IB_DISABLE", "true")))
        assert problem.code == "nccl_setting"
        assert problem.level == "warning"
        assert "NCCL_IB_DISABLE=true (nccl.env in the cluster file)" in problem.message
        assert problem.fix.endswith("NCCL_IB_DISABLE=1")

    def test_the_same_where_ncclrun_itself_put_it_into_a_file(self) -> None:
        filed = conf("nccl.conf", "NCCL_IB_DISABLE=true\n", "named")
        [problem] = problems(node(("NCCL_IB_DISABLE", "true"), files=(filed,), delivered=True))
        assert "nccl.env in the cluster file" in problem.message

    def test_a_line_of_a_file_with_its_number(self) -> None:
        etc = conf("/etc/nccl.conf", "# ours\nNCCL_SOCKET_IFNAME=eth1   # my card\n", "system")
        assert any(
            "/etc/nccl.conf:2" in one.message and "eth1   # my card" in one.message
            for one in problems(node(files=(etc,)))
        )

    def test_nothing_of_a_line_that_something_else_hides(self) -> None:
        etc = conf("/etc/nccl.conf", "NCCL_IB_DISABLE=true\n", "system")
        assert list(problems(node(("NCCL_IB_DISABLE", "1"), files=(etc,)))) == []
        assert ("word_for_number", "NCCL_IB_DISABLE") in ids(node(("NCCL_IB_DISABLE", "1"), files=(etc,)))

    def test_nothing_of_what_is_right(self) -> None:
        right = node(("NCCL_SOCKET_IFNAME", "=eth1"), ("NCCL_DEBUG", "INFO"), TORCH_NCCL_BLOCKING_WAIT="1")
        assert list(problems(right)) == []

    def test_a_named_file_that_is_not_there(self) -> None:
        login = NodeSettings(login={"NCCL_CONF_FILE": "/nope"}, conf_files=(ConfFile("/nope", ("named",)),))
        (told,) = problems(node_values("gpu1", (), login, (2, 27, 5)))
        assert (told.code, told.level) == ("nccl_setting", "warning")
        assert "NCCL_CONF_FILE=/nope" in told.message

    def test_a_file_that_this_nccl_does_not_read_is_not_looked_at(self) -> None:
        named = conf("/opt/job.conf", "NCCL_DEBUG=WARN\n", "named")
        home = conf("/root/.nccl.conf", "NCCL_IB_DISABLE=true\n", "home", "passwd_home")
        assert list(problems(node(files=(named, home)))) == []


class TestAcrossNodes:
    def test_what_must_be_the_same_and_is_not(self) -> None:
        nodes = [node(("NCCL_ALGO", "Ring"), name="a"), node(("NCCL_ALGO", "Tree"), name="b")]
        assert [finding.name for finding in across(nodes)] == ["NCCL_ALGO"]
        [told] = disagreements(nodes)
        assert told.startswith("NCCL_ALGO: ")
        assert "Ring on a" in told
        assert "Tree on b" in told

    def test_what_may_differ(self) -> None:
        nodes = [node(("NCCL_SOCKET_IFNAME", f"=eth{at}"), name=f"n{at}") for at in range(3)]
        assert list(disagreements(nodes)) == []
