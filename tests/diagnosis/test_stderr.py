"""The exception that ended a process is found in what it wrote last."""

from __future__ import annotations

import pytest

from ncclrun.diagnosis.stderr import error_file_message, exceptions_in, last_lines, tells_of_another

PLAIN = 'loading\nTraceback (most recent call last):\n  File "t.py", line 3, in <module>\n    f()\nValueError: boom\n'
CHAINED = (
    "Traceback (most recent call last):\n  File\nConnectionResetError: [Errno 104] Connection reset by peer\n\n"
    "The above exception was the direct cause of the following exception:\n\n"
    "Traceback (most recent call last):\n  File\nRuntimeError: step 12 failed\n"
)


class TestTheException:
    @pytest.mark.parametrize(
        ("text", "found"),
        [
            (PLAIN, ("ValueError: boom",)),
            ("".join(f"[rank3]: {line}\n" for line in PLAIN.splitlines()), ("ValueError: boom",)),
            (PLAIN + "[W] destroy_process_group() was not called\n", ("ValueError: boom",)),
            (PLAIN + "retrying\n" + PLAIN.replace("boom", "again"), ("ValueError: again",)),
            (CHAINED, ("ConnectionResetError: [Errno 104] Connection reset by peer", "RuntimeError: step 12 failed")),
            (
                "terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  [Rank 0] timeout\n",
                ("c10::DistBackendError: [Rank 0] timeout",),
            ),
            (
                "    f()\ntorch.OutOfMemoryError: CUDA out of memory.\n",
                ("torch.OutOfMemoryError: CUDA out of memory.",),
            ),
            (" 10%\r 20%\rTraceback (most recent call last):\n  File\nKeyError: 'x'\n", ("KeyError: 'x'",)),
            ("run.py: error: unrecognized arguments: --bad\n", ("run.py: error: unrecognized arguments: --bad",)),
            ("all is well\n", ()),
        ],
    )
    def test_is_found(self, text: str, found: tuple[str, ...]) -> None:
        assert exceptions_in(text) == found


class TestTorchsErrorFile:
    @pytest.mark.parametrize(
        "error",
        [
            {"message": {"message": "ValueError: boom", "extraInfo": {"py_callstack": "…", "timestamp": "1"}}},
            '{"message": {"message": "ValueError: boom\\nsecond line", "extraInfo": {}}}',
            {"message": "ValueError: boom"},
            "ValueError: boom",
        ],
    )
    def test_gives_the_messages_first_line(self, error: object) -> None:
        assert error_file_message(error) == "ValueError: boom"

    @pytest.mark.parametrize("error", [None, {}, {"message": None}, ""])
    def test_may_say_nothing(self, error: object) -> None:
        assert error_file_message(error) == ""


class TestWordsThatTellOfAnother:
    @pytest.mark.parametrize(
        "line",
        [
            "RuntimeError: [/x/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:3921",
            "ConnectionResetError: [Errno 104] Connection reset by peer",
            "BrokenPipeError: [Errno 32] Broken pipe",
            "torch.distributed.DistBackendError: NCCL error in: x.cpp:1, remote process exited or …",
            "RuntimeError: NCCL error in: x.cpp:410, unhandled system error, NCCL version 2.4.8",
            "torch.distributed.DistNetworkError: failed to recv, got 0 bytes",
            "RuntimeError: [/x/gloo/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete",
            "torch.distributed.elastic.multiprocessing.api.SignalException: Process 7 got signal: 15",
        ],
    )
    def test_are_known(self, line: str) -> None:
        assert tells_of_another((line,))

    @pytest.mark.parametrize(
        "line",
        [
            "ValueError: boom",
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
            "torch.distributed.DistNetworkError: The server socket has failed to listen. code: -98, name: EADDRINUSE",
            "torch.distributed.DistBackendError: NCCL error in: x.cpp:1, invalid usage (run with NCCL_DEBUG=WARN)",
        ],
    )
    def test_are_not_seen_where_there_are_none(self, line: str) -> None:
        assert not tells_of_another((line,))


def test_the_last_lines_leave_out_what_torchrun_always_says() -> None:
    banner = "*" * 41 + "\nSetting OMP_NUM_THREADS environment variable for each process to be 1\n" + "*" * 41 + "\n"
    text = (
        banner
        + "\n".join(f"line {n}" for n in range(30))
        + "\nW1130 14:34:16 1 x.py:1] Sending process 2 closing signal SIGTERM\n\n"
    )
    assert last_lines(text, 2) == ("line 28", "line 29")
    assert last_lines(banner) == ()


def test_what_python_ignored_after_it_hides_no_exception() -> None:
    ignored = "Exception ignored in: <function A.__del__>\nTraceback (most recent call last):\n  File\nKeyError: 3\n"
    assert exceptions_in(PLAIN + ignored) == ("ValueError: boom",)
    assert exceptions_in(ignored + PLAIN) == ("ValueError: boom",)
    assert exceptions_in(PLAIN.replace("loading\n", "  5%|#   | 5/100 [00:00<00:01]")) == ("ValueError: boom",)
