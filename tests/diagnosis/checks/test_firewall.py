"""Rules as firewalls write them: which refuse the other nodes, and which only some service or stranger."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ncclrun.diagnosis.checks.firewall import refusing

PEERS = ip_network("10.0.0.0/24")


def table(*rules: str, policy: str = "accept", more: str = "") -> str:
    """An nft ruleset whose input chain has these rules."""
    body = "\n".join(f"\t\t{rule}" for rule in rules)
    hook = f"type filter hook input priority filter; policy {policy};"
    return f"table inet filter {{\n\tchain input {{\n\t\t{hook}\n{body}\n\t}}\n{more}}}\n"


FIREWALLD = """\
table inet firewalld {
	chain filter_INPUT {
		type filter hook input priority filter + 10; policy accept;
		ct state { established, related } accept
		ct status dnat accept
		iifname "lo" accept
		ct state { invalid } drop
		jump filter_INPUT_ZONES
		reject with icmpx admin-prohibited
	}
	chain filter_INPUT_ZONES {
		HERE
		goto filter_IN_public
	}
	chain filter_IN_public {
		jump filter_IN_public_allow
		meta l4proto { icmp, ipv6-icmp } accept
	}
	chain filter_IN_public_allow {
		tcp dport 22 accept
	}
	chain filter_FORWARD {
		type filter hook forward priority filter + 10; policy accept;
		reject with icmpx admin-prohibited
	}
}
"""
UFW = """\
table ip filter {
	chain ufw-user-input {
		tcp dport 22 counter packets 3 bytes 180 accept
		HERE
	}
	chain ufw-before-input {
		iifname "lo" counter packets 9 bytes 900 accept
		ct state related,established counter packets 5 bytes 300 accept
		ct state invalid counter packets 0 bytes 0 drop
		counter packets 1 bytes 60 jump ufw-user-input
	}
	chain ufw-skip-to-policy-input {
		counter packets 0 bytes 0 drop
	}
	chain ufw-after-input {
		udp dport 137 counter packets 0 bytes 0 jump ufw-skip-to-policy-input
	}
	chain INPUT {
		type filter hook input priority filter; policy drop;
		counter packets 17 bytes 1440 jump ufw-before-input
		counter packets 1 bytes 60 jump ufw-after-input
	}
}
"""
REDHAT = """\
-P INPUT ACCEPT
-P FORWARD ACCEPT
-A INPUT -m state --state RELATED,ESTABLISHED -j ACCEPT
-A INPUT -p icmp -j ACCEPT
-A INPUT -i lo -j ACCEPT
-A INPUT -p tcp -m state --state NEW -m tcp --dport 22 -j ACCEPT
-A INPUT -j REJECT --reject-with icmp-host-prohibited
-A FORWARD -j REJECT --reject-with icmp-host-prohibited
"""


class TestWhatRefuses:
    """Told, in the firewall's own words."""

    @pytest.mark.parametrize(
        ("rules", "told"),
        [
            (FIREWALLD, ["reject with icmpx admin-prohibited"]),
            (UFW, ["policy drop"]),
            (REDHAT, ["-j REJECT --reject-with icmp-host-prohibited"]),
            (table(policy="drop"), ["policy drop"]),
            (table("counter packets 4 bytes 200 drop"), ["counter packets 4 bytes 200 drop"]),
            (table('log prefix "IN: " level info drop'), ['log prefix "IN: " level info drop']),
            (table("tcp dport != { 22, 80 } reject"), ["tcp dport != { 22, 80 } reject"]),
            (table("tcp dport 1024-65535 drop"), ["tcp dport 1024-65535 drop"]),
            (table("ip protocol tcp ct state new reject with tcp reset"), None),
            (table('iifname "eth0" drop'), ['iifname "eth0" drop']),
            (table("jump late", more="chain late {\n drop\n}\n"), ["drop"]),
            ("-P INPUT DROP\n-A INPUT -i lo -j ACCEPT\n", ["-P INPUT DROP"]),
            (
                "-P INPUT ACCEPT\n-A INPUT -j LAB\n-A LAB -p tcp -m tcp --dport 22 -j ACCEPT\n-A LAB -j DROP\n",
                ["-j DROP"],
            ),
            ("-P INPUT ACCEPT\n-A INPUT -p tcp -m tcp ! --dport 22 -j DROP\n", ["-p tcp -m tcp ! --dport 22 -j DROP"]),
            (table("drop", "ip saddr 10.0.0.0/8 accept"), ["drop"]),
        ],
    )
    def test_it_is_found(self, rules: str, told: list[str] | None) -> None:
        found = refusing(rules, "eth0", PEERS)
        assert found == (told or ["ip protocol tcp ct state new reject with tcp reset"])


class TestWhatDoesNot:
    """Some service, somebody else, another way, or the nodes are let in before."""

    @pytest.mark.parametrize(
        "rules",
        [
            "",
            table("tcp dport 25 drop", "udp dport 1024-65535 drop", "ip protocol icmp drop"),
            table("ip saddr 203.0.113.0/24 drop", "ip saddr @banned reject with icmp port-unreachable"),
            table("ct state { invalid } drop", "ct state invalid drop", "fib daddr type broadcast drop"),
            table('iifname "wan0" drop', "limit rate over 10/second drop"),
            table("ip saddr 10.0.0.0/8 accept", policy="drop"),
            table("ip saddr { 10.0.0.0/24, 192.168.1.0/24 } accept", "reject"),
            table('iifname "eth0" accept', policy="drop"),
            table("accept", "drop"),
            FIREWALLD.replace("HERE", 'iifname "eth0" goto filter_IN_trusted'),
            FIREWALLD.replace("HERE", "ip saddr 10.0.0.0/24 goto filter_IN_trusted"),
            UFW.replace("HERE", "ip saddr 10.0.0.0/24 counter packets 1 bytes 60 accept"),
            "-P INPUT DROP\n-A INPUT -s 10.0.0.0/24 -j ACCEPT\n",
            "-P INPUT DROP\n-A INPUT -i eth0 -j ACCEPT\n",
            "-P INPUT ACCEPT\n-A INPUT -s 203.0.113.7/32 -j DROP\n-A INPUT -p udp -j DROP\n",
            "-P FORWARD DROP\n-A FORWARD -j DROP\n",
        ],
    )
    def test_it_is_spared(self, rules: str) -> None:
        assert refusing(rules, "eth0", PEERS) == []

    def test_a_network_that_is_let_in_is_not_another(self) -> None:
        rules = "-P INPUT DROP\n-A INPUT -s 10.0.1.0/24 -j ACCEPT\n"
        assert refusing(rules, "eth0", PEERS) == ["-P INPUT DROP"]

    def test_chains_that_lead_to_each_other_are_walked_once(self) -> None:
        rules = "-P INPUT ACCEPT\n-A INPUT -j A\n-A A -j B\n-A B -j A\n-A B -j DROP\n"
        assert refusing(rules) == ["-j DROP"]


WORDS = """ip saddr|ip6 saddr|-s|fe80|10.0.0.1/2|{ 10.0.0.1 . 22 }|accept|drop|-j ACCEPT|-A INPUT|-A x|jump x|\n|
table inet f {|chain input {|type filter hook input priority 0; policy drop;|}|{ }"""


@given(st.lists(st.sampled_from(WORDS.split("|")), max_size=14))
@example([table("ip saddr fe80 accept")])
@example([table("ip saddr { 10.0.0.1 . 22 } accept")])
@example(["-A x"])
def test_rules_in_whatever_form_and_cut_off_anywhere_break_nothing(words: list[str]) -> None:
    refusing(" ".join(words), "eth0", PEERS)
