"""Whole hosts by what their own programs print: the well are accused of nothing, the ill of what they have alone.

It is made by hand, in the forms in which such hosts print it, and cut down to what is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from pydantic import TypeAdapter

from ncclrun.diagnosis.checks.subject import Subject
from ncclrun.model.facts import Gpu, RdmaDevice, RdmaPort
from ncclrun.model.health import Acs, GpuReport, KernelLog
from ncclrun.node import gpuhealth, gpus, kernellog, pcie
from tests.diagnosis.checks.hosts import EXAM, SYSTEM, found, sound

_GPUS = TypeAdapter(tuple[Gpu, ...])
_REPORT = TypeAdapter(GpuReport)
_LOG = TypeAdapter(KernelLog)
INFINIBAND = RdmaDevice("mlx5_0", (RdmaPort(1, "ACTIVE", "InfiniBand", 400.0),))


@dataclass
class Host:
    """A host's own words: rows of ``--query-gpu``, the fields of each GPU in ``-q -x``, matrix, log and lspci."""

    rows: Sequence[str] = ()
    fields: Sequence[str] = ()
    matrix: str = ""
    log: Sequence[str] = ()
    bridges: str = ""
    cards: int = 0
    container: str = ""
    extra: dict[str, object] = field(default_factory=dict)

    def subject(self, monkeypatch: pytest.MonkeyPatch) -> Subject:
        """As the node part would tell it."""
        listed = gpus.parse_smi("\n".join(self.rows))
        body = "".join(f'<gpu id="00000000:{i:02X}:00.0">{one}</gpu>' for i, one in enumerate(self.fields, 0x1A))
        report = {"gpus": gpuhealth.parse(f"<nvidia_smi_log>{body}</nvidia_smi_log>"), "topology": self.matrix}
        records = [(float(at), text) for at, text in enumerate(self.log, 1)]
        monkeypatch.setattr(kernellog, "_records", lambda: iter(records))
        exam = replace(
            EXAM,
            health=_REPORT.validate_python(report) if self.fields else None,
            kernel_log=_LOG.validate_python(kernellog.find()),
            acs=Acs(tuple(pcie.parse(self.bridges))),
        )
        own = sound()
        system = replace(SYSTEM, cards=self.cards, container=self.container)
        facts = replace(
            own.facts,
            gpus=_GPUS.validate_python(listed.gpus),
            visible_gpus=len(listed.gpus),
            driver=listed.driver or own.facts.driver,
            system=system,
            **self.extra,  # type: ignore[arg-type]  # fields of NodeFacts
        )
        return replace(own, facts=facts, exam=exam)


def rows(count: int, name: str, driver: str, memory: str = "81559", used: str = "4") -> list[str]:
    return [f"{index}, {name}, GPU-{index}, {memory}, {driver}, {used}" for index in range(count)]


def hopper(*, uncorrected: int = 0, state: str = "Completed", recovery: str = "None", slow: str = "Not Active") -> str:
    """A GPU of a board with eight and NVSwitch."""
    return (
        "<persistence_mode>Enabled</persistence_mode><mig_mode><current_mig>Disabled</current_mig></mig_mode>"
        f"<gpu_recovery_action>{recovery}</gpu_recovery_action><compute_mode>Default</compute_mode>"
        "<pci><pci_gpu_link_info><link_widths><max_link_width>16x</max_link_width><current_link_width>16x"
        "</current_link_width></link_widths></pci_gpu_link_info></pci><clocks_event_reasons>"
        "<clocks_event_reason_gpu_idle>Active</clocks_event_reason_gpu_idle>"
        f"<clocks_event_reason_hw_thermal_slowdown>{slow}</clocks_event_reason_hw_thermal_slowdown>"
        "</clocks_event_reasons><ecc_mode><current_ecc>Enabled</current_ecc></ecc_mode><ecc_errors><volatile>"
        f"<sram_uncorrectable_parity>0</sram_uncorrectable_parity><dram_uncorrectable>{uncorrected}</dram_uncorrectable>"
        "</volatile></ecc_errors><remapped_rows><remapped_row_pending>No</remapped_row_pending><remapped_row_failure>No"
        f"</remapped_row_failure></remapped_rows><temperature><gpu_temp>41 C</gpu_temp></temperature>"
        f"<fabric><state>{state}</state><status>Success</status></fabric>"
    )


def meshed(lost: int | None = None) -> str:
    """Eight GPUs with 18 links each to the switches; one of them may have lost one."""
    heads = "\t".join(["", *(f"GPU{i}" for i in range(8)), "NIC0", "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])
    lines = [heads]
    for a in range(8):
        cells = [" X " if a == b else "NV17" if lost in (a, b) else "NV18" for b in range(8)]
        lines.append("\t".join([f"GPU{a}", *cells, "SYS", "0-47", "0", "N/A"]))
    lines.append("\t".join(["NIC0", *["SYS"] * 8, " X "]))
    return "\n".join(lines) + "\n"


HGX = Host(rows(8, "NVIDIA H100 80GB HBM3", "550.90.07"), [hopper()] * 8, meshed(), cards=8)
HGX_LOG = [
    "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  550.90.07  Release Build",
    "nvidia-nvswitch0: open (major=509)",
    "mlx5_core 0000:18:00.0: firmware version: 28.39.1002",
    "mce: CPU0: Thermal monitoring enabled (TM1)",
]
KEPLER = (
    "<persistence_mode>Enabled</persistence_mode><mig_mode>N/A</mig_mode><compute_mode>Default</compute_mode>"
    "<ecc_errors><volatile><double_bit><total>0</total></double_bit></volatile></ecc_errors>"
    "<retired_pages><pending_retirement>No</pending_retirement></retired_pages>"
)
VIRTUAL = (
    "<persistence_mode>Enabled</persistence_mode><virtualization_mode>VGPU</virtualization_mode>"
    "<mig_mode><current_mig>N/A</current_mig></mig_mode><compute_mode>Default</compute_mode>"
    "<pci><pci_gpu_link_info><link_widths><max_link_width>N/A</max_link_width><current_link_width>N/A"
    "</current_link_width></link_widths></pci_gpu_link_info></pci><fabric><state>N/A</state></fabric>"
    "<ecc_errors><volatile><dram_uncorrectable>N/A</dram_uncorrectable></volatile></ecc_errors>"
)
BRIDGE = (
    "0000:00:01.0 PCI bridge: Intel Corporation Device 352a (rev 30)\n"
    "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-\n"
)

WELL: dict[str, Host] = {
    "a board with eight H100": replace(HGX, log=HGX_LOG),
    "eight H100 in a container": replace(HGX, container="docker", log=HGX_LOG),
    "two of the eight in a container": Host(
        rows(2, "NVIDIA H100 80GB HBM3", "550.90.07"), [hopper()] * 2, "", cards=8, container="docker"
    ),
    "a K80": Host(
        rows(2, "Tesla K80", "550.90.07", "11441", "0"), [KEPLER] * 2, "\tGPU0\tGPU1\nGPU0\t X \tPIX\n", cards=2
    ),
    "a virtual machine with a vGPU": Host(rows(1, "GRID A100D-20C", "550.90.07"), [VIRTUAL], cards=1),
    "a Jetson": Host(rows(1, "Orin (nvgpu)", "540.4.0", "[N/A]", "[N/A]"), [VIRTUAL], cards=0),
    "WSL2": Host(rows(1, "NVIDIA GeForce RTX 4090", "560.94", "24564", "1003"), [VIRTUAL], cards=0, container="wsl"),
    "no GPU at all": Host(),
}
ILL: dict[str, tuple[Host, set[tuple[str, str]]]] = {
    "a GPU has fallen off the bus": (
        replace(
            HGX,
            rows=HGX.rows[:7],
            fields=HGX.fields[:7],
            matrix="",
            log=[
                "NVRM: GPU at PCI:0000:21:00: GPU-4f2a",
                "NVRM: Xid (PCI:0000:21:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
                "NVRM: GPU 0000:21:00.0: GPU has fallen off the bus.",
                "NVRM: Xid (PCI:0000:21:00): 154, GPU recovery action changed from 0x0 to 0x2 (Node Reboot Required)",
            ],
        ),
        {("gpu_lost", "warning"), ("xid", "error"), ("xid", "warning")},
    ),
    "a link to a switch is down": (
        replace(
            HGX,
            matrix=meshed(lost=3),
            log=[
                "NVRM: Xid (PCI:0000:1d:00): 74, pid='<unknown>', NVLink: fatal error detected on link 6",
                "nvidia-nvswitch3: SXid (PCI:0000:c3:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
            ],
        ),
        {("nvlink_down", "warning"), ("xid", "warning"), ("sxid", "warning")},
    ),
    "memory errors": (
        replace(
            HGX,
            fields=[*HGX.fields[:5], hopper(uncorrected=2, recovery="Reset"), *HGX.fields[6:]],
            log=["NVRM: Xid (PCI:0000:1f:00): 94, pid=4711, name=python, Contained: SM (0x1). RST: No, D-RST: No"],
        ),
        {("gpu_ecc", "warning"), ("gpu_remap", "warning"), ("xid", "warning")},
    ),
    "the fabric manager is not up": (
        replace(HGX, fields=[hopper(state="In Progress")] * 8),
        {("fabric_manager", "error")},
    ),
    "one is hot": (
        replace(HGX, fields=[*HGX.fields[:7], hopper(slow="Active")]),
        {("gpu_slow", "warning")},
    ),
    "the program's own faults": (
        replace(
            HGX,
            log=["NVRM: Xid (PCI:0000:1a:00): 31, pid=9, name=python, Ch 00000008, MMU Fault: ENGINE GRAPHICS"] * 40,
        ),
        {("xid", "info")},
    ),
    "ACS above PCIe cards": (
        Host(
            rows(2, "NVIDIA L40S", "550.90.07", "46068"),
            [KEPLER] * 2,
            "\tGPU0\tGPU1\nGPU0\t X \tNODE\n",
            bridges=BRIDGE,
            cards=2,
        ),
        {("pcie_acs", "warning")},
    ),
    "a container without GPUs": (Host(cards=8, container="docker"), {("container_no_gpus", "warning")}),
    "a kernel update without the module": (Host(cards=8), {("no_driver", "warning")}),
}


def told(host: Host, monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, str]]:
    return {(problem.code, problem.level) for problem in found(host.subject(monkeypatch))}


@pytest.mark.parametrize("name", WELL)
def test_the_well_are_accused_of_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(WELL[name], monkeypatch) == set()


@pytest.mark.parametrize("name", ILL)
def test_the_ill_have_what_they_have_and_no_more(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    host, kinds = ILL[name]
    assert told(host, monkeypatch) == kinds


def test_a_fault_names_its_gpu_by_the_driver_s_number(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = ILL["memory errors"][0].subject(monkeypatch)
    assert [problem.message.split(":")[0].split(" waits")[0] for problem in found(subject)] == ["GPU 5"] * 3
