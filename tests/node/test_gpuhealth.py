"""nvidia-smi's reports of many ages and places: what is there is read, what is not known is no fault.

The reports are made by hand, in the forms of their drivers, and cut down to the fields that are read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ncclrun.model import health as model
from ncclrun.node import gpuapps, gpuhealth, gpus


def report(*fields: str, more: str = "") -> str:
    return (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n'
        f'<nvidia_smi_log>\n<driver_version>470.82.01</driver_version>\n<gpu id="00000000:3B:00.0">\n'
        f"<uuid>GPU-1</uuid>\n{''.join(fields)}</gpu>\n{more}</nvidia_smi_log>\n"
    )


def modes(value: str) -> str:
    """All that a report says in one word, in that one."""
    return (
        f"<persistence_mode>{value}</persistence_mode><compute_mode>{value}</compute_mode>"
        f"<mig_mode><current_mig>{value}</current_mig></mig_mode><gpu_recovery_action>{value}</gpu_recovery_action>"
        f"<fabric><state>{value}</state></fabric><ecc_mode><current_ecc>{value}</current_ecc></ecc_mode>"
        f"<temperature><gpu_temp>{value}</gpu_temp></temperature>"
        f"<remapped_rows><remapped_row_pending>{value}</remapped_row_pending></remapped_rows>"
        f"<ecc_errors><volatile><dram_uncorrectable>{value}</dram_uncorrectable></volatile></ecc_errors>"
        f"<pci><pci_gpu_link_info><link_widths><max_link_width>{value}</max_link_width>"
        f"<current_link_width>{value}</current_link_width></link_widths></pci_gpu_link_info></pci>"
    )


KEPLER = report(
    "<persistence_mode>Disabled</persistence_mode><compute_mode>Default</compute_mode>"
    "<pci><pci_gpu_link_info><link_widths><max_link_width>16x</max_link_width><current_link_width>8x"
    "</current_link_width></link_widths></pci_gpu_link_info></pci>"
    "<clocks_throttle_reasons><clocks_throttle_reason_hw_slowdown>Active</clocks_throttle_reason_hw_slowdown>"
    "<clocks_throttle_reason_unknown>N/A</clocks_throttle_reason_unknown></clocks_throttle_reasons>"
    "<ecc_mode><current_ecc>Enabled</current_ecc></ecc_mode><ecc_errors><volatile>"
    "<single_bit><device_memory>7</device_memory><total>7</total></single_bit>"
    "<double_bit><device_memory>2</device_memory><texture_memory>N/A</texture_memory><total>2</total></double_bit>"
    "</volatile></ecc_errors><retired_pages><pending_retirement>Yes</pending_retirement></retired_pages>"
)
TURING = report(
    "<persistence_mode>Enabled</persistence_mode><mig_mode><current_mig>N/A</current_mig></mig_mode>"
    "<ecc_errors><volatile><sram_uncorrectable>1</sram_uncorrectable><dram_uncorrectable>0</dram_uncorrectable>"
    "</volatile></ecc_errors><retired_pages><pending_blacklist>Yes</pending_blacklist>"
    "<pending_retirement>N/A</pending_retirement></retired_pages><remapped_rows>N/A</remapped_rows>"
)
SLICED = report(
    "<mig_mode><current_mig>Enabled</current_mig><pending_mig>Enabled</pending_mig></mig_mode>"
    "<mig_devices><mig_device><index>0</index><gpu_instance_id>1</gpu_instance_id></mig_device></mig_devices>"
)
BLACKWELL = report(
    "<gpu_recovery_action>Reset</gpu_recovery_action><addressing_mode>ATS</addressing_mode>"
    "<fabric><state>Completed</state><status>Success</status></fabric>"
    "<ecc_errors><volatile><sram_uncorrectable_parity>0</sram_uncorrectable_parity><sram_uncorrectable_secded>0"
    "</sram_uncorrectable_secded><dram_uncorrectable>0</dram_uncorrectable></volatile>"
    "<unrepairable_memory>Yes</unrepairable_memory></ecc_errors>"
)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (
            KEPLER,
            {"uncorrected": 2, "remap_pending": True, "width": 8, "widest": 16, "slow": ["hw_slowdown"], "mig": ""},
        ),
        (TURING, {"uncorrected": 1, "remap_pending": True, "mig": "", "width": None, "persistence": "Enabled"}),
        (SLICED, {"mig": "Enabled", "uncorrected": None}),
        (BLACKWELL, {"recovery": "Reset", "remap_failed": True, "uncorrected": 0, "fabric": "Completed"}),
    ],
    ids=["Kepler", "Turing", "MIG", "Blackwell"],
)
def test_each_generation_in_its_own_words(text: str, fields: dict[str, Any]) -> None:
    (gpu,) = gpuhealth.parse(text)
    assert set(gpu) == set(model.GpuHealth.__dataclass_fields__)
    assert {name: gpu[name] for name in fields} == fields


@pytest.mark.parametrize(
    "word",
    [
        "N/A",
        "[N/A]",
        "[Not Supported]",
        "[Unknown Error]",
        "ERR!",
        "None",
        "",
        "Insufficient Permissions",
        "[Function Not Found]",
        "Requested functionality has been deprecated",
    ],
)
def test_a_word_that_says_nothing_is_no_value(word: str) -> None:
    (gpu,) = gpuhealth.parse(report(modes(word)))
    bare = gpuhealth.parse(report())[0]
    assert gpu == bare
    assert not gpu["recovery"]


@pytest.mark.parametrize("word", ["GPU is lost", "[GPU requires reset]"])
def test_a_gpu_that_refuses_all_is_told_by_its_words(word: str) -> None:
    (gpu,) = gpuhealth.parse(report(modes(word)))
    assert gpu["refusal"] == word.strip("[]")
    assert (gpu["persistence"], gpu["fabric"], gpu["recovery"]) == ("", "", "")


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where an nvidia-smi may be put; nothing else of a driver is there."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(gpus, "PROC_GPUS", tmp_path / "proc")
    monkeypatch.setattr(gpus, "PROC_VERSION", tmp_path / "version")
    return tmp_path / "nvidia-smi"


def says(path: Path, text: str, code: int) -> None:
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\nexit {code}\n")
    path.chmod(0o755)


def test_a_report_with_a_warning_around_it_is_read(smi: Path) -> None:
    says(smi, report(modes("N/A")) + "WARNING: infoROM is corrupted at gpu 0000:3B:00.0", 14)
    assert [gpu["uuid"] for gpu in gpuhealth.find()["gpus"]] == ["GPU-1"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.133", 18),
        ("Unable to determine the device handle for GPU0000:3B:00.0: GPU is lost.  Reboot the system to recover", 15),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", 9),
    ],
)
def test_why_the_driver_gives_no_answer_stands_in_the_facts(smi: Path, text: str, code: int) -> None:
    says(smi, text, code)
    found = gpus.find()
    assert found.gpus == []
    assert found.trouble == f"nvidia-smi ended with exit code {code}: {text.splitlines()[0]}"
    with pytest.raises(OSError, match=f"exit code {code}"):
        gpuhealth.find()


def test_one_that_hangs_too(smi: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "SMI_SECONDS", 0.3)
    smi.write_text("#!/bin/sh\nexec sleep 1000\n")
    smi.chmod(0o755)
    assert gpus.find().trouble == "nvidia-smi did not answer within 0 s"


def test_a_host_without_one_has_no_trouble_with_it(smi: Path) -> None:
    assert gpus.find() == gpus.Gpus([], "")


@pytest.mark.parametrize(
    ("row", "memory", "used"),
    [
        ("0, Tesla K80, GPU-1, 11441, 470.82.01, 0", 11441, 0),
        ("0, GRID A100D-20C, GPU-1, 20480, 550.90.07, 0", 20480, 0),
        ("0, Orin (nvgpu), N/A, [N/A], 540.4.0, [N/A]", None, None),
        ("0, NVIDIA GB200, GPU-1, 189471, 580.65.06, [Insufficient Permissions]", 189471, None),
        ("0, NVIDIA H100, GPU-1, [Unknown Error], 570.86.15, [GPU requires reset]", None, None),
        ("0, NVIDIA RTX A6000, GPU-1, [Not Supported], 470.82.01, ERR!", None, None),
    ],
)
def test_rows_of_every_kind_of_gpu(row: str, memory: int | None, used: int | None) -> None:
    (gpu,) = gpus.parse_smi(row + "\n").gpus
    assert (gpu["memory"], gpu["used"]) == (memory, used)


@pytest.mark.parametrize("text", ["\u00b2,a,b,1,570,3", "9" * 5000 + ",a,b,1,570,3", "x" * 200_000, "\x00"])
def test_garbage_in_nvidia_smis_place_is_no_gpu_and_costs_no_other_fact(text: str) -> None:
    assert gpus.parse_smi(text) == gpus.Gpus([], "")
    assert gpuapps.parse(text.replace(",1,570", "")) == []
    assert gpus.visible([{"uuid": "GPU-1"}], text.split(",", maxsplit=1)[0]) == 0
