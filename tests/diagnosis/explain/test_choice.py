"""Of several faults in logs the one that brought the others about, and none that ended nothing."""

from __future__ import annotations

import pytest

from tests.diagnosis.explain.logs import explained, found

NCCL = "{host}:9:9 [0] NCCL INFO {text}"
FAILED = "gpu1:9:9 [0] NCCL WARN Connect to 10.1.0.6<4711> failed : Connection timed out"


def test_the_programs_own_error_comes_before_what_failed_elsewhere() -> None:
    late = "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE)"
    program = "\n\n\nTraceback (most recent call last):\n  File 'a.py', line 1\nKeyError: 'labels'"
    diagnosis = explained(late, program)
    assert diagnosis.found is not None
    assert diagnosis.found.id == "program"


def test_what_names_the_cause_comes_before_an_ordinary_line_that_fits_too() -> None:
    ordinary = NCCL.format(host="gpu1", text="Bootstrap: Using lo:127.0.0.1<0>")
    refused = "gpu1:9:9 [0] NCCL WARN Bootstrap Root : mismatch in rank count from procs 8 : 16"
    assert found(f"{ordinary}\n{FAILED}\n\n{refused}") == "root-mismatch"


def test_the_end_of_each_traceback_is_found_behind_what_chains_them_and_what_a_shell_says_between() -> None:
    chained = """
        Traceback (most recent call last):
          File "a.py", line 1
        KeyError: 'labels'

        During handling of the above exception, another exception occurred:

        Traceback (most recent call last):
          File "a.py", line 2
        ValueError: no shard left
    """
    diagnosis = explained(chained)
    assert diagnosis.found is not None
    assert [line.text for line in diagnosis.found.evidence] == ["KeyError: 'labels'"]
    assert diagnosis.found.lines == 2
    traced = """
        Traceback (most recent call last):
          File "a.py", line 1
        + echo leaving
        ValueError: no shard left
    """
    diagnosis = explained(traced)
    assert diagnosis.found is not None
    assert [line.text for line in diagnosis.found.evidence] == ["ValueError: no shard left"]


def test_a_rendezvous_that_one_node_reached_had_a_host() -> None:
    lost = "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store failed"
    assert found(lost, lost) == "rdzv-not-host"
    assert found(lost, lost, "I1130 the store is here") == "rdzv-conn"


def test_a_variable_that_nccl_says_it_has_was_not_lost() -> None:
    set_ = "+ export NCCL_SOCKET_IFNAME=eth1"
    using = NCCL.format(host="gpu1", text="Bootstrap: Using eth0:10.1.0.5<0>")
    told = NCCL.format(host="gpu1", text="NCCL_SOCKET_IFNAME set by environment to eth0")
    assert found("\n".join([set_, using, FAILED])) == "if-ignored"
    assert found("\n".join([set_, told, using, FAILED])) == "conn-timeout"


def test_the_loopback_address_of_two_hosts_is_no_address_that_they_share() -> None:
    lines = [NCCL.format(host=host, text="NET/Socket : Using [0]lo:127.0.0.1<0>") for host in ("gpu1", "gpu2")]
    diagnosis = explained("\n".join([*lines, FAILED]))
    told = [diagnosis.found, *diagnosis.others, *diagnosis.consequences]
    assert [fault.id for fault in told if fault is not None] == ["if-lo", "conn-failed", "conn-timeout"]


@pytest.mark.parametrize("before", ["", "[rank1]: ", "03:04:05 ", "[  12.345678] "])
def test_a_traceback_is_seen_behind_a_progress_bar_that_has_not_ended_its_line(before: str) -> None:
    bar = "  5%|#    | 5/100 [00:00<00:01, 9.98it/s]"
    lines = [f"{bar}\r{bar}Traceback (most recent call last):", '  File "a.py", line 1', "ValueError: bad batch"]
    assert found("\n".join(before + line for line in lines)) == "program"


IGNORED = """\
Exception ignored in: <function Loader.__del__ at 0x7f>
Traceback (most recent call last):
  File "a.py", line 9, in __del__
AttributeError: 'NoneType' object has no attribute 'x'
"""


def test_an_exception_that_python_ignored_is_nobodys_end() -> None:
    work = "\n".join(f"step {step} loss 0.5" for step in range(9))
    assert explained(f"{work}\n{IGNORED}").verdict == "healthy"
    raised = 'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: bad batch\n'
    fault = explained(f"{work}\n{raised}{IGNORED}").found
    assert fault is not None
    assert fault.cause.startswith("ValueError: bad batch")
    pipe = "Exception ignored in: <stdout>\nBrokenPipeError: [Errno 32] Broken pipe\n"
    assert found(f"{work}\n{pipe}{raised}") == "program"


def test_what_the_work_quoted_long_before_makes_a_fault_at_its_end_no_less_sure() -> None:
    quoted = "answer: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"
    work = "\n".join(f"step {step} loss 0.5" for step in range(40))
    raised = 'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: bad batch\n'
    diagnosis = explained(f"{quoted}\n{work}\n{raised}")
    assert diagnosis.found is not None
    assert (diagnosis.found.id, diagnosis.others) == ("program", ())
    assert diagnosis.confidence.startswith("sure")
