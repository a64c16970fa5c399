"""Code archives: what is honest is unpacked as it was, and nothing lands outside."""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncclrun.node import archive
from ncclrun.node.refusal import Refusal


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.mode = kind, link, mode
    return member


def packed(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for member, content in members:
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def snapshot(path: Path) -> list[tuple[str, bytes]]:
    files = (p for p in sorted(path.rglob("*")) if p.is_file() and not p.is_symlink())
    return [(str(p.relative_to(path)), p.read_bytes()) for p in files]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "outer" / "root"
    path.mkdir(parents=True)
    return path


def test_an_honest_tree_arrives_as_it_was(tmp_path: Path, root: Path) -> None:
    path = packed(
        tmp_path / "a.tar.gz",
        (entry("./"), b""),
        (entry("pkg/deep/train.py"), b"print(1)\n"),
        (entry("run.sh", mode=0o4755), b"#!/bin/sh\n"),
        (entry("pkg/link", tarfile.SYMTYPE, "../run.sh"), b""),
        (entry("hard", tarfile.LNKTYPE, "run.sh"), b""),
        (entry("empty", tarfile.DIRTYPE), b""),
        (entry("name with\nline feed \u00e9"), b"x"),
    )
    archive.unpack(path, root)
    assert (root / "pkg/deep/train.py").read_bytes() == b"print(1)\n"
    assert (root / "run.sh").stat().st_mode & 0o7777 == 0o711
    assert (root / "pkg/link").resolve() == root / "run.sh"
    assert (root / "hard").samefile(root / "run.sh")
    assert (root / "empty").is_dir()
    assert (root / "name with\nline feed \u00e9").read_bytes() == b"x"


@pytest.mark.parametrize(
    "members",
    [
        [entry("/etc/planted")],
        [entry("../planted")],
        [entry("a/../../planted")],
        [entry("l", tarfile.SYMTYPE, "/etc")],
        [entry("l", tarfile.SYMTYPE, "..")],
        [entry("a/l", tarfile.SYMTYPE, "../../planted")],
        # each harmless alone; read one after the other they lead above the root
        [entry("here", tarfile.SYMTYPE, "."), entry("up", tarfile.SYMTYPE, "here/..")],
        [entry("d", tarfile.SYMTYPE, "."), entry("d/planted")],
        [entry("f"), entry("f/planted")],
        [entry("f"), entry("f")],
        [entry("f", tarfile.SYMTYPE, "g"), entry("f")],
        [entry("h", tarfile.LNKTYPE, "../outer-file")],
        [entry("h", tarfile.LNKTYPE, "missing")],
        [entry("null", tarfile.CHRTYPE)],
        [entry("pipe", tarfile.FIFOTYPE)],
    ],
    ids=lambda members: "+".join(f"{m.name}>{m.linkname}" for m in members),
)
def test_what_would_lead_outside_is_refused(tmp_path: Path, root: Path, members: list[tarfile.TarInfo]) -> None:
    (root.parent.parent / "outer-file").write_text("mine")
    path = packed(tmp_path / "a.tar.gz", *((member, b"") for member in members))
    before = [p for p in snapshot(tmp_path) if "/root/" not in p[0]]
    with pytest.raises(Refusal) as refused:
        archive.unpack(path, root)
    assert refused.value.code == "bad_code"
    assert [p for p in snapshot(tmp_path) if "/root/" not in p[0]] == before


names = st.sampled_from(["a", "b", ".", "..", "a/b", "a/..", "../x", "/x", "b/a/..", "a/b/c", "b/../..", "."])
kinds = st.sampled_from([tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE])


@settings(max_examples=150, deadline=None)
@given(members=st.lists(st.tuples(names, kinds, names), max_size=6))
def test_no_archive_touches_or_shows_what_lies_outside(members: list[tuple[str, bytes, str]]) -> None:
    with tempfile.TemporaryDirectory() as base:
        root = Path(base) / "outer" / "root"
        root.mkdir(parents=True)
        path = packed(Path(base) / "a.tar.gz", *((entry(n, k, link), b"") for n, k, link in members))
        try:
            archive.unpack(path, root)
        except Refusal as refusal:
            assert refusal.code == "bad_code"
        assert sorted(p.name for p in Path(base).iterdir()) == ["a.tar.gz", "outer"]
        assert [p.name for p in root.parent.iterdir()] == ["root"]
        for found in root.rglob("*"):
            if found.is_symlink():
                try:
                    target = found.resolve()
                except (OSError, RuntimeError):
                    continue  # links in a circle lead nowhere
                assert target == root.resolve() or root.resolve() in target.parents


@pytest.mark.parametrize("damage", ["cut", "noise", "empty"])
def test_a_damaged_archive_is_a_refusal(tmp_path: Path, root: Path, damage: str) -> None:
    path = packed(tmp_path / "a.tar.gz", (entry("f"), os.urandom(100_000)))
    whole = path.read_bytes()
    path.write_bytes({"cut": whole[:50_000], "noise": os.urandom(500), "empty": b""}[damage])
    with pytest.raises(Refusal) as refused:
        archive.unpack(path, root)
    assert refused.value.code == "bad_code"
