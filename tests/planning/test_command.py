"""The command lines, and that torchrun itself understands them as they are meant."""

from __future__ import annotations

import pytest

from ncclrun.model.job import JobSpec
from ncclrun.planning.command import RUN, WORKER, torchrun_command, worker_command

HOSTILE = ("--", "-h", "--nproc-per-node=9", "a b", "$(id)", "", "'", "\n", "@RUN@/x", "@WORKER@", "--no-python", "é")


def torchrun(job: JobSpec, *, master_addr: str = "10.0.0.1") -> tuple[str, ...]:
    return torchrun_command(
        job,
        "/opt/env/bin/python",
        run_id="r1",
        nnodes=3,
        nproc=2,
        node_rank=1,
        master_addr=master_addr,
        master_port="29500",
        local_addr="10.0.0.2",
        max_restarts=4,
    )


class TestWorker:
    """What one worker runs."""

    def test_a_script(self) -> None:
        job = JobSpec("script", "train.py", HOSTILE)
        assert worker_command(job, "/py") == ("/py", "-u", "train.py", *HOSTILE)

    def test_a_module(self) -> None:
        job = JobSpec("module", "pkg.train", HOSTILE)
        assert worker_command(job, "/py") == ("/py", "-u", "-m", "pkg.train", *HOSTILE)

    def test_a_command_without_python(self) -> None:
        job = JobSpec("command", "./run.sh", HOSTILE, launcher="exec")
        assert worker_command(job, "/py") == ("./run.sh", *HOSTILE)


class TestTorchrun:
    """torchrun's own command line."""

    def test_the_users_words_come_last_and_whole(self) -> None:
        argv = torchrun(JobSpec("script", "train.py", HOSTILE))
        assert argv[-len(HOSTILE) - 5 :] == ("/bin/sh", WORKER, "/opt/env/bin/python", "-u", "train.py", *HOSTILE)

    def test_the_python_of_the_training_runs_it_by_module(self) -> None:
        assert torchrun(JobSpec("script", "t.py"))[:3] == ("/opt/env/bin/python", "-m", "torch.distributed.run")

    @pytest.mark.torch
    @pytest.mark.filterwarnings("ignore")  # torch's own, at import
    @pytest.mark.parametrize("master_addr", ["10.0.0.1", "fd00::1"])
    def test_torch_reads_it_as_it_is_meant(self, master_addr: str) -> None:
        run = pytest.importorskip("torch.distributed.run")
        argv = torchrun(JobSpec("script", "train.py", HOSTILE), master_addr=master_addr)
        args = run.parse_args(list(argv[3:]))
        config, command, command_args = run.config_from_args(args)
        assert (config.min_nodes, config.max_nodes, config.nproc_per_node) == (3, 3, 2)
        assert (config.run_id, config.max_restarts, config.local_addr) == ("r1", 4, "10.0.0.2")
        assert (config.rdzv_backend, config.rdzv_endpoint) == ("static", f"{master_addr}:29500")
        assert config.rdzv_configs["rank"] == 1
        assert command == "/bin/sh"
        assert command_args == [WORKER, "/opt/env/bin/python", "-u", "train.py", *HOSTILE]
        assert args.log_dir == f"{RUN}/torch"
