"""The master's port: chosen, proven by the peers, named when it is taken, free for the trainer at once."""

from __future__ import annotations

import os
import socket
from typing import Any

import pytest

from ncclrun.node import ports
from tests.node.client import TOKEN, Client, Refused
from tests.node.conftest import again
from tests.node.netclient import probe, target


def listening(address: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.bind((address, 0))
    sock.listen()
    return sock


def tried(node: Client, port: int, address: str = "127.0.0.1", *, token: str = TOKEN) -> Any:
    """The link of one node to the master's port."""
    [link] = probe(node, target(address, port), node_rank=1, limit=2.0, token=token)
    return link


def test_a_free_port_is_chosen_outside_of_what_the_kernel_hands_out(node: Client) -> None:
    port = node.prepare("r", listen={"address": "127.0.0.1", "port": 0})["port"]
    assert port in ports.CHOICES
    assert not any(port in span for span in ports.reserved())


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.5", "::1"])
def test_the_peers_reach_the_master_and_know_it(node: Client, env: dict[str, str], address: str) -> None:
    port = node.prepare("r", listen={"address": address, "port": 0})["port"]
    with again(env) as peer:
        links = probe(peer, target(address, port, None, address), node_rank=1, token=TOKEN)
        assert [(link["outcome"], link["by"]) for link in links] == [("reached", 0)] * 2
        for _ in range(3):
            assert tried(peer, port, address, token="another-token")["outcome"] == "stranger"


def test_a_caller_who_talks_nonsense_or_nothing_disturbs_nobody(node: Client) -> None:
    port = node.prepare("r", listen={"address": "127.0.0.1", "port": 0})["port"]
    with socket.create_connection(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)) as rude:
        rude.sendall(b"x" * 10_000)
        assert tried(node, port)["outcome"] == "reached"


def test_the_start_frees_the_port_at_once(node: Client) -> None:
    port = node.prepare("r", listen={"address": "127.0.0.1", "port": 0})["port"]
    assert tried(node, port)["outcome"] == "reached"
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
