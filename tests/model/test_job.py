"""A job's title."""

from __future__ import annotations

from typing import Literal

import pytest

from ncclrun.model.job import JobSpec


@pytest.mark.parametrize(
    ("kind", "words", "title"),
    [
        ("script", ("train.py", "--key=secret"), "train.py"),
        ("module", ("pkg.train", "x.py"), "pkg.train"),
        ("command", ("python3", "train.py", "--key=secret"), "python3 train.py"),
        ("command", ("./run.sh", "secret"), "./run.sh"),
        ("command", ("sh", "-c", "train.py"), "sh"),
        ("command", ("prog", "--key=train.py"), "prog"),
        ("command", ("prog",), "prog"),
    ],
)
def test_names_the_program_and_its_script_but_nothing_that_may_be_secret(
    kind: Literal["script", "module", "command"], words: tuple[str, ...], title: str
) -> None:
    assert JobSpec(kind=kind, program=words[0], args=words[1:]).title == title
