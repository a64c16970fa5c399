"""The ways to get NCCL onto a host: one command each, for its Python, its distribution and its CUDA."""

from __future__ import annotations

from ncclrun.diagnosis.checks.subject import Subject
from ncclrun.diagnosis.checks.training import newest_cuda, pip

MULTIARCH = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}
DEBIAN, REDHAT, SUSE = (
    ("debian", "ubuntu"),
    ("rhel", "fedora", "centos", "rocky", "almalinux", "amzn"),
    ("suse", "sles"),
)


def package(subject: Subject, debian: str, redhat: str) -> str:
    """The command of its distribution that installs what is called so there."""
    family = {subject.system.distribution.id, *subject.system.distribution.like.split()}
    if family & set(REDHAT):
        return f"sudo dnf install {redhat}"
    if family & set(SUSE) or any(word.startswith("opensuse") for word in family):
        return f"sudo zypper install {redhat}"
    return f"sudo apt-get install {debian}"


def nccl_ways(subject: Subject, *, developer: bool = False) -> str:
    """A line a way; ``developer``: with ``libnccl.so``, which has no version in its name."""
    major = subject.major() or newest_cuda(subject.facts.driver)
    ways = [
        ("pip, no root", f"{pip(subject)} install nvidia-nccl-cu{major}"),
        *_distribution(subject, major, developer),
        ("source, no root", _source(subject)),
    ]
    if developer:
        link = "ln -s libnccl.so.2 libnccl.so   in the directory of libnccl.so.2, then LD_LIBRARY_PATH=that directory"
        ways.insert(1, ("link, no root", link))
    width = max(len(name) for name, _ in ways)
    return subject.there("\n".join(f"  {name + ':':{width + 1}} {command}" for name, command in ways))


def _distribution(subject: Subject, major: str, developer: bool) -> list[tuple[str, str]]:
    """Packages of its distribution, and the same without a network; all need NVIDIA's repository."""
    made = subject.system.distribution
    family = {made.id, *made.like.split()}
    cuda = subject.facts.python.cuda if subject.facts.python.cuda.startswith(f"{major}.") else major
    if family & set(DEBIAN):
        wanted = [f'"libnccl2=*+cuda{cuda}*"', *([f'"libnccl-dev=*+cuda{cuda}*"'] if developer else [])]
        names = " ".join(one.strip('"').partition("=")[0] for one in wanted)
        lib = MULTIARCH.get(subject.system.arch, "x86_64-linux-gnu")
        return [
            ("apt (NVIDIA's repository)", f"sudo apt-get install {' '.join(wanted)}"),
            (
                "offline .deb",
                f"apt-get download {names}   on a machine with a network; copy them, then  sudo dpkg -i libnccl*.deb",
            ),
            (
                ".deb, no root",
                f"dpkg -x libnccl2_*.deb ~/nccl   then  LD_LIBRARY_PATH=$HOME/nccl/usr/lib/{lib}  in launch.env",
            ),
        ]
    if family & set(REDHAT):
        return [("dnf (NVIDIA's repository)", f"sudo dnf install libnccl{' libnccl-devel' if developer else ''}")]
    if family & set(SUSE) or any(word.startswith("opensuse") for word in family):
        return [("zypper (NVIDIA's repository)", f"sudo zypper install libnccl{' libnccl-devel' if developer else ''}")]
    if "arch" in family:
        return [("pacman", "sudo pacman -S nccl")]
    return []


def _source(subject: Subject) -> str:
    """Built for the GPUs that are there, where they are known."""
    found = subject.installed.frameworks.capabilities
    codes = [f"-gencode=arch=compute_{one.replace('.', '')},code=sm_{one.replace('.', '')}" for one in found]
    only = f' NVCC_GENCODE="{" ".join(codes)}"' if codes else ""
    make = f"make -C ~/nccl -j src.build CUDA_HOME=/usr/local/cuda{only}"
    clone = "git clone --depth 1 https://github.com/NVIDIA/nccl ~/nccl"
    return f"{clone} && {make}   then  LD_LIBRARY_PATH=$HOME/nccl/build/lib"
