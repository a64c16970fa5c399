"""Which libnccl wins, and do it and CUDA's libraries fit the frameworks that load them?"""

from __future__ import annotations

from collections.abc import Iterator

from ncclrun.diagnosis.checks.install import nccl_ways
from ncclrun.diagnosis.checks.kind import Kind
from ncclrun.diagnosis.checks.subject import START_UP_FILES, Subject
from ncclrun.diagnosis.checks.training import lacks_nccl, pip
from ncclrun.model.health import Library
from ncclrun.model.netevents import Problem

FORCED = ("LD_PRELOAD", "LD_LIBRARY_PATH")

NCCL_MISSING = Kind(
    id="nccl_missing",
    title="there is no libnccl",
    symptom="`libnccl.so.2: cannot open shared object file: No such file or directory`.",
    cause="Neither the environment of the training's Python nor the system has NCCL; or it lies where the loader does "
    "not look.",
    cure="Install it in one of the ways that the finding lists: the package of pip needs no root.",
)
NCCL_SEVERAL = Kind(
    id="nccl_several",
    title="several libnccl are on the host",
    symptom="Another version than the one that you installed answers; nodes that look alike behave differently.",
    cause="pip's package, the distribution's and one of your own lie side by side. LD_PRELOAD goes first, then what a "
    "program brings along (torch its own directory), LD_LIBRARY_PATH, and last the cache of ldconfig.",
    cure="Nothing, as long as the one that wins is the one that you mean, on all nodes.",
)
NCCL_OVERRIDE = Kind(
    id="nccl_override",
    title="an environment variable puts another libnccl in front of torch's",
    symptom="Crashes in NCCL, `undefined symbol: nccl…`, or other nodes that refuse to talk to this one's version.",
    cause="LD_PRELOAD or LD_LIBRARY_PATH of the login, mostly from a start-up file or a module system, leads the "
    "loader to a version that this torch was not tested with.",
    cure="Take the entry out of the start-up file, or unset the variable for the run in `launch.env`.",
)
NCCL_CUDA = Kind(
    id="nccl_cuda",
    title="NCCL was built for another CUDA than torch",
    symptom="`CUDA driver version is insufficient`, `invalid device function`, or crashes in the first collective.",
    cause="A libnccl for another major version of CUDA was found first.",
    cure="Install the package for torch's CUDA, or take the other one out of the loader's way.",
)
NCCL_CLASH = Kind(
    id="nccl_clash",
    title="two pip packages of NCCL overwrote each other",
    symptom="pip says one version and NCCL another; after an uninstall of one libnccl.so.2 is gone.",
    cause="The packages for CUDA 12 and for CUDA 13 put their library into the same place: the one that was installed "
    "last is there.",
    cure="Uninstall both, then install the one for torch's CUDA again.",
)
CUDART_OVERRIDE = Kind(
    id="cudart_override",
    title="torch loaded a CUDA runtime of another version",
    symptom="Errors of CUDA at the start that other hosts do not have.",
    cause="LD_LIBRARY_PATH leads to a CUDA toolkit of the system before the libraries that torch brought.",
    cure="Take the toolkit out of LD_LIBRARY_PATH: torch needs none.",
)
PADDLE_NO_NCCL = Kind(
    id="paddle_no_nccl",
    title="Paddle will not find its libnccl.so",
    symptom="`The third-party dynamic library (libnccl.so) that Paddle depends on is not configured correctly`, with "
    "`libnccl.so: cannot open shared object file`.",
    cause="Paddle asks the loader for `libnccl.so`, the name that only the developer's package (or a link) has, and "
    "does not look into pip's package of its own accord in every version.",
    cure="Install libnccl-dev (libnccl-devel), or make a link beside libnccl.so.2 and name its directory in "
    "LD_LIBRARY_PATH.",
)
PADDLE_CPU = Kind(
    id="paddle_cpu",
    title="Paddle was installed without CUDA, and the host has GPUs",
    symptom="`Cannot use GPU because you have installed CPU version PaddlePaddle`.",
    cause="The package `paddlepaddle` is the CPU build; `paddlepaddle-gpu` is the other.",
    cure="Uninstall it and install paddlepaddle-gpu for your CUDA.",
)
TENSORFLOW_CPU = Kind(
    id="tensorflow_cpu",
    title="TensorFlow will not use the GPUs",
    symptom="`Could not find cuda drivers on your machine, GPU will not be used`, `Cannot dlopen some GPU libraries`.",
    cause="It is the CPU package, or its CUDA libraries were not installed along with it.",
    cure="Install `tensorflow[and-cuda]`.",
)
KINDS = (
    NCCL_MISSING,
    NCCL_SEVERAL,
    NCCL_OVERRIDE,
    NCCL_CUDA,
    NCCL_CLASH,
    CUDART_OVERRIDE,
    PADDLE_NO_NCCL,
    PADDLE_CPU,
    TENSORFLOW_CPU,
)


def missing(subject: Subject) -> Iterator[Problem]:
    """Torch asked for it in vain, or nobody brought one."""
    told = subject.installed.frameworks
    if lacks_nccl(told.torch_error):
        yield NCCL_MISSING.found(f"import torch fails: {told.torch_error}", nccl_ways(subject), "error")
        return
    looked = subject.exam is not None and subject.exam.installed is not None
    if looked and subject.facts.gpus and not subject.installed.nccl and not subject.facts.python.torch:
        yield NCCL_MISSING.found("no libnccl lies where the loader or Python looks", nccl_ways(subject))


def several(subject: Subject) -> Iterator[Problem]:
    """All of them, the one that wins first."""
    found = subject.installed.nccl
    if len(found) > 1:
        loaded = [one for one in found if "torch" in one.ways]
        first = f"torch loads {_told(loaded[0])}" if loaded else f"found first: {_told(found[0])}"
        others = [_told(one) for one in found if one is not (loaded or found)[0]]
        yield NCCL_SEVERAL.found(f"{first}; there are also {'; '.join(others)}", level="info")
    packages = [one for one in subject.installed.frameworks.packages if one.name.startswith("nvidia-nccl-cu")]
    files = {file for one in packages for file in one.files}
    if len(packages) > 1 and len(files) < len(packages):
        there = ", ".join(one.version for one in found if one.path in files and one.version) or "one of them"
        names = " ".join(one.name for one in packages)
        keep = next((one.name for one in packages if one.name == f"nvidia-nccl-cu{subject.major()}"), packages[0].name)
        yield NCCL_CLASH.found(
            f"{' and '.join(f'{one.name} {one.version}' for one in packages)} have one libnccl.so.2 ({there})",
            subject.there(f"{pip(subject)} uninstall -y {names} && {pip(subject)} install {keep}"),
        )


def forced(subject: Subject) -> Iterator[Problem]:
    """The environment leads elsewhere than torch would go by itself."""
    brought = [one for one in subject.installed.nccl if "pip" in one.ways]
    for one in subject.installed.nccl:
        ways = [way for way in FORCED if way in one.ways]
        other = [pip_one for pip_one in brought if pip_one.path != one.path and pip_one.version != one.version]
        if ways and other:
            outcome = "and torch loads it" if "torch" in one.ways else "which programs without one of their own load"
            fix = _where_set(subject, ways[0])
            yield NCCL_OVERRIDE.found(f"{ways[0]} leads to {_told(one)}, {outcome}; pip's is {_told(other[0])}", fix)
    yield from _cuda(subject)


def _where_set(subject: Subject, variable: str) -> str:
    if variable in subject.node.launch.env:
        return f"take {variable} out of the cluster file: launch: {{env: …}}, or env of node {subject.name}"
    return subject.there(f"grep -n {variable} {START_UP_FILES}")


def _cuda(subject: Subject) -> Iterator[Problem]:
    """Built for what torch was built for."""
    cuda, major = subject.facts.python.cuda, subject.major()
    if not major:
        return
    for one in subject.installed.nccl:
        if "torch" in one.ways and one.cuda and one.cuda.partition(".")[0] != major:
            yield NCCL_CUDA.found(
                f"torch is for CUDA {cuda}, and loads NCCL {_told(one)}, which was built for CUDA {one.cuda}",
                subject.there(f"{pip(subject)} install --force-reinstall nvidia-nccl-cu{major}"),
            )
    for path in subject.installed.frameworks.loaded:
        name = path.rpartition("/")[2]
        version = name.partition(".so.")[2] or name.partition("libcudart-")[2]
        if name.startswith("libcudart") and version and version.partition(".")[0] != major:
            fix = _where_set(subject, "LD_LIBRARY_PATH")
            yield CUDART_OVERRIDE.found(f"torch is for CUDA {cuda}, and loaded {path}", fix)


def others(subject: Subject) -> Iterator[Problem]:
    """Paddle and TensorFlow, where they are."""
    told, gpus = subject.installed.frameworks, len(subject.facts.gpus)
    paddle = told.version("paddlepaddle-gpu")
    reach = {name for one in subject.installed.nccl if {"ldconfig", *FORCED} & set(one.ways) for name in one.names}
    if paddle and "libnccl.so" not in reach:
        has = "only libnccl.so.2 is" if "libnccl.so.2" in reach else "no libnccl is"
        yield PADDLE_NO_NCCL.found(
            f"Paddle {paddle} asks for libnccl.so, and {has} where the loader looks", nccl_ways(subject, developer=True)
        )
    cpu = told.version("paddlepaddle")
    if cpu and not paddle and gpus:
        fix = subject.there(f"{pip(subject)} uninstall -y paddlepaddle && {pip(subject)} install paddlepaddle-gpu")
        yield PADDLE_CPU.found(f"paddlepaddle {cpu} can't use the {gpus} GPUs", fix)
    flow = told.version("tensorflow", "tensorflow-gpu", "tensorflow-cpu")
    cudnn = any(one.name.startswith("nvidia-cudnn") for one in told.packages)
    if flow and gpus and (told.version("tensorflow-cpu") or not cudnn):
        why = "is the CPU package" if told.version("tensorflow-cpu") else "has no cuDNN of pip's beside it"
        fix = subject.there(f"{pip(subject)} install 'tensorflow[and-cuda]'")
        yield TENSORFLOW_CPU.found(
            f"tensorflow {flow} {why}", fix, "warning" if told.version("tensorflow-cpu") else "info"
        )


def _told(library: Library) -> str:
    """``2.27.3 (/usr/lib/…, by ldconfig)``."""
    ways = ", ".join(way for way in library.ways if way != "torch")
    return f"{library.version or 'one of unknown version'} ({library.path}{f', by {ways}' if ways else ''})"
