"""Values are read as NCCL reads them; the real library is asked where it answers without a GPU."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncclrun.nccl.catalogue.names import KNOWN
from ncclrun.nccl.values import as_read, is_true, number, read_filter, read_functions, read_words
from tests.nccl.realnccl import INSTALLED, library

ASK = """
import ctypes, os, sys
ctypes.CDLL(sys.argv[1]).ncclGetUniqueId(ctypes.create_string_buffer(128))
ctypes.CDLL(None).fflush(None)
os._exit(0)
"""
NUMBERS = ["true", "8M", "010", "0x1F", "-1", "08", " 12", "1 # x", "+5", "-0x10", "0x", "99999999999999999999", "1\t2"]
FILTERS = ["lo", "=lo", "^lo", "=l", "lo*", " lo", "x,lo", "x, lo", "lo;x", '"lo"', "^=l", "=x,=lo", "lo:1", "^x", ":x"]


@pytest.fixture(scope="module")
def nccl() -> Path:
    file = library(INSTALLED)
    if file is None:
        pytest.skip("no nvidia-nccl-cu12 is installed here: tools/setup.sh nccl")
    return file


def says(nccl: Path, **settings: str) -> str:
    """What NCCL prints at its start."""
    environment = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "ALL", "HOME": "/nonexistent", **settings}
    argv = [sys.executable, "-S", "-c", ASK, str(nccl)]
    done = subprocess.run(argv, capture_output=True, text=True, env=environment, check=True, timeout=60)
    return done.stdout + done.stderr


class TestNumbers:
    @pytest.mark.parametrize("text", NUMBERS)
    def test_are_what_the_library_says_that_it_reads(self, nccl: Path, text: str) -> None:
        found = re.search(r"NCCL_SOCKET_RCVBUF set by environment to (-?\d+)", says(nccl, NCCL_SOCKET_RCVBUF=text))
        assert number(text).value == (int(found[1]) if found else None)

    def test_show_what_was_dropped_and_that_a_zero_made_them_octal(self) -> None:
        assert number("8M").rest == "M"
        assert number("true").digits == ""
        assert number("010").octal
        assert not number("0").octal

    def test_are_decimal_for_torch(self) -> None:
        assert number("010", 10).value == 10
        assert number("0x10", 10).value == 0

    @given(st.integers(-(2**63), 2**63 - 1))
    def test_are_themselves_in_every_notation(self, value: int) -> None:
        assert number(str(value)).value == value
        assert number(hex(value)).value == value

    @given(st.text())
    def test_are_read_from_any_text(self, text: str) -> None:
        read = number(text)
        assert text.endswith(read.rest)
        assert read.digits in text


class TestFilters:
    @pytest.mark.parametrize("text", FILTERS)
    def test_take_the_interfaces_that_the_library_takes(self, nccl: Path, text: str) -> None:
        """lo comes first in the kernel's order, so that it is used where it is taken."""
        found = read_filter(text)
        assert found is not None
        assert found.takes("lo") == ("Using lo:" in says(nccl, NCCL_SOCKET_IFNAME=text))

    def test_of_one_character_are_none(self) -> None:
        assert read_filter("*") is None
        assert read_filter("") is None

    def test_take_sixteen_names(self) -> None:
        found = read_filter(",".join(f"eth{n}" for n in range(20)))
        assert found is not None
        assert found.names[-1] == "eth15"

    def test_take_all_that_a_name_begins_unless_they_are_exact(self) -> None:
        prefix, exact = read_filter("eth1"), read_filter("=eth1")
        assert prefix is not None
        assert exact is not None
        assert prefix.takes("eth10")
        assert not exact.takes("eth10")


class TestLists:
    def test_keep_blanks_and_pass_over_nothing(self) -> None:
        assert read_words("^INIT, NET,,") == (True, ("INIT", " NET"))

    def test_are_there_for_all_or_by_function(self) -> None:
        assert read_functions("ring;allreduce:^tree,nvls") == (("", ("ring",)), ("allreduce", ("tree", "nvls")))


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("NCCL_IB_TC", "0x10", "16 # x"),
        ("NCCL_IB_DISABLE", "1", "2"),
        ("NCCL_IB_DISABLE", "", "0"),
        ("NCCL_DEBUG", "info", "INFO"),
        ("NCCL_ALGO", "Ring,Tree", "tree,ring"),
        ("NCCL_ALGO", "ring;allreduce:tree,ring", "allreduce:RING,TREE;Ring"),
        ("TORCH_NCCL_BLOCKING_WAIT", "true", "1"),
        ("NCCL_CTA_POLICY", "ZERO|EFFICIENCY", "EFFICIENCY|ZERO"),
    ],
)
def test_values_that_are_read_alike_are_equal(name: str, one: str, other: str) -> None:
    assert as_read(KNOWN[name], one) == as_read(KNOWN[name], other)


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [("NCCL_IB_TC", "010", "10"), ("NCCL_SOCKET_FAMILY", "af_inet", "AF_INET"), ("NCCL_ALGO", "^Ring", "Ring")],
)
def test_values_that_are_read_differently_are_not(name: str, one: str, other: str) -> None:
    assert as_read(KNOWN[name], one) != as_read(KNOWN[name], other)


def test_torchs_switches_take_five_words_each_in_any_case() -> None:
    assert [is_true(word) for word in ("1", "T", "Yes", "0", "FALSE", "n", "on", "2")] == [
        *(True, True, True, False, False, False, None, None)
    ]
