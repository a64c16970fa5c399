"""A program that lets a real libnccl read conf files: `ncclreader.py LIBRARY DIRECTORY`, in an empty environment.

NCCL reads its settings once a process, so each question is answered by a fork; the library is loaded once. A question
is a line of JSON, {file: base64}, of the files that NCCL shall find: `named` ($NCCL_CONF_FILE), `home` ($HOME),
`passwd` (the home of the passwd entry), `system` (/etc/nccl.conf). The answer is what the environment then holds.
"""

import base64
import ctypes
import json
import os
import pwd
import signal
import sys
from pathlib import Path

NEW_NAMESPACE, NEW_USER = 0x20000, 0x10000000
BIND, PRIVATE_AND_BELOW = 0x1000, 0x44000
LIBC = ctypes.CDLL(None, use_errno=True)


def must(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def own_etc(place: Path) -> None:
    """Gives this process an /etc of its own, with one user."""
    user, group = os.getuid(), os.getgid()
    etc = place / "etc"
    for directory in (etc, place / "home", place / "passwd"):
        directory.mkdir()
    (etc / "passwd").write_text(f"somebody:x:{user}:{group}::{place}/passwd:/bin/sh\n")
    (etc / "nsswitch.conf").write_text("passwd: files\nhosts: files\n")
    must(LIBC.unshare(NEW_NAMESPACE if user == 0 else NEW_NAMESPACE | NEW_USER), "unshare")
    if user != 0:
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    must(LIBC.mount(b"none", b"/", None, PRIVATE_AND_BELOW, None), "mount")
    must(LIBC.mount(os.fsencode(etc), b"/etc", None, BIND, None), "mount")
    assert pwd.getpwuid(user).pw_dir == f"{place}/passwd"


def answer(library: ctypes.CDLL, place: Path, question: dict[str, str], pipe: int) -> None:
    """In the fork."""
    signal.alarm(30)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.environ["HOME"] = str(place / "home")
    files = {"named": "named", "home": "home/.nccl.conf", "passwd": "passwd/.nccl.conf", "system": "etc/nccl.conf"}
    for kind, name in files.items():
        (place / name).unlink(missing_ok=True)
        if kind in question:
            (place / name).write_bytes(base64.b64decode(question[kind]))
    if "named" in question:
        os.environ["NCCL_CONF_FILE"] = str(place / "named")
    library.ncclGetUniqueId(ctypes.create_string_buffer(128))
    entries = ctypes.POINTER(ctypes.c_char_p).in_dll(LIBC, "environ")
    found: list[str] = []
    while (entry := entries[len(found)]) is not None:
        found.append(base64.b64encode(entry).decode("ascii"))
    with os.fdopen(pipe, "w") as file:
        json.dump(found, file)


def main() -> None:
    library, place = ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW), Path(sys.argv[2])
    own_etc(place)
    print("ready", flush=True)  # noqa: T201  # a program of its own
    for line in sys.stdin:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            answer(library, place, json.loads(line), writer)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as file:
            said = file.read()
        _, status = os.waitpid(child, 0)
        print(said if status == 0 else json.dumps({"status": status}), flush=True)  # noqa: T201  # as above


if __name__ == "__main__":
    main()
