"""What .gitignore files leave out, read as git reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


@dataclass(frozen=True)
class Rules:
    """One .gitignore: patterns relative to where it lies."""

    base: Path
    spec: GitIgnoreSpec

    def verdict(self, path: Path, is_dir: bool) -> bool | None:
        """True: ignored, False: taken back in by ``!``, None: not named."""
        name = path.relative_to(self.base).as_posix() + ("/" if is_dir else "")
        result: bool | None = self.spec.check_file(name).include
        return result


def is_ignored(path: Path, rules: Sequence[Rules], *, is_dir: bool) -> bool:
    """git's rule: the innermost file that says anything decides. ``rules`` has the outermost first."""
    for rule in reversed(rules):
        verdict = rule.verdict(path, is_dir)
        if verdict is not None:
            return verdict
    return False


def rules_in(directory: Path) -> list[Rules]:
    """The rules that lie in ``directory`` itself, none or one. Raises OSError where they can't be read."""
    file = directory / ".gitignore"
    if not file.is_file():
        return []
    from pathspec import GitIgnoreSpec

    # As bytes that are no UTF-8 stand in the names of files, so that they can match; and only \n ends a line for git.
    text = file.read_bytes().decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    return [Rules(directory, GitIgnoreSpec.from_lines(filter(_is_pattern, text.split("\n"))))]


def rules_above(directory: Path) -> list[Rules]:
    """The rules between the repository's root and ``directory``, outermost first.

    None where these leave out ``directory`` itself: someone who starts a script in there means what is in there.
    """
    chain = [directory]
    while not (chain[-1] / ".git").exists():
        if chain[-1].parent == chain[-1]:
            return []
        chain.append(chain[-1].parent)
    rules: list[Rules] = []
    for outer, inner in pairwise(reversed(chain)):
        rules += rules_in(outer)
        if is_ignored(inner, rules, is_dir=True):
            return []
    return rules


def _is_pattern(line: str) -> bool:
    """git passes over a pattern that makes no sense."""
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True
