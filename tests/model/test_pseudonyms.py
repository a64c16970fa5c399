"""The same name for the same thing, in the same network, and nothing left of what was hidden."""

from __future__ import annotations

from ipaddress import ip_address

from hypothesis import given
from hypothesis import strategies as st

from ncclrun.model.pseudonyms import Pseudonyms


def test_hosts_and_users_are_renamed_as_whole_words() -> None:
    names = Pseudonyms(["gpu1", "gpu10"], ["anna", "root"])
    assert names.text("anna@gpu1 and gpu10, banana, root, gpu1-ib") == "user1@host1 and host2, banana, root, gpu1-ib"


def test_a_host_that_is_called_by_its_address_gets_an_address() -> None:
    shown = Pseudonyms(["10.92.0.2", "fd12:3456::9", "gpu1"]).text("10.92.0.2 fd12:3456::9 gpu1").split()
    assert [ip_address(text).version for text in shown[:2]] == [4, 6]
    assert "92" not in shown[0]
    assert "3456" not in shown[1]
    assert shown[2] == "host1"


def test_what_says_nothing_of_anybody_stays() -> None:
    text = "127.0.0.1 0.0.0.0 255.255.255.0 169.254.3.1 ::1 driver 570.133.20 at 12:34:56 NCCL 2.26.2"
    assert Pseudonyms().text(text) == text


def test_cards_and_long_addresses_are_renamed() -> None:
    names = Pseudonyms()
    assert names.text("aa:bb:cc:dd:ee:ff") == "02:00:00:00:00:01"
    one, two = names.text("fd12:3456::9 fd12:3456::a").split()
    assert "3456" not in one + two
    assert one.rpartition(":")[0] == two.rpartition(":")[0]
    assert one != two


def test_a_network_s_own_address_and_its_broadcast_stay_such() -> None:
    network, broadcast = Pseudonyms().text("10.71.72.0/24 10.71.72.255").split()
    assert (network.endswith(".0/24"), broadcast.endswith(".255"), "71" in network) == (True, True, False)


@given(st.lists(st.ip_addresses(v=4), min_size=2, max_size=8))
def test_different_addresses_stay_different_and_a_network_stays_together(addresses: list[object]) -> None:
    texts = [str(address) for address in addresses]
    names = Pseudonyms()
    shown = [names.text(text) for text in texts]
    assert shown == [names.text(text) for text in texts]
    assert all(ip_address(text) for text in shown)
    assert len(set(shown)) == len(set(texts))
    for a, b in zip(texts, shown, strict=True):
        for c, d in zip(texts, shown, strict=True):
            if a.rpartition(".")[0] == c.rpartition(".")[0]:
                assert b.rpartition(".")[0] == d.rpartition(".")[0]


@given(st.text(max_size=200))
def test_any_text_is_taken(text: str) -> None:
    Pseudonyms(["gpu1"], ["anna"]).text(text)
