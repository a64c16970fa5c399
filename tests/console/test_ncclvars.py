"""`nccl vars`: a table, all about one variable, a list for programs, and the nearest names for a slip."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from ncclrun.cli.main import app
from ncclrun.console.ncclvars import card, legend, table
from ncclrun.nccl.catalogue.names import ALL, KNOWN
from ncclrun.nccl.catalogue.search import nearest, search

RUNNER = CliRunner()


class TestTheTable:
    def test_has_a_line_for_each_and_no_folds_in_a_pipe(self) -> None:
        lines = table(ALL, width=None).splitlines()
        assert len(lines) == len(ALL) + 1
        assert lines[0].split() == ["variable", "since", "default", "values", "same", "meaning"]
        line = next(line for line in lines if line.startswith("NCCL_IB_TC "))
        assert line.split()[:4] == ["NCCL_IB_TC", "2.1.15", "0", "0…255"]

    def test_leaves_columns_out_where_the_meaning_would_have_no_room(self) -> None:
        narrow = table([KNOWN["NCCL_IB_TC"]], width=60)
        assert "since" not in narrow
        assert "traffic class" in narrow

    def test_never_breaks_a_name(self) -> None:
        longest = max(ALL, key=lambda known: len(known.name))
        assert longest.name in table([longest, KNOWN["NCCL_DEBUG"]], width=80)

    def test_marks_what_is_not_for_use(self) -> None:
        shown = table([KNOWN["NCCL_TREE_THRESHOLD"], KNOWN["NCCL_MIN_NCHANNELS"]], width=None)
        assert "removed: " in shown
        assert "deprecated: " in shown


class TestTheCard:
    def test_says_everything_about_one(self) -> None:
        text = card(KNOWN["NCCL_ALGO"], width=100)
        for word in ("NCCL_ALGO", "NVLSTree", "2.5", "must be the same", "conf file", "source"):
            assert word in text

    def test_shows_how_a_value_is_written_where_that_is_true(self) -> None:
        assert "=eth0 that one alone" in card(KNOWN["NCCL_SOCKET_IFNAME"], width=200)
        assert "a word counts as 0" in card(KNOWN["NCCL_IB_DISABLE"], width=200)
        assert "a word counts" not in card(KNOWN["NCCL_SET_THREAD_NAME"], width=200)
        assert "a word counts" not in card(KNOWN["TORCH_NCCL_ASYNC_ERROR_HANDLING"], width=200)

    def test_shows_a_default_that_was_another_once(self) -> None:
        assert "20 (18 from 2.14 on, 14 before)" in card(KNOWN["NCCL_IB_TIMEOUT"], width=100)

    def test_warns_of_libraries_and_files(self) -> None:
        assert "load a library" in card(KNOWN["NCCL_NET_PLUGIN"], width=100)
        assert "files be written" in card(KNOWN["NCCL_DEBUG_FILE"], width=100)
        assert "set it in the environment" in card(KNOWN["TORCH_NCCL_BLOCKING_WAIT"], width=100)

    @pytest.mark.parametrize("width", [20, 80])
    def test_keeps_to_the_width(self, width: int) -> None:
        assert max(map(len, card(KNOWN["NCCL_SOCKET_IFNAME"], width=width).splitlines())) <= max(width, 40)


class TestTheSearch:
    def test_takes_part_of_a_name_a_glob_or_a_meaning_in_any_case(self) -> None:
        assert {"NCCL_IB_TC", "NCCL_IB_TIMEOUT"} <= {known.name for known in search("ib_t")}
        assert {known.name for known in search("nccl_ib_t[ci]*")} == {"NCCL_IB_TC", "NCCL_IB_TIMEOUT"}
        assert "NCCL_RAS_ENABLE" in {known.name for known in search("ncclras")}
        assert list(search(None)) == list(ALL)

    def test_finds_what_has_to_do_with_a_word(self) -> None:
        for word, wanted in (
            ("interface", "NCCL_SOCKET_IFNAME"),
            ("log", "NCCL_DEBUG"),
            ("tcp", "NCCL_NET"),
            ("rdma", "NCCL_IB_DISABLE"),
            ("/dev/shm", "NCCL_SHM_DISABLE"),
        ):
            assert wanted in [known.name for known in search(word)], word

    def test_names_that_begin_so_come_before_others_and_before_meanings(self) -> None:
        names = [known.name for known in search("IB") if known.documented]
        assert names[0].startswith("NCCL_IB_")
        assert names.index("NCCL_IB_MERGE_NICS") < names.index("NCCL_NET")
        assert [known for known in search("NCCL_DEBUG_F") if "NCCL_DEBUG_F" not in known.name] == []

    def test_a_word_is_a_part_of_a_name_or_begins_one(self) -> None:
        names = {known.name for known in search("IB")}
        assert names & {"TORCH_DISTRIBUTED_DEBUG", "USE_LIBUV", "NCCL_LIB"} == set()
        assert "NCCL_BUFFSIZE" in {known.name for known in search("buff")}

    @pytest.mark.parametrize("words", ["IB timeout", "timeout ib", "the timeout for IB"])
    def test_of_several_words_all_are_to_fit_and_those_that_say_nothing_are_left_out(self, words: str) -> None:
        names = [known.name for known in search(words)]
        assert names[0] == "NCCL_IB_TIMEOUT"
        assert all(known.name not in names for known in search("timeout") if "IB" not in known.name.split("_"))
        assert search("ib xyzzy") == ()

    def test_finds_what_is_asked_in_plain_words(self) -> None:
        for words, wanted in (
            ("turn off infiniband", "NCCL_IB_DISABLE"),
            ("the interface for tcp", "NCCL_SOCKET_IFNAME"),
        ):
            assert wanted in [known.name for known in search(words)][:3], words

    def test_of_names_in_full_finds_each(self) -> None:
        assert [known.name for known in search("nccl_algo NCCL_DEBUG")] == ["NCCL_ALGO", "NCCL_DEBUG"]

    def test_takes_a_slip_for_the_name_that_is_near_and_not_for_a_family(self) -> None:
        assert search("TORCH_NCCL_BLOKING_WAIT") == ()
        assert nearest("TORCH_NCCL_BLOKING_WAIT") == ("TORCH_NCCL_BLOCKING_WAIT",)

    def test_takes_a_glob_without_the_beginning_that_all_names_have(self) -> None:
        assert {known.name for known in search("ib_t[ci]*") if known.documented} == {"NCCL_IB_TC", "NCCL_IB_TIMEOUT"}
        assert [known.name for known in search("nccl-ib-tc")] == ["NCCL_IB_TC"]

    def test_finds_one_by_its_name_in_full(self) -> None:
        assert [known.name for known in search("nccl_debug")] == ["NCCL_DEBUG"]

    def test_finds_the_family_of_a_plugins_name(self) -> None:
        assert [known.name for known in search("NCCL_FASTRAK_IFNAME")] == ["NCCL_FASTRAK_*"]

    def test_names_what_may_have_been_meant(self) -> None:
        assert search("NCCL_SOKET_IFNAM") == ()
        assert nearest("NCCL_SOKET_IFNAM")[0] == "NCCL_SOCKET_IFNAME"


class TestTheCommand:
    def test_shows_undocumented_ones_only_when_asked(self) -> None:
        assert "NCCL_CHUNK_SIZE " not in RUNNER.invoke(app, ["nccl", "vars"]).stdout
        assert "NCCL_CHUNK_SIZE " in RUNNER.invoke(app, ["nccl", "vars", "--all"]).stdout
        assert "NCCL_CHUNK_SIZE" in RUNNER.invoke(app, ["nccl", "vars", "NCCL_CHUNK_SIZE"]).stdout

    def test_gives_programs_one_list_of_objects(self) -> None:
        result = RUNNER.invoke(app, ["nccl", "vars", "NCCL_IB_TC", "--json"])
        (entry,) = json.loads(result.stdout)
        assert (entry["name"], entry["high"], entry["default"], entry["since"]) == ("NCCL_IB_TC", 255, "0", "2.1.15")
        assert {row["name"] for row in json.loads(RUNNER.invoke(app, ["nccl", "vars", "--all", "--json"]).stdout)} == {
            known.name for known in ALL
        }

    def test_takes_words_as_one_argument_or_as_several(self) -> None:
        one, several = (RUNNER.invoke(app, ["nccl", "vars", *words]) for words in (["IB timeout"], ["IB", "timeout"]))
        assert one.stdout == several.stdout
        assert one.stdout.startswith("NCCL_IB_TIMEOUT\n")

    @pytest.mark.parametrize(
        ("written", "name"),
        [
            ("NCCL_SOKET_IFNAM", "NCCL_SOCKET_IFNAME"),
            ("NCCL_IFNAME", "NCCL_SOCKET_IFNAME"),
            ("IB timout", "NCCL_IB_TIMEOUT"),
        ],
    )
    def test_shows_the_one_that_is_meant_and_says_that_it_has_another_name(self, written: str, name: str) -> None:
        result = RUNNER.invoke(app, ["nccl", "vars", written])
        assert result.exit_code == 1
        assert result.stdout.startswith(f"{name}\n")
        assert written in result.stderr
        assert f"the name is {name}" in result.stderr

    def test_says_where_a_name_has_its_opposite_alone(self) -> None:
        assert (
            "NCCL_IB_DISABLE, which says the opposite" in RUNNER.invoke(app, ["nccl", "vars", "NCCL_IB_ENABLE"]).stderr
        )

    def test_gives_programs_an_empty_list_where_nothing_fits_and_people_the_near_names(self) -> None:
        result = RUNNER.invoke(app, ["nccl", "vars", "NCCL_SOKET_IFNAM", "--json"])
        assert (result.exit_code, json.loads(result.stdout)) == (1, [])
        assert "NCCL_SOCKET_IFNAME" in result.stderr
        assert RUNNER.invoke(app, ["nccl", "vars", "xyzzy"]).stdout == ""


def test_the_words_of_a_table_are_explained_below_it_where_it_has_them() -> None:
    wide, narrow = (table([KNOWN["NCCL_ALGO"], KNOWN["NCCL_DEBUG"]], width=width) for width in (None, 60))
    assert "default auto: NCCL chooses" in legend(wide)[0]
    assert "same on all ranks" in legend(wide)[0]
    assert legend(narrow) == []
