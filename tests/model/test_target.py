"""`[user@]host[:port]` is taken apart as people mean it."""

from __future__ import annotations

import pytest

from ncclrun.model.target import Target, check_host, parse_target


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("gpu1", Target("gpu1")),
        ("me@gpu1", Target("gpu1", "me")),
        ("gpu1:22", Target("gpu1", None, 22)),
        ("me@corp@gpu1:22", Target("gpu1", "me@corp", 22)),
        ("fe80::1", Target("fe80::1")),
        ("[fe80::1]", Target("fe80::1")),
        ("me@[fe80::1%eth0]:22", Target("fe80::1%eth0", "me", 22)),
        ("gpu[1-3]:22", Target("gpu[1-3]", None, 22)),
    ],
)
def test_a_target_is_taken_apart(text: str, target: Target) -> None:
    assert parse_target(text) == target


@pytest.mark.parametrize("text", ["", "@a", "me@", ":22", "a:", "a:0", "a:65536", "a:x", "a:+1", "[::1]:", "[::1]:x"])
def test_what_is_no_target_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"host|port|user"):
        parse_target(text)


@pytest.mark.parametrize("host", ["gpu1", "a_b.c-d", "10.0.0.7", "fe80::1", "fe80::1%eth0", "bücher"])
def test_names_and_addresses_are_hosts(host: str) -> None:
    check_host(host)


@pytest.mark.parametrize(
    "host", ["", "-oProxyCommand=x", "a b", "a\n", "a/b", "a;b", "$(a)", "`a`", "a'b", "a:22", "1:2:3", "me@a", "a*"]
)
def test_options_shell_text_and_nonsense_are_not(host: str) -> None:
    with pytest.raises(ValueError, match="is not a host"):
        check_host(host)
