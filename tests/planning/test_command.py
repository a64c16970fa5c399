"""The command lines, and that torchrun itself understands them as they are meant."""

from __future__ import annotations

from typing import Literal

import pytest

from ncclrun.model.cluster import Launch
from ncclrun.model.job import JobSpec
from ncclrun.planning.command import RUN, WORKER, torchrun_command, worker_command

HOSTILE = ("--", "-h", "--nproc-per-node=9", "a b", "$(id)", "", "'", "\n", "@RUN@/x", "@WORKER@", "--no-python", "é")


def torchrun(
    job: JobSpec, *, master_addr: str = "10.0.0.1", node_rank: int = 1, rendezvous: Literal["static", "c10d"] = "static"
) -> tuple[str, ...]:
    return torchrun_command(
        job,
        "/opt/env/bin/python",
        run_id="r1",
        nnodes=3,
        nproc=2,
        node_rank=node_rank,
        master_addr=master_addr,
        master_port="29500",
        local_addr="10.0.0.2",
        launch=Launch(max_restarts=4, rendezvous=rendezvous),
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

    @pytest.mark.torch
    @pytest.mark.filterwarnings("ignore")  # torch's own, at import
    @pytest.mark.parametrize(("node_rank", "is_host"), [(0, True), (2, False)])
    def test_torch_reads_an_elastic_rendezvous_as_it_is_meant(self, node_rank: int, is_host: bool) -> None:
        run = pytest.importorskip("torch.distributed.run")
        job = JobSpec("script", "t.py", min_nodes=2)
        argv = torchrun(job, master_addr="fd00::1", node_rank=node_rank, rendezvous="c10d")
        config, _, _ = run.config_from_args(run.parse_args(list(argv[3:])))
        assert (config.min_nodes, config.max_nodes, config.local_addr) == (2, 3, "10.0.0.2")
        assert (config.rdzv_backend, config.rdzv_endpoint) == ("c10d", "[fd00::1]:29500")
        api = pytest.importorskip("torch.distributed.elastic.rendezvous.api")
        backend = pytest.importorskip("torch.distributed.elastic.rendezvous.c10d_rendezvous_backend")
        given = api.RendezvousParameters("c10d", config.rdzv_endpoint, "r1", 2, 3, **config.rdzv_configs)
        assert given.get_as_bool("is_host") is is_host
        host, port = backend.parse_rendezvous_endpoint(given.endpoint, default_port=1)
        assert (host, port) == ("fd00::1", 29500)

    def test_without_a_least_number_an_elastic_run_waits_for_all_nodes(self) -> None:
        assert "--nnodes=3:3" in torchrun(JobSpec("script", "t.py"), rendezvous="c10d")
