"""In CI a test that was skipped has failed: else a machine that lacks everything would pass."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SKIPPED_TEST = "import pytest\n\n\ndef test_it():\n    pytest.skip('no ships here')\n"
SKIPPED_FILE = "import pytest\n\npytest.importorskip('no_such_module')\n"
EXPECTED_FAILURE = "import pytest\n\n\n@pytest.mark.xfail\ndef test_it():\n    assert False\n"


def run(directory: Path, source: str, *, ci: str) -> subprocess.CompletedProcess[str]:
    """Runs one test file under our conftest.py."""
    (directory / "test_inner.py").write_text(source)
    argv = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-rA", "--rootdir", "."]
    environment = {**os.environ, "CI": ci, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [*argv, "-c", os.devnull],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(("source", "reason"), [(SKIPPED_TEST, "no ships here"), (SKIPPED_FILE, "no_such_module")])
def test_a_skip_fails_in_ci_and_says_why(tmp_path: Path, source: str, reason: str) -> None:
    done = run(tmp_path, source, ci="true")
    assert done.returncode != 0
    assert "In CI nothing may be skipped" in done.stdout
    assert reason in done.stdout


def test_a_skip_is_a_skip_elsewhere(tmp_path: Path) -> None:
    done = run(tmp_path, SKIPPED_TEST, ci="")
    assert done.returncode == 0
    assert "1 skipped" in done.stdout


def test_an_expected_failure_is_no_skip(tmp_path: Path) -> None:
    assert run(tmp_path, EXPECTED_FAILURE, ci="true").returncode == 0
