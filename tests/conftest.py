"""Fixtures that all tests share: clusters to play with, and the rule that nothing is skipped in CI."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Iterator

import hypothesis
import pytest

from tests.cluster import cluster as namespaces
from tests.cluster import loopback as loopbacks
from tests.cluster.cluster import Cluster
from tests.cluster.loopback import Loopback
from tests.jobs.bench import hear_signals

# No test is about time: a busy machine is no fault of what it looks at.
hypothesis.settings.register_profile("steady", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("steady")


def pytest_configure() -> None:
    """Commands that the tests start hear signals."""
    hear_signals()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What has hosts of its own comes first: its files take minutes, and none of them is to be the last one alone."""
    items.sort(key=lambda item: item.get_closest_marker("cluster") is None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a test that could not run has failed."""
    report = yield
    _fail_a_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a whole file."""
    report = yield
    _fail_a_skip(report)
    return report


def _fail_a_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"In CI nothing may be skipped. {reason}"


@pytest.fixture
def make_cluster() -> Iterator[Callable[..., Cluster]]:
    """Makes clusters with options of one's own (see ``Cluster``); they are gone after the test."""
    if reason := namespaces.why_not():
        pytest.skip(reason)
    with contextlib.ExitStack() as stack:
        yield lambda count, **options: stack.enter_context(Cluster(count, **options))


@pytest.fixture(scope="session")
def _cluster3() -> Iterator[Cluster]:
    if reason := namespaces.why_not():
        pytest.skip(reason)
    with Cluster(3) as cluster:
        yield cluster


@pytest.fixture
def cluster3(_cluster3: Cluster) -> Iterator[Cluster]:
    """Three hosts that the whole session shares. What is off or cut afterwards comes back; files and keys don't."""
    yield _cluster3
    _cluster3.mend()


@pytest.fixture
def loopback() -> Iterator[Loopback]:
    """Three sshds on 127.0.0.N, without root."""
    if reason := loopbacks.why_not():
        pytest.skip(reason)
    with Loopback(3) as cluster:
        yield cluster
