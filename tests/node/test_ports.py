"""The master's port: chosen, proven by the peers, named when it is taken, free for the trainer at once."""

from __future__ import annotations

import os
import socket
import threading
from typing import Any

import pytest

from ncclrun.node import ports
from tests.node.client import TOKEN, Client, Refused
from tests.node.conftest import again


def listening(address: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.bind((address, 0))
    sock.listen()
    return sock


def reach(node: Client, port: int, address: str = "127.0.0.1", **more: Any) -> float:
    usual: dict[str, Any] = {"token": TOKEN, "source": None, "timeout": 2.0, **more}
    return float(node.call("reach", address=address, port=port, **usual)["seconds"])


def test_a_free_port_is_chosen_outside_of_what_the_kernel_hands_out(node: Client) -> None:
    port = node.prepare("r", listen={"address": "127.0.0.1", "port": 0})["port"]
    assert port in ports.CHOICES
    assert not any(port in span for span in ports.reserved())


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.5", "::1"])
def test_the_peers_reach_the_master_and_know_it(node: Client, env: dict[str, str], address: str) -> None:
    port = node.prepare("r", listen={"address": address, "port": 0})["port"]
    with again(env) as peer:
        assert reach(peer, port, address) >= 0
        assert reach(peer, port, address, source=address) >= 0
        for _ in range(3):
            with pytest.raises(Refused) as refused:
                reach(peer, port, address, token="another-token")
            assert refused.value.code == "wrong_machine"


def test_a_caller_who_talks_nonsense_or_nothing_disturbs_nobody(node: Client) -> None:
    port = node.prepare("r", listen={"address": "127.0.0.1", "port": 0})["port"]
    with socket.create_connection(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)) as rude:
        rude.sendall(b"x" * 10_000)
        assert reach(node, port) >= 0


def test_the_start_frees_the_port_at_once(node: Client) -> None:
    port = node.prepare("r", listen={"address": "127.0.0.1", "port": 0})["port"]
    reach(node, port)
    with socket.create_connection(("127.0.0.1", port)):
        node.start("r", ["true"])
        with socket.socket() as trainer:
            trainer.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trainer.bind(("", port))
            trainer.listen()


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.9", "::1"])
def test_a_taken_port_is_refused_with_its_holder_on_whatever_address(node: Client, address: str) -> None:
    with listening(address) as holder:
        port = holder.getsockname()[1]
        with pytest.raises(Refused) as refused:
            node.prepare("r", listen={"address": "127.0.0.1", "port": port})
    assert refused.value.code == "port_in_use"
    assert f"port {port}" in refused.value.message
    assert f"process {os.getpid()}: " in refused.value.message
    assert refused.value.fix


def test_nobody_there_wrong_source_and_silence_are_told_apart(node: Client) -> None:
    with listening("127.0.0.1") as silent:
        port = silent.getsockname()[1]
        with pytest.raises(Refused) as refused:
            reach(node, port, timeout=0.3)
        assert refused.value.code == "timeout"
    with pytest.raises(Refused) as refused:
        reach(node, port)
    assert refused.value.code == "refused"
    with pytest.raises(Refused) as refused:
        reach(node, port, source="192.0.2.77")
    assert refused.value.code == "bad_address"


def test_somebody_else_who_answers_is_not_the_master(node: Client) -> None:
    with listening("127.0.0.1") as other:

        def answer() -> None:
            caller, _ = other.accept()
            with caller:
                caller.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
                caller.recv(100)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(Refused) as refused:
            reach(node, other.getsockname()[1])
        thread.join()
    assert refused.value.code == "wrong_machine"
