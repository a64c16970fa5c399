"""A push and a restore step by step: who is asked what, in which order, and what is said when a node says no."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ncclrun.commands.confchange import Change
from ncclrun.commands.control import Control
from ncclrun.commands.push import Push
from ncclrun.commands.restore import Restore
from ncclrun.model.cluster import Deliver, Launch, Nccl
from ncclrun.model.endevents import Ended
from ncclrun.model.errors import NodeRefused
from ncclrun.model.events import Event, Refused, Warn
from ncclrun.model.settingevents import ConfCompared, ConfDiff, ConfPushed, ConfRestored, ConfRolledBack
from ncclrun.nccl import block
from tests.commands.fakenet import FakeConf, FakeNet
from tests.planning.makers import card, cluster

THREE = {name: (card("e0", f"10.0.0.{at}/24"),) for at, name in enumerate("abc", 1)}
BUSY = NodeRefused("busy", "v is at it", details={"push_id": "another"})


def reads(conf: FakeConf) -> Any:
    """An NCCL that can't be asked, on a node that has this file."""

    def reply(_request: object, _body: object) -> dict[str, Any]:
        return {"library": "", "conf_files": [conf.look()["file"]]}

    return reply


@pytest.fixture
def net() -> FakeNet:
    """Three nodes without conf files, whose NCCL would read the pushed one."""
    net = FakeNet(THREE)
    for fake, conf in zip(net.fakes.values(), net.confs, strict=True):
        fake.replies["nccl"] = reads(conf)
    return net


def done(net: FakeNet, kind: type[Change] = Push, *, deliver: Deliver = "env", **options: Any) -> list[Event]:
    """All events of a command that goes through with it; ``deliver`` is that of the cluster file."""
    spec = replace(cluster(*net.nodes), nccl=Nccl(deliver=deliver))
    with kind(spec, net.transport, Control(), {}, "user", **options) as change:
        events = list(change.compare())
        return [*events, *change.apply()] if change.pending else events


def end(events: list[Event]) -> tuple[int, str]:
    assert isinstance(events[-1], Ended)
    return events[-1].exit_code, events[-1].reason


def asked(net: FakeNet, name: str) -> list[str]:
    """The kinds of requests about the conf file, and to NCCL, in their order."""
    return [r["do"] for r in net.fakes[name].requests if r["do"].startswith("conf_") or r["do"] == "nccl"]


def test_who_was_lost_while_nccl_was_asked_is_noticed_before_anything_is_made_to_last(net: FakeNet) -> None:
    events = done(net)
    assert end(events)[0] == 0
    assert [event.node for event in events if isinstance(event, ConfPushed)] == ["a", "b", "c"]
    steps = ["conf_look", "conf_stage", "conf_commit", "nccl", "conf_commit", "conf_finish"]
    assert [asked(net, name) for name in "abc"] == [steps] * 3


def test_of_two_at_once_the_one_that_comes_late_leaves_the_other_nodes_alone(net: FakeNet) -> None:
    net.confs[0].refusals["conf_stage"] = BUSY
    events = done(net)
    assert end(events) == (3, "nothing was changed: it failed on a")
    assert [(event.node, event.code) for event in events if isinstance(event, Refused)] == [("a", "busy")]
    assert [net.asked(name, "conf_stage") for name in "bc"] == [[], []]


def test_a_commit_that_fails_takes_the_others_back(net: FakeNet) -> None:
    net.confs[1].refusals["conf_commit"] = NodeRefused("read_only", "no")
    events = done(net)
    assert end(events) == (3, "nothing was changed: it failed on b")
    assert [conf.data for conf in net.confs] == [None, None, None]
    assert [conf.finished for conf in net.confs] == [False, False, False]


def test_what_could_not_be_put_back_is_never_told_as_if_it_had_been(net: FakeNet) -> None:
    net.confs[1].refusals["conf_rollback"] = NodeRefused("edited", "somebody was faster")
    net.fakes["c"].replies["nccl"] = {"library": "", "conf_files": []}  # it does not read what was pushed
    events = done(net)
    code, reason = end(events)
    assert code == 3
    assert reason.endswith("; b may have the new file still")
    assert [event.node for event in events if isinstance(event, ConfRolledBack)] == ["a", "c"]
    (warning,) = [event for event in events if isinstance(event, Warn) and "put back" in event.text]
    assert (warning.node, "somebody was faster" in warning.text) == ("b", True)


def test_a_program_that_was_killed_is_found_out_by_looking(net: FakeNet) -> None:
    net.fakes["b"].replies["conf_rollback"] = {"path": "", "rolled_back": False}
    net.confs[2].refusals["conf_commit"] = NodeRefused("read_only", "no")
    events = done(net)
    assert end(events) == (3, "nothing was changed: it failed on c; b may have the new file still")


def test_where_a_node_has_two_homes_the_nccl_that_answers_decides(net: FakeNet) -> None:
    net.confs[1].roles = ["passwd_home"]
    net.fakes["b"].replies["nccl"] = {"library": "", "version": "2.32.3", "conf_files": []}
    done(net)
    assert [request["home"] for request in net.asked("b", "conf_look")] == ["passwd_home", "home"]
    assert {request["home"] for request in net.asked("b", "conf_stage")} == {"home"}
    assert {request["home"] for request in net.asked("a", "conf_stage")} == {"passwd_home"}


@pytest.mark.parametrize(("deliver", "to"), [("env", " --to user"), ("user", "")])
def test_what_is_to_be_typed_next_means_the_same_file(net: FakeNet, deliver: Deliver, to: str) -> None:
    undo = {event.undo for event in done(net, deliver=deliver) if isinstance(event, ConfPushed)}
    assert undo == {f"ncclrun nccl restore cluster.yaml{to}"}


def test_a_file_that_may_not_be_changed_is_told_before_anything_is_staged(net: FakeNet) -> None:
    net.confs[2].more["refused"] = {"code": "symlink", "message": "a link", "fix": "cp", "details": {}}
    events = done(net)
    assert end(events) == (3, "nothing was changed: refused on c")
    assert [(e.node, e.code, e.fix) for e in events if isinstance(e, Refused)] == [("c", "symlink", "cp")]
    assert asked(net, "a") == ["conf_look"]


def test_what_the_new_lines_hide_of_the_file_is_told_with_the_difference(net: FakeNet) -> None:
    net.confs[1].data = b"NCCL_SOCKET_FAMILY=AF_INET6\n"
    hides = {e.node: [(v.name, v.hides[0].value) for v in e.hides] for e in done(net) if isinstance(e, ConfDiff)}
    assert hides == {"a": [], "b": [("NCCL_SOCKET_FAMILY", "AF_INET6")], "c": []}


def test_a_restore_that_keeps_edits_does_not_say_that_the_file_is_as_it_was(net: FakeNet) -> None:
    net.confs[1].data = block.put(b"NCCL_DEBUG=INFO\n", [("NCCL_IB_TC", "3")])
    net.confs[1].more = {"state": "edited"}
    events = done(net, Restore, keep_edits=True)
    assert [(e.node, e.edits_kept) for e in events if isinstance(e, ConfRestored) and e.changed] == [("b", True)]
    assert net.confs[1].data == b"NCCL_DEBUG=INFO\n"
    assert end(events) == (0, "what was edited since stays; our lines are out")


def test_nodes_without_anything_to_restore_are_counted_as_they_should_be(net: FakeNet) -> None:
    events = done(net, Restore)
    assert end(events) == (0, "nothing was found that could be undone")
    assert [event.unchanged for event in events if isinstance(event, ConfCompared)] == [("a", "b", "c")]


def test_a_restore_looks_in_the_other_of_two_homes_too(net: FakeNet) -> None:
    net.confs[0].roles = ["passwd_home"]
    done(net, Restore)
    assert [request["home"] for request in net.asked("a", "conf_look")] == ["passwd_home", "home"]
    assert [request["home"] for request in net.asked("b", "conf_look")] == ["passwd_home"]


def by_hand(net: FakeNet) -> bytes:
    """A pushed file of b, of which somebody changed a line of the block; returns what stands below that."""
    done(net)
    rest = b"NCCL_IB_TC=3\n"
    net.confs[1].data = (net.confs[1].data or b"").replace(b"=AF_INET\n", b"=AF_INET6\n") + rest
    net.confs[1].more = {"state": "edited"}
    return rest


class TestABlockEditedByHand:
    def test_is_left_and_the_line_and_the_command_are_told(self, net: FakeNet) -> None:
        by_hand(net)
        events = done(net)
        (refused,) = [event for event in events if isinstance(event, Refused)]
        assert refused.message.splitlines()[1:] == ["  - NCCL_SOCKET_FAMILY=AF_INET", "  + NCCL_SOCKET_FAMILY=AF_INET6"]
        assert refused.fix.startswith("ncclrun nccl push cluster.yaml --to user --discard-edits ")
        assert not [event for event in events if isinstance(event, ConfDiff)], "none of that will happen"

    def test_is_replaced_where_that_is_meant_and_the_file_is_kept(self, net: FakeNet) -> None:
        rest = by_hand(net)
        events = done(net, discard_edits=True)
        assert end(events)[0] == 0
        assert block.edited(net.confs[1].data or b"") == ""
        assert (net.confs[1].data or b"").endswith(b"=AF_INET\nNCCL_SOCKET_IFNAME==e0\n# <<< ncclrun <<<\n" + rest)
        assert {e.node: e.aside for e in events if isinstance(e, ConfPushed)} == {"a": "", "b": "/aside", "c": ""}

    def test_is_no_matter_for_keep_edits_and_restore_says_so_at_once(self, net: FakeNet) -> None:
        by_hand(net)
        fixes = {event.fix for event in done(net, Restore) if isinstance(event, Refused) and event.node == "b"}
        assert {fix.partition("   ")[0] for fix in fixes} == {
            "ncclrun nccl restore cluster.yaml --to user --discard-edits"
        }

    def test_is_taken_out_of_the_file_where_that_is_meant(self, net: FakeNet) -> None:
        rest = by_hand(net)
        events = done(net, Restore, discard_edits=True)
        assert net.confs[1].data == rest
        assert [(e.node, e.aside) for e in events if isinstance(e, ConfRestored) and e.aside] == [("b", "/aside")]

    def test_without_one_of_its_marks_is_for_its_owner_alone(self, net: FakeNet) -> None:
        by_hand(net)
        net.confs[1].data = (net.confs[1].data or b"").replace(b"# <<< ncclrun <<<\n", b"")
        (refused,) = [event for event in done(net, discard_edits=True) if isinstance(event, Refused)]
        assert "delete all of it" in refused.fix


def test_with_nothing_to_change_nccl_is_asked_all_the_same(net: FakeNet) -> None:
    done(net)
    before = len(net.asked("c", "nccl"))
    assert end(done(net)) == (0, "all conf files were found with the settings in them")
    assert len(net.asked("c", "nccl")) == before + 1
    net.fakes["c"].replies["nccl"] = {"library": "", "conf_files": []}  # by now it does not read what was pushed
    assert end(done(net)) == (3, "nothing had to be changed, and NCCL would not do as planned on c")


def test_who_has_no_sudo_learns_it_before_the_question(net: FakeNet) -> None:
    done(net)
    net.confs[0].more["refused"] = {"code": "no_sudo", "message": "a password", "fix": "x", "details": {}}
    assert end(done(net))[0] == 0, "where nothing has to be changed it is no matter"
    net.confs[1].data = b""
    assert end(done(net)) == (3, "nothing was changed: refused on a")


def test_what_a_nodes_own_env_keeps_out_of_its_file_is_told(net: FakeNet) -> None:
    own = replace(net.nodes[1], launch=Launch(env={"NCCL_DEBUG": "WARN"}))
    net.nodes = (net.nodes[0], own, net.nodes[2])
    spec = replace(cluster(*net.nodes), nccl=Nccl(env={"NCCL_DEBUG": "INFO"}))
    with Push(spec, net.transport, Control(), {}, "user") as change:
        events = list(change.compare())
    told = [event.node for event in events if isinstance(event, Warn) and "NCCL_DEBUG is not put" in event.text]
    assert told == ["b"]


def test_two_nodes_of_one_machine_that_want_different_files_are_refused_before_anything_is_staged() -> None:
    cards = {"a": (card("e0", "10.0.0.1/24"),), "b": (card("f0", "10.0.0.2/24"),), "c": (card("e0", "10.0.0.3/24"),)}
    net = FakeNet(cards)
    for name in "ab":
        told = net.fakes[name].replies["facts"]
        assert isinstance(told, dict)
        told["machine"] = "one"
    events = done(net)
    (refused,) = [event for event in events if isinstance(event, Refused)]
    assert "a and b share one file, and need different settings in it" in refused.message
    assert not [event for event in events if isinstance(event, ConfDiff)]
    assert net.asked("a", "conf_stage") == []
