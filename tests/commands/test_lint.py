"""`nccl lint` on this machine: which files are looked at, what is written, and what it says."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ncclrun.cli.main import app
from ncclrun.commands import lint
from ncclrun.console.lint import as_json, as_text
from ncclrun.model.errors import UsageError

WRONG = b"NCCL_SOCKET_IFNAME=eth1  # my card\nNCCL_DEBUG=INFO\n"
RIGHT = b"NCCL_SOCKET_IFNAME=eth1\nNCCL_DEBUG=INFO\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "nccl.conf"
    path.write_bytes(WRONG)
    return path


class TestFix:
    def test_writes_the_file_and_keeps_the_old_one_and_its_mode(self, file: Path) -> None:
        file.chmod(0o640)
        done = lint.lint_file(str(file), file.read_bytes(), None, fix=True)
        assert file.read_bytes() == RIGHT
        assert Path(done.backup).read_bytes() == WRONG
        assert file.stat().st_mode & 0o777 == 0o640
        assert (done.written, done.findings) == (True, ())

    def test_leaves_a_right_file_alone(self, file: Path) -> None:
        file.write_bytes(RIGHT)
        done = lint.lint_file(str(file), file.read_bytes(), None, fix=True)
        assert (done.written, done.backup) == (False, "")
        assert os.listdir(file.parent) == ["nccl.conf"]  # noqa: PTH208  # names are what is compared

    def test_writes_to_the_file_behind_a_link(self, file: Path, tmp_path: Path) -> None:
        link = tmp_path / "link.conf"
        link.symlink_to(file)
        lint.lint_file(str(link), link.read_bytes(), None, fix=True)
        assert link.is_symlink()
        assert file.read_bytes() == RIGHT

    def test_is_not_done_unasked(self, file: Path) -> None:
        assert lint.lint_file(str(file), file.read_bytes(), None).findings != ()
        assert file.read_bytes() == WRONG


SCRIPTS = [("job.sh", b"NCCL_DEBUG=DEBUG\n"), ("compose.yml", b"a:\n  NCCL_DEBUG: DEBUG\n"), ("x", b"#!/bin/sh\n")]
BASHRC = b"case $- in *i*) ;; *) return;; esac\nexport PATH=$HOME/bin:$PATH\nexport NCCL_DEBUG=DEBUG\n"
SCRIPTS += [(".bashrc", BASHRC), ("profile", BASHRC), ("settings", BASHRC), ("nccl.env", b'NCCL_DEBUG="DEBUG"\n')]


class TestWhatIsNoConfFile:
    @pytest.mark.parametrize(("name", "data"), SCRIPTS)
    def test_is_read_as_what_it_is_and_never_rewritten(self, tmp_path: Path, name: str, data: bytes) -> None:
        path = tmp_path / name
        path.write_bytes(data)
        found = lint.lint_file(str(path), data, None).findings
        assert {finding.id for finding in found} <= {"debug_silent"}
        with pytest.raises(UsageError, match="no conf file"):
            lint.lint_file(str(path), data, None, fix=True)
        assert path.read_bytes() == data

    @pytest.mark.parametrize(
        ("name", "data", "cluster"),
        [
            ("c.yaml", b"nodes: [a]\n", True),
            ("h", b"gpu1 slots=2\n", True),
            ("hosts", b"gpu1\ngpu2\n", True),
            ("notes.txt", b"gpu1\ngpu2\n", False),
            ("hosts", b"NCCL_DEBUG INFO\n", False),
            ("c.yaml", b"node: [a]\n", False),
        ],
    )
    def test_may_be_the_nodes_of_a_cluster(self, tmp_path: Path, name: str, data: bytes, cluster: bool) -> None:
        path = tmp_path / name
        path.write_bytes(data)
        assert lint.is_cluster_file(str(path), data) is cluster


class TestAClusterFileThatDoesNotLoad:
    DATA = b"nodes: [a]\nnccl:\n  env:\n    NCCL_P2P_DISABLE: yes\n    NCCL_DEBUG: VERBOSE\nnope: 1\n"

    def test_is_read_all_the_same_and_its_faults_stand_beside_those_of_its_settings(self, tmp_path: Path) -> None:
        path = tmp_path / "c.yaml"
        path.write_bytes(self.DATA)
        done = CliRunner().invoke(app, ["nccl", "lint", str(path), "--json"])
        assert done.exit_code == 1
        found = {(row["line"], row["level"], row["id"]) for row in json.loads(done.stdout)}
        assert found == {
            (4, "error", "cluster_file"),
            (4, "error", "word_for_number"),
            (5, "error", "debug_silent"),
            (6, "error", "cluster_file"),
            (None, "info", "not_asked"),
        }

    def test_says_that_its_nodes_are_not_asked(self, tmp_path: Path) -> None:
        path = tmp_path / "c.yaml"
        path.write_bytes(self.DATA)
        assert "the nodes were not asked" in CliRunner().invoke(app, ["nccl", "lint", str(path)]).stdout


class TestReading:
    def test_takes_a_pipe_once(self, tmp_path: Path) -> None:
        reader, writer = os.pipe()
        os.write(writer, b"nodes: [a]\n")
        os.close(writer)
        path = f"/dev/fd/{reader}"
        data = lint.read(path)
        assert data == b"nodes: [a]\n"
        with pytest.raises(UsageError, match="pipe"):
            lint.is_cluster_file(path, data)
        os.close(reader)

    def test_ends_where_no_file_of_settings_does(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="4 MiB"):
            lint.read("/dev/zero")
        path = tmp_path / "big"
        path.write_bytes(b"#" * lint.MOST_BYTES)
        assert len(lint.read(str(path))) == lint.MOST_BYTES

    def test_of_standard_input_that_is_closed_is_an_error_of_usage(self) -> None:
        with pytest.raises(UsageError, match="closed"):
            lint.read_stdin(None)

    @pytest.mark.parametrize("name", ["", " ", "-x", "a\nb"])
    def test_names_the_file_so_that_it_can_be_seen(self, name: str) -> None:
        with pytest.raises(UsageError, match=re.escape(shlex.quote(name))):
            lint.read(name)


def test_a_missing_file_is_an_error_of_usage(tmp_path: Path) -> None:
    (tmp_path / "nccl.conf").write_text("")
    with pytest.raises(UsageError, match="there is no file") as caught:
        lint.read(str(tmp_path / "ncl.conf"))
    assert caught.value.fix == f"Did you mean {tmp_path}/nccl.conf?"


class TestThisMachine:
    def test_is_its_files_as_nccl_would_read_them(self, file: Path, tmp_path: Path) -> None:
        home = tmp_path / "home"
        home.mkdir()
        (home / ".nccl.conf").write_bytes(RIGHT)
        environ = {"HOME": str(home), "NCCL_CONF_FILE": str(file), "NCCL_DEBUG": "INFO "}
        mine = [text for text in lint.lint_here(environ, None) if text.file != "/etc/nccl.conf"]
        assert [text.file for text in mine] == [str(file), lint.SHELL]
        assert [[finding.id for finding in text.findings] for text in mine] == [["inline_comment"], ["trailing_blank"]]
        del environ["NCCL_CONF_FILE"]
        assert str(home / ".nccl.conf") in [text.file for text in lint.lint_here(environ, None)]

    def test_says_when_the_named_file_is_not_there(self, tmp_path: Path) -> None:
        texts = lint.lint_here({"NCCL_CONF_FILE": str(tmp_path / "none")}, None)
        assert [finding.id for finding in texts[0].findings] == ["unreadable"]


def test_standard_input_that_is_a_script_is_not_rewritten() -> None:
    assert [finding.id for finding in lint.lint_text(BASHRC, None).findings] == ["debug_silent"]
    with pytest.raises(UsageError, match="no conf file"):
        lint.refuse_others(lint.STDIN, BASHRC)


def test_a_start_up_file_is_read_at_login_and_a_list_of_variables_by_whom_nobody_knows() -> None:
    text = b"NCCL_IB_DISABLE=1\n"
    found = {name: [one.id for one in lint.lint_other(text, None, name).findings] for name in (".bashrc", "v.sh")}
    assert found == {".bashrc": ["not_exported"], "v.sh": []}


def test_standard_input_that_is_plainly_an_environment_is_taken_for_one() -> None:
    assert lint.lint_text(b"PATH=/bin\nPS1=x # y\n", None).findings == ()


class TestWhatIsSaid:
    def test_to_programs_is_one_list_with_these_keys(self, file: Path) -> None:
        (row,) = json.loads(as_json([lint.lint_file(str(file), file.read_bytes(), None)]))
        assert list(row) == ["file", "line", "name", "value", "level", "id", "sees", "fix"]
        assert (row["line"], row["fix"]) == (1, "NCCL_SOCKET_IFNAME=eth1")
        assert json.loads(as_json([])) == []

    def test_to_programs_can_be_encoded_whatever_the_bytes_are(self) -> None:
        text = lint.lint_text(b"NCCL_TOPO_FILE=/\xff # x\n", None)
        assert json.loads(as_json([text]).encode())[0]["value"].startswith("/\ufffd")

    def test_to_people_has_the_line_what_nccl_sees_and_the_right_line(self, file: Path) -> None:
        said = as_text([lint.lint_file(str(file), file.read_bytes(), None)], colors=False)
        assert "  1: NCCL_SOCKET_IFNAME=eth1  # my card\n     error: " in said
        assert "     fix: NCCL_SOCKET_IFNAME=eth1\n" in said
        assert said.endswith("ncclrun: 1 error in 1 file\n")
        assert "\x1b" not in said
        assert "\x1b[1;31merror\x1b[0m" in as_text([lint.lint_file(str(file), file.read_bytes(), None)], colors=True)

    def test_of_right_files_is_one_line(self) -> None:
        assert as_text([lint.lint_text(RIGHT, None)] * 2, colors=False) == "ncclrun: no finding in 2 files\n"

    def test_to_people_folds_sentences_between_words_and_leaves_lines_to_copy_whole(self) -> None:
        data = b"NCCL_SOCKET_IFNAME=eth1,eth2,eth3,eth4,eth5,eth6  # these are all of my cards in this machine\n"
        said = as_text([lint.lint_text(data, None)], colors=False, width=60).splitlines()
        sentence = [line for line in said if line.startswith("     ") and "fix: " not in line]
        assert len(sentence) > 1
        assert max(map(len, sentence)) <= 60
        assert all(line.startswith("       ") for line in sentence[1:])
        assert "     fix: NCCL_SOCKET_IFNAME=eth1,eth2,eth3,eth4,eth5,eth6" in said
        whole = as_text([lint.lint_text(data, None)], colors=False)
        assert " ".join(line.strip() for line in sentence) in whole

    def test_to_people_says_in_what_it_was_found(self) -> None:
        shell = lint.Linted(lint.SHELL, ())
        assert as_text([shell], colors=False) == "ncclrun: no finding in this shell's environment\n"
        both = [shell, lint.lint_text(RIGHT, None)]
        assert as_text(both, colors=False) == "ncclrun: no finding in 2 files and environments\n"

    def test_never_shows_a_secret(self) -> None:
        texts = [lint.lint_text(b"NCCL_X_TOKEN=hunter2  # x\n", None)]
        assert texts[0].findings != ()
        for said in (as_text(texts, colors=False), as_json(texts)):
            assert "hunter2" not in said

    def test_never_shows_a_secret_that_stands_on_the_same_line(self) -> None:
        data = b'run -e HF_TOKEN=hunter2 -e NCCL_DEBUG=DEBUG\n{"A_PASSWORD": "hunter2", "NCCL_DEBUG": "DEBUG"}\n'
        texts = [lint.lint_other(data, None, "x")]
        assert [finding.line for finding in texts[0].findings] == [1, 2]
        for said in (as_text(texts, colors=False), as_json(texts)):
            assert "hunter2" not in said

    def test_to_programs_is_a_list_also_where_nothing_could_be_done(self) -> None:
        (row,) = json.loads(as_json([lint.not_done(UsageError("no", fix="do"), "f")]))
        assert (row["file"], row["level"], row["id"], row["sees"], row["fix"]) == ("f", "error", "not_done", "no", "do")

    def test_moves_no_cursor(self) -> None:
        assert "\x1b" not in as_text([lint.lint_text(b"NCCL_DEBUG=\x1b[2J # x\n", None)], colors=False)
