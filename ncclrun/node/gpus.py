"""The GPUs that NVIDIA's driver lists: asked of nvidia-smi, else of its library, else read from /proc."""

from __future__ import annotations

import csv
import ctypes
import re
from pathlib import Path
from typing import Any, NamedTuple

from . import commands, tasks

SMI_SECONDS = 15.0
NVML_SECONDS = 10.0
SMI_PLACES = "/usr/bin:/usr/local/nvidia/bin:/usr/lib/wsl/lib:/run/nvidia/driver/usr/bin:/opt/bin:/usr/local/cuda/bin"
QUERY = "index,name,uuid,memory.total,driver_version,memory.used"
PROC_GPUS = Path("/proc/driver/nvidia/gpus")
PROC_VERSION = Path("/proc/driver/nvidia/version")
TEXT = 96
NO_GPUS = "No devices were found"
DIGITS = re.compile(r"[0-9]{1,18}\Z")


class Gpus(NamedTuple):
    """``gpus`` are the fields of model Gpu (memory in MiB); ``driver`` is "" where it is not known.

    ``trouble``: why neither nvidia-smi nor the driver's library answered, "" where one did or there is no nvidia-smi.
    """

    gpus: list[dict[str, Any]]
    driver: str
    trouble: str = ""


def number(text: str) -> int | None:
    """None for whatever else stands there."""
    return int(text) if DIGITS.match(text) else None


def parse_smi(text: str) -> Gpus:
    """What nvidia-smi prints for QUERY; lines of another shape ("No devices were found") are no GPUs."""
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines())]
    except csv.Error:  # a cell longer than any of its
        return Gpus([], "")
    rows = [row for row in rows if len(row) == len(QUERY.split(",")) and DIGITS.match(row[0])]
    gpus = [
        {"index": int(r[0]), "name": r[1], "uuid": r[2], "memory": number(r[3]), "used": number(r[5])} for r in rows
    ]
    return Gpus(gpus, rows[0][4] if rows else "")


def _nvml() -> dict[str, Any]:
    """The same by the driver's own library. Raises OSError where there is none, or it refuses."""
    nvml = ctypes.CDLL("libnvidia-ml.so.1")

    def call(name: str, *arguments: Any) -> None:
        status = getattr(nvml, name)(*arguments)
        if status != 0:
            raise OSError(status, f"{name} answered {status}")

    def text(name: str, *arguments: Any) -> str:
        buffer = ctypes.create_string_buffer(TEXT)
        call(name, *arguments, buffer, ctypes.c_uint(TEXT))
        return buffer.value.decode("utf-8", "replace")

    call("nvmlInit_v2")
    count = ctypes.c_uint()
    call("nvmlDeviceGetCount_v2", ctypes.byref(count))
    gpus = []
    for index in range(count.value):
        device = ctypes.c_void_p()
        memory = (ctypes.c_ulonglong * 3)()  # total, free, used: bytes
        call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(device))
        call("nvmlDeviceGetMemoryInfo", device, ctypes.byref(memory))
        name, uuid = text("nvmlDeviceGetName", device), text("nvmlDeviceGetUUID", device)
        gpus.append({"index": index, "name": name, "uuid": uuid, "memory": memory[0] >> 20, "used": memory[2] >> 20})
    return {"gpus": gpus, "driver": text("nvmlSystemGetDriverVersion")}


def _from_proc() -> Gpus:
    """Names and UUIDs from the kernel module, ordered as the driver orders: by bus address."""
    gpus: list[dict[str, Any]] = []
    for entry in sorted(PROC_GPUS.glob("*/information")):
        fields = dict(re.findall(r"^([^:\n]+):[ \t]*(.*)$", entry.read_text("utf-8", "replace"), re.M))
        name, uuid = fields.get("Model", "").strip(), fields.get("GPU UUID", "").strip()
        gpus.append({"index": len(gpus), "name": name, "uuid": uuid, "memory": None, "used": None})
    try:
        text = PROC_VERSION.read_text("utf-8", "replace")
    except OSError:
        text = ""
    # "Kernel Module  570.1" or "Open Kernel Module for x86_64  580.1"
    version = re.search(r"Kernel Module.*?\s(\d+\.[\d.]+)", text)
    return Gpus(gpus, version.group(1) if version else "")


def failure(output: commands.Output) -> str:
    """How nvidia-smi failed."""
    if output.code is None:
        return f"nvidia-smi did not answer within {SMI_SECONDS:.0f} s"
    said = (output.out + output.err).strip().split("\n")[0][:200]
    if output.code == 0:
        return f"nvidia-smi does not print what it should: {said}" if said else "nvidia-smi prints nothing"
    return f"nvidia-smi ended with {f'signal {output.signal}' if output.signal else f'exit code {output.code}'}: {said}"


def find() -> Gpus:
    """All GPUs of the node; none where there is no driver."""
    smi = commands.locate("nvidia-smi", SMI_PLACES)
    trouble = ""
    if smi is not None:
        try:
            output = commands.ask([smi, f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"], SMI_SECONDS)
        except OSError:
            output = commands.Output(1, "", "it can't be executed")
        told = parse_smi(output.out)
        if output.code == 0 and (told.gpus or NO_GPUS in output.out or not output.out.strip()):
            return told
        trouble = failure(output)
        if output.code is None:
            return _from_proc()._replace(trouble=trouble)  # the driver hangs; its library would hang as well
    answer = tasks.bounded(_nvml, NVML_SECONDS)
    if answer["ok"]:
        return Gpus(answer["gpus"], answer["driver"])
    return _from_proc()._replace(trouble=trouble)


def visible(gpus: list[dict[str, Any]], setting: str | None) -> int:
    """How many of them CUDA would show with this CUDA_VISIBLE_DEVICES: up to the first entry that is none."""
    if setting is None:
        return len(gpus)
    count = 0
    for entry in (part.strip() for part in setting.split(",")):
        by_uuid = entry.startswith("GPU-") and sum(gpu["uuid"].startswith(entry) for gpu in gpus) == 1
        if not (by_uuid or entry.startswith("MIG-") or (DIGITS.match(entry) and int(entry) < len(gpus))):
            break
        count += 1
    return count
