"""The chosen interfaces and addresses go into the cluster file's text, and nothing else in it changes."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncclrun.model.cluster import ClusterSpec
from ncclrun.model.errors import SpecError, UsageError
from ncclrun.model.plan import Endpoint
from ncclrun.planning.clusteredit import Edit, write_choice
from ncclrun.planning.clusterfile import parse_cluster

SOURCE = "cluster.yaml"


def endpoint(index: int, interface: str = "eth1") -> Endpoint:
    return Endpoint(interface, f"10.0.0.{index + 1}", "")


def write(text: str, *endpoints: Endpoint, only: slice = slice(None)) -> Edit:
    """The edit of all nodes (or those of ``only``); without endpoints they get eth1 and 10.0.0.1, 10.0.0.2, …"""
    nodes = parse_cluster(text, SOURCE).nodes[only]
    return write_choice(text, SOURCE, nodes, endpoints or [endpoint(index) for index in range(len(nodes))])


def test_json_stays_json() -> None:
    text = json.dumps({"nodes": ["a", "b[1-2]", {"host": "c"}]})
    assert json.loads(write(text).text) == {
        "nodes": [
            {"host": host, "interface": "eth1", "address": f"10.0.0.{number}"}
            for number, host in enumerate(("a", "b1", "b2", "c"), 1)
        ]
    }


# what stands under `nodes:`, and what becomes of it
ENTRIES = [
    ("- gpu1", "- {host: gpu1, interface: eth1, address: 10.0.0.1}"),
    ("- gpu1  # the\tfirst ü", "- {host: gpu1, interface: eth1, address: 10.0.0.1}  # the\tfirst ü"),
    ("- 'gpu1'", "- {host: 'gpu1', interface: eth1, address: 10.0.0.1}"),
    ('- "no"', '- {host: "no", interface: eth1, address: 10.0.0.1}'),
    ("- fd00::7", '- {host: "fd00::7", interface: eth1, address: 10.0.0.1}'),
    ("- fe80::7%eth0", '- {host: "fe80::7%eth0", interface: eth1, address: 10.0.0.1}'),
    ("- {host: a}", "- {host: a, interface: eth1, address: 10.0.0.1}"),
    ("- {host: a, }  # c", "- {host: a, interface: eth1, address: 10.0.0.1, }  # c"),
    ("- {gpus: [0], host: a}", "- {gpus: [0], host: a, interface: eth1, address: 10.0.0.1}"),
    ("- {host: a, # why\n   gpus: [0]}", "- {host: a, interface: eth1, address: 10.0.0.1, # why\n   gpus: [0]}"),
    ('- {"host": "a"}', '- {"host": "a", "interface": "eth1", "address": "10.0.0.1"}'),
    ("- host: a  # c", "- host: a  # c\n  interface: eth1\n  address: 10.0.0.1"),
    (
        "-\n    # c\n    name: x\n    host: a\n    env:\n      A: 1",
        "-\n    # c\n    name: x\n    host: a\n    interface: eth1\n    address: 10.0.0.1\n    env:\n      A: 1",
    ),
    ("- env: {A: 1}\n  host: a", "- env: {A: 1}\n  host: a\n  interface: eth1\n  address: 10.0.0.1"),
    ("- {host: a, interface: old}", "- {host: a, interface: eth1, address: 10.0.0.1}"),
    ("- {address: '10.0.0.9', host: a}", "- {address: '10.0.0.1', host: a, interface: eth1}"),
    (
        '- host: a\n  interface: "eth0"  # x\n  gpus: [0]',
        '- host: a\n  interface: "eth1"  # x\n  address: 10.0.0.1\n  gpus: [0]',
    ),
    ("- {host: a, subnet: 10.0.0.0/8}", "- {host: a, interface: eth1, address: 10.0.0.1, subnet: 10.0.0.0/8}"),
    (
        "- gpu[08-09]  # both",
        "- {host: gpu08, interface: eth1, address: 10.0.0.1}  # both\n"
        "- {host: gpu09, interface: eth1, address: 10.0.0.2}",
    ),
    (
        "- {host: 'g[1-2]', name: 'n[5-6]', gpus: [0]}  # both",
        "- {host: 'g1', interface: eth1, address: 10.0.0.1, name: 'n5', gpus: [0]}  # both\n"
        "- {host: 'g2', interface: eth1, address: 10.0.0.2, name: 'n6', gpus: [0]}",
    ),
    (
        "- host: g[1-2]  # both\n  # and\n\n  env:  # of theirs\n    A: '#1'",
        "- host: g1  # both\n  interface: eth1\n  address: 10.0.0.1\n  # and\n\n  env:  # of theirs\n    A: '#1'\n"
        "- host: g2\n  interface: eth1\n  address: 10.0.0.2\n  env:\n    A: '#1'",
    ),
    (
        "- env:\n    A: |\n      # no comment\n      x\n  host: g[1-2]",
        "- env:\n    A: |\n      # no comment\n      x\n  host: g1\n  interface: eth1\n  address: 10.0.0.1\n"
        "- env:\n    A: |\n      # no comment\n      x\n  host: g2\n  interface: eth1\n  address: 10.0.0.2",
    ),
]


@pytest.mark.parametrize(("before", "after"), ENTRIES)
@pytest.mark.parametrize("around", ["nodes:\n%s", "\ufeffname: ü # n\nnodes:\n%s\n\n# the end\nssh: {port: 22}\n"])
def test_an_entry_gets_both_fields_in_its_own_style(before: str, after: str, around: str) -> None:
    assert write(around % before).text == around % after


@pytest.mark.parametrize(("before", "after"), ENTRIES)
def test_lines_end_as_they_did(before: str, after: str) -> None:
    def crlf(text: str) -> str:
        return f"nodes:\n{text}\n".replace("\n", "\r\n")

    assert write(crlf(before)).text == crlf(after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[a]", "[{host: a, interface: eth1, address: 10.0.0.1}]"),
        ("[host: a, ]", "[{host: a, interface: eth1, address: 10.0.0.1}, ]"),
        (
            '["g[1-2]", {host: b}]',
            '[{host: "g1", interface: eth1, address: 10.0.0.1}, {host: "g2", interface: eth1, address: 10.0.0.2}, '
            "{host: b, interface: eth1, address: 10.0.0.3}]",
        ),
        (
            "[\n  {host: 'g[1-2]'},  # c\n]",
            "[\n  {host: 'g1', interface: eth1, address: 10.0.0.1},\n"
            "  {host: 'g2', interface: eth1, address: 10.0.0.2},  # c\n]",
        ),
    ],
)
def test_a_list_in_brackets_stays_one(before: str, after: str) -> None:
    assert write(f"nodes: {before}\n").text == f"nodes: {after}\n"
    assert write(f"{{nodes: {before}}}").text == f"{{nodes: {after}}}"


def test_what_yaml_would_misread_is_put_in_quotes() -> None:
    edit = write(
        "nodes:\n- a\n- host: b\n- {host: c}", *(Endpoint(name, "fd00::", "") for name in ("no", "1e5", "x#1"))
    )
    assert edit.text == (
        'nodes:\n- {host: a, interface: "no", address: "fd00::"}\n'
        '- host: b\n  interface: "1e5"\n  address: "fd00::"\n- {host: c, interface: "x#1", address: "fd00::"}'
    )


def test_the_zone_of_an_address_is_the_interface_that_stands_beside_it() -> None:
    assert 'address: "fe80::1"}' in write("nodes: [a]", Endpoint("eth1", "fe80::1%eth1", "")).text


def test_nodes_that_were_not_asked_for_stay_as_they_are() -> None:
    edit = write("nodes:\n- a\n- g[1-2] # both\n- c\n", only=slice(2, 3))
    assert edit.text == "nodes:\n- a\n- g1 # both\n- {host: g2, interface: eth1, address: 10.0.0.1}\n- c\n"
    assert edit.changes == ("g[1-2]: an entry for each node", "g2: interface eth1, address 10.0.0.1")


def test_what_stands_there_already_is_not_written_again() -> None:
    text = "nodes:\n- {host: a, interface: eth1, address: 'FD00:0::1'}\n"
    assert write(text, Endpoint("eth1", "fd00::1", "")) == Edit(text, ())


def test_a_change_tells_what_was_there() -> None:
    edit = write("nodes: [{host: a, interface: eth0, address: 10.0.0.1}]")
    assert edit.changes == ("a: interface eth1 (was eth0)",)


def test_a_choice_against_a_wish_of_the_file_changes_nothing_and_says_what_it_would_be() -> None:
    with pytest.raises(UsageError, match="not in this node's `subnet`") as caught:
        write("nodes:\n- {host: a, subnet: 10.9.0.0/24}\n")
    assert caught.value.fix.endswith("a: interface: eth1, address: 10.0.0.1")


def test_a_host_in_block_style_is_refused_with_what_to_write() -> None:
    with pytest.raises(UsageError, match=r"cluster.yaml:2: ") as caught:
        write("nodes:\n- host: >-\n    gpu1\n")
    assert caught.value.fix == "write it in one line: gpu1"


def test_a_file_that_is_wrong_by_itself_is_told_as_ever() -> None:
    with pytest.raises(SpecError, match="there is no value here"):
        write_choice("nodes:\n", SOURCE, (), ())


# --- any file

REMARK = re.compile("# c[0-9]+ ü\tx")


@st.composite
def entries(draw: st.DrawFn, number: int) -> tuple[str, int]:
    """An entry in some style, with ``@`` where a comment may stand at the end of a line; and how many nodes it is."""
    count = draw(st.sampled_from([1, 1, 2, 3]))
    host = f"h{number}x" + (f"[08-{7 + count:02}]" if count > 1 else "")
    quote = draw(st.sampled_from(["'%s'", '"%s"'] if count > 1 else ["%s", "'%s'", '"%s"']))
    style = draw(st.sampled_from(["text", "braces", "lines in braces", "block", "block below"]))
    if style == "text":
        return f"- {quote % host}@", count
    pairs = [f"host: {quote % host}"]
    if draw(st.booleans()):
        pairs.append("interface: " + draw(st.sampled_from(["old0", "'old0'", '"no"'])))
    if count == 1 and draw(st.booleans()):
        pairs.append("address: " + draw(st.sampled_from(["10.9.0.1", '"fd00::1"'])))
    extras = ["gpus: [0, 1]", "env: {A: '#', B: 1.50}", "user: me", f"name: 'n{number}x[1-{count}]'", "family: auto"]
    pairs += draw(st.lists(st.sampled_from(extras), unique=True, max_size=3))
    pairs = draw(st.permutations(pairs))
    if style == "braces":
        return f"- {{{', '.join(pairs)}{draw(st.sampled_from(['', ',', ' , ']))}}}@", count
    if style == "lines in braces":
        return "- {" + ",@\n   ".join(pairs) + draw(st.sampled_from(["}@", "@\n  }@", ",@\n  }@"])), count
    blocks = [pair.replace("env: {A: '#', B: 1.50}", "env:@\n~  A: '#'@\n@~  B: 1.50") for pair in pairs]
    gap = draw(st.sampled_from(["@\n~", "@\n@\n~", "\n\n~"]))
    text = gap.join(blocks) + "@"
    return ("- " + text if style == "block" else "-@\n@\n~" + text).replace(
        "~", " " * 2 if style == "block" else "    "
    ), count


@st.composite
def files(draw: st.DrawFn) -> str:
    """A valid cluster file with numbered comments in many places."""
    parts = [draw(entries(number))[0] for number in range(draw(st.integers(1, 4)))]
    indent = draw(st.sampled_from(["", "  "]))
    body = "\n".join(parts).replace("\n", "\n" + indent)
    text = f"@\nname: x@\nnodes:@\n{indent}{body}"
    text += draw(st.sampled_from(["", "\n", "\n\n@\nssh: {port: 22}@\n", "\nlaunch:@\n  env:\n    A: x@"]))
    number = 0
    while "@" in text:
        remark = draw(st.sampled_from(["", f"  # c{number} ü\tx"]))
        text, number = text.replace("@", remark, 1), number + 1
    bom = draw(st.sampled_from(["", "\ufeff"]))
    return bom + text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


def expected(old: ClusterSpec, chosen: list[Endpoint | None]) -> ClusterSpec:
    nodes = [
        replace(node, address=e.address, network=node.network.model_copy(update={"interface": e.interface}))
        if e
        else node
        for node, e in zip(old.nodes, chosen, strict=True)
    ]
    return replace(old, nodes=tuple(nodes))


@settings(max_examples=150, deadline=None)
@given(files(), st.data())
def test_any_file_keeps_its_comments_and_gives_the_same_cluster_but_for_the_two_fields(
    text: str, data: st.DataObject
) -> None:
    old = parse_cluster(text, SOURCE)
    some = st.builds(
        Endpoint, st.sampled_from(["eth1", "no", "e.1"]), st.sampled_from(["10.0.0.1", "fd00::"]), st.just("")
    )
    chosen = [data.draw(st.none() | some) for _ in old.nodes]
    nodes = [node for node, choice in zip(old.nodes, chosen, strict=True) if choice]
    endpoints = [choice for choice in chosen if choice]
    edit = write_choice(text, SOURCE, nodes, endpoints)
    assert parse_cluster(edit.text, SOURCE) == expected(old, chosen)
    assert REMARK.findall(edit.text) == REMARK.findall(text)
    assert bool(edit.changes) == (edit.text != text)
    assert ("\r\n" in text) == ("\r\n" in edit.text) or "\n" not in text
    assert "\r\n" not in text or not re.search(r"(?<!\r)\n", edit.text)
    again = write_choice(edit.text, SOURCE, nodes, endpoints)
    assert again == Edit(edit.text, ())
