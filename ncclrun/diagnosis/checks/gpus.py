"""Are the GPUs of a host there and sound?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ncclrun.diagnosis.checks.kind import Kind
from ncclrun.diagnosis.checks.subject import Subject
from ncclrun.model.health import GpuHealth
from ncclrun.model.netevents import Problem
from ncclrun.model.settings import Level

NO_SUCH_GPU = Kind(
    id="no_such_gpu",
    title="the cluster file wants a GPU that is not there",
    symptom="`invalid device ordinal`, or fewer ranks than meant.",
    cause="`gpus` of the node names an index that the driver does not list: a typing error, or a GPU has gone.",
    cure="Correct `gpus`. If it should be there, see gpu_lost.",
    launch=True,
)
FEW_GPUS = Kind(
    id="few_gpus",
    title="more workers than GPUs",
    symptom="NCCL: `Duplicate GPU detected`.",
    cause="`nproc_per_node` is larger than the number of GPUs that the workers see.",
    cure="`nproc_per_node: auto`, or give the node more GPUs.",
    launch=True,
)
NO_DRIVER = Kind(
    id="no_driver",
    title="GPUs are on the bus, and no driver serves them",
    symptom="`nvidia-smi has failed because it couldn't communicate with the NVIDIA driver`, `no CUDA-capable device "
    "is detected`.",
    cause="The kernel was updated and the driver's module not built for it, nouveau holds the cards, or the module was "
    "never loaded.",
    cure="`sudo dkms autoinstall && sudo modprobe nvidia`; where nouveau is loaded, blacklist it and restart.",
    launch=True,
)
CONTAINER_NO_GPUS = Kind(
    id="container_no_gpus",
    title="the container was given no GPU",
    symptom="`no CUDA-capable device is detected`, `Found no NVIDIA driver on your system`, in a container alone.",
    cause="docker was started without `--gpus`, or the NVIDIA container toolkit is not installed on its host.",
    cure="`docker run --gpus all …`; before that, once, install nvidia-container-toolkit and run "
    "`sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker`.",
    launch=True,
)
GPU_LOST = Kind(
    id="gpu_lost",
    title="a GPU is on the bus, and the driver does not list it",
    symptom="Fewer GPUs than usual; `Unable to determine the device handle`; a rank that ends with `unknown error`.",
    cause="It fell off the bus (Xid 79), failed at start, or belongs to a virtual machine (vfio).",
    cure="Restart the host. If it is missing again, its seat, power or board is at fault.",
    launch=True,
)
GPU_ECC = Kind(
    id="gpu_ecc",
    title="uncorrectable memory errors on a GPU",
    symptom="`uncorrectable ECC error encountered`, wrong results, a rank that dies at random, always on one host.",
    cause="A memory cell failed since the driver was loaded. The driver takes its row out of use at the next reset.",
    cure="Reset the GPU while nothing uses it. If errors come again, have the board replaced.",
)
GPU_REMAP = Kind(
    id="gpu_remap",
    title="a GPU waits for a reset, or can't repair its memory",
    symptom="As with gpu_ecc, for as long as the reset is put off.",
    cause="A row of its memory is to be remapped, which only a reset does; or there are no spare rows left.",
    cure="`sudo nvidia-smi --gpu-reset -i N` while nothing uses it, or a restart. A failed remap means a new board.",
)
COMPUTE_MODE = Kind(
    id="compute_mode",
    title="a GPU admits no or only one process",
    symptom="`all CUDA-capable devices are busy or unavailable`.",
    cause="Its compute mode was set to Prohibited or Exclusive_Process.",
    cure="`sudo nvidia-smi -c DEFAULT`",
)
MIG = Kind(
    id="gpu_mig",
    title="a GPU is cut into slices (MIG)",
    symptom="NCCL finds one GPU for all ranks (`Duplicate GPU detected`), or CUDA sees but one slice.",
    cause="With MIG a process uses one slice, and slices can't talk to each other directly.",
    cure="`sudo nvidia-smi -mig 0` and a reset, for training over several GPUs.",
)
FABRIC = Kind(
    id="fabric_manager",
    title="the GPUs' fabric is not up",
    symptom="CUDA error 802, `system not yet initialized`; NCCL fails in its first transfer between GPUs.",
    cause="On machines with NVSwitch CUDA waits for nvidia-fabricmanager, which does not run, or is of another version "
    "than the driver.",
    cure="`sudo systemctl enable --now nvidia-fabricmanager`, of exactly the driver's version.",
)
GPU_SLOW = Kind(
    id="gpu_slow",
    title="a GPU holds its clock down",
    symptom="One rank that all others wait for; a step time that grows while it is hot.",
    cause="Heat, or a power supply that says so (power brake).",
    cure="See to cooling and power; `nvidia-smi -q -d PERFORMANCE,TEMPERATURE` shows what it is.",
)
GPU_WIDTH = Kind(
    id="gpu_width",
    title="a GPU has fewer PCIe lanes than it could",
    symptom="Loading data and NCCL without NVLink are slower on one host.",
    cause="A riser, a slot, a dirty contact, or a mainboard that shares lanes.",
    cure="Seat the card anew, or take another slot.",
)
PERSISTENCE = Kind(
    id="gpu_persistence",
    title="persistence mode is off",
    symptom="The first CUDA call of a process takes seconds; nvidia-smi is slow.",
    cause="Without a user the driver shuts the GPU down and has to start it again.",
    cure="`sudo nvidia-smi -pm 1`, or enable nvidia-persistenced.",
)
KINDS = (
    NO_SUCH_GPU,
    FEW_GPUS,
    NO_DRIVER,
    CONTAINER_NO_GPUS,
    GPU_LOST,
    GPU_ECC,
    GPU_REMAP,
    COMPUTE_MODE,
    MIG,
    FABRIC,
    GPU_SLOW,
    GPU_WIDTH,
    PERSISTENCE,
)


def wanted(subject: Subject) -> Iterator[Problem]:
    """What the cluster file asks for."""
    node, facts = subject.node, subject.facts
    if node.gpus is not None:
        known = {gpu.index for gpu in facts.gpus}
        missing = [index for index in node.gpus if index not in known]
        if missing:
            yield NO_SUCH_GPU.found(
                f"the cluster file wants GPU {', '.join(map(str, missing))}, the host has "
                + (", ".join(str(i) for i in sorted(known)) or "none"),
                f"correct `gpus` of node {node.name}",
                "error",
            )
    asked = node.launch.nproc_per_node
    there = facts.visible_gpus if node.gpus is None else len(node.gpus)
    if asked != "auto" and 0 < there < asked:
        message = f"{asked} workers for {_gpus(there)}: NCCL refuses two ranks on one GPU"
        yield FEW_GPUS.found(message, "set nproc_per_node: auto")


def there(subject: Subject) -> Iterator[Problem]:
    """All that are on the bus are served; a container may be given some of them alone."""
    facts, system = subject.facts, subject.system
    listed, cards = len(facts.gpus), system.cards
    if not cards or listed >= cards:
        return
    if system.container:
        if not listed:
            fix = subject.grant("--gpus all", "")
            yield CONTAINER_NO_GPUS.found(f"it is a container ({system.container}) without any of {_gpus(cards)}", fix)
    elif not listed:
        holder = "nouveau is loaded in its place" if "nouveau" in system.modules else "its module is not loaded"
        why = "its module is loaded and lists none" if "nvidia" in system.modules else holder
        fix = subject.there("sudo modprobe nvidia; sudo dmesg | grep -i nvrm | tail")
        yield NO_DRIVER.found(f"{_gpus(cards)} on the bus, no NVIDIA driver: {why}", fix)
    else:
        fix = subject.there("sudo dmesg | grep -i nvrm | tail") + "   (then restart it)"
        yield GPU_LOST.found(f"{_gpus(cards)} on the bus, the driver lists {listed}", fix)


def health(subject: Subject) -> Iterator[Problem]:
    """What the driver's report says of each."""
    report = subject.exam.health if subject.exam is not None else None
    for gpu in report.gpus if report is not None else ():
        yield from _memory(subject, gpu)
        yield from _modes(subject, gpu)
        yield from _pace(subject, gpu)
    off = [gpu.index for gpu in report.gpus if gpu.persistence == "Disabled"] if report is not None else []
    if off:
        yield PERSISTENCE.found(f"{_named(off)}: off", subject.there("sudo nvidia-smi -pm 1"), "info")


def _memory(subject: Subject, gpu: GpuHealth) -> Iterator[Problem]:
    reset = subject.there(f"sudo nvidia-smi --gpu-reset -i {gpu.index}") + "   (while nothing uses it)"
    if gpu.refusal.endswith("is lost"):
        fix = subject.there("sudo dmesg | grep -i nvrm | tail") + "   (then restart it)"
        yield GPU_LOST.found(f"GPU {gpu.index}: the driver says {gpu.refusal!r}", fix, "error")
    elif gpu.remap_failed:
        message = f"GPU {gpu.index} can't repair its memory any more"
        others = [one.index for one in subject.facts.gpus if one.index != gpu.index]
        leave = f"give node {subject.name}  gpus: {others}" if others else f"take node {subject.name} out"
        yield GPU_REMAP.found(message, f"in the cluster file {leave}   (until its board is replaced)", "error")
    elif gpu.remap_pending or gpu.recovery or gpu.refusal:
        says = f" (the driver says: {gpu.refusal})" if gpu.refusal else ""
        wants = f" (the driver wants: {gpu.recovery})" if gpu.recovery else says
        yield GPU_REMAP.found(f"GPU {gpu.index} waits for a reset{wants}", reset)
    if gpu.uncorrected:
        yield GPU_ECC.found(f"GPU {gpu.index}: {gpu.uncorrected} uncorrectable errors since the driver started", reset)


def _modes(subject: Subject, gpu: GpuHealth) -> Iterator[Problem]:
    if gpu.compute_mode in ("Prohibited", "Exclusive_Process"):
        level: Level = "error" if gpu.compute_mode == "Prohibited" else "warning"
        fix = subject.there(f"sudo nvidia-smi -i {gpu.index} -c DEFAULT")
        yield COMPUTE_MODE.found(f"GPU {gpu.index}: {gpu.compute_mode}", fix, level)
    if gpu.mig == "Enabled":
        yield MIG.found(f"GPU {gpu.index}: MIG is on", subject.there(f"sudo nvidia-smi -i {gpu.index} -mig 0"))
    if gpu.fabric and gpu.fabric != "Completed":
        fix = subject.there("sudo systemctl restart nvidia-fabricmanager && systemctl status nvidia-fabricmanager")
        yield FABRIC.found(f"GPU {gpu.index}: fabric state {gpu.fabric}", fix, "error")


def _pace(subject: Subject, gpu: GpuHealth) -> Iterator[Problem]:
    if gpu.slow:
        why = ", ".join(one.replace("_", " ") for one in gpu.slow)
        hot = f" at {gpu.temperature} °C" if gpu.temperature is not None else ""
        fix = subject.there(f"nvidia-smi -i {gpu.index} -q -d PERFORMANCE,TEMPERATURE,POWER")
        yield GPU_SLOW.found(f"GPU {gpu.index}: {why}{hot}", fix)
    if gpu.width and gpu.widest and gpu.width < gpu.widest:  # the generation falls when it idles, the width does not
        fix = subject.there(f"nvidia-smi -i {gpu.index} -q | grep -A3 'Link Width'")
        yield GPU_WIDTH.found(f"GPU {gpu.index}: {gpu.width} of {gpu.widest} lanes", fix)


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"


def _named(indexes: Sequence[int]) -> str:
    return f"GPU {indexes[0]}" if len(indexes) == 1 else f"GPUs {', '.join(map(str, indexes))}"
