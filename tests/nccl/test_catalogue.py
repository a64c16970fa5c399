"""The catalogue is whole, agrees with itself, and with the real library."""

from __future__ import annotations

import re

import pytest

from ncclrun.nccl.catalogue.known import Known
from ncclrun.nccl.catalogue.names import ALL, FAMILIES, KNOWN, find
from ncclrun.nccl.values import number, read_words
from ncclrun.nccl.version import NEWEST, Version, shown
from tests.nccl.realnccl import VERSIONS, library

NCCLS_OWN = [known for known in ALL if known.side == "nccl" and known.name.startswith("NCCL_")]


def named(entries: list[Known]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("known", entries, ids=[known.name for known in entries])


def test_no_name_is_there_twice() -> None:
    assert len({known.name for known in ALL}) == len(ALL)


def test_every_entry_says_what_it_is_and_where_that_is_from() -> None:
    assert [known.name for known in ALL if not known.meaning or not known.source or "\n" in known.meaning] == []


def test_every_documented_variable_of_the_guide_is_there() -> None:
    documented = [known for known in NCCLS_OWN if known.documented]
    assert len(documented) > 110


def test_words_are_given_where_there_is_a_choice() -> None:
    choices = ("choice", "words", "level", "functions", "flag")
    assert [known.name for known in ALL if known.kind in choices and not known.allowed] == []


def test_every_default_is_a_value_that_is_allowed() -> None:
    for known in ALL:
        if known.default is None:
            continue
        if known.kind in ("integer", "flag"):
            read = number(known.default)
            assert read.value is not None, known.name
            assert not read.rest, known.name
            assert not known.allowed or known.default in known.allowed, known.name
            assert known.low is None or known.low <= read.value, known.name
            assert known.high is None or read.value <= known.high, known.name
        elif known.allowed:
            words = read_words(known.default, known.separator)[1] if known.kind == "words" else (known.default,)
            assert set(words) <= set(known.allowed), known.name


def test_what_took_a_names_place_is_known_itself() -> None:
    assert [known.name for known in ALL if known.instead and known.instead not in KNOWN] == []


def test_no_version_is_newer_than_the_newest_that_was_looked_into() -> None:
    versions = [version for known in ALL for version in (known.since, known.removed) if version]
    assert max(versions) <= NEWEST


def test_what_others_read_from_the_environment_does_not_work_in_a_conf_file() -> None:
    late = [known for known in ALL if known.side in ("torch", "gloo", "tensorpipe", "tool")]
    assert late
    # Torch's symmetric memory reads its own when it is first used, after NCCL as a rule.
    assert [known.name for known in late if known.conf] == ["TORCH_SYMM_MEM_*"]


def test_a_library_that_gets_loaded_is_marked() -> None:
    marked = {known.name for known in ALL if known.loads_code}
    plugins = {known.name for known in NCCLS_OWN if known.name.endswith("_PLUGIN")}
    assert plugins
    assert plugins <= marked


def test_a_file_that_gets_written_is_marked() -> None:
    written = {known.name for known in ALL if known.writes_files}
    dumps = {known.name for known in NCCLS_OWN if known.name.endswith(("_DUMP_FILE", "DEBUG_FILE"))}
    assert dumps
    assert dumps <= written


@pytest.mark.parametrize(
    ("name", "side"),
    [
        ("NCCL_GPUDIRECTTCPX_CTRL_DEV", "plugin"),
        ("NCCL_FASTRAK_NUM_FLOWS", "plugin"),
        ("NCCL_SHIMNET_GUEST_CONFIG_CHECKER_CONFIG_FILE", "plugin"),
        ("OFI_NCCL_PROTOCOL", "plugin"),
        ("NCCL_UCX_TLS", "plugin"),
        ("NCCL_IBEXT_DISABLE", "plugin"),
        ("RCCL_MSCCL_ENABLE", "plugin"),
        ("SHARP_COLL_LOG_LEVEL", "plugin"),
        ("NCCL_HOME", "tool"),
        ("NCCL_VERSION", "tool"),
        ("NV_LIBNCCL_PACKAGE", "tool"),
        ("NCCL_TESTS_DEVICE", "tool"),
        ("LD_LIBRARY_PATH", "tool"),
        ("TORCH_NCCL_SOMETHING_NEW", "torch"),
        ("PET_NNODES", "torch"),
        ("NCCL_BLOCKING_WAIT", "torch"),
        ("GLOO_LOG_LEVEL", "gloo"),
    ],
)
def test_names_of_others_are_known_as_theirs(name: str, side: str) -> None:
    known = find(name)
    assert known is not None
    assert known.side == side


def test_a_name_in_full_goes_before_its_family() -> None:
    assert any(known.name == "NCCL_TUNER_*" for known in FAMILIES)
    assert find("NCCL_TUNER_PLUGIN") is KNOWN["NCCL_TUNER_PLUGIN"]
    assert find("NCCL_NO_SUCH_THING") is None


@pytest.fixture(scope="module", params=VERSIONS, ids=shown)
def a_library(request: pytest.FixtureRequest) -> tuple[Version, set[str]]:
    """A version, and the names that stand in its library."""
    version: Version = request.param
    file = library(version)
    if file is None:
        pytest.skip(f"the libnccl of {shown(version)} is not here: tools/setup.sh nccl")
    return version, {found.decode() for found in re.findall(rb"NCCL_[A-Z0-9_]{2,}", file.read_bytes())}


def test_a_library_holds_every_name_that_its_version_reads(a_library: tuple[Version, set[str]]) -> None:
    version, names = a_library
    read = [
        known
        for known in NCCLS_OWN
        if (known.since or version) <= version and not (known.removed and known.removed <= version)
    ]
    documented = [known.name for known in read if known.documented]
    assert len(documented) > 60
    assert [known.name for known in read if known.name not in names] == []


def test_a_library_holds_no_name_that_came_later_or_was_removed_before(a_library: tuple[Version, set[str]]) -> None:
    version, names = a_library
    other = [
        known.name
        for known in NCCLS_OWN
        if (known.since and known.since > version) or (known.removed and known.removed <= version)
    ]
    assert other
    assert [name for name in other if name in names] == []


def test_no_meaning_leans_on_that_of_its_neighbour() -> None:
    leaning = re.compile(r"\bthe same (for|over)\b|\bsuch an? \w+|\bfor that$|\bthen$|\bthat (log|time|service)\b")
    assert [known.name for known in ALL if leaning.search(known.meaning)] == []
