"""The workers' environment: whose word counts, what is masked, and that values stay as they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncclrun.model.cluster import Nccl
from ncclrun.model.plan import Endpoint, Variable
from ncclrun.planning.environment import (
    default_variables,
    network_variables,
    node_environment,
    rank_variables,
)
from tests.planning.makers import node

V4 = Endpoint("eth1", "10.0.0.1", "")
V6 = Endpoint("eth1", "fd00::1", "")


def variable(name: str, value: str, *, origin: str = "launch.env") -> Variable:
    """``name`` as it comes out when it stands in ``origin``."""
    forwarded = origin == "forward_env"
    found = node_environment(
        node("a", env={name: value} if origin == "launch.env" else {}, forward_env=(name,) if forwarded else ()),
        Nccl(env={name: value} if origin == "nccl.env" else {}),
        V4,
        forwarded={name: value} if forwarded else {},
        options={name: value} if origin == "--env" else {},
    )
    return next(v for v in found if v.name == name)


class TestLayers:
    """Each layer over the one before."""

    ORIGINS = ("network", "nccl.env", "launch.env", "forward_env", "--env")

    @pytest.mark.parametrize("highest", range(len(ORIGINS)))
    def test_the_highest_that_names_a_variable_has_its_way(self, highest: int) -> None:
        name = "NCCL_SOCKET_IFNAME"
        values = {origin: {name: f"from {origin}"} for origin in self.ORIGINS[1 : highest + 1]}
        found = node_environment(
            node("a", env=values.get("launch.env", {}), forward_env=tuple(values.get("forward_env", {}))),
            Nccl(env=values.get("nccl.env", {})),
            V4,
            forwarded=values.get("forward_env", {}),
            options=values.get("--env", {}),
        )
        (one,) = [v for v in found if v.name == name]
        assert one.origin == self.ORIGINS[highest]
        assert one.value == (f"from {one.origin}" if highest else "=eth1")

    def test_rdma_ports_are_named_where_they_are_planned_and_left_to_nccl_elsewhere(self) -> None:
        planned = Endpoint("eth1", "10.0.0.1", "", hca="=mlx5_0:1")
        assert network_variables(planned)["NCCL_IB_HCA"] == "=mlx5_0:1"
        assert "NCCL_IB_HCA" not in network_variables(V4)
        found = node_environment(node("a"), Nccl(env={"NCCL_IB_HCA": "mlx5"}), planned, forwarded={}, options={})
        assert Variable("NCCL_IB_HCA", "mlx5", "nccl.env") in found

    def test_the_nodes_gpus_are_what_cuda_sees(self) -> None:
        found = node_environment(node("a", gpus=(2, 0)), Nccl(), V4, forwarded={}, options={})
        assert Variable("CUDA_VISIBLE_DEVICES", "2,0", "gpus") in found

    def test_output_is_unbuffered_unless_the_user_says_otherwise(self) -> None:
        assert variable("PYTHONUNBUFFERED", "").value == ""
        assert Variable("PYTHONUNBUFFERED", "1", "default") in default_variables("exec", 4)

    def test_openmp_gets_one_thread_where_torchrun_would_give_it_one_and_talk_about_it(self) -> None:
        names = [[v.name for v in default_variables(launcher, n)] for launcher, n in (("torchrun", 2), ("torchrun", 1))]
        assert "OMP_NUM_THREADS" in names[0]
        assert "OMP_NUM_THREADS" not in names[1]
        assert "OMP_NUM_THREADS" not in [v.name for v in default_variables("exec", 2)]

    def test_restarts_by_c10d_have_a_store_each(self) -> None:
        own = Variable("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1", "default")
        assert own in default_variables("torchrun", 1, "c10d")
        assert own not in default_variables("torchrun", 1)

    def test_names_come_sorted_and_once(self) -> None:
        found = node_environment(node("a", env={"Z": "", "A": ""}), Nccl(env={"Z": "1"}), V4, forwarded={}, options={})
        names = [v.name for v in found]
        assert names == sorted(set(names))

    def test_only_the_nodes_own_forwarded_names_arrive(self) -> None:
        found = node_environment(
            node("a", forward_env=("MINE",)), Nccl(), V4, forwarded={"MINE": "1", "OTHERS": "2"}, options={}
        )
        assert "OTHERS" not in {v.name for v in found}


class TestMasks:
    """What is secret."""

    @pytest.mark.parametrize(
        "name",
        ["WANDB_API_KEY", "HF_TOKEN", "aws_secret_access_key", "DB_PASSWORD", "PGPASSWORD", "DB_PASS", "MYSQL_PWD"],
    )
    def test_a_name_that_says_so(self, name: str) -> None:
        assert variable(name, "x").secret

    @pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "TOKENIZERS_PARALLELISM", "NCCL_IB_PKEY", "PWD", "NCCL_DEBUG"])
    def test_an_ordinary_name_is_shown(self, name: str) -> None:
        assert not variable(name, "x").secret

    def test_whatever_is_forwarded(self) -> None:
        assert variable("NCCL_DEBUG", "INFO", origin="forward_env").secret
        assert not variable("NCCL_DEBUG", "INFO", origin="--env").secret

    def test_what_an_option_takes_from_the_shell(self) -> None:
        found = node_environment(node("a"), Nccl(), V4, forwarded={}, options={"A": "1", "B": "2"}, from_shell={"B"})
        assert [v.secret for v in found if v.origin == "--env"] == [False, True]

    @pytest.mark.parametrize(
        ("url", "secret"),
        [
            ("http://me:hunter2@proxy:3128", True),
            ("redis://:hunter2@host/0", True),
            ("http://proxy:3128", False),
            ("http://host:80/a@b", False),
            ("https://me@host/path", False),
        ],
    )
    def test_a_url_with_a_password_in_it(self, url: str, secret: bool) -> None:
        assert variable("SOME_URL", url).secret is secret


@pytest.mark.parametrize("origin", ["nccl.env", "launch.env", "forward_env", "--env"])
@given(value=st.text(st.characters(exclude_characters="\0")))
def test_every_value_stays_as_it_is(origin: str, value: str) -> None:
    assert variable("X", value, origin=origin).value == value


def test_bytes_that_are_no_utf8_stay_as_they_are() -> None:
    value = b"\xff\n$(rm -rf ~) '\"".decode("utf-8", "surrogateescape")
    assert variable("X", value, origin="forward_env").value.encode("utf-8", "surrogateescape")[0] == 0xFF


class TestNetwork:
    """What NCCL and Gloo are told."""

    def test_the_interface_in_nccls_exact_form_and_in_gloos_plain_one(self) -> None:
        assert network_variables(V4) == {
            "NCCL_SOCKET_IFNAME": "=eth1",
            "NCCL_SOCKET_FAMILY": "AF_INET",
            "GLOO_SOCKET_IFNAME": "eth1",
            "TP_SOCKET_IFNAME": "eth1",
        }

    def test_the_family_of_the_address(self) -> None:
        assert network_variables(V6)["NCCL_SOCKET_FAMILY"] == "AF_INET6"


def test_a_worker_without_torchrun_is_told_what_torchrun_would_tell_it() -> None:
    assert rank_variables(
        rank=5,
        local_rank=1,
        node_rank=2,
        nnodes=3,
        nproc=2,
        world_size=6,
        master_addr="fd00::1",
        master_port="29500",
    ) == {
        "RANK": "5",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "6",
        "LOCAL_WORLD_SIZE": "2",
        "NODE_RANK": "2",
        "GROUP_RANK": "2",
        "GROUP_WORLD_SIZE": "3",
        "MASTER_ADDR": "fd00::1",
        "MASTER_PORT": "29500",
    }
