"""How the GPUs are: errors, modes, links, as nvidia-smi tells them in one report, and how they are joined."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from . import commands, gpus

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

TOPOLOGY_SECONDS = 10.0
# The second and third are of GPUs before Ampere: the name changed with the drivers.
PENDING = (
    "remapped_rows/remapped_row_pending",
    "retired_pages/pending_retirement",
    "retired_pages/pending_blacklist",
)
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
MOST_TOPOLOGY = 16 << 10
# What nvidia-smi has in place of a value that a GPU, a driver or a user does not have, bracketed or not.
SILENT = re.compile(
    r"(?:N/A|None|Not (?:Supported|Available)|Unknown(?: Error)?|ERR!|Insufficient Permissions"
    r"|Function Not Found|Requested functionality has been deprecated)?\Z"
)
REPORT = re.compile(r"<nvidia_smi_log>.*</nvidia_smi_log>", re.DOTALL)
REFUSAL = re.compile(r"\[?(GPU (?:is lost|requires reset))\]?\Z")
SLOWDOWNS = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")


def _number(gpu: Element, path: str) -> int | None:
    """The number with which that field begins (``16x``, ``3 MiB``); None for "N/A" and for what is not there."""
    match = re.match(r"[0-9]{1,18}(?![0-9])", (gpu.findtext(path) or "").strip())
    return int(match.group()) if match else None


def _word(gpu: Element, *paths: str) -> str:
    """The first of these fields that says something; "" where none does."""
    words = ((gpu.findtext(path) or "").strip().strip("[]") for path in paths)
    return next((word for word in words if not (SILENT.match(word) or REFUSAL.match(word))), "")


def _refusal(gpu: Element) -> str:
    """What a GPU that answers nothing any more has in place of its values."""
    return next((match.group(1) for text in gpu.itertext() if (match := REFUSAL.match(text.strip()))), "")


def _sum(gpu: Element, *paths: str) -> int | None:
    known = [number for path in paths if (number := _number(gpu, path)) is not None]
    return sum(known) if known else None


def _slow(gpu: Element) -> list[str]:
    """Reasons why its clock is held down now; the elements were renamed with driver 535."""
    ways = [(f"clocks_event_reasons/clocks_event_reason_{name}", name) for name in SLOWDOWNS]
    ways += [(f"clocks_throttle_reasons/clocks_throttle_reason_{name}", name) for name in SLOWDOWNS]
    return [name for path, name in ways if _word(gpu, path) == "Active"]


def _gpu(index: int, gpu: Element) -> dict[str, Any]:
    volatile = "ecc_errors/volatile"
    link = "pci/pci_gpu_link_info/link_widths"
    return {
        "index": index,
        "uuid": _word(gpu, "uuid"),
        "bus": gpu.get("id", ""),
        "ecc": _word(gpu, "ecc_mode/current_ecc"),
        "uncorrected": _sum(
            gpu,
            f"{volatile}/dram_uncorrectable",
            f"{volatile}/sram_uncorrectable",
            f"{volatile}/sram_uncorrectable_parity",
            f"{volatile}/sram_uncorrectable_secded",
            f"{volatile}/double_bit/total",
        ),
        "remap_pending": "Yes" in [_word(gpu, path) for path in PENDING],
        "remap_failed": "Yes"
        in (_word(gpu, "remapped_rows/remapped_row_failure"), _word(gpu, "ecc_errors/unrepairable_memory")),
        "recovery": _word(gpu, "gpu_recovery_action"),
        "refusal": _refusal(gpu),
        "persistence": _word(gpu, "persistence_mode"),
        "mig": _word(gpu, "mig_mode/current_mig"),
        "compute_mode": _word(gpu, "compute_mode"),
        "width": _number(gpu, f"{link}/current_link_width"),
        "widest": _number(gpu, f"{link}/max_link_width"),
        "slow": _slow(gpu),
        "temperature": _number(gpu, "temperature/gpu_temp"),
        "fabric": _word(gpu, "fabric/state"),
    }


def parse(text: str) -> list[dict[str, Any]]:
    """The fields of model GpuHealth for each GPU of ``nvidia-smi -q -x``. Raises ValueError for anything else."""
    # Here and not above: a Python without expat can do all else.
    from xml.etree import ElementTree  # what the host's own driver tells is no attack

    try:
        root = ElementTree.fromstring(text)  # noqa: S314  # as above
    except ElementTree.ParseError as error:
        raise ValueError(f"nvidia-smi's report can't be read: {error}") from error
    return [_gpu(index, gpu) for index, gpu in enumerate(root.findall("gpu"))]


def find() -> dict[str, Any]:
    """``gpus`` and ``topology`` (the matrix of `nvidia-smi topo -m` as text). Raises OSError, ValueError."""
    program = commands.locate("nvidia-smi", gpus.SMI_PLACES)
    if program is None:
        raise OSError("there is no nvidia-smi")
    output = commands.ask([program, "-q", "-x"], gpus.SMI_SECONDS)
    # It may warn around its report, and then ends with a code of its own (14: a damaged infoROM).
    report = REPORT.search(output.out)
    if report is None:
        raise OSError(gpus.failure(output))
    found = parse(report.group())
    topology = commands.ask([program, "topo", "-m"], TOPOLOGY_SECONDS) if len(found) > 1 else None
    told = topology.out if topology is not None and topology.code == 0 else ""
    return {"gpus": found, "topology": ESCAPES.sub("", told).partition("\nLegend")[0][:MOST_TOPOLOGY]}
