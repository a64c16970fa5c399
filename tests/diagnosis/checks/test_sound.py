"""What looks like a fault of a host and is none, or only a remark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ncclrun.diagnosis.checks.subject import Subject
from ncclrun.model.facts import PythonFacts
from ncclrun.model.health import (
    Acs,
    Distribution,
    Examination,
    Firewall,
    Frameworks,
    Installed,
    KernelLog,
    Limit,
    LoginShell,
    Package,
    Sizes,
)
from ncclrun.model.network import LookUp, Names
from tests.diagnosis.checks import hosts
from tests.diagnosis.checks.hosts import GIB, NCCL, PYTHON, found
from tests.diagnosis.checks.hosts import with_facts as facts
from tests.diagnosis.checks.hosts import with_frameworks as frameworks
from tests.diagnosis.checks.hosts import with_kernel as kernel
from tests.diagnosis.checks.hosts import with_system as system
from tests.diagnosis.checks.test_firewall import FAIL2BAN
from tests.planning.makers import card

NEAR = card("eth0", "10.0.0.1/24")
FORCED = replace(NCCL, path="/opt/nccl/libnccl.so.2", ways=("torch", "LD_LIBRARY_PATH"))
FULL = Sizes(GIB, 5 << 20)


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(
            facts(interfaces=(NEAR, replace(card("eth1", "10.0.0.2/24"), master="bond0"))), id="the card of a bond"
        ),
        pytest.param(
            facts(interfaces=(NEAR, card("tun0", "10.0.0.2/24", point_to_point=True))), id="the end of a tunnel"
        ),
        pytest.param(
            facts(python=replace(PYTHON, error="a warning on its way")), id="a Python that complains and works"
        ),
    ],
)
def test_is_passed_over(one: Subject) -> None:
    assert found(one) == []


def test_an_ordinary_host_of_debian_without_gpus_is_warned_of_nothing() -> None:
    """As it comes from its installer: little may be locked, few files opened, and its name is a loopback address."""
    made = replace(
        hosts.SYSTEM,
        distribution=Distribution("debian", "", "13", "Debian GNU/Linux 13 (trixie)"),
        limits={"memlock": Limit(8 << 20, 8 << 20), "nofile": Limit(1024, 1 << 20)},
        shared_memory=Sizes(GIB // 2, GIB // 2),
        cards=0,
        modules=(),
        clock_synced=False,
        numa_nodes=1,
    )
    torch = PythonFacts("/usr/bin/python3", "3.13.5", "2.7.1+cpu", "", "")
    one = facts(system=made, python=torch, driver="", gpus=(), visible_gpus=0, cpus=2, gpu_trouble="no nvidia-smi")
    exam = Examination(
        kernel_log=KernelLog(),
        firewall=Firewall((), "nft", FAIL2BAN),
        shell=LoginShell("/bin/bash", 0.1),
        acs=Acs(),
        installed=Installed(Frameworks((Package("torch", "2.7.1+cpu"),), torch_seconds=2.0, cuda_available=None)),
        unknown={"health": "no nvidia-smi"},
    )
    name = Names("deb1", LookUp("deb1", ("127.0.1.1",), 0.001))
    told = found(replace(one, exam=exam, names=name))
    assert {(problem.code, problem.level) for problem in told} == {
        ("name_loopback", "info"),
        ("nofile", "info"),
        ("clock_unsynced", "info"),
    }


def test_a_tmp_on_the_disk_of_the_runs_is_told_once() -> None:
    one = system(temporary=FULL, state=FULL)
    low = replace(one, facts=replace(one.facts, free_bytes=FULL.free))
    assert [problem.code for problem in found(low)] == ["disk_low"]


def test_two_cards_of_one_subnet_that_answer_for_themselves_are_a_remark() -> None:
    sysctls = {"net.ipv4.conf.all.arp_ignore": "1"}
    tame = replace(hosts.SYSTEM, sysctls=sysctls)
    (problem,) = found(facts(interfaces=(NEAR, card("eth1", "10.0.0.2/24")), system=tame))
    assert (problem.code, problem.level) == ("two_nics", "info")


def test_a_variable_that_leads_to_the_same_version_of_nccl_overrides_nothing() -> None:
    pip = replace(NCCL, ways=("pip",))
    assert "nccl_override" not in {problem.code for problem in found(frameworks(pip, FORCED))}
    assert "nccl_override" in {problem.code for problem in found(frameworks(pip, replace(FORCED, version="2.1")))}


def test_code_for_a_later_gpu_of_the_same_kind_does_not_run() -> None:
    assert [p.code for p in found(frameworks(capabilities=("8.0",), built_for=("sm_86",)))] == ["torch_arch"]


@pytest.mark.parametrize(
    ("family", "package"), [("rocky", "libnccl-devel"), ("sles", "libnccl-devel"), ("ubuntu", "libnccl-dev")]
)
def test_the_developers_package_is_asked_for_where_it_is_needed_alone(family: str, package: str) -> None:
    made = replace(hosts.SYSTEM, distribution=Distribution(family, "", ""))
    without = frameworks(torch_error="ImportError: libnccl.so.2: cannot open shared object file")
    (plain,) = [p for p in found(replace(without, facts=replace(without.facts, system=made))) if "libnccl" in p.fix]
    assert package not in plain.fix
    paddle = frameworks(packages=(Package("paddlepaddle-gpu", "2.6.1"),))
    (wanted,) = [p for p in found(replace(paddle, facts=replace(paddle.facts, system=made))) if "libnccl" in p.fix]
    assert package in wanted.fix


def test_a_switch_s_fatal_fault_is_told_before_a_later_one_that_is_none() -> None:
    words = ("10003, Fatal, Link 05 x", "22013, Non-fatal, Link 05 y")
    lines = [f"nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): {text}" for text in words]
    (problem,) = found(kernel(*lines))
    assert (problem.code, problem.level, "10003" in problem.message) == ("sxid", "warning", True)


def test_what_the_kernel_wrote_down_long_ago_is_a_remark() -> None:
    line = "nfs: server storage1 not responding, still trying"
    levels = [[problem.level for problem in found(kernel(line, age=days * 86400.0))] for days in (1, 30)]
    assert levels == [["warning"], ["info"]]
