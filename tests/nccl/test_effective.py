"""What NCCL takes of several places, what that hides, and how nodes differ."""

from __future__ import annotations

from ncclrun.model.effective import Effective, Held, Hidden
from ncclrun.model.settings import ConfFile, ConfRole, Mention, NodeSettings, Setting
from ncclrun.nccl.effective import Layer, differences, effective, node_layers

IFNAME = "NCCL_SOCKET_IFNAME"
SYSTEM = "/etc/nccl.conf"
HOME = "/home/me/.nccl.conf"


def conf(path: str, text: str | None, *roles: ConfRole) -> ConfFile:
    return ConfFile(path=path, roles=roles, text=text)


def values(node: NodeSettings, *run: Setting, version: tuple[int, int, int] | None = None) -> dict[str, Effective]:
    return effective(node_layers(run, node, version))


class TestOfSeveralPlaces:
    def test_the_first_layer_wins_and_names_what_it_hides_in_order(self) -> None:
        layers = [
            Layer("the run", "run", [Setting(IFNAME, "=eth1", "network choice")]),
            Layer(HOME, "home", [Setting(IFNAME, "eth0", HOME, 3)]),
            Layer(SYSTEM, "system", [Setting(IFNAME, "ib0", SYSTEM, 1), Setting("NCCL_DEBUG", "WARN", SYSTEM, 2)]),
        ]
        assert effective(layers) == {
            "NCCL_DEBUG": Effective(name="NCCL_DEBUG", value="WARN", source=SYSTEM, origin="system", line=2),
            IFNAME: Effective(
                name=IFNAME,
                value="=eth1",
                source="network choice",
                origin="run",
                hides=(Hidden(value="eth0", source=HOME, line=3), Hidden(value="ib0", source=SYSTEM, line=1)),
            ),
        }

    def test_of_two_lines_of_a_file_the_first_wins(self) -> None:
        node = NodeSettings(conf_files=(conf(SYSTEM, "NCCL_DEBUG=INFO\nNCCL_DEBUG=WARN\n", "system"),))
        found = values(node)["NCCL_DEBUG"]
        assert (found.value, found.line, found.hides) == ("INFO", 1, (Hidden(value="WARN", source=SYSTEM, line=2),))

    def test_an_empty_variable_of_the_environment_hides_a_file(self) -> None:
        node = NodeSettings(login={IFNAME: ""}, conf_files=(conf(SYSTEM, f"{IFNAME}=eth0\n", "system"),))
        found = values(node)[IFNAME]
        assert (found.value, found.origin) == ("", "login")
        assert found.hides == (Hidden(value="eth0", source=SYSTEM, line=1),)

    def test_the_run_goes_over_the_login(self) -> None:
        found = values(NodeSettings(login={IFNAME: "eth0"}), Setting(IFNAME, "=eth1", "--env"))[IFNAME]
        assert (found.value, found.source) == ("=eth1", "--env")
        assert found.hides == (Hidden(value="eth0", source="login environment"),)

    def test_nobodys_source_is_the_layers(self) -> None:
        assert values(NodeSettings(), Setting("NCCL_DEBUG", "INFO"))["NCCL_DEBUG"].source == "the run"

    def test_nccls_own_home_is_no_setting(self) -> None:
        assert values(NodeSettings(login={"HOME": "/home/me"})) == {}

    def test_a_line_that_nobody_could_read_is_no_setting(self) -> None:
        node = NodeSettings(conf_files=(conf(SYSTEM, "export NCCL_DEBUG=INFO\n NCCL_DEBUG=WARN\n#A=1\n", "system"),))
        assert values(node) == {}


class TestFilesByVersion:
    NODE = NodeSettings(
        conf_files=(
            conf("/opt/nccl.conf", f"{IFNAME}=named\r\n", "named"),
            conf(HOME, f"{IFNAME}=home\n", "home", "passwd_home"),
            conf(SYSTEM, f"{IFNAME}=system\n", "system"),
        )
    )

    def test_a_named_file_is_read_in_place_of_the_one_at_home(self) -> None:
        found = values(self.NODE, version=(2, 27, 5))[IFNAME]
        assert (found.value, found.origin) == ("named\r", "named")
        assert [one.source for one in found.hides] == [SYSTEM]

    def test_an_old_nccl_knows_no_named_file(self) -> None:
        assert values(self.NODE, version=(2, 21, 5))[IFNAME].value == "home"

    def test_without_a_version_it_is_the_newest(self) -> None:
        assert values(self.NODE)[IFNAME].value == "named"


class TestALoginVariable:
    def test_comes_from_the_line_that_sets_it(self) -> None:
        mentions = (
            Mention("/home/me/.bashrc", 12, IFNAME, f"export {IFNAME}=eth0"),
            Mention("/home/me/.bashrc", 13, "NCCL_DEBUG", "export NCCL_DEBUG=INFO"),
        )
        found = values(NodeSettings(login={IFNAME: "eth0"}, mentions=mentions))[IFNAME]
        assert (found.source, found.line, found.origin) == ("/home/me/.bashrc", 12, "login")

    def test_comes_from_the_line_with_its_value_where_several_name_it(self) -> None:
        mentions = (
            Mention("/etc/environment", 2, IFNAME, f"{IFNAME}=ib0"),
            Mention("/home/me/.bashrc", 12, IFNAME, f"export {IFNAME}=eth0"),
        )
        found = values(NodeSettings(login={IFNAME: "eth0"}, mentions=mentions))[IFNAME]
        assert (found.source, found.line) == ("/home/me/.bashrc", 12)

    def test_names_all_lines_that_may_be_it(self) -> None:
        mentions = (Mention("/etc/profile", 2, IFNAME, f"{IFNAME}=$X"), Mention("~/.bashrc", 3, IFNAME, f"{IFNAME}=$Y"))
        found = values(NodeSettings(login={IFNAME: "eth0"}, mentions=mentions))[IFNAME]
        assert found.source == "login environment (/etc/profile line 2 or ~/.bashrc line 3)"
        assert found.line is None


def took(name: str, value: str) -> dict[str, Effective]:
    return {name: Effective(name=name, value=value, source=SYSTEM, origin="system")}


class TestNodes:
    def test_that_are_alike_do_not_differ(self) -> None:
        assert differences({"a": took("NCCL_ALGO", "Ring"), "b": took("NCCL_ALGO", "Ring")}) == ()

    def test_that_differ_have_the_usual_value_first(self) -> None:
        nodes = {"a": took("NCCL_ALGO", "Tree"), "b": took("NCCL_ALGO", "Ring"), "c": took("NCCL_ALGO", "Ring")}
        (found,) = differences(nodes)
        assert found.values == (Held(value="Ring", nodes=("b", "c")), Held(value="Tree", nodes=("a",)))
        assert found.usual
        assert not found.per_host

    def test_of_which_half_differ_have_no_usual_value(self) -> None:
        (found,) = differences({"a": took("NCCL_ALGO", "Tree"), "b": took("NCCL_ALGO", "Ring")})
        assert not found.usual

    def test_without_a_variable_differ_from_those_that_have_it(self) -> None:
        (found,) = differences({"a": took("NCCL_ALGO", "Ring"), "b": {}, "c": {}})
        assert found.values == (Held(value=None, nodes=("b", "c")), Held(value="Ring", nodes=("a",)))

    def test_with_an_empty_value_are_like_those_without(self) -> None:
        assert differences({"a": took("NCCL_ALGO", ""), "b": {}}) == ()

    def test_may_differ_in_what_is_their_own(self) -> None:
        for name in (IFNAME, "NCCL_IB_HCA", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"):
            (found,) = differences({"a": took(name, "x0"), "b": took(name, "x1")})
            assert found.per_host, name
