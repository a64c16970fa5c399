"""A job that fails on real hosts is explained: at its end, while it runs, later, and from another machine."""

from __future__ import annotations

import pytest

from tests.jobs.bench import Bench

pytestmark = pytest.mark.cluster

OOM = "RuntimeError: CUDA out of memory. Tried to allocate 2 GiB"
REFUSED = (
    "h:1:1 [0] NCCL INFO socketPollConnect: connect to 10.9.9.9<4000> returned Connection refused, retrying (7/34)"
)
FAILS = f"""
if test $RANK = 1; then sleep 1; echo '{OOM}' >&2; exit 1; fi
echo '{REFUSED}'
exec sleep 1000
"""


def test_its_end_has_the_finding_and_a_warning_came_before(bench: Bench) -> None:
    done = bench.sh(FAILS, options=("--grace", "2"))
    assert done.code == 1
    finding = done.end["finding"]
    assert (finding["id"], finding["hosts"], finding["ranks"]) == ("gpu-oom", [bench.cluster.hosts[1].name], "1")
    warned = [event for event in done.of("warning") if "10.9.9.9" in event["text"]]
    assert {event["id"] for event in warned} == {"conn-refused-retry"}
    assert sorted(event["node"] for event in warned) == [bench.cluster.hosts[0].name, bench.cluster.hosts[2].name]


def test_it_is_explained_again_here_and_from_a_machine_that_has_nothing_of_it(bench: Bench) -> None:
    bench.sh(FAILS, options=("--grace", "2"))
    here = bench.run("explain", "--json")
    other = bench.run(
        "explain", "--json", "--cluster", bench.file, env={"XDG_STATE_HOME": str(bench.directory / "other")}
    )
    for done in (here, other):
        assert done.code == 0
        [diagnosis] = done.of("explained")
        assert diagnosis["found"]["id"] == "gpu-oom"
        assert diagnosis["found"]["evidence"][0]["text"] == OOM
        assert [fault["id"] for fault in diagnosis["consequences"]] == ["conn-refused-retry"]
