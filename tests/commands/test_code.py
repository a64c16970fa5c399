"""The script's directory on its way: what travels, what stays, and that it arrives as it was."""

from __future__ import annotations

import io
import os
import shutil
import socket
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ncclrun.commands import code
from ncclrun.commands.code import Archive, find_source, pack
from ncclrun.model.errors import UsageError
from ncclrun.model.job import JobSpec
from ncclrun.node import archive as node_archive
from tests.planning.makers import node

Tree = Callable[..., Path]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Makes files below one directory: ``tree(**{"a/b.py": "text"})``."""

    def make(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / "project" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path / "project"

    return make


def names(archive: Archive) -> set[str]:
    """Files and links in it."""
    with tarfile.open(fileobj=io.BytesIO(archive.data)) as tar:
        return {member.name for member in tar if not member.isdir()}


def unpacked(archive: Archive, where: Path) -> Path:
    """As the node unpacks it."""
    packed = where / "code.tar.gz"
    packed.write_bytes(archive.data)
    root = where / "unpacked"
    root.mkdir()
    node_archive.unpack(packed, root)
    return root


class TestGitignore:
    """git's rules."""

    def test_patterns_at_every_depth(self, tree: Tree) -> None:
        root = tree(
            {
                ".gitignore": "*.pt\n/build\ndata/\n# a comment\n\n",
                "train.py": "",
                "model.pt": "",
                "build/x": "",
                "pkg/build/y": "",
                "pkg/.gitignore": "*.log\n",
                "pkg/a.log": "",
                "pkg/b.py": "",
                "a.log": "",
                "pkg/data/z": "",
            }
        )
        assert names(pack(root)) == {".gitignore", "train.py", "pkg/build/y", "pkg/.gitignore", "pkg/b.py", "a.log"}

    def test_negation_and_that_the_innermost_file_decides(self, tree: Tree) -> None:
        root = tree(
            {
                ".gitignore": "*.bin\n!keep.bin\n",
                "a.bin": "",
                "keep.bin": "",
                "in/.gitignore": "!a.bin\nkeep.bin\n",
                "in/a.bin": "",
                "in/keep.bin": "",
            }
        )
        assert names(pack(root)) == {".gitignore", "keep.bin", "in/.gitignore", "in/a.bin"}

    def test_those_between_the_repositorys_root_and_the_directory_count(self, tree: Tree) -> None:
        root = tree(
            {".git/HEAD": "", ".gitignore": "*.pt\n/src/out\n", "src/t.py": "", "src/a.pt": "", "src/out/x": ""}
        )
        assert names(pack(root / "src")) == {"t.py"}

    def test_those_above_the_repository_do_not(self, tree: Tree) -> None:
        root = tree({".gitignore": "*.py\n", "repo/.git/HEAD": "", "repo/t.py": "", "no_repo/t.py": ""})
        assert names(pack(root / "repo")) == {"t.py"}
        assert names(pack(root / "no_repo")) == {"t.py"}

    def test_a_directory_that_is_left_out_itself_travels_when_the_script_is_in_it(self, tree: Tree) -> None:
        root = tree({".git/HEAD": "", ".gitignore": "scratch/\n", "scratch/t.py": "", "scratch/helper.py": ""})
        assert names(pack(root / "scratch")) == {"t.py", "helper.py"}

    def test_windows_line_ends_a_byte_order_mark_and_nonsense_do_no_harm(self, tree: Tree) -> None:
        root = tree({".gitignore": "\ufeff*.pt\r\n!\r\n[\r\n*.bin\r\n", "a.pt": "", "b.bin": "", "t.py": ""})
        assert names(pack(root)) == {".gitignore", "t.py"}

    @pytest.mark.skipif(shutil.which("git") is None, reason="compares with git, which is not here")
    def test_it_is_as_git_has_it(self, tree: Tree) -> None:
        patterns = (
            "*.o\n!b.o\n/top\nmid/x\n**/deep\nd?r/\nq[ab]\n\\!bang\n\\#hash\ntrail \nsp\\ \na/**/z\n!in/.o\n*.[ch]~\n"
        )
        text = """a.o b.o in/b.o in/c.o top in/top mid/x in/mid/x deep in/deep/f dir/f in/d1r/f d1r qa in/qb qc
            !bang bang #hash trail a/z a/b/z a/b/c/z a/zz x.c~ in/x.h~ in/keep"""
        files = text.split()
        root = tree({".gitignore": patterns, "in/.gitignore": "!qb\nkeep\n", "sp ": "", **dict.fromkeys(files, "")})
        git = ["git", "-c", "core.excludesFile=/dev/null"]
        subprocess.run([*git, "init", "-q"], cwd=root, check=True)
        out = subprocess.run(
            [*git, "ls-files", "-z", "--others", "--exclude-standard"], cwd=root, check=True, stdout=subprocess.PIPE
        ).stdout
        assert names(pack(root)) == set(out.decode().split("\0")) - {""}

    def test_one_that_can_not_be_read_is_an_error(self, tree: Tree) -> None:
        root = tree({".gitignore": "", "t.py": ""})
        with unreadable(root / ".gitignore"), pytest.raises(UsageError, match=r"can't read .*\.gitignore"):
            pack(root)


class TestLeftBehind:
    """What never travels."""

    def test_version_control_caches_and_environments(self, tree: Tree) -> None:
        root = tree(
            {
                "t.py": "",
                ".git/config": "",
                "sub/.git": "gitdir: x",
                "sub/__pycache__/t.pyc": "",
                "node_modules/x": "",
                "env/pyvenv.cfg": "",
                "env/lib/x.py": "",
            }
        )
        assert names(pack(root)) == {"t.py"}

    def test_pipes_and_sockets_are_told(self, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
        root = tree({"t.py": ""})
        os.mkfifo(root / "pipe")
        monkeypatch.chdir(root)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind("sock")  # relative: a socket's path is short
            found = pack(root)
        assert names(found) == {"t.py"}
        assert found.notes == (
            "not sent, neither file nor directory: pipe",
            "not sent, neither file nor directory: sock",
        )

    def test_of_a_home_directory_all_but_its_python_files_and_what_is_named(
        self, tree: Tree, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        root = tree({"t.py": "", "helper.py": "", "photos/x": "", ".ssh/id": "", "run.sh": ""})
        monkeypatch.setenv("HOME", str(root))
        found = pack(root, ["run.sh"])
        assert names(found) == {"t.py", "helper.py", "run.sh"}
        assert "is no project directory" in found.notes[0]

    def test_a_user_without_a_home_can_pack(self, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
        def nowhere() -> Path:
            raise RuntimeError("Could not determine home directory.")

        monkeypatch.setattr(Path, "home", nowhere)
        assert names(pack(tree({"t.py": ""}))) == {"t.py"}


class TestLinks:
    """A node takes no link that leads out: pack must not send one."""

    def test_links_within_stay_links_wherever_they_point_from(self, tree: Tree, tmp_path: Path) -> None:
        root = tree({"a/data.txt": "here", "b/c/t.py": ""})
        (root / "b/c/relative").symlink_to("../../a/data.txt")
        (root / "b/absolute").symlink_to(root / "a")
        (root / "b/roundabout").symlink_to("c/../../a/data.txt")
        (root / "b/by_name").symlink_to("../../project/a/data.txt")
        (root / "self").symlink_to(".")
        there = unpacked(pack(root), tmp_path)
        assert (there / "b/c/relative").is_symlink()
        for path in ("b/c/relative", "b/absolute/data.txt", "b/roundabout", "b/by_name", "self/a/data.txt"):
            assert (there / path).read_text() == "here"

    def test_links_that_lead_out_are_told_and_not_sent(self, tree: Tree, tmp_path: Path) -> None:
        root = tree({"t.py": ""})
        (tmp_path / "secret").write_text("x")
        (root / "out").symlink_to("../secret")
        (root / "etc").symlink_to("/etc")
        (root / "hop").symlink_to("out")
        found = pack(root)
        assert names(found) == {"t.py"}
        assert len(found.notes) == 3
        assert all("a link out of the directory" in note for note in found.notes)

    def test_dangling_ones_and_circles_do_no_harm(self, tree: Tree, tmp_path: Path) -> None:
        root = tree({"t.py": ""})
        (root / "dangling").symlink_to("not/there")
        (root / "one").symlink_to("two")
        (root / "two").symlink_to("one")
        there = unpacked(pack(root), tmp_path)
        assert (there / "dangling").readlink() == Path("not/there")
        assert (there / "t.py").is_file()

    def test_a_script_that_is_a_link_out_travels_as_a_file(self, tree: Tree, tmp_path: Path) -> None:
        root = tree({"x": ""})
        (tmp_path / "real.py").write_text("print(1)")
        (root / "train.py").symlink_to(tmp_path / "real.py")
        found = pack(root, ["train.py"])
        assert (unpacked(found, tmp_path) / "train.py").read_text() == "print(1)"
        assert found.notes == ()


class TestArrival:
    """Byte for byte, whatever the names."""

    STRANGE = (b"with space", b"new\nline", b"not\xff\xfeutf8", "é\u2028".encode(), b"-dash", b"q'\"$(x)", b"n" * 255)

    def test_names_arrive_byte_for_byte(self, tree: Tree, tmp_path: Path) -> None:
        root = tree({"t.py": ""})
        for name in self.STRANGE:
            (root / os.fsdecode(name)).write_bytes(name)
        (root / os.fsdecode(b"link\xff")).symlink_to(os.fsdecode(b"not\xff\xfeutf8"))
        there = unpacked(pack(root), tmp_path)
        assert {os.fsencode(path.name) for path in there.iterdir()} == {*self.STRANGE, b"t.py", b"link\xff"}
        for name in self.STRANGE:
            assert (there / os.fsdecode(name)).read_bytes() == name
        assert (there / os.fsdecode(b"link\xff")).read_bytes() == b"not\xff\xfeutf8"

    def test_a_strange_name_is_shown_without_harm(self, tree: Tree) -> None:
        root = tree({"t.py": ""})
        os.mkfifo(root / os.fsdecode(b"p\xff"))
        (root / "a\x1b[2J").symlink_to("/etc")
        notes = "\n".join(pack(root).notes)
        assert notes.isascii()
        assert "\x1b" not in notes

    def test_content_and_the_executable_bit(self, tree: Tree, tmp_path: Path) -> None:
        root = tree({"run.sh": "#!/bin/sh\n", "t.py": "x = 1\n", "pkg/__init__.py": ""})
        (root / "run.sh").chmod(0o755)
        (root / "blob").write_bytes(bytes(range(256)))
        there = unpacked(pack(root), tmp_path)
        assert os.access(there / "run.sh", os.X_OK)
        assert not (there / "t.py").stat().st_mode & 0o111
        assert (there / "blob").read_bytes() == bytes(range(256))
        assert (there / "pkg/__init__.py").read_bytes() == b""

    def test_empty_directories_travel_and_count_for_no_file(self, tree: Tree, tmp_path: Path) -> None:
        root = tree({"t.py": ""})
        (root / "out/a").mkdir(parents=True)
        found = pack(root)
        assert (unpacked(found, tmp_path) / "out/a").is_dir()
        assert found.files == 1


class TestSameContent:
    """Not sent twice: the same content is the same archive."""

    FILES = {"t.py": "x = 1\n", "pkg/a.py": "y = 2\n", ".gitignore": "*.pt\n"}  # noqa: RUF012  # nothing writes to it

    def copy(self, where: Path, *, umask: int = 0o022) -> Path:
        before = os.umask(umask)
        try:
            for name, text in sorted(self.FILES.items(), reverse=umask == 0o077):
                (where / name).parent.mkdir(parents=True, exist_ok=True)
                (where / name).write_text(text)
        finally:
            os.umask(before)
        (where / "link").symlink_to(where / "pkg/a.py")
        return where

    def test_at_another_time_in_another_place_under_another_umask(self, tmp_path: Path) -> None:
        one, two = self.copy(tmp_path / "one"), self.copy(tmp_path / "two" / "deeper", umask=0o077)
        os.utime(two / "t.py", (1, 1))
        (two / "weights.pt").write_text("ignored")
        assert pack(one).sha256 == pack(two).sha256

    @pytest.mark.parametrize("change", ["content", "name", "mode", "directory"])
    def test_what_differs_is_another(self, tmp_path: Path, change: str) -> None:
        root = self.copy(tmp_path / "one")
        before = pack(root).sha256
        if change == "content":
            (root / "t.py").write_text("x = 3\n")
        elif change == "name":
            (root / "t.py").rename(root / "u.py")
        elif change == "mode":
            (root / "t.py").chmod(0o755)
        else:
            (root / "new").mkdir()
        assert pack(root).sha256 != before


class TestTooMuch:
    """The size cap, and what can't be read."""

    def test_says_how_much_and_what_is_largest(self, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(code, "SIZE_LIMIT", 2 << 20)
        root = tree({"t.py": ""})
        for size in (1, 2):
            (root / f"big{size}").write_bytes(bytes(size << 20))
        (root / "link").symlink_to("big1")  # travels as a link and weighs nothing
        with pytest.raises(UsageError) as caught:
            pack(root)
        assert "has 3 MiB in 3 files to send, the limit is 2 MiB" in caught.value.message
        assert caught.value.message.splitlines()[1:3] == ["       2.0 MiB  big2", "       1.0 MiB  big1"]
        assert ".gitignore" in caught.value.fix

    def test_what_is_ignored_weighs_nothing(self, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(code, "SIZE_LIMIT", 100)
        assert pack(tree({"t.py": "", ".gitignore": "big\n", "big": "x" * 1000})).files == 2

    @pytest.mark.parametrize("what", ["sub/secret", "sub"])
    def test_one_that_can_not_be_read_is_named(self, tree: Tree, what: str) -> None:
        root = tree({"t.py": "", "sub/secret": ""})
        with unreadable(root / what), pytest.raises(UsageError) as caught:
            pack(root)
        assert f"can't read {root / what}, which would travel to the nodes: Permission denied" in caught.value.message
        assert "--no-sync" in caught.value.fix

    def test_a_file_that_shrinks_meanwhile_is_no_silent_damage(
        self, tree: Tree, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        root = tree({"t.py": "x" * 100})
        real = os.fstat

        def fstat(descriptor: int) -> os.stat_result:
            status = list(real(descriptor))
            status[6] = 200
            return os.stat_result(status)

        monkeypatch.setattr(os, "fstat", fstat)
        with pytest.raises(UsageError, match=r"can't read a file in .*: unexpected end of data"):
            pack(root)


class TestFindSource:
    """What travels for which command line."""

    @pytest.fixture(autouse=True)
    def project(self, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> Path:
        root = tree({"sub/train.py": "", "sub/helper.py": "", "pkg/main.py": "", "run.sh": "", "-odd.py": ""})
        monkeypatch.chdir(root)
        return root

    def test_a_script_brings_its_directory(self) -> None:
        source = find_source(JobSpec("script", "sub/train.py"), [node("a")])
        assert (source.program, source.workdir) == ("train.py", None)
        assert source.archive is not None
        assert names(source.archive) == {"train.py", "helper.py"}

    def test_a_script_travels_even_when_it_is_ignored(self, project: Path) -> None:
        (project / "sub/.gitignore").write_text("*.py\n")
        source = find_source(JobSpec("script", "sub/train.py"), [node("a")])
        assert source.archive is not None
        assert names(source.archive) == {".gitignore", "train.py"}

    def test_a_script_that_python_would_take_for_an_option(self) -> None:
        assert find_source(JobSpec("script", "./-odd.py"), [node("a")]).program == "./-odd.py"

    def test_a_script_that_only_the_nodes_have_is_absolute(self) -> None:
        source = find_source(JobSpec("script", "/opt/only/there.py"), [node("a")])
        assert (source.program, source.archive) == ("/opt/only/there.py", None)

    def test_a_directory_is_no_script(self) -> None:
        with pytest.raises(UsageError, match="sub is a directory"):
            find_source(JobSpec("script", "sub"), [node("a")])

    def test_without_a_current_directory_nothing_is_sent(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "gone").mkdir()
        monkeypatch.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()
        with pytest.raises(UsageError, match="does not exist any more"):
            find_source(JobSpec("script", "a.py"), [node("a")])

    @pytest.mark.parametrize("script", ["no.py", "x" * 5000])
    def test_a_script_that_is_nowhere_is_an_error(self, script: str) -> None:
        with pytest.raises(UsageError, match="there is no script"):
            find_source(JobSpec("script", script), [node("a")])

    @pytest.mark.parametrize(("module", "travels"), [("pkg.main", True), ("pkg", True), ("torch.utils", False)])
    def test_a_module_that_is_here_brings_the_current_directory(self, module: str, travels: bool) -> None:
        source = find_source(JobSpec("module", module), [node("a")])
        assert source.program == module
        assert (source.archive is not None) is travels

    @pytest.mark.parametrize(
        ("words", "travels"),
        [
            (("./run.sh",), True),
            (("bash", "run.sh"), True),
            (("echo", "hello"), False),
            (("/bin/ls", "/etc/passwd"), False),
            (("echo", "x" * 5000, "a\0b", ""), False),
        ],
    )
    def test_a_command_that_names_a_file_here_brings_the_current_directory(
        self, words: tuple[str, ...], travels: bool
    ) -> None:
        job = JobSpec("command", words[0], words[1:], launcher="exec")
        assert (find_source(job, [node("a")]).archive is not None) is travels

    def test_without_sync_the_nodes_have_this_directory(self, project: Path) -> None:
        source = find_source(JobSpec("script", "sub/train.py", sync=False), [node("a")])
        assert (source.program, source.workdir, source.archive) == ("sub/train.py", str(project), None)

    def test_with_a_workdir_nothing_travels(self) -> None:
        source = find_source(JobSpec("script", "sub/train.py"), [node("a", workdir="/w")])
        assert (source.program, source.workdir, source.archive) == ("sub/train.py", "/w", None)

    def test_a_workdir_on_some_nodes_is_an_error(self) -> None:
        with pytest.raises(UsageError, match="some nodes have a workdir and b has none"):
            find_source(JobSpec("script", "sub/train.py"), [node("a", workdir="/w"), node("b")])


class unreadable:  # noqa: N801  # reads as a function where it is used
    """Takes the right to read away, from root too (which could read anything), by refusing in `open` and `listdir`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        self._patch = pytest.MonkeyPatch()
        self._path.chmod(0)
        if os.geteuid() == 0:
            for name in ("open", "iterdir", "read_bytes"):
                self._refuse(name)

    def _refuse(self, name: str) -> None:
        real = getattr(Path, name)

        def refusing(path: Path, *args: str) -> object:
            if path == self._path:
                raise PermissionError(13, "Permission denied", str(path))
            return real(path, *args)

        self._patch.setattr(Path, name, refusing)

    def __exit__(self, *_: object) -> None:
        self._patch.undo()
        self._path.chmod(0o755)
