"""Is there a Python with a torch that can use the GPUs of this host?"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ncclrun.diagnosis.checks.kind import Kind
from ncclrun.diagnosis.checks.subject import Subject, numbers
from ncclrun.model.netevents import Problem

DRIVERS = {"11": "450.80.02", "12": "525.60.13", "13": "580.65.06"}
"""The oldest driver for each major version of CUDA, without a compatibility package."""

DIED = "it ended with"
"""How the node part words a start of torch that crashed."""

NO_PYTHON = Kind(
    id="no_python",
    title="the training's Python can't be run",
    symptom="The launch is refused, or every rank ends with exit code 127 (no such file).",
    cause="`launch.python` names a program that is not on that host, is none, or is older than Python 3.8. A virtual "
    "environment that was copied or whose base Python was updated away breaks in this way.",
    cure="Set `launch.python`, or `python` of the node, to one that is there; or make the environment again.",
    launch=True,
)
NO_TORCH = Kind(
    id="no_torch",
    title="torch is not installed",
    symptom="`No module named torch`, or `torchrun` is not found.",
    cause="The Python that a non-interactive SSH login finds is another than the one of your terminal: no environment "
    "is activated there.",
    cure="Name the environment's own Python in `launch.python`, or install torch into this one.",
    launch=True,
)
TORCH_CPU = Kind(
    id="torch_cpu",
    title="torch was built without CUDA, and the host has GPUs",
    symptom="`Torch not compiled with CUDA enabled`, `ProcessGroupNCCL is only supported with GPUs, no GPUs found`, or "
    "a training that is a hundred times too slow.",
    cause="pip took the CPU build: from an index for it, for a Python or a platform without a CUDA build, or because a "
    "requirement pinned `+cpu`.",
    cure="Install a build for a CUDA that the driver can serve.",
    launch=True,
)
DRIVER_OLD = Kind(
    id="driver_old",
    title="the GPU driver is older than torch's CUDA needs",
    symptom="`The NVIDIA driver on your system is too old`, `CUDA driver version is insufficient`.",
    cause="Each major version of CUDA needs a driver of at least some version. A container brings its own CUDA, but "
    "always uses the host's driver.",
    cure="Update the driver, or install a torch for an older CUDA. On data center GPUs the cuda-compat package of that "
    "CUDA does, too.",
    launch=True,
)
TORCH_BROKEN = Kind(
    id="torch_broken",
    title="torch is there and can't be imported",
    symptom="ImportError, `undefined symbol`, or a crash before the first line of the script.",
    cause="Its libraries do not fit each other: packages of two CUDA versions in one environment, LD_LIBRARY_PATH or "
    "PYTHONPATH that leads to others, or an install that broke off.",
    cure="Look at what LD_LIBRARY_PATH and PYTHONPATH of the login name: a file outside of the environment that the "
    "finding shows came by them. Else make a fresh environment.",
)
CUDA_UNAVAILABLE = Kind(
    id="cuda_unavailable",
    title="torch sees no GPU, and the driver does",
    symptom="`torch.cuda.is_available()` is false; NCCL's process group refuses to start.",
    cause="The driver is too old for torch's CUDA, was updated without a restart, waits for the fabric manager (error "
    "802), or CUDA_VISIBLE_DEVICES is empty.",
    cure="What torch itself says stands in the finding. After an update of the driver: restart the host.",
)
TORCH_ARCH = Kind(
    id="torch_arch",
    title="torch has no code for this GPU",
    symptom="`no kernel image is available for execution on the device`.",
    cause="The GPU is newer than this build of torch, or so old that it was dropped.",
    cure="Install a torch that was built for it: a newer one, or for old GPUs an older one.",
)
FRAMEWORKS_SILENT = Kind(
    id="torch_hangs",
    title="starting torch does not come to an end",
    symptom="Ranks hang before they print anything.",
    cause="A driver that does not answer, or an environment on a network disk that is very slow or gone.",
    cure="Run `nvidia-smi` on that host; if that hangs as well, restart it.",
)
KINDS = (
    NO_PYTHON,
    NO_TORCH,
    TORCH_CPU,
    DRIVER_OLD,
    TORCH_BROKEN,
    CUDA_UNAVAILABLE,
    TORCH_ARCH,
    FRAMEWORKS_SILENT,
)


def pip(subject: Subject) -> str:
    """How pip of the training's Python is called there."""
    return f"{shlex.quote(subject.facts.python.executable)} -m pip"


def python(subject: Subject) -> Iterator[Problem]:
    """There, and with torch."""
    found = subject.facts.python
    if not found.version or (found.error and not found.torch):
        yield NO_PYTHON.found(
            f"the training Python {found.executable!r} is of no use: {found.error}",
            subject.there("command -v python3") + "   (and name the one that has torch: launch: {python: …})",
            "error",
        )
    elif not found.torch:
        yield NO_TORCH.found(
            f"torch is not installed in {found.executable} (Python {found.version})",
            subject.there(f"{pip(subject)} install torch") + "   (or name the Python that has it: launch: {python: …})",
            "error",
        )


def build(subject: Subject) -> Iterator[Problem]:
    """Made for GPUs, and for this driver."""
    found, driver = subject.facts.python, subject.facts.driver
    if not (found.torch and subject.facts.gpus):
        return
    if not found.cuda:
        yield TORCH_CPU.found(
            f"torch {found.torch} in {found.executable} can't use the {len(subject.facts.gpus)} GPUs",
            subject.there(f"{pip(subject)} install --force-reinstall torch")
            + f"   (pytorch.org has the line for CUDA {newest_cuda(driver)}, which this driver serves)",
        )
    needed = DRIVERS.get(subject.major(), "")
    if needed and driver and numbers(driver) < numbers(needed):
        yield DRIVER_OLD.found(
            f"driver {driver}; torch {found.torch} with CUDA {found.cuda} needs {needed} or later",
            f"update the driver, or install a torch for CUDA {newest_cuda(driver)} (pytorch.org, Previous versions)",
        )


def lacks_nccl(error: str) -> bool:
    """Whether an import failed for want of libnccl, in glibc's words or musl's."""
    return "libnccl" in error and ("cannot open shared object" in error or "No such file" in error)


def newest_cuda(driver: str) -> str:
    """The major version of the newest CUDA that this driver serves; 12 where the driver is not known."""
    fitting = [major for major, needed in DRIVERS.items() if driver and numbers(driver) >= numbers(needed)]
    return fitting[-1] if fitting else "12"


def started(subject: Subject) -> Iterator[Problem]:
    """What torch said when it was started there."""
    told, facts = subject.installed.frameworks, subject.facts
    look = subject.there(f"env | grep -E '^(LD_|PYTHON).*PATH='; {pip(subject)} check")
    if told.torch_error and not lacks_nccl(told.torch_error):  # that is libraries.py's
        yield TORCH_BROKEN.found(f"import torch fails: {told.torch_error}", look, "error")
    if told.trouble.startswith(DIED) and facts.python.torch and not told.torch_error:
        yield TORCH_BROKEN.found(f"starting torch there: {told.trouble}", look, "error")
    elif told.trouble and facts.python.torch and not told.torch_error:
        fix = subject.there(f"time {shlex.quote(facts.python.executable)} -c 'import torch'")
        yield FRAMEWORKS_SILENT.found(f"starting torch there: {told.trouble}", fix)
    if told.cuda_available is False and facts.gpus and facts.visible_gpus:
        why = told.cuda_error or "it does not say why"
        yield CUDA_UNAVAILABLE.found(
            f"the driver lists {len(facts.gpus)} GPUs, torch {facts.python.torch} none: {why}",
            subject.there(f"{shlex.quote(facts.python.executable)} -c 'import torch; torch.cuda.init()'"),
            "error",
        )
    strange = [one for one in told.capabilities if not _runs_on(one, told.built_for)]
    if strange and told.built_for:
        yield TORCH_ARCH.found(
            f"GPUs of compute capability {', '.join(strange)}; torch {facts.python.torch} was built for "
            + ", ".join(told.built_for),
            subject.there(f"{pip(subject)} install --upgrade torch"),
            "error",
        )


def _runs_on(capability: str, built_for: tuple[str, ...]) -> bool:
    """Code for a smaller minor version of the same major one runs; PTX (``compute_…``) for anything later."""
    major, minor = numbers(capability)[:2]
    for arch in built_for:
        kind, _, number = arch.partition("_")
        if number.isdigit():
            same = divmod(int(number), 10)
            if (kind == "sm" and same[0] == major and same[1] <= minor) or (
                kind == "compute" and same <= (major, minor)
            ):
                return True
        elif number[:-1].isdigit() and divmod(int(number[:-1]), 10) == (major, minor):  # sm_90a: that one alone
            return True
    return False
