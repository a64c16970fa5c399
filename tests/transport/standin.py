"""A node part of a few lines, sent and booted as the real one is, for tests of the conversation alone."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import ncclrun.node

SERVE = """
import os, sys, time
from .wire import Decoder, encode

def say(header, body=b""):
    data = encode(header, body)
    while data:
        data = data[os.write(1, data):]

def main(nonce):
    os.write(1, nonce.encode() + b" frames\\n")
    say({"ev": "hello", "protocol": 1, "python": "%d.%d" % sys.version_info[:2], "pid": os.getpid()})
    decoder, stored = Decoder(), b""
    while True:
        data = os.read(0, 65536)
        if not data:
            return
        for request, body in decoder.feed(data):
            do, answer = request["do"], {"ok": True}
            if do == "beat":
                say({"ev": "beat"})
                continue
            if do == "clock":
                answer["time"] = time.time() + 100.0
            elif do == "echo":
                answer["said"] = request["text"]
            elif do == "put":
                stored += body
                answer["stored"] = len(stored)
            elif do == "events":
                for number in range(request["count"]):
                    say({"ev": "log", "offset": number}, b"x" * number)
            elif do == "hush":
                time.sleep(request["seconds"])
            elif do == "exit":
                os.write(2, b"something broke\\n")
                os._exit(5)
            elif do == "authorize":
                answer["added"] = request["public_key"].startswith("ssh-")
            elif do == "nonsense":
                os.write(1, b"\\xff" * 64)
            else:
                answer = {"ok": False, "error": {"code": "unknown", "message": "what is %s?" % do, "fix": "ask less"}}
            say(dict(answer, re=request["id"]))
"""


def package() -> bytes:
    """The stand-in as it travels, with the real boot and the real frames."""
    folder = Path(ncclrun.node.__path__[0])
    sources = {name: (folder / f"{name}.py").read_text() for name in ("__init__", "boot", "wire")}
    packed = zlib.compress(json.dumps({**sources, "serve": SERVE}).encode())
    return b"%d\n" % len(packed) + packed
