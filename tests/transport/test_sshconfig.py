"""ssh_config: the same answers as `ssh -G`, and how they become a target together with the cluster file."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ncclrun.model.cluster import Ssh
from ncclrun.model.errors import HostError, UsageError
from ncclrun.transport.sshconfig import SshConfig
from ncclrun.transport.target import Resolver, parse_hop

CONFIGS = {
    "first value wins": "Host gpu1\n User a\nHost gpu*\n User b\n Port 2201\nHost *\n Port 9\n User c\n",
    "before any Host": "Port 2022\nHost gpu1\n Port 5\n",
    "negation": "Host gpu* !gpu2\n User inside\nHost !gpu1 *\n Port 99\n",
    "hostname": "Host gpu1\n HostName %h.lab.example\n HostKeyAlias gpu-one\nMatch host *.lab.example\n User lab\n",
    "match host is judged where it stands": "Match host real\n User early\nHost gpu1\n HostName real\n",
    "match final sees the end": "Match final host real\n User late\nHost gpu1\n HostName real\n",
    "match originalhost": "Match originalhost gpu1,gpu2 !originalhost gpu2\n User only1\n",
    "match user": "Match user ada\n Port 7\nHost *\n User ada\nMatch user ada\n Port 8\n",
    "match localuser": "Match localuser nobody-at-all\n Port 7\nMatch !localuser nobody-at-all\n Port 8\n",
    "match exec": 'Match exec "test %h = gpu1"\n User yes\nMatch !exec "test %n = gpu1"\n User no\n',
    "match all": "Match host nothing\n Port 3\nMatch all\n Port 4\n",
    "match canonical": "Match canonical\n Port 3\nMatch host gpu1\n Port 4\n",
    "equals signs and quotes": 'Host=gpu1\n User = "ada lovelace"\n  Port=2200\n',
    "comments": "# all\nHost gpu1 # the first\n User ada # me\n\n   \n\tPort\t2222\n",
    "keywords in any case": "hOST gpu1\n uSER ada\n pORT 11\n",
    "identities add up": "IdentityFile /a\nHost gpu1\n IdentitiesOnly yes\nHost *\n IdentityFile /b\n",
    "jump": "Host gpu*\n ProxyJump me@bastion:2222,inner\nHost bastion inner\n User x\n",
    "jump before command": "Host gpu1\n ProxyJump j\n ProxyCommand nc %h %p\n",
    "command before jump": "Host gpu1\n ProxyCommand nc -X %h %p %% %r\n ProxyJump j\n",
    "no jump": "Host gpu1\n ProxyJump none\nHost *\n ProxyJump j\n",
    "timeout": "Host gpu1\n ConnectTimeout 33\n",
    "include": "Include sub/*.conf\nHost gpu1\n User main\n Port 1\n",
    "include in a block": "Host gpu2\n Include sub/*.conf\nHost *\n User main\n",
    "include ends with its file": "Host gpu1\n Include sub/20.conf\n Port 77\nHost *\n Port 78\n",
    "include of nothing": "Include nothing/* sub/10.conf\nHost *\n Port 4\n",
}
INCLUDED = {
    "sub/10.conf": "Host gpu1\n User from10\n",
    "sub/20.conf": "User from20\nHost gpu2\n Port 20\nMatch host gpu1\n HostKeyAlias from20\n",
}
COMPARED = ("hostname", "user", "port", "proxyjump", "proxycommand", "hostkeyalias", "connecttimeout", "identitiesonly")


def ask_ssh(config: Path, host: str) -> dict[str, list[str]]:
    """What `ssh -G` says, a list of values a keyword."""
    output = subprocess.run(["ssh", "-G", "-F", config, host], capture_output=True, text=True, check=True).stdout
    said: dict[str, list[str]] = {}
    for entry in output.splitlines():
        keyword, _, value = entry.partition(" ")
        said.setdefault(keyword, []).append(value)
    return said


class TestTheAnswers:
    @pytest.mark.parametrize("host", ["gpu1", "gpu2", "bastion"])
    @pytest.mark.parametrize("name", CONFIGS)
    def test_are_those_of_ssh(self, tmp_path: Path, name: str, host: str) -> None:
        if not shutil.which("ssh"):
            pytest.skip("needs openssh-client")
        # ssh takes the home from the passwd file, so relative includes are made absolute for both
        text = CONFIGS[name].replace("Include sub", f"Include {tmp_path}/sub").replace(" sub/", f" {tmp_path}/sub/")
        for path, content in INCLUDED.items():
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_text(content)
        config = tmp_path / "config"
        config.write_text(text)
        theirs = ask_ssh(config, host)
        ours = SshConfig.read(str(config)).lookup(host)
        defaults = ask_ssh(Path("/dev/null"), host)
        first = next((k for k in ours.values if k in {"proxyjump", "proxycommand"}), "")
        for keyword in COMPARED:
            if keyword.startswith("proxy") and keyword != first:
                assert keyword not in theirs, keyword  # of the two the one that came first counts
                continue
            value = ours.hostname if keyword == "hostname" else ours.first(keyword)
            value = None if value == "none" else value
            assert theirs.get(keyword) == ([value] if value is not None else defaults.get(keyword)), keyword
        if "identityfile" in ours.values:
            assert theirs["identityfile"] == list(ours.values["identityfile"])

    def test_of_a_relative_include_stand_in_the_users_directory(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        (tmp_path / ".ssh" / "conf.d").mkdir(parents=True)
        (tmp_path / ".ssh" / "conf.d" / "lab").write_text("Host gpu1\n Port 2222\n")
        (tmp_path / ".ssh" / "config").write_text("Include conf.d/*\n")
        assert SshConfig.read("~/.ssh/config").lookup("gpu1").first("port") == "2222"

    def test_never_come_from_a_match_that_can_not_be_judged(self, tmp_path: Path) -> None:
        (tmp_path / "config").write_text("Match tagged x\n Port 1\nMatch localnetwork 0.0.0.0/0\n Port 2\n")
        assert SshConfig.read(str(tmp_path / "config")).lookup("gpu1").first("port") is None

    def test_end_when_a_file_includes_itself(self, tmp_path: Path) -> None:
        (tmp_path / "config").write_text(f"Include {tmp_path}/config\n")
        with pytest.raises(UsageError, match="deeper than 16"):
            SshConfig.read(str(tmp_path / "config"))


class TestATarget:
    def test_takes_the_cluster_file_before_ssh_config(self, tmp_path: Path) -> None:
        (tmp_path / "config").write_text(
            "Host *\n User b\n Port 2\n ProxyJump j\n ConnectTimeout 99\n IdentityFile /b\n"
        )
        given = Ssh(
            user="a", port=1, gateway="none", connect_timeout=3, identity_file="/a", config=str(tmp_path / "config")
        )
        target = Resolver().resolve(given, "gpu1")
        assert (target.user, target.port, target.gateway, target.timeout) == ("a", 1, None, 3)
        assert target.identity_files == ("/a", "/b")

    def test_has_its_hops_in_order_with_settings_of_their_own(self, tmp_path: Path) -> None:
        (tmp_path / "config").write_text("Host outer\n HostName 192.0.2.1\n User o\n IdentityFile /outer\n")
        given = Ssh(user="me", gateway="outer,you@inner:2200", identity_file="/mine", config=str(tmp_path / "config"))
        target = Resolver().resolve(given, "gpu1")
        inner = target.gateway
        assert inner is not None
        assert (inner.hostname, inner.user, inner.port, inner.identity_files) == ("inner", "you", 2200, ("/mine",))
        outer = inner.gateway
        assert outer is not None
        assert (outer.hostname, outer.user, outer.identity_files) == ("192.0.2.1", "o", ("/outer",))
        assert outer.gateway is None

    def test_lends_the_agent_to_no_hop(self, tmp_path: Path) -> None:
        (tmp_path / "config").write_text("ForwardAgent yes\n")
        given = Ssh(gateway="outer", config=str(tmp_path / "config"))
        assert not Resolver().resolve(given, "gpu1").forward_agent
        target = Resolver().resolve(given.model_copy(update={"forward_agent": True}), "gpu1")
        assert target.forward_agent
        assert target.gateway is not None
        assert not target.gateway.forward_agent

    def test_behind_hops_without_end_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "config").write_text("Host a\n ProxyJump b\nHost b\n ProxyJump a\n")
        with pytest.raises(HostError, match="more than 8 gateways"):
            Resolver().resolve(Ssh(config=str(tmp_path / "config")), "a")

    def test_without_the_file_that_was_asked_for_is_an_error(self) -> None:
        with pytest.raises(UsageError, match="/nowhere does not exist"):
            Resolver().resolve(Ssh(config="/nowhere"), "gpu1")

    def test_needs_no_file_at_the_default_place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        assert Resolver().resolve(Ssh(), "GPU1").hostname == "gpu1"

    @pytest.mark.parametrize(
        ("text", "parts"),
        [
            ("bastion", (None, "bastion", None)),
            ("me@bastion:22", ("me", "bastion", 22)),
            ("ssh://me@bastion:22", ("me", "bastion", 22)),
            ("[fe80::1]:22", (None, "fe80::1", 22)),
            ("me@fe80::1", ("me", "fe80::1", None)),
        ],
    )
    def test_reads_a_hop(self, text: str, parts: tuple[object, ...]) -> None:
        assert parse_hop(text) == parts

    @pytest.mark.parametrize("text", ["", "me@", "a:b", "host:22:", "@host"])
    def test_refuses_what_is_no_hop(self, text: str) -> None:
        with pytest.raises(UsageError):
            parse_hop(text)
