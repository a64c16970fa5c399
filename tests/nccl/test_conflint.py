"""Lint of conf files: each slip with what NCCL sees and the line as it should be, and nothing of right lines."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncclrun.model.settings import SettingFinding
from ncclrun.nccl import conf
from ncclrun.nccl.lint.conffile import lint_conf
from ncclrun.nccl.lint.mend import mend
from ncclrun.nccl.version import Version

OLD: Version = (2, 29, 7)
NEW: Version = (2, 30, 3)


def lint(data: bytes, version: Version | None = None) -> tuple[SettingFinding, ...]:
    return lint_conf(data, version, "nccl.conf")


def ids(data: bytes, version: Version | None = None) -> list[tuple[int | None, str, str]]:
    return [(finding.line, finding.level, finding.id) for finding in lint(data, version)]


class TestTheTutorialsFile:
    DATA = b"NCCL_SOCKET_IFNAME=eth1  # my card\nNCCL_DEBUG=INFO\n"

    def test_has_one_error_which_shows_what_nccl_takes_and_the_right_line(self) -> None:
        (finding,) = lint(self.DATA)
        assert (finding.file, finding.line, finding.name, finding.level) == (
            "nccl.conf",
            1,
            "NCCL_SOCKET_IFNAME",
            "error",
        )
        assert (finding.id, finding.value) == ("inline_comment", "eth1  # my card")
        assert '"eth1  # my card"' in finding.sees
        assert finding.fix == "NCCL_SOCKET_IFNAME=eth1"

    def test_is_right_after_mending(self) -> None:
        assert mend(self.DATA, None) == b"NCCL_SOCKET_IFNAME=eth1\nNCCL_DEBUG=INFO\n"


RIGHT = [
    b"",
    b"\n\n \t\n",
    b"# NCCL_DEBUG=INFO  # twice\n#\nNCCL_DEBUG=INFO",
    b"NCCL_SOCKET_IFNAME==eth1\nNCCL_IB_HCA=^=mlx5_0:1,mlx5_1\n",
    b"NCCL_DEBUG_FILE=/tmp/nccl.%h.%p#1\n",
    b"NCCL_COMM_ID=[fe80::1]:1234\nNCCL_SOCKET_IFNAME=eth1\n",
    b"NCCL_TUNER_PLUGIN=/opt/my tuner/libtuner.so\n",
]


@pytest.mark.parametrize("data", RIGHT)
@pytest.mark.parametrize("version", [None, OLD, NEW])
def test_a_right_file_is_never_accused(data: bytes, version: Version | None) -> None:
    assert [finding for finding in lint(data, version) if finding.level != "info"] == []
    assert mend(data, version) == data


SLIPS = [
    (b" NCCL_DEBUG=INFO", "leading_blank"),
    (b"\tNCCL_DEBUG=INFO", "leading_blank"),
    (b"NCCL_DEBUG = INFO", "blank_around_equals"),
    (b"NCCL_DEBUG= INFO", "blank_around_equals"),
    (b"NCCL_DEBUG=INFO ", "trailing_blank"),
    (b'NCCL_DEBUG="INFO"', "quotes"),
    (b"NCCL_DEBUG='INFO'", "quotes"),
    ("NCCL_DEBUG=“INFO”".encode(), "quotes"),
    (b"export NCCL_DEBUG=INFO", "export"),
    (b"setenv NCCL_DEBUG=INFO", "export"),
    (b"-x NCCL_DEBUG=INFO", "export"),
    (b"\xef\xbb\xbfNCCL_DEBUG=INFO", "bom"),
    (b"NCCL_DEBUG\0=INFO", "nul"),
    (b"NCCL_DEBUG=INFO;", "semicolon"),
    (b"NCCL_DEBUG: INFO", "yaml"),
    (b"- NCCL_DEBUG=INFO", "yaml"),
    (b'"NCCL_DEBUG": "INFO"', "yaml"),
    (b"NCCL_DEBUG INFO", "no_equals"),
    (b"NCCL_DEBUG=INFO \t# why", "inline_comment"),
    (b"NCCL_DEBUG=INFO // why", "inline_comment"),
]


@pytest.mark.parametrize(("line", "slip"), SLIPS)
def test_each_slip_of_writing_is_an_error_with_the_right_line(line: bytes, slip: str) -> None:
    found = lint(line + b"\n")
    assert [(finding.id, finding.level, finding.name, finding.fix) for finding in found] == [
        (slip, "error", "NCCL_DEBUG", "NCCL_DEBUG=INFO")
    ]
    assert mend(line + b"\n", None) == b"NCCL_DEBUG=INFO\n"


def test_several_slips_on_a_line_are_mended_by_one_line() -> None:
    found = lint(b' export NCCL_DEBUG = "INFO" # x\r\n', OLD)
    assert {finding.id for finding in found} == {
        "leading_blank",
        "export",
        "blank_around_equals",
        "quotes",
        "inline_comment",
        "cr",
    }
    assert {finding.fix for finding in found} == {"NCCL_DEBUG=INFO"}


class TestSettingsOnOneLine:
    def test_become_a_line_each(self) -> None:
        (finding,) = lint(b"NCCL_DEBUG=INFO NCCL_IB_HCA=mlx5_0\n")
        assert (finding.id, finding.fix) == ("several", "NCCL_DEBUG=INFO\nNCCL_IB_HCA=mlx5_0")

    @pytest.mark.parametrize("between", [b"; ", b" && ", b";export "])
    def test_also_when_a_shells_signs_part_them(self, between: bytes) -> None:
        data = b"NCCL_DEBUG=INFO" + between + b"NCCL_IB_HCA=mlx5_0\n"
        assert mend(data, None) == b"NCCL_DEBUG=INFO\nNCCL_IB_HCA=mlx5_0\n"


class TestAContinuedLine:
    def test_is_joined(self) -> None:
        data = b"NCCL_IB_HCA=mlx5_0,\\\n    mlx5_1\nNCCL_DEBUG=INFO\n"
        assert ids(data) == [(1, "error", "continuation")]
        assert mend(data, None) == b"NCCL_IB_HCA=mlx5_0,mlx5_1\nNCCL_DEBUG=INFO\n"

    def test_does_not_swallow_a_setting(self) -> None:
        assert mend(b"NCCL_IB_HCA=mlx5_0\\\nNCCL_DEBUG=INFO\n", None) == b"NCCL_IB_HCA=mlx5_0\nNCCL_DEBUG=INFO\n"


class TestACarriageReturn:
    DATA = b"# of Windows\r\n\r\nNCCL_DEBUG=INFO\r\n"

    @pytest.mark.parametrize(("version", "level"), [(OLD, "error"), (None, "warning")])
    def test_belongs_to_the_value_of_older_versions(self, version: Version | None, level: str) -> None:
        assert ids(self.DATA, version) == [(3, level, "cr")]
        assert mend(self.DATA, version) == b"# of Windows\r\n\r\nNCCL_DEBUG=INFO\n"

    def test_is_no_matter_for_newer_ones_and_stays_where_the_line_is_mended(self) -> None:
        assert ids(self.DATA, NEW) == []
        assert mend(b"NCCL_DEBUG=INFO # x\r\n", NEW) == b"NCCL_DEBUG=INFO\r\n"

    def test_that_is_not_the_last_is_an_error_for_all(self) -> None:
        assert ids(b"NCCL_DEBUG=INFO\r\r\n", NEW) == [(1, "error", "cr")]


class TestADuplicate:
    def test_that_differs_is_an_error_that_names_the_line_that_counts(self) -> None:
        (finding,) = lint(b"NCCL_DEBUG=WARN\n\nNCCL_DEBUG=INFO\n")
        assert (finding.line, finding.level, finding.id, finding.fix) == (3, "error", "duplicate", "")
        assert "line 1" in finding.sees

    def test_that_says_the_same_is_only_a_note(self) -> None:
        assert ids(b"NCCL_DEBUG=WARN\nNCCL_DEBUG=WARN\n") == [(2, "info", "duplicate")]

    def test_of_a_line_that_nccl_does_not_take_is_a_warning(self) -> None:
        data = b" NCCL_DEBUG=WARN\nNCCL_DEBUG=INFO\n"
        assert ids(data) == [(1, "error", "leading_blank"), (2, "warning", "duplicate")]


class TestANameThatIsThereAlready:
    @pytest.mark.parametrize(
        "data",
        [
            b"NCCL_IB_TIMEOUT=22\nNCCL_IB_TIMOUT=20\n",
            b"NCCL_IB_TIMOUT=20\nNCCL_IB_TIMEOUT=22\n",
            b"NCCL_IB_TIMEOUT=22\nNCCL_DEBUG=INFO\nexport NCCL_IB_TIMOUT=22\n",
        ],
    )
    def test_is_not_made_of_another_one(self, data: bytes) -> None:
        assert mend(data, None) == data
        (found,) = [one for one in lint(data) if one.id == "unknown_name"]
        assert (found.level, found.fix) == ("error", "")
        assert found.sees.endswith(f"line {data.split(b'_TIMEOUT')[0].count(10) + 1} has that already")

    def test_is_made_of_one_of_two(self) -> None:
        assert mend(b"NCCL_IB_TIMOUT=20\nNCCL_IB_TIMEOT=22\n", None) == b"NCCL_IB_TIMEOUT=20\nNCCL_IB_TIMEOT=22\n"


def test_what_nobody_expands_has_no_fix_that_is_as_wrong() -> None:
    for data in (
        b"NCCL_IB_TIMEOUT=$((20+2))\n",
        b"NCCL_IB_TIMEOUT=$((20+2))  # x\n",
        b"export NCCL_TOPO_FILE=$HOME/t\n",
    ):
        assert {one.fix for one in lint(data)} == {""}
        assert mend(data, None) == data


class TestALineThatIsNoSetting:
    def test_becomes_a_comment(self) -> None:
        data = b"Settings of the lab\nsee http://lab/?page=nccl\n[nccl]\n  # indented\n"
        assert ids(data) == [
            (1, "warning", "no_equals"),
            (2, "warning", "bad_name"),
            (3, "info", "section"),
            (4, "info", "indented_comment"),
        ]
        assert mend(data, None) == b"# Settings of the lab\n# see http://lab/?page=nccl\n# [nccl]\n# indented\n"


class TestWhatOnlyTheWriterKnows:
    @pytest.mark.parametrize("value", [b"$HOME/topo.xml", b"${HOME}/topo.xml", b"~/topo.xml", b"$(cat f)", b"`cat f`"])
    def test_is_an_expansion_which_gets_no_right_line(self, value: bytes) -> None:
        data = b"NCCL_TOPO_FILE=" + value + b"\n"
        found = [finding for finding in lint(data) if finding.id == "expansion"]
        assert [finding.fix for finding in found] == [""]
        assert mend(data, None) == data

    def test_is_what_is_too_long(self) -> None:
        data = b"NCCL_TOPO_FILE=/" + b"x" * 1023 + b"\n"
        assert (1, "error", "long_value") in ids(data)
        assert (1, "error", "long_line") in ids(b"NCCL_TOPO_FILE=/" + b"x" * 5000 + b"=1\n", NEW)
        assert mend(data, None) == data

    def test_is_what_is_no_text(self) -> None:
        assert (1, "warning", "not_utf8") in ids(b"NCCL_TOPO_FILE=/\xff\n")

    def test_is_a_file_of_two_bytes_a_character(self) -> None:
        data = "NCCL_DEBUG=INFO\n".encode("utf-16")
        assert ids(data) == [(1, "error", "utf16")]
        assert mend(data, None) == data


# fmt: off
PIECES = st.sampled_from([
    "=", "=", "\n", "\n", "\r\n", "\r", "#", " ", "\t", "\0", '"', "'", "\\\n", "\ufeff", "export ", ": ", ";", " && ",
    "NCCL_DEBUG", "NCCL_IB_HCA", "NCCL_IB_DISABLE", "NCCL_X", "X", "1", "true", "INFO", "eth0", " # x", "$HOME", "[a]",
])
# fmt: on
FILES = st.lists(st.one_of(PIECES, st.text(max_size=2)), max_size=24).map("".join).map(str.encode)
VERSIONS = st.sampled_from([None, OLD, NEW])


@settings(max_examples=300)
@given(FILES, VERSIONS)
def test_a_mended_file_has_nothing_left_to_mend(data: bytes, version: Version | None) -> None:
    mended = mend(data, version)
    assert [finding for finding in lint(mended, version) if finding.fix] == []
    assert mend(mended, version) == mended


@settings(max_examples=300)
@given(FILES, VERSIONS)
def test_lines_that_get_no_fix_stay_byte_for_byte(data: bytes, version: Version | None) -> None:
    if not any(finding.fix for finding in lint(data, version)):
        assert mend(data, version) == data


@settings(max_examples=200)
@given(FILES)
def test_what_nccl_takes_after_mending_has_none_of_the_slips_in_its_names(data: bytes) -> None:
    for setting in conf.in_force(conf.parse(mend(data, NEW), NEW)):
        assert setting.name.isidentifier()


@pytest.mark.parametrize("data", [b"NCCL_DEBUG=\r=", b"A=\rNCCL_DEBUG INFO", b"\r=\rexport ="])
def test_lines_that_carriage_returns_part_are_told_of_whatever_they_are(data: bytes) -> None:
    assert "cr" in {finding.id for finding in lint_conf(data, None, "x")}


def test_what_is_no_text_is_told_once_and_left_as_it_is() -> None:
    data = bytes(range(256)) * 8
    assert [(f.level, f.id, f.fix) for f in lint_conf(data, None, "x")] == [("error", "binary", "")]
    assert mend(data, None) == data
