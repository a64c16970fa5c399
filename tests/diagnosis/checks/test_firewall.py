"""Rules as firewalls write them: which refuse the other nodes, and which only some service or stranger."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_network

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ncclrun.diagnosis.checks.ruleset import refusing
from ncclrun.model.health import Firewall
from tests.diagnosis.checks.hosts import found, with_exam

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
	chain filter_IN_trusted {
		jump filter_IN_trusted_allow
		accept
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


UFW_OLD = """\
-P INPUT DROP
-P FORWARD DROP
-A INPUT -j ufw-before-input
-A INPUT -j ufw-after-input
-A ufw-before-input -i lo -j ACCEPT
-A ufw-before-input -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A ufw-before-input -m conntrack --ctstate INVALID -j DROP
-A ufw-before-input -j ufw-not-local
-A ufw-before-input -j ufw-user-input
-A ufw-not-local -m addrtype --dst-type LOCAL -j RETURN
-A ufw-not-local -m limit --limit 3/min --limit-burst 10 -j ufw-logging-deny
-A ufw-not-local -j DROP
-A ufw-user-input -p tcp -m tcp --dport 22 -j ACCEPT
-A ufw-user-input -s 10.0.0.0/24 -j ACCEPT
"""
DOCKER = """\
table ip filter {
	chain DOCKER {
		ip daddr 172.17.0.2 iifname != "docker0" oifname "docker0" tcp dport 8080 counter packets 0 bytes 0 accept
		iifname != "docker0" oifname "docker0" counter packets 0 bytes 0 drop
	}
	chain DOCKER-USER {
		counter packets 0 bytes 0 return
	}
	chain FORWARD {
		type filter hook forward priority filter; policy drop;
		counter packets 0 bytes 0 jump DOCKER-USER
		counter packets 0 bytes 0 jump DOCKER
	}
}
table ip raw {
	chain PREROUTING {
		type filter hook prerouting priority raw; policy accept;
		ip daddr 172.17.0.2 iifname != "docker0" counter packets 0 bytes 0 drop
	}
}
"""
KUBE_PROXY = """\
-P INPUT ACCEPT
-A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-EXTERNAL-SERVICES
-A INPUT -j KUBE-FIREWALL
-A KUBE-EXTERNAL-SERVICES -d 10.96.0.10/32 -p tcp -m tcp --dport 53 -j REJECT --reject-with icmp-port-unreachable
-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "block incoming localnet" -j DROP
-A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP
"""
LIBVIRT = """\
table ip libvirt_network {
	chain guest_input {
		iifname "virbr0" tcp dport { 53, 67 } counter packets 0 bytes 0 accept
	}
	chain guest_cross {
		oifname "virbr0" counter packets 0 bytes 0 reject
	}
	chain forward {
		type filter hook forward priority filter; policy accept;
		counter packets 0 bytes 0 jump guest_cross
	}
	chain input {
		type filter hook input priority filter; policy accept;
		counter packets 0 bytes 0 jump guest_input
	}
}
"""
FAIL2BAN = """\
table inet f2b-table {
	set addr-set-sshd {
		type ipv4_addr
		elements = { 203.0.113.9 }
	}
	chain f2b-chain {
		type filter hook input priority filter - 1; policy accept;
		tcp dport 22 ip saddr @addr-set-sshd reject with icmp port-unreachable
		meta l4proto tcp ip saddr @addr-set-all drop
	}
}
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
            (table("meta l4proto tcp reject"), ["meta l4proto tcp reject"]),
            (table("tcp dport { 22, 1024-65535 } drop"), ["tcp dport { 22, 1024-65535 } drop"]),
            (table("tcp dport 30000-32767 accept", policy="drop"), ["policy drop"]),
            (table("ct state established,related accept", "drop"), ["drop"]),
            (table("ct state new,untracked drop"), ["ct state new,untracked drop"]),
            (table('iifname { "eth0", "eth1" } drop'), ['iifname { "eth0", "eth1" } drop']),
            (table("ip saddr 10.0.0.0/8 drop"), ["ip saddr 10.0.0.0/8 drop"]),
            (table("ip saddr != 192.168.0.0/16 drop"), ["ip saddr != 192.168.0.0/16 drop"]),
            (table('iifname "eth0" jump late', more="chain late {\n drop\n}\n"), ["drop"]),
            (table("accept") + table("drop").replace("filter {", "mine {", 1), ["drop"]),
            (
                "-P INPUT ACCEPT\n-A INPUT -p tcp -m multiport --dports 80,1024:65535 -j DROP\n",
                ["-p tcp -m multiport --dports 80,1024:65535 -j DROP"],
            ),
        ],
    )
    def test_it_is_found(self, rules: str, told: list[str] | None) -> None:
        found = refusing(rules, "eth0", PEERS)
        assert [one.rule for one in found] == (told or ["ip protocol tcp ct state new reject with tcp reset"])


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
            table("tcp dport 6000-6063 drop", "tcp dport { 5900, 50051 } reject"),
            table("ct state new tcp dport 1024-65535 accept", policy="drop"),
            table('iifname { "wan0", "wan1" } drop', 'iifname != "eth0" drop'),
            table("ip saddr != 10.0.0.0/8 drop"),
            table("jump own", "drop", more="chain own {\n ip saddr 10.0.0.0/16 accept\n}\n"),
            table("jump own", more="chain own {\n fib daddr type local return\n drop\n}\n"),
            table("drop").replace("hook input", "hook forward"),
            table("drop").replace("hook input", "hook output"),
            table("drop").replace("table inet", "table ip6"),
            table("drop").replace("table inet", "table bridge"),
            UFW_OLD,
            DOCKER,
            KUBE_PROXY,
            LIBVIRT,
            FAIL2BAN,
        ],
    )
    def test_it_is_spared(self, rules: str) -> None:
        assert refusing(rules, "eth0", PEERS) == []

    def test_a_network_that_is_let_in_is_not_another(self) -> None:
        rules = "-P INPUT DROP\n-A INPUT -s 10.0.1.0/24 -j ACCEPT\n"
        assert [one.rule for one in refusing(rules, "eth0", PEERS)] == ["-P INPUT DROP"]

    def test_with_ufw_the_nodes_may_be_let_in_for_one_kind_of_address(self) -> None:
        both = UFW.replace("HERE", "ip saddr 10.0.0.0/24 accept") + UFW.replace("table ip ", "table ip6 ")
        assert refusing(both, "eth0", PEERS) == []
        assert [one.place for one in refusing(both, "eth0", ip_network("fd00::/64"))] == ["ip6 filter INPUT"]

    def test_chains_that_lead_to_each_other_are_walked_once(self) -> None:
        rules = "-P INPUT ACCEPT\n-A INPUT -j A\n-A A -j B\n-A B -j A\n-A B -j DROP\n"
        assert [one.rule for one in refusing(rules)] == ["-j DROP"]


class TestTheCommandThatOpens:
    """It is for the chain that refuses, by the program that keeps it."""

    @pytest.mark.parametrize(
        ("rules", "services", "command"),
        [
            (
                table(policy="drop").replace("table inet filter", "table ip mine").replace("chain input", "chain door"),
                (),
                "sudo nft insert rule ip mine door ip saddr 10.0.0.0/24 accept",
            ),
            (REDHAT, (), "sudo iptables -I INPUT -s 10.0.0.0/24 -j ACCEPT"),
            (UFW, ("ufw",), "sudo ufw allow from 10.0.0.0/24"),
            (
                FIREWALLD,
                ("firewalld",),
                "sudo firewall-cmd --permanent --zone=trusted --add-source=10.0.0.0/24 && sudo firewall-cmd --reload",
            ),
            (
                table(policy="drop"),
                ("firewalld",),
                "sudo nft insert rule inet filter input ip saddr 10.0.0.0/24 accept",
            ),
        ],
    )
    def test_it_is_told(self, rules: str, services: tuple[str, ...], command: str) -> None:
        (problem,) = found(with_exam(firewall=Firewall(services, "nft", rules)))
        assert problem.code == "firewall"
        assert problem.fix == f"on gpu1:  {command}"

    def test_where_the_nodes_meet_is_not_known_the_rules_are_shown(self) -> None:
        lone = replace(with_exam(firewall=Firewall((), "nft", table(policy="drop"))), interface=None)
        assert found(lone)[0].fix == "on gpu1:  sudo nft list chain inet filter input"


WORDS = """ip saddr|ip6 saddr|-s|fe80|10.0.0.1/2|{ 10.0.0.1 . 22 }|accept|drop|-j ACCEPT|-A INPUT|-A x|jump x|\n|
table inet f {|chain input {|type filter hook input priority 0; policy drop;|}|{ }"""


@given(st.lists(st.sampled_from(WORDS.split("|")), max_size=14))
@example([table("ip saddr fe80 accept")])
@example([table("ip saddr { 10.0.0.1 . 22 } accept")])
@example(["-A x"])
def test_rules_in_whatever_form_and_cut_off_anywhere_break_nothing(words: list[str]) -> None:
    refusing(" ".join(words), "eth0", PEERS)
