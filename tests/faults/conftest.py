"""The bench of the jobs' tests, for faults."""

from tests.jobs.conftest import bench, make_bench

__all__ = ["bench", "make_bench"]
