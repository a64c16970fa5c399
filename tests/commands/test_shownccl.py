"""`nccl show` and `nccl lint CLUSTER` on scripted nodes: what each has, where it comes from, what is wrong."""

from __future__ import annotations

from dataclasses import replace

from ncclrun.commands.control import Control
from ncclrun.commands.lint import Linted, exit_code
from ncclrun.commands.lintcluster import lint_cluster
from ncclrun.commands.shownccl import show_nccl
from ncclrun.model.cluster import ClusterSpec, Nccl
from ncclrun.model.endevents import Ended
from ncclrun.model.errors import HostError
from ncclrun.model.events import Event, Warn
from ncclrun.model.settingevents import SettingDiffers, SettingFound, SettingsSeen
from ncclrun.model.settings import ConfFile, NodeSettings
from ncclrun.nccl import block
from tests.commands.fakenet import FakeNet
from tests.planning.makers import card, cluster

PAIR = {"a": (card("e0", "10.0.0.1/24"),), "b": (card("f0", "10.0.0.2/24"),)}
ETC = ConfFile("/etc/nccl.conf", ("system",), "NCCL_IB_TIMEOUT=22\nNCCL_DEBUG=ERROR\nNCCL_SECRET_TOKEN=abc\n")


def net(**settings: NodeSettings) -> FakeNet:
    return FakeNet(PAIR, said={name: {"settings": own} for name, own in settings.items()})


def shown(fake: FakeNet, *, defaults: bool = False, **env: str) -> list[Event]:
    spec = cluster(*fake.nodes, env=env)
    return list(show_nccl(spec, fake.transport, Control(), {}, defaults=defaults))


def values(events: list[Event], name: str) -> dict[str, tuple[str, str]]:
    """Value and source of each variable of a node."""
    [seen] = [event for event in events if isinstance(event, SettingsSeen) and event.node == name]
    return {value.name: (value.value, value.source) for value in seen.values}


class TestShow:
    def test_each_value_with_the_place_that_it_comes_from(self) -> None:
        events = shown(net(a=NodeSettings(login={"NCCL_IB_TC": "3"}, conf_files=(ETC,))), NCCL_ALGO="Ring")
        a = values(events, "a")
        assert a["NCCL_SOCKET_IFNAME"] == ("=e0", "network choice")
        assert a["NCCL_ALGO"] == ("Ring", "nccl.env in the cluster file")
        assert a["NCCL_IB_TC"] == ("3", "login environment")
        assert a["NCCL_IB_TIMEOUT"] == ("22", "/etc/nccl.conf")
        assert values(events, "b")["NCCL_SOCKET_IFNAME"] == ("=f0", "network choice")

    def test_a_secret_is_masked(self) -> None:
        assert "abc" not in repr(shown(net(a=NodeSettings(conf_files=(ETC,)))))

    def test_where_nodes_differ(self) -> None:
        events = shown(net(a=NodeSettings(login={"NCCL_ALGO": "Ring"}), b=NodeSettings(login={"NCCL_ALGO": "Tree"})))
        names = {event.difference.name: event.difference for event in events if isinstance(event, SettingDiffers)}
        assert not names["NCCL_ALGO"].per_host
        assert names["NCCL_SOCKET_IFNAME"].per_host

    def test_what_is_wrong_with_them(self) -> None:
        events = shown(net(a=NodeSettings(conf_files=(ETC,))))
        assert ("a", "NCCL_DEBUG") in [(e.node, e.finding.name) for e in events if isinstance(e, SettingFound)]

    def test_the_defaults_of_what_nobody_sets(self) -> None:
        assert "NCCL_IB_DISABLE" not in values(shown(net()), "a")
        assert values(shown(net(), defaults=True), "a")["NCCL_IB_DISABLE"] == ("0", "default")

    def test_without_a_network_all_else_is_shown(self) -> None:
        fake = FakeNet(PAIR, rule=lambda *_: "refused")
        events = shown(fake, NCCL_ALGO="Ring")
        assert set(values(events, "a")) == {"NCCL_ALGO"}
        assert any(isinstance(event, Warn) and "network choice" in event.text for event in events)

    def test_a_host_that_does_not_answer_is_told_and_the_others_are_shown(self) -> None:
        fake = net()
        fake.transport.nodes["b"] = HostError("timeout", "b: no answer")
        events = shown(fake)
        assert "NCCL_SOCKET_IFNAME" not in values(events, "a"), "one node of two has no network to prove"
        end = events[-1]
        assert isinstance(end, Ended)
        assert (end.exit_code, end.reason) == (255, "no answer from b")


class TestLint:
    def linted(self, fake: FakeNet) -> list[Linted]:
        return lint_cluster(cluster(*fake.nodes), fake.transport, Control(), {}, None)

    def test_every_nodes_files_and_login(self) -> None:
        texts = self.linted(net(a=NodeSettings(conf_files=(ETC,)), b=NodeSettings(login={"NCCL_IB_DISABLE": "yes"})))
        found = {(text.node, text.file, one.id) for text in texts for one in text.findings}
        assert ("a", "/etc/nccl.conf", "debug_silent") in found
        assert ("b", "login environment", "word_for_number") in found
        assert exit_code(texts) == 1

    def test_an_interface_that_the_node_does_not_have_is_told_with_those_that_it_has(self) -> None:
        file = ConfFile("/etc/nccl.conf", ("system",), "NCCL_DEBUG=WARN\nNCCL_SOCKET_IFNAME=eth7  # my card\n")
        texts = self.linted(net(a=NodeSettings(conf_files=(file,)), b=NodeSettings(login={"GLOO_SOCKET_IFNAME": "f9"})))
        found = [(text.node, one) for text in texts for one in text.findings if one.id == "no_such_interface"]
        assert [(node, one.file, one.line, one.fix) for node, one in found] == [
            ("a", "/etc/nccl.conf", 2, "NCCL_SOCKET_IFNAME=e0"),
            ("b", "login environment", None, "GLOO_SOCKET_IFNAME=f0"),
        ]
        assert "it has e0" in found[0][1].sees
        assert "eth7" not in "".join(one.fix for text in texts for one in text.findings)

    def test_an_interface_that_it_has_or_a_filter_that_leaves_one_is_no_finding(self) -> None:
        for value in ("e", "=e0", "^eth7", "e0,f0"):
            file = ConfFile("/etc/nccl.conf", ("system",), f"NCCL_SOCKET_IFNAME={value}\n")
            texts = self.linted(net(a=NodeSettings(conf_files=(file,))))
            assert [one for text in texts for one in text.findings if one.id == "no_such_interface"] == []

    def test_right_nodes_have_no_finding(self) -> None:
        texts = self.linted(net(a=NodeSettings(login={"NCCL_DEBUG": "WARN"})))
        assert [one for text in texts for one in text.findings] == []

    def test_the_only_host_that_does_not_answer_is_an_error(self) -> None:
        fake = FakeNet({"a": PAIR["a"]})
        fake.transport.nodes["a"] = HostError("timeout", "a: no answer")
        texts = self.linted(fake)
        assert [one.id for text in texts for one in text.findings] == ["unreachable"]
        assert exit_code(texts) == 255

    def test_a_host_that_does_not_answer_is_an_error(self) -> None:
        fake = net()
        fake.transport.nodes["b"] = HostError("timeout", "b: no answer")
        texts = self.linted(fake)
        assert [(text.node, one.id) for text in texts for one in text.findings] == [("b", "unreachable")]
        assert exit_code(texts) == 255


class TestPushedSettings:
    """With `deliver: user` what the file really holds counts, and what comes before it."""

    PUSHED = block.put(b"", [("NCCL_ALGO", "Tree"), ("NCCL_SOCKET_FAMILY", "AF_INET"), ("NCCL_SOCKET_IFNAME", "=e0")])

    def net(self, data: bytes, **login: str) -> FakeNet:
        home = ConfFile("/home/u/.nccl.conf", ("home", "passwd_home"), data.decode())
        named = (ConfFile(login["NCCL_CONF_FILE"], ("named",)),) if "NCCL_CONF_FILE" in login else ()
        own = NodeSettings(login=login, conf_files=(*named, home))
        return FakeNet(PAIR, said={"a": {"settings": own}})

    def spec(self, fake: FakeNet, **env: str) -> ClusterSpec:
        return replace(cluster(*fake.nodes), nccl=Nccl(deliver="user", env=env))

    def ids(self, fake: FakeNet, **env: str) -> set[str]:
        texts = lint_cluster(self.spec(fake, **env), fake.transport, Control(), {}, (2, 27, 5))
        return {one.id for text in texts if text.node == "a" for one in text.findings}

    def test_are_shown_as_the_file_has_them_beside_what_is_wrong_with_it(self) -> None:
        fake = self.net(self.PUSHED)
        events = list(show_nccl(self.spec(fake, NCCL_ALGO="Ring"), fake.transport, Control(), {}))
        assert values(events, "a")["NCCL_ALGO"] == ("Tree", "/home/u/.nccl.conf")
        assert any(isinstance(event, Warn) and "has other settings than the plan" in event.text for event in events)

    def test_that_were_edited_by_hand_are_told_as_that_with_the_command_that_mends_it(self) -> None:
        fake = self.net(self.PUSHED.replace(b"Tree", b"Ring"))
        events = list(show_nccl(self.spec(fake, NCCL_ALGO="Tree"), fake.transport, Control(), {}))
        (warning,) = [event for event in events if isinstance(event, Warn) and "is not as it was" in event.text]
        assert "+ NCCL_ALGO=Ring" in warning.text
        assert warning.fix.startswith("ncclrun nccl push cluster.yaml --discard-edits ")

    def test_are_linted_as_a_launch_would_find_them(self) -> None:
        assert self.ids(self.net(self.PUSHED), NCCL_ALGO="Tree") == set()
        assert "conf_hidden" in self.ids(self.net(self.PUSHED, NCCL_ALGO="Ring"), NCCL_ALGO="Tree")
        assert {"unreadable", "conf_unread"} <= self.ids(
            self.net(self.PUSHED, NCCL_CONF_FILE="/nope"), NCCL_ALGO="Tree"
        )
        assert "conf_differs" in self.ids(self.net(self.PUSHED), NCCL_ALGO="Ring")
