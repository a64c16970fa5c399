"""Conf files: our parser and our list of files against real libraries, which are asked about the same bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from ncclrun.model.settings import ConfFile, ConfRole
from ncclrun.nccl import conf
from ncclrun.nccl.version import NAMED_CONF_SINCE, Version, shown
from tests.nccl.realnccl import VERSIONS, RealNccl, library

LONG_NAME = re.compile(rb"(?:^|\n)[^=\n]{%d}" % (conf.LONGEST + 1))
OLD, NEW = (2, 29, 7), (2, 30, 3)


@pytest.fixture(scope="module")
def running() -> Iterator[dict[Version, RealNccl]]:
    """Those that were asked for so far."""
    with ExitStack() as stack:
        started: dict[Version, RealNccl] = {}
        yield started
        for nccl in started.values():
            stack.callback(nccl.close)


@pytest.fixture(params=VERSIONS, ids=shown)
def real(
    request: pytest.FixtureRequest, running: dict[Version, RealNccl], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Version, RealNccl]:
    """A version, and its library to ask."""
    version: Version = request.param
    if version not in running:
        file = library(version)
        if file is None:
            pytest.skip(f"the libnccl of {shown(version)} is not here: tools/setup.sh nccl")
        try:
            running[version] = RealNccl(file, tmp_path_factory.mktemp("nccl"))
        except RuntimeError as error:
            pytest.skip(f"NCCL can't be given an /etc of its own here: {error}")
    return version, running[version]


def taken(data: bytes, version: Version) -> dict[str, str]:
    """Name and value as our parser has them."""
    return {setting.name: setting.value for setting in conf.in_force(conf.parse(data, version))}


# fmt: off
PIECES = st.sampled_from([
    b"=", b"=", b"=", b"\n", b"\n", b"\n", b"\r\n", b"\r", b"#", b" ", b"\t", b"\0", b'"', b"'", b"\\\n",
    b"export ", b"NCCL_DEBUG", b"NCCL_IB_HCA", b"NCCL_X", b"X", b"1", b"INFO", b"=eth0", b"  # mine",
    b"\xef\xbb\xbf", b"\xff", b"\xc3\xa9",
])
# fmt: on
# Around 1023 bytes a name or value is cut, around 4095 a line is.
LONG = st.builds(lambda base, more: b"v" * (base + more), st.sampled_from([1021, 2 * 1021, 4082]), st.integers(0, 16))
FILES = st.lists(st.one_of(PIECES, PIECES, PIECES, st.binary(max_size=3), LONG), max_size=24).map(b"".join)


class TestTheParserAgreesWithNccl:
    @settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
    @given(data=FILES)
    @example(data=b"NCCL_SOCKET_IFNAME=eth1  # my card\nNCCL_DEBUG=INFO\n")
    @example(data=b"A=1\r\nB=2\r\r\nC=3\0\r\nD=4\r\0\nE=5\r")
    @example(data=b"A=" + b"v" * 4092 + b"B=1\nC=" + b"v" * 4093 + b"\r\nD=1\n")
    @example(data=b"N" * 1023 + b"=1\n" + b"N" * 1024 + b"=2\nA=" + b"v" * 1022 + "é".encode())
    def test_on_any_file(self, real: tuple[Version, RealNccl], data: bytes) -> None:
        version, nccl = real
        # The oldest write past a buffer then, and may crash.
        assume(version >= NAMED_CONF_SINCE or not LONG_NAME.search(data))
        said = nccl.reads(**{"named" if version >= NAMED_CONF_SINCE else "passwd": data})
        # Older ones take a commented-out setting for one whose name begins with #, which nobody asks for.
        assert {name: value for name, value in said.items() if not name.startswith("#")} == taken(data, version)

    @pytest.mark.parametrize("there", list(product((True, False), repeat=4)), ids=str)
    def test_on_which_files_are_read(self, real: tuple[Version, RealNccl], there: tuple[bool, ...]) -> None:
        version, nccl = real
        contents = {
            name: f"FROM={name}\nFROM_{name}=1\n"
            for name, exists in zip(("named", "home", "passwd", "system"), there, strict=True)
            if exists
        }
        roles: dict[str, ConfRole] = {"named": "named", "home": "home", "passwd": "passwd_home", "system": "system"}
        files = [ConfFile(path=name, roles=(roles[name],), text=text) for name, text in contents.items()]
        expected: dict[str, str] = {}
        for file in conf.read_files(files, version):
            expected = taken(file.data, version) | expected
        assert nccl.reads(**{name: text.encode() for name, text in contents.items()}) == expected


class TestALine:
    def test_is_kept_byte_for_byte_whatever_becomes_of_it(self) -> None:
        data = b"\xef\xbb\xbfA = 1 \r\n\n#x\nno\n=\n" + b"L" * 9000 + b"\nlast"
        for version in (OLD, NEW):
            assert b"".join(line.raw for line in conf.parse(data, version)) == data

    def test_is_a_setting_a_comment_blank_or_ignored_for_a_reason(self) -> None:
        lines = conf.parse(b"A=1\n# c\n\n \t\nexport\n=x\n\0A=1\n", NEW)
        assert [(line.number, line.kind, line.why) for line in lines] == [
            (1, "setting", ""),
            (2, "comment", ""),
            (3, "blank", ""),
            (4, "blank", ""),
            (5, "ignored", "no_equals"),
            (6, "ignored", "no_name"),
            (7, "ignored", "nul"),
        ]

    def test_says_which_earlier_line_hides_it(self) -> None:
        lines = conf.parse(b"A=1\nB=1\nA=2\nA=3\na=4\n", NEW)
        assert [line.hidden_by for line in lines] == [None, None, 1, 1, None]
        assert [(setting.name, setting.line) for setting in conf.in_force(lines)] == [("A", 1), ("B", 2), ("a", 5)]

    def test_that_is_too_long_is_read_on_as_another_by_newer_versions(self) -> None:
        data = b"A=" + b"v" * 4093 + b"B=2\nC=3\n"
        assert [(line.number, line.name, line.tail) for line in conf.parse(data, NEW)] == [
            (1, "A", False),
            (1, "B", True),
            (2, "C", False),
        ]
        assert [line.name for line in conf.parse(data, OLD)] == ["A", "C"]


class TestTheFilesThatAreRead:
    def test_one_file_with_two_roles_counts_once(self) -> None:
        both = ConfFile(path="/etc/nccl.conf", roles=("named", "system"), text="A=1\n")
        assert conf.read_files([both], NEW) == (both,)

    def test_a_named_file_that_is_missing_still_keeps_the_one_at_home_out(self) -> None:
        missing = ConfFile(path="/x", roles=("named",))
        home = ConfFile(path="/root/.nccl.conf", roles=("home", "passwd_home"), text="A=1\n")
        assert conf.read_files([home, missing], NEW) == (missing,)
        assert conf.read_files([home, missing], (2, 22, 3)) == (home,)
