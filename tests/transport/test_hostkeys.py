"""known_hosts: every form of a line, what it lets in, and how new ones are written."""

from __future__ import annotations

import base64
import shutil
import struct
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ncclrun.transport.hostkeys import HostKey, KnownHosts, KnownName


def key(seed: str, kind: str = "ssh-ed25519") -> HostKey:
    """A key that is no point on any curve, but a blob as SSH sends it."""
    parts = (kind.encode(), seed.encode().ljust(32, b"."))
    return HostKey(kind, b"".join(struct.pack(">I", len(p)) + p for p in parts))


def line(names: str, of: HostKey, marker: str = "") -> str:
    return f"{marker} {names} {of.kind} {base64.b64encode(of.blob).decode()} a comment\n".lstrip()


def known(path: Path, *lines: str) -> KnownHosts:
    path.write_text("".join(lines))
    return KnownHosts([str(path)])


A, B = key("a"), key("b")
RSA = key("r", "ssh-rsa")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "known_hosts"


class TestAHost:
    @pytest.mark.parametrize(
        ("names", "name", "status"),
        [
            ("gpu1", KnownName.of("gpu1", 22), "known"),
            ("gpu1,10.0.0.1", KnownName.of("10.0.0.1", 22), "known"),
            ("GPU1", KnownName.of("gpu1", 22), "known"),
            ("[gpu1]:2222", KnownName.of("gpu1", 2222), "known"),
            ("[gpu1]:2222", KnownName.of("gpu1", 22), "unknown"),
            ("[gpu1]:2222", KnownName.of("gpu1", 2223), "unknown"),
            ("gpu1", KnownName.of("gpu1", 2222), "known"),
            ("gpu*", KnownName.of("gpu17", 22), "known"),
            ("gpu?", KnownName.of("gpu17", 22), "unknown"),
            ("gpu*,!gpu17", KnownName.of("gpu17", 22), "unknown"),
            ("gpu*,!gpu17", KnownName.of("gpu18", 22), "known"),
            ("[*.lab]:22??", KnownName.of("x.lab", 2201), "known"),
            ("gpu[12]", KnownName.of("gpu1", 22), "unknown"),
            ("fe80::1", KnownName.of("fe80::1", 22), "known"),
            ("[fe80::1]:23", KnownName.of("fe80::1", 23), "known"),
            ("box", KnownName.of("gpu1", 2222, "box"), "known"),
            ("gpu1", KnownName.of("gpu1", 22, "box"), "unknown"),
        ],
    )
    def test_is_known_by_its_names(self, file: Path, names: str, name: KnownName, status: str) -> None:
        assert known(file, line(names, A)).judge(name, A).status == status

    def test_is_known_by_a_hashed_name(self, file: Path) -> None:
        if not shutil.which("ssh-keygen"):
            pytest.skip("needs ssh-keygen")
        file.write_text(line("gpu1", A) + line("[gpu2]:2222", B))
        subprocess.run(["ssh-keygen", "-H", "-f", file], check=True, capture_output=True)
        assert "gpu" not in file.read_text()
        hosts = KnownHosts([str(file)])
        assert hosts.judge(KnownName.of("gpu1", 22), A).status == "known"
        assert hosts.judge(KnownName.of("gpu2", 2222), B).status == "known"
        assert hosts.judge(KnownName.of("gpu2", 2222), A).status == "changed"
        assert hosts.judge(KnownName.of("gpu3", 22), A).status == "unknown"

    def test_may_have_several_keys(self, file: Path) -> None:
        hosts = known(file, line("gpu1", A), line("gpu1", RSA), line("*", B))
        assert all(hosts.judge(KnownName.of("gpu1", 22), k).status == "known" for k in (A, B, RSA))
        assert hosts.algorithms(KnownName.of("gpu1", 22)) == ["ssh-ed25519", "rsa-sha2-512", "rsa-sha2-256"]

    def test_that_shows_another_key_has_changed(self, file: Path) -> None:
        verdict = known(file, "# mine\n", line("gpu1", RSA), line("gpu1", A)).judge(KnownName.of("gpu1", 22), B)
        assert verdict.status == "changed"
        assert verdict.entry is not None
        assert verdict.entry.place == f"{file}:3"

    def test_that_shows_another_kind_has_changed(self, file: Path) -> None:
        assert known(file, line("gpu1", A)).judge(KnownName.of("gpu1", 22), RSA).status == "changed"

    def test_at_another_port_has_not_changed(self, file: Path) -> None:
        assert known(file, line("gpu1", A)).judge(KnownName.of("gpu1", 2222), B).status == "unknown"


class TestALine:
    def test_of_a_revoked_key_wins_over_all_others(self, file: Path) -> None:
        hosts = known(file, line("gpu1", A), line("*", A, "@revoked"))
        assert hosts.judge(KnownName.of("gpu1", 22), A).status == "revoked"
        assert hosts.judge(KnownName.of("gpu1", 2222), A).status == "revoked"

    def test_of_a_revoked_key_alone_makes_nobody_known(self, file: Path) -> None:
        assert known(file, line("*", A, "@revoked")).judge(KnownName.of("gpu1", 22), B).status == "unknown"

    def test_of_an_authority_lets_nobody_in(self, file: Path) -> None:
        hosts = known(file, line("*", A, "@cert-authority"))
        assert hosts.judge(KnownName.of("gpu1", 22), A).status == "unknown"
        assert hosts.ignored == 1

    @pytest.mark.parametrize(
        "garbage",
        [
            "gpu1",
            "gpu1 ssh-ed25519",
            "gpu1 ssh-ed25519 !!!!",
            "gpu1 ssh-rsa AAAA",
            "|1|x gpu1 y",
            "@what gpu1 a b",
            "\udcff",
        ],
    )
    def test_that_is_garbage_is_counted_and_harms_no_other(self, file: Path, garbage: str) -> None:
        file.write_text(garbage + "\n\n  \n" + line("gpu1", A), errors="surrogateescape")
        hosts = KnownHosts([str(file)])
        assert hosts.ignored == 1
        assert hosts.judge(KnownName.of("gpu1", 22), A).status == "known"

    def test_with_a_hash_that_is_broken_is_garbage(self, file: Path) -> None:
        assert known(file, line("|1|AAAA", A), line("|2|AAAA|AAAA", A), line("|1|!|!", A)).ignored == 3


class TestANewKey:
    def test_is_known_at_once_and_in_the_file(self, file: Path) -> None:
        hosts = known(file, line("other", B).rstrip("\n"))
        name = KnownName.of("gpu1", 2222)
        hosts.remember(name, A)
        assert hosts.judge(name, A).status == "known"
        assert hosts.judge(name, B).entry is not None
        again = KnownHosts([str(file)])
        assert again.judge(name, A).status == "known"
        assert again.judge(KnownName.of("other", 22), B).status == "known"

    def test_is_written_once_by_many_threads(self, tmp_path: Path) -> None:
        file = tmp_path / "new" / "known_hosts"
        hosts = KnownHosts([str(file)])
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda i: hosts.remember(KnownName.of(f"gpu{i % 20}", 22), key(f"{i % 20}")), range(200)))
        lines = file.read_text().splitlines()
        assert len(lines) == 20
        assert KnownHosts([str(file)]).ignored == 0

    def test_goes_to_the_first_file_alone(self, tmp_path: Path) -> None:
        user, system = tmp_path / "user", tmp_path / "system"
        system.write_text(line("gpu1", A))
        hosts = KnownHosts([str(user), str(system)])
        assert hosts.judge(KnownName.of("gpu1", 22), A).status == "known"
        hosts.remember(KnownName.of("gpu2", 22), B)
        assert user.read_text().startswith("gpu2 ")
        assert system.read_text() == line("gpu1", A)
