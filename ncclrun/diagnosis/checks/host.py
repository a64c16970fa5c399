"""Does the machine grant what a training needs: disk, shared memory, limits, time, memory?"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from ncclrun.diagnosis.checks.kind import Kind
from ncclrun.diagnosis.checks.subject import START_UP_FILES, Subject
from ncclrun.model.health import Sizes
from ncclrun.model.netevents import Problem
from ncclrun.model.words import lasting

CLOCK_LIMIT = 5.0
"""Seconds of clock difference from which log times and certificate checks begin to mislead."""
LOW_DISK = 1 << 30
"""Bytes free below which a node is warned about."""
LOW_INODES = 10_000
SMALL_SHARED_MEMORY = 64 << 20
"""Bytes free in /dev/shm, and less, that data loaders and NCCL fill at once; it is what Docker gives."""
LITTLE_SHARED_MEMORY = 1 << 30
"""Bytes of /dev/shm with which several data loaders run into trouble sooner or later."""
PINNED = 1 << 30
"""Bytes that a process must be able to lock for RDMA; NVIDIA says unlimited."""
FEW_FILES, USUAL_FILES = 1024, 4096
OOM = re.compile(r"Killed process (?P<pid>\d+) \((?P<name>[^)]*)\)")

DISK_LOW = Kind(
    id="disk_low",
    title="little disk space where runs keep their logs",
    symptom="`No space left on device`; log lines that are counted as lost.",
    cause="Old runs, checkpoints or caches fill the file system.",
    cure="`ncclrun clean` removes old runs; `du` shows what else is large.",
    launch=True,
)
INODES_LOW = Kind(
    id="inodes_low",
    title="almost no files can be made any more",
    symptom="`No space left on device` though `df` shows free space.",
    cause="The file system has a limit of files, and millions of small ones (datasets, caches) use it up.",
    cure="Remove or pack small files; `df -i` shows the limit.",
    launch=True,
)
TEMPORARY_LOW = Kind(
    id="tmp_low",
    title="/tmp is almost full",
    symptom="Compilers and data loaders fail with `No space left on device`.",
    cause="/tmp is a file system of its own, or what fills the disk lies there.",
    cure="Free some, or set TMPDIR in `launch.env`.",
)
SHARED_MEMORY = Kind(
    id="shared_memory",
    title="/dev/shm is too small",
    symptom="`Bus error`, `unable to mmap … shared memory`, `DataLoader worker is killed by signal: Bus error`, NCCL's "
    "`Error while creating shared memory segment /dev/shm/nccl-…`.",
    cause="A container has 64 MB of it unless it is told otherwise; data loaders and NCCL both need more.",
    cure="`docker run --ipc=host` or `--shm-size=8g`; in Kubernetes an emptyDir of medium Memory at /dev/shm; on a "
    "host `mount -o remount,size=8G /dev/shm`.",
    launch=True,
)
MEMLOCK_LOW = Kind(
    id="memlock",
    title="a process may lock too little memory for RDMA",
    symptom="NCCL: `Call to ibv_reg_mr failed`, `ibv_create_cq failed … Cannot allocate memory`.",
    cause="RDMA pins memory, and the limit (ulimit -l) of an SSH login or a container is 64 kB to 8 MB by default.",
    cure="`* soft memlock unlimited` and `* hard memlock unlimited` in /etc/security/limits.d; in a container "
    "`--ulimit memlock=-1`.",
    launch=True,
)
NOFILE_LOW = Kind(
    id="nofile",
    title="a process may open few files",
    symptom="`Too many open files`, `ancdata` errors of data loaders, NCCL's `socket … failed: Too many open files`.",
    cause="The soft limit (ulimit -n) of the login is low: 1024 by default.",
    cure="`* soft nofile 65536` in /etc/security/limits.d, or "
    "`torch.multiprocessing.set_sharing_strategy('file_system')` for data loaders alone.",
    launch=True,
)
ADDRESS_SPACE = Kind(
    id="address_space",
    title="a process may have little address space",
    symptom="CUDA says `out of memory` on an empty GPU or can't be initialized, `can't allocate memory` though much is "
    "free, `failed to map segment from shared object`, threads that can't be started.",
    cause="A limit (ulimit -v) that a start-up file or /etc/security sets, mostly meant to bound memory. CUDA reserves "
    "addresses for all memory of the host and of its GPUs, and uses few of them.",
    cure="Take the limit out. What bounds memory itself is a cgroup (`MemoryMax=` of systemd, `--memory` of docker).",
)
CLOCK = Kind(
    id="clock",
    title="the clock is wrong",
    symptom="Logs in the wrong order, certificates that are not valid yet, make and caches that are confused.",
    cause="No time service runs there, or it can't reach a server.",
    cure="`timedatectl set-ntp true`",
    launch=True,
)
CLOCK_FREE = Kind(
    id="clock_unsynced",
    title="nothing keeps the clock right",
    symptom="None yet; the clock drifts by seconds a week.",
    cause="The kernel says that no time service steers its clock. In a virtual machine its host may do so unseen.",
    cure="`timedatectl set-ntp true`, or install chrony.",
)
OUT_OF_MEMORY = Kind(
    id="oom",
    title="the kernel has killed processes for want of memory",
    symptom="A rank that ends by SIGKILL that nobody sent; torchrun says exit code -9.",
    cause="The host's memory, or the container's share of it, was used up: data loader workers times prefetch, a "
    "dataset held in memory by each rank, pinned buffers.",
    cure="Fewer workers, less prefetch, or a larger limit; a run's closing paragraph names the rank.",
)
CPUS_FEW = Kind(
    id="cpus_few",
    title="fewer processors than workers",
    symptom="GPUs that wait for data; NCCL's own threads that are starved.",
    cause="The login or the container is bound to a few of the host's processors (cpuset, taskset).",
    cure="Give the container more (`--cpuset-cpus`, or nothing), or start fewer workers.",
)
NUMA_BALANCING = Kind(
    id="numa_balancing",
    title="the kernel moves memory between NUMA nodes by itself",
    symptom="Step times that jitter on hosts with several sockets; copies to the GPU that are slower now and then.",
    cause="Automatic NUMA balancing takes pages away for a moment to see who uses them, and migrates them.",
    cure="`sudo sysctl -w kernel.numa_balancing=0`",
)
SELINUX = Kind(
    id="selinux",
    title="SELinux is enforcing",
    symptom="`Permission denied` for what the file's mode allows; in a container /dev/nvidia* or a mounted dataset.",
    cause="A policy that does not know what the training does. For a login of its own it mostly does no harm.",
    cure="`sudo ausearch -m avc -ts recent` shows what it refused; for mounts into a container `:z`.",
)
CONTAINER_NETWORK = Kind(
    id="container_network",
    title="the container has a network of its own",
    symptom="NCCL connects to 172.17.0.x and waits: `connect … failed`, `Connection timed out`.",
    cause="Behind a bridge its address means nothing to other hosts, and NCCL opens ports that nobody published.",
    cure="`docker run --network host`; Swarm, Kubernetes and the like have networks that reach across hosts.",
)
KINDS = (
    DISK_LOW,
    INODES_LOW,
    TEMPORARY_LOW,
    SHARED_MEMORY,
    MEMLOCK_LOW,
    NOFILE_LOW,
    ADDRESS_SPACE,
    CLOCK,
    CLOCK_FREE,
    OUT_OF_MEMORY,
    CPUS_FEW,
    NUMA_BALANCING,
    SELINUX,
    CONTAINER_NETWORK,
)


def disk(subject: Subject) -> Iterator[Problem]:
    """Space and files where runs are kept."""
    facts, state = subject.facts, subject.system.state
    where = shlex.quote(facts.state_dir)
    if facts.free_bytes < LOW_DISK:
        yield DISK_LOW.found(
            f"only {facts.free_bytes >> 20} MiB free in {facts.state_dir}, where logs and code go",
            subject.there(f"du -xh {where} | sort -h | tail"),
        )
    if state is not None and _few_files(state):
        yield INODES_LOW.found(
            f"only {state.inodes_free} of {state.inodes} files can still be made in {facts.state_dir}",
            subject.there(f"df -i {where}; du -x --inodes {where} | sort -n | tail"),
        )


def _few_files(sizes: Sizes) -> bool:
    return sizes.inodes > 0 and sizes.inodes_free < min(LOW_INODES, sizes.inodes // 20)


def temporary(subject: Subject) -> Iterator[Problem]:
    """/tmp, where it is another file system."""
    sizes = subject.system.temporary
    if sizes is not None and sizes.free < LOW_DISK >> 2 and sizes != subject.system.state:
        fix = subject.there("du -xh /tmp | sort -h | tail")
        yield TEMPORARY_LOW.found(f"only {sizes.free >> 20} MiB free in /tmp", fix)


def shared_memory(subject: Subject) -> Iterator[Problem]:
    """What is free in /dev/shm: a warning where it is full at once, which a launch tells, too."""
    sizes, nproc = subject.system.shared_memory, subject.nproc
    if sizes is None or sizes.free >= (LITTLE_SHARED_MEMORY if nproc > 1 else SMALL_SHARED_MEMORY + 1):
        return
    workers = f"{nproc} workers and their data loaders" if nproc > 1 else "a worker and its data loaders"
    yield SHARED_MEMORY.found(
        f"only {sizes.free >> 20} MiB free in /dev/shm, for {workers}",
        subject.grant("--shm-size=8g", "sudo mount -o remount,size=8G /dev/shm"),
        "warning" if sizes.free <= SMALL_SHARED_MEMORY else "info",
    )


def limits(subject: Subject) -> Iterator[Problem]:
    """What a process may lock and open."""
    system = subject.system
    lock, files = system.limits.get("memlock"), system.limits.get("nofile")
    if lock is not None and lock.soft is not None and lock.soft < PINNED and subject.facts.rdma:
        lines = "printf '* %s memlock unlimited\\n' soft hard | sudo tee /etc/security/limits.d/memlock.conf"
        fix = subject.grant("--ulimit memlock=-1", f"{lines}   (then log in anew)")
        yield MEMLOCK_LOW.found(f"{lock.soft >> 10} kB, and RDMA wants unlimited", fix)
    if files is not None and files.soft is not None and files.soft < FEW_FILES:
        yield NOFILE_LOW.found(_files(files.soft, files.hard), _more_files(subject))


def address_space(subject: Subject) -> Iterator[Problem]:
    """Which nothing limits by default."""
    limit = subject.system.limits.get("address_space")
    if limit is not None and limit.soft is not None:
        files = f"{START_UP_FILES} /etc/security/limits.conf /etc/security/limits.d/*"
        fix = subject.there(f"grep -nE 'ulimit.* -[SH]*v|^[^#]*[[:blank:]]as[[:blank:]]' {files}")
        yield ADDRESS_SPACE.found(f"{limit.soft / 1e9:.3g} GB (ulimit -v)", fix + "   (and take it out there)")


def usual_limits(subject: Subject) -> Iterator[Problem]:
    """A limit that most hosts have, and large runs meet."""
    files = subject.system.limits.get("nofile")
    if files is not None and files.soft is not None and FEW_FILES <= files.soft < USUAL_FILES:
        message = _files(files.soft, files.hard)
        yield NOFILE_LOW.found(message, _more_files(subject), "info")


def _files(soft: int, hard: int | None) -> str:
    return f"{soft} open files a process (at most {'any number' if hard is None else hard} if it asks)"


def _more_files(subject: Subject) -> str:
    lines = "echo '* soft nofile 65536' | sudo tee /etc/security/limits.d/nofile.conf"
    return subject.grant("--ulimit nofile=65536", f"{lines}   (then log in anew)")


def clock(subject: Subject) -> Iterator[Problem]:
    """Against this machine's."""
    offset = subject.facts.clock_offset
    if abs(offset) > CLOCK_LIMIT:
        ahead = "ahead of" if offset > 0 else "behind"
        message = f"its clock is {abs(offset):.0f} s {ahead} this machine's"
        yield CLOCK.found(message, subject.there("sudo timedatectl set-ntp true"))


def clock_kept(subject: Subject) -> Iterator[Problem]:
    """By a time service; a container can't tell whose clock it is."""
    if subject.system.clock_synced is False and not subject.system.container:
        yield CLOCK_FREE.found(
            "no time service steers its clock", subject.there("sudo timedatectl set-ntp true"), "info"
        )


def memory(subject: Subject) -> Iterator[Problem]:
    """What the kernel killed: by its log, else by its counter."""
    system, exam = subject.system, subject.exam
    if exam is None:
        return
    if exam.kernel_log is None:
        if system.oom_kills:
            message = f"{system.oom_kills} processes killed since it started (when and which: unknown to this user)"
            yield OUT_OF_MEMORY.found(message, subject.there("sudo dmesg -T | grep -i 'killed process'"), "info")
        return
    killed = [(match, line) for line in exam.kernel_log.lines if (match := OOM.search(line.text))]
    if killed:
        match, age = killed[-1][0], killed[-1][1].age
        times = sum(line.many for _, line in killed)
        often = f", {times} in all" if times > 1 else ""
        fix = subject.there("free -h; sudo dmesg -T | grep -i 'killed process' | tail")
        size = system.memory.limit or system.memory.total
        had = f"; {size >> 30} GiB are there for all" if size else ""
        yield OUT_OF_MEMORY.found(f"{match['name']} (pid {match['pid']}) {lasting(age)} ago{often}{had}", fix)


def processors(subject: Subject) -> Iterator[Problem]:
    """Enough for the workers, and their memory left where it is."""
    facts, system = subject.facts, subject.system
    if system.sysctls.get("kernel.numa_balancing") == "1" and system.numa_nodes > 1 and facts.gpus:
        fix = subject.there("sudo sysctl -w kernel.numa_balancing=0")
        yield NUMA_BALANCING.found(f"kernel.numa_balancing is 1, with {system.numa_nodes} NUMA nodes", fix, "info")
    if facts.gpus and facts.cpus < subject.nproc:
        bound = f" of {system.cpus_online}" if system.cpus_online > facts.cpus else ""
        fix = subject.there("taskset -cp $$")
        yield CPUS_FEW.found(f"{facts.cpus}{bound} processors for {subject.nproc} workers", fix)


def policies(subject: Subject) -> Iterator[Problem]:
    """SELinux, and a container that is shut off."""
    if subject.system.selinux == "enforcing":
        fix = subject.there("sudo ausearch -m avc -ts recent")
        yield SELINUX.found("SELinux is enforcing", fix, "info")
    outer = [one for one in subject.facts.interfaces if not one.loopback and one.addresses]
    bridged = [one for one in outer if one.kind == "veth"]
    if subject.system.container and outer and bridged == outer:
        shown = ", ".join(f"{one.name} {one.addresses[0].address}" for one in outer)
        fix = subject.grant("--network host", "")
        yield CONTAINER_NETWORK.found(f"it has a network of its own ({shown})", fix)
