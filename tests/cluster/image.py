"""What a test host has on its disk that this machine has not: names, users, keys and sshd's configuration."""

from __future__ import annotations

import os
import secrets
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.cluster.registry import ClusterError

TRAINER = "trainer"
TRAINER_ID = 2000
PASSWORD = "correct horse"
"""Of root and the trainer, for hosts whose sshd allows passwords."""
PASSWORD_HASH = "$6$ncclrun$3saOkX8DHvgiblDeGN/gtoUqbMRmkD8iyfFqhbisljaRsk2xdmP7x1sA0COONzwT1bFl0/3uWZQjLoLUCUMPO."
HOST_KEY = "etc/ssh/ssh_host_ed25519_key"

Sshd = Mapping[str, str | Sequence[str]]
"""Keywords of sshd_config; several values stand on a line each."""

DEFAULTS: Sshd = {
    "Port": "22",
    "HostKey": f"/{HOST_KEY}",
    "PermitRootLogin": "yes",
    "PasswordAuthentication": "no",
    "KbdInteractiveAuthentication": "no",
    "UsePAM": "no",
    "UseDNS": "no",
    "PrintLastLog": "no",
    "PrintMotd": "no",
    "PidFile": "none",
    "Subsystem": "sftp internal-sftp",
}


def sshd_config(own: Sshd) -> str:
    """The configuration file: the caller's keywords in place of the defaults, Match blocks last."""
    merged = {key: value for key, value in DEFAULTS.items() if key.lower() not in {name.lower() for name in own}}
    lines = []
    for key, value in sorted({**merged, **own}.items(), key=lambda item: item[0].lower() == "match"):
        lines += [f"{key} {one}" for one in ([value] if isinstance(value, str) else value)]
    return "\n".join(lines) + "\n"


def make_key(path: Path, comment: str) -> None:
    """Makes an ed25519 key pair without a passphrase in place of one that is there."""
    path.unlink(missing_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path], check=True)


def make_disk(disk: Path, name: str, public_key: str, sshd: Sshd) -> None:
    """Fills the upper side of the host's overlay."""
    # Root's home starts empty: neither this machine's .bashrc nor its runs are the host's.
    _hide(disk / "root")
    _open_the_way(disk)
    etc = disk / "etc"
    (etc / "ssh").mkdir(parents=True, exist_ok=True)
    (etc / "hostname").write_text(f"{name}\n")
    # As Debian's installer does it: the trap for everyone who resolves their own host name.
    (etc / "hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {name}\n::1 localhost ip6-localhost ip6-loopback\n")
    (etc / "machine-id").write_text(f"{secrets.token_hex(16)}\n")
    (etc / "resolv.conf").write_text("# no name server: look-ups fail at once\n")
    (etc / "ssh/sshd_config").write_text(sshd_config(sshd))
    make_key(disk / HOST_KEY, name)
    _users(etc)
    _home(disk / "root", 0, public_key)
    _home(disk / "home" / TRAINER, TRAINER_ID, public_key)


def shown_directories() -> list[str]:
    """Directories that a host needs and that its overlay over / leaves out: other mounts, and parts of root's home."""
    root = Path("/").stat().st_dev
    needed = (Path(sys.base_prefix), Path(sys.prefix), Path(__file__).parents[2])
    return sorted({str(path) for path in needed if path.stat().st_dev != root or path.is_relative_to("/root")})


def _users(etc: Path) -> None:
    for name in ("passwd", "group", "shadow"):
        (etc / name).touch(mode=0o600 if name == "shadow" else 0o644)
    passwd = Path("/etc/passwd").read_text()
    if f"\n{TRAINER}:" in passwd or f":{TRAINER_ID}:" in passwd:
        raise ClusterError(f"this machine has a user {TRAINER!r} or user id {TRAINER_ID} of its own")
    (etc / "passwd").write_text(f"{passwd}{TRAINER}:x:{TRAINER_ID}:{TRAINER_ID}::/home/{TRAINER}:/bin/sh\n")
    (etc / "group").write_text(f"{Path('/etc/group').read_text()}{TRAINER}:x:{TRAINER_ID}:\n")
    others = [line for line in Path("/etc/shadow").read_text().splitlines() if not line.startswith("root:")]
    own = [f"{name}:{PASSWORD_HASH}:20000:0:99999:7:::" for name in ("root", TRAINER)]
    (etc / "shadow").write_text("\n".join([*own, *others]) + "\n")


def _home(home: Path, uid: int, public_key: str) -> None:
    (home / ".ssh").mkdir(mode=0o700, parents=True, exist_ok=True)
    keys = home / ".ssh/authorized_keys"
    keys.touch(mode=0o600)
    keys.write_text(public_key)
    if uid:
        for path in (home, home / ".ssh", keys):
            os.chown(path, uid, uid)


def _open_the_way(disk: Path) -> None:
    """Lets the trainer pass through closed directories to the Python that runs the tests."""
    for target in (sys.base_prefix, sys.prefix):
        for parent in reversed(Path(target).parents[:-1]):
            mode = stat.S_IMODE(parent.stat().st_mode)
            if not mode & stat.S_IXOTH:
                (disk / parent.relative_to("/")).mkdir(parents=True, exist_ok=True)
                (disk / parent.relative_to("/")).chmod(mode | 0o011)


def _hide(path: Path) -> None:
    """An empty directory that covers this machine's one."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.setxattr(path, "trusted.overlay.opaque", b"y")
