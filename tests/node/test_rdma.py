"""RDMA devices and their interfaces, read from recorded /sys trees of kinds of hosts that are rare."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ncclrun.model import facts as model
from ncclrun.node import interfaces, machine, rdma, sysfs
from tests.node.trees import RECORDED, lay


class Host:
    """A host with a recorded /sys."""

    def __init__(self, tree: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        lay(tree, root)
        monkeypatch.setattr(rdma, "SYS_CLASS", root / "class")
        monkeypatch.setattr(rdma, "DEV", root / "dev")
        monkeypatch.setattr(sysfs, "NET", root / "class" / "net")
        self.devices = rdma.find()

    def port(self, device: str, number: int = 1) -> dict[str, Any]:
        (found,) = (one for one in self.devices if one["name"] == device)
        return next(dict(port) for port in found["ports"] if port["port"] == number)

    def interface(self, name: str) -> dict[str, Any]:
        return interfaces.complete(
            {"name": name, "index": 2, "kind": "", "loopback": False, "arphrd": 1}, self.devices, {2}
        )


@pytest.fixture
def host(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(request.param, tmp_path, monkeypatch)


def of(tree: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("host", [tree], indirect=True)


@pytest.mark.parametrize("host", sorted(path.stem for path in RECORDED.glob("*.txt")), indirect=True)
def test_devices_have_the_fields_of_the_model(host: Host) -> None:
    assert host.devices
    for device in host.devices:
        assert set(device) == set(model.RdmaDevice.__dataclass_fields__)
        for port in device["ports"]:
            assert set(port) == set(model.RdmaPort.__dataclass_fields__)
            assert all(set(gid) == set(model.RdmaGid.__dataclass_fields__) for gid in port["gids"])
            assert all(gid["gid"].strip("0:") for gid in port["gids"])


@of("two-ib-cards")
def test_each_card_has_its_ipoib_interface(host: Host) -> None:
    first, second = host.port("mlx5_0"), host.port("mlx5_1")
    assert (first["state"], first["link_layer"], first["rate"]) == ("ACTIVE", "InfiniBand", 400.0)
    assert second["state"] == "INIT"
    assert first["netdevs"] == ["ib0", "ib0.8001"]
    assert host.interface("ib0.8001")["rdma"] == ["mlx5_0"]
    assert host.interface("ib1")["rdma"] == ["mlx5_1"]
    assert [device["numa"] for device in host.devices] == [0, 1]


@of("two-ports-of-one-function")
def test_ports_of_one_function_are_told_apart(host: Host) -> None:
    assert [host.port("mlx4_0", number)["netdevs"] for number in (1, 2)] == [["ib0"], ["ib1"]]
    assert (host.port("mlx4_0", 2)["state"], host.port("mlx4_0", 2)["rate"]) == ("DOWN", 10.0)
    assert host.devices[0]["numa"] is None


@of("roce-bond")
def test_a_bond_of_two_ports_is_one_device(host: Host) -> None:
    assert host.port("mlx5_bond_0")["netdevs"] == ["bond0", "bond0.2093"]
    assert host.interface("bond0")["rdma"] == host.interface("bond0.2093")["rdma"] == ["mlx5_bond_0"]
    assert host.interface("eth3")["rdma"] == []
    assert host.interface("bond0")["lower"] == ["eth2", "eth3"]
    assert (host.interface("bond0")["kind"], host.interface("bond0")["speed"]) == ("bond", 200000)
    assert (host.interface("bond0")["virtual"], host.interface("eth2")["virtual"]) == (True, False)


@of("roce-bond")
def test_gids_come_in_order_with_their_version(host: Host) -> None:
    gids = [(gid["index"], gid["type"], gid["netdev"]) for gid in host.port("mlx5_bond_0")["gids"]]
    assert gids[2:] == [(2, "IB/RoCE v1", "bond0.2093"), (10, "RoCE v2", "bond0.2093")]


@of("efa")
def test_a_device_without_interface_and_gids_is_listed_as_that(host: Host) -> None:
    assert (host.port("rdmap0s6")["netdevs"], host.port("rdmap0s6")["gids"]) == ([], [])
    assert host.interface("ens5")["rdma"] == []


@of("bluefield")
def test_representors_are_no_interfaces_of_the_port(host: Host) -> None:
    assert host.port("mlx5_2")["netdevs"] == ["p0"]
    assert host.interface("pf0vf0")["rdma"] == []


@of("virtual-function")
def test_an_interface_of_the_same_name_on_the_machine_outside_is_not_ours(host: Host) -> None:
    assert host.interface("eth0")["rdma"] == ["mlx5_4"]
    assert host.interface("docker0")["rdma"] == []


class TestVerbs:
    """Whether this user's programs could use the devices."""

    @pytest.fixture
    def dev(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        Host("two-ib-cards", tmp_path, monkeypatch)
        monkeypatch.setattr(rdma, "VERBS_LIBRARY", "libc.so.6")
        (tmp_path / "dev").mkdir()
        for number in (0, 1):
            (tmp_path / "dev" / f"uverbs{number}").touch()
        return tmp_path / "dev"

    def test_all_is_well(self, dev: Path) -> None:
        assert rdma.verbs(["mlx5_0", "mlx5_1"]) == ""

    def test_without_devices_nothing_is_looked_at(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(rdma, "VERBS_LIBRARY", "libno-such.so")
        assert rdma.verbs([]) == ""

    def test_a_missing_library_is_named(self, dev: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(rdma, "VERBS_LIBRARY", "libno-such.so.1")
        assert "libno-such.so.1 can't be loaded" in rdma.verbs(["mlx5_0"])

    def test_a_library_that_crashes_costs_a_child_only(self, dev: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(rdma, "_load", os.abort)
        assert "loading libc.so.6 failed" in rdma.verbs(["mlx5_0"])

    def test_a_device_file_that_is_missing_is_named(self, dev: Path) -> None:
        (dev / "uverbs1").unlink()
        assert f"{dev}/uverbs1 is missing" in rdma.verbs(["mlx5_0", "mlx5_1"])

    def test_a_device_without_a_file_of_its_own_is_named(self, dev: Path) -> None:
        assert rdma.verbs(["mlx5_7"]) == "mlx5_7 has no /dev/infiniband/uverbs*"

    def test_a_device_file_that_is_closed_to_us_is_named(self, dev: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def closed(path: Path, flags: int) -> int:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("ncclrun.node.rdma.os.open", closed)
        assert rdma._closed(dev / "uverbs0").startswith(f"{machine.user()} may not open {dev}/uverbs0")
