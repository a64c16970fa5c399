"""known_hosts: read once for all connections, asked for every host and hop, written only where the user wants it."""

from __future__ import annotations

import base64
import binascii
import fcntl
import hashlib
import hmac
import os
import shlex
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ncclrun.model.errors import HostError, UsageError
from ncclrun.transport.sshconfig import pattern_list

SYSTEM_FILE = "/etc/ssh/ssh_known_hosts"

Status = Literal["known", "unknown", "changed", "revoked"]

_ALGORITHMS = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}


@dataclass(frozen=True)
class HostKey:
    """A public host key: its type (``ssh-ed25519``) and the key itself as SSH sends it."""

    kind: str
    blob: bytes

    @property
    def fingerprint(self) -> str:
        """``SHA256:…``, as ssh-keygen -l prints it."""
        digest = base64.b64encode(hashlib.sha256(self.blob).digest()).decode("ascii")
        return "SHA256:" + digest.rstrip("=")


@dataclass(frozen=True)
class Entry:
    """A line of a known_hosts file."""

    key: HostKey
    file: Path
    line: int
    marker: str = ""

    @property
    def place(self) -> str:
        """``file:line``."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class KnownName:
    """The name of a host in known_hosts, ``[host]:port``, and the bare host as a second chance like OpenSSH's."""

    name: str
    bare: str | None = None

    @classmethod
    def of(cls, hostname: str, port: int, alias: str | None = None) -> KnownName:
        """The names for an address; a HostKeyAlias stands for itself, without a port."""
        if alias is not None:
            return cls(alias)
        return cls(hostname) if port == 22 else cls(f"[{hostname}]:{port}", hostname)


@dataclass(frozen=True)
class Verdict:
    """What the files say of a key that a host showed; ``entry`` is the line that speaks for or against it."""

    status: Status
    entry: Entry | None = None


class KnownHosts:
    """The entries of known_hosts files; the first file is the user's and the one that is written. Thread-safe."""

    def __init__(self, files: Sequence[str]) -> None:
        """Reads all files (a missing one is empty); raises UsageError where one can't be read."""
        self.files = tuple(Path(f).expanduser() for f in files)
        self.ignored = 0
        """Lines that are no entries: broken ones, and @cert-authority (host certificates are not supported)."""
        self._plain: dict[str, list[Entry]] = {}
        self._patterns: list[tuple[list[str], Entry]] = []
        self._hashed: list[tuple[bytes, bytes, Entry]] = []
        self._lock = threading.Lock()
        for file in self.files:
            self._read(file)

    def judge(self, name: KnownName, key: HostKey) -> Verdict:
        """Whether ``key`` is the one that is known under ``name``.

        A host of which another key is known and not this one has *changed*, whatever the kinds: else a stranger could
        show a kind of key that was never seen there and pass for new.
        """
        with self._lock:
            entries = self._matching(name.name)
            bare = self._matching(name.bare) if name.bare else []
        for entry in (*entries, *bare):
            if entry.marker == "@revoked" and entry.key.blob == key.blob:
                return Verdict("revoked", entry)
        entries = [e for e in entries if not e.marker]
        for entry in (*entries, *(e for e in bare if not e.marker)):
            if entry.key.blob == key.blob:
                return Verdict("known", entry)
        if not entries:
            return Verdict("unknown")
        same_kind = [e for e in entries if e.key.kind == key.kind]
        return Verdict("changed", (same_kind or entries)[0])

    def algorithms(self, name: KnownName) -> list[str]:
        """Signature algorithms of the keys that are known under ``name``, to be asked for before all others."""
        with self._lock:
            entries = self._matching(name.name) or (self._matching(name.bare) if name.bare else [])
        kinds = dict.fromkeys(e.key.kind for e in entries if not e.marker)
        return [algorithm for kind in kinds for algorithm in _ALGORITHMS.get(kind, (kind,))]

    def remember(self, name: KnownName, key: HostKey) -> None:
        """Appends a line to the user's file (0600, in a directory of 0700), unless another thread just did."""
        with self._lock:
            if any(e.key.blob == key.blob for e in self._matching(name.name) if not e.marker):
                return
            file = self.files[0]
            text = f"{name.name} {key.kind} {base64.b64encode(key.blob).decode('ascii')}\n"
            try:
                file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                line = _append(file, text)
            except OSError as error:
                raise UsageError(f"{file} can't be written: {error.strerror}") from error
            self._plain.setdefault(name.name, []).append(Entry(key, file, line))

    def _matching(self, name: str) -> list[Entry]:
        found = list(self._plain.get(name, ()))
        found += [entry for patterns, entry in self._patterns if pattern_list(patterns, name)]
        raw = name.encode("utf-8", "surrogateescape")
        found += [entry for salt, digest, entry in self._hashed if hmac.digest(salt, raw, "sha1") == digest]
        return found

    def _read(self, file: Path) -> None:
        try:
            lines = file.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        except FileNotFoundError:
            return
        except OSError as error:
            raise UsageError(f"{file} can't be read: {error.strerror}") from error
        for number, line in enumerate(lines, 1):
            text = line.strip()
            if text and not text.startswith("#") and not self._add(text.split(), file, number):
                self.ignored += 1

    def _add(self, fields: list[str], file: Path, number: int) -> bool:
        """Takes a line in; False where it is no entry that can be used."""
        marker = fields.pop(0).lower() if fields[0].startswith("@") else ""
        if marker not in {"", "@revoked"} or len(fields) < 3:
            return False
        names, kind, encoded = fields[:3]
        try:
            blob = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            return False
        if not blob[4:].startswith(kind.encode("ascii", "replace")):
            return False
        entry = Entry(HostKey(kind, blob), file, number, marker)
        if names.startswith("|"):
            return self._add_hashed(names, entry)
        patterns = [n.lower() for n in names.split(",") if n]
        if any(c in names for c in "*?!"):
            self._patterns.append((patterns, entry))
        else:
            for name in patterns:
                self._plain.setdefault(name, []).append(entry)
        return True

    def _add_hashed(self, names: str, entry: Entry) -> bool:
        parts = names.split("|")
        if len(parts) != 4 or parts[1] != "1":
            return False
        try:
            salt, digest = (base64.b64decode(p, validate=True) for p in parts[2:])
        except (binascii.Error, ValueError):
            return False
        self._hashed.append((salt, digest, entry))
        return True


def _append(file: Path, text: str) -> int:
    """Adds one line in one write, under a lock that other ncclrun processes respect; returns its line number."""
    descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "r+b", buffering=0) as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        before = handle.read() or b""
        separator = "" if not before or before.endswith(b"\n") else "\n"
        handle.write((separator + text).encode("utf-8", "surrogateescape"))
        return before.count(b"\n") + len(separator) + 1


def refusal(label: str, name: KnownName, key: HostKey, verdict: Verdict, cluster: str) -> HostError:
    """The error for a host key that is not let in, with the fingerprints and the command that mends it."""
    shown = f"{key.kind} {key.fingerprint}"
    entry = verdict.entry
    if verdict.status == "revoked" and entry is not None:
        return HostError(
            "revoked_key",
            f"{label}: the host key {shown} is marked as revoked at {entry.place}",
            fix="ask whoever runs the host for a new host key; nothing was sent to it",
        )
    if verdict.status == "changed" and entry is not None:
        return HostError(
            "changed_key",
            f"{label}: the host key of {name.name} has changed: it shows {shown}, but {entry.place} has "
            f"{entry.key.kind} {entry.key.fingerprint}. Somebody may be listening in, or the host was set up anew",
            fix=f"if the change is right: ssh-keygen -R {shlex.quote(name.name)} -f {shlex.quote(str(entry.file))} "
            f"&& ncclrun trust {cluster}",
        )
    return HostError(
        "unknown_key",
        f"{label}: the host key of {name.name} is not known: {shown}",
        fix=f"ncclrun trust {cluster}",
    )
