"""Lets a public key log in as this user: one line more in authorized_keys."""

from __future__ import annotations

import os
import pwd
import re
from pathlib import Path

from .refusal import Refusal

KEY = re.compile(r"(?:ssh|ecdsa|sk-ssh|sk-ecdsa)-[a-z0-9@.-]+ (?P<blob>[A-Za-z0-9+/]{16,}={0,3})(?: [^\r\n\0]*)?\Z")


def authorize(public_key: str) -> bool:
    """Adds the key unless it is there (False), to the file that sshd reads: in the home of the password file."""
    line = public_key.strip()
    match = KEY.match(line)
    if not match:
        raise Refusal("bad_key", "that is no line of an OpenSSH public key", "give the .pub file")
    try:
        home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        raise Refusal("no_home", f"uid {os.getuid()} has no entry in the password file") from None
    path = home / ".ssh" / "authorized_keys"
    try:
        # sshd ignores keys that others could have written, so both are made private.
        path.parent.mkdir(mode=0o700, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "r+b") as file:
            present = file.read()
            if match["blob"].encode("ascii") in re.split(rb"\s+", present):
                return False
            gap = b"" if not present or present.endswith(b"\n") else b"\n"
            file.write(gap + line.encode("utf-8") + b"\n")
    except OSError as error:
        raise Refusal("no_home", f"{path} can't be written: {error.strerror}") from error
    return True
