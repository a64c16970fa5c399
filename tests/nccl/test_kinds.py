"""What is a conf file and what is not: by the file's name, and by what only a shell understands."""

from __future__ import annotations

import pytest

from ncclrun.nccl.dump.kinds import kind_of

PLAIN = "NCCL_DEBUG=INFO\n"


@pytest.mark.parametrize(
    "name",
    [
        ".bashrc",
        ".profile",
        ".bash_profile",
        ".bash_login",
        ".zshrc",
        ".zshenv",
        "profile",
        "bash.bashrc",
        "job.sbatch",
    ],
)
def test_what_a_shell_reads_is_a_script_by_its_name(name: str) -> None:
    assert kind_of(name, PLAIN) == "script"


@pytest.mark.parametrize("name", ["environment", ".env", "nccl.env", ".env.local"])
def test_a_file_of_variables_is_one_by_its_name(name: str) -> None:
    assert kind_of(name, PLAIN) == "variables"


@pytest.mark.parametrize(
    "line",
    [
        "if [ -f /etc/x ]; then",
        "fi",
        "case $- in",
        "esac",
        "alias ll='ls -l'",
        "for i in 1 2; do",
        "done",
        "function f {",
        "f() {",
        "source ~/x",
        ". /etc/x",
        "export PATH=$HOME/bin:$PATH",
        "export OMP_NUM_THREADS=8",
        "X=$(hostname)",
        "srun python train.py",
        "NCCL_DEBUG=INFO python train.py",
        "set -a",
    ],
)
def test_a_line_that_only_a_shell_understands_makes_a_script(line: str) -> None:
    for name in ("settings", ""):
        assert kind_of(name, f"{PLAIN}{line}\n") == "script"


@pytest.mark.parametrize(
    "line",
    [
        "export NCCL_IB_DISABLE=1",
        "# if [ -f x ]; then",
        "for eth1 and eth2",
        "NCCL_SOCKET_IFNAME=$(hostname)",
        "NCCL_SOCKET_IFNAME eth1",
        "NCCL_DEBUG: INFO",
        "LD_LIBRARY_PATH=/opt/lib",
    ],
)
def test_a_mistake_makes_no_script_of_a_conf_file(line: str) -> None:
    assert kind_of("settings", f"{PLAIN}{line}\n") == "conf"


def test_a_file_whose_lines_are_all_exported_is_a_script_unless_it_is_named_otherwise() -> None:
    text = "# ours\nexport NCCL_DEBUG=INFO\nexport NCCL_IB_DISABLE=1\n"
    assert [kind_of(name, text) for name in ("settings", "nccl.conf", "")] == ["script", "conf", "conf"]


def test_the_name_of_a_conf_file_outdoes_what_stands_in_it() -> None:
    assert kind_of("nccl.conf", f"alias x=y\n{PLAIN}") == "conf"


def test_what_other_programs_run_is_no_script_of_a_shell() -> None:
    assert kind_of("x", "#!/usr/bin/env python3\n") == "other"
    assert kind_of("x", "#!/bin/bash -l\n") == "script"
    assert kind_of("x", "#!/usr/bin/env bash\n") == "script"
