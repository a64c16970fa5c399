"""Shared memory, locked files, open files, processes: what a host or a container limits."""

from __future__ import annotations

from ncclrun.diagnosis.explain.signature import Signature, Weight
from ncclrun.diagnosis.explain.steps import again, say, there

_SHM = (
    there("df -h /dev/shm; ls -l /dev/shm", note="how large it is, and whose files are in it"),
    say("A container: docker run --shm-size=8g, or --ipc=host; Kubernetes: an emptyDir with medium: Memory there."),
)
_CHECK = "`ncclrun launch` warns where /dev/shm is nearly full"


SIGNATURES = (
    Signature(
        id="shm-extend",
        title="The shared memory of /dev/shm is too small, or full",
        weight=Weight.CAUSE,
        words=(
            "failed to extend /dev/shm/nccl-",
            "posix_fallocate failed",
            "Error while creating shared memory segment",
        ),
        pattern=r"failed to extend /dev/shm/nccl-|Call to posix_fallocate failed ?: No space left|"
        r"Error while creating shared memory segment",
        sample="c0ffee11:318:355 [0] misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-Xk2pQ1 to "
        "33030532 bytes, error: No space left on device (28)",
        cause="NCCL's ranks of one host talk through /dev/shm. Docker gives a container 64 MB of it; on a host, "
        "files of dead runs may fill it.",
        cure=_SHM,
        check=_CHECK,
        early=True,
        doctor=("shared_memory",),
    ),
    Signature(
        id="shm-unlink",
        title="Somebody removed NCCL's shared memory while it was in use",
        weight=Weight.CAUSE,
        words=("unlink shared memory",),
        pattern=r"unlink shared memory (?P<path>\S+) failed.*No such file",
        sample="gpu1:9:50 [0] NCCL WARN unlink shared memory /dev/shm/nccl-d5rTd0 failed, error: No such file or "
        "directory (2)",
        cause="systemd-logind removes the shared memory of a user whose last session ends (RemoveIPC), and the run "
        "goes on without a session.",
        cure=(
            there(
                "sudo mkdir -p /etc/systemd/logind.conf.d && printf '[Login]\\nRemoveIPC=no\\n' | sudo tee "
                "/etc/systemd/logind.conf.d/ipc.conf && sudo systemctl restart systemd-logind"
            ),
        ),
    ),
    Signature(
        id="shm-attach",
        title="Ranks of one host do not see the same shared memory",
        weight=Weight.COMPONENT,
        words=("Error while attaching to shared memory segment",),
        sample="c0ffee11:9:50 [0] NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl-Xk2pQ1 "
        "(size 9637888)",
        cause="They are in different containers, and NCCL takes them for one host because the host's identity is the "
        "same.",
        cure=(
            again("--env NCCL_SHM_DISABLE=1", "without shared memory"),
            say("Or docker run --ipc=host for all containers of a host."),
        ),
    ),
    Signature(
        id="dl-shm",
        title="A data loader's worker ran out of shared memory",
        weight=Weight.CAUSE,
        words=(
            "killed by signal: Bus error",
            "unable to open shared memory object",
            "unable to write to file </torch_",
            "No space left on device",
        ),
        pattern=r"killed by signal: Bus error|unable to open shared memory object|"
        r"unable to write to file </torch_|No space left on device.*/dev/shm/(?!nccl)|"
        r"/dev/shm/(?!nccl).*No space left on device",
        sample="RuntimeError: DataLoader worker (pid 4711) is killed by signal: Bus error. It is possible that "
        "dataloader's workers are out of shared memory.",
        cause="Workers hand batches over through /dev/shm, and it is too small for num_workers times a batch.",
        cure=_SHM,
        check=_CHECK,
        doctor=("shared_memory",),
    ),
    Signature(
        id="nofile",
        title="The limit of open files is too low",
        weight=Weight.CAUSE,
        words=("Too many open files", "items of ancdata"),
        pattern=r"Too many open files|received \d+ items of ancdata",
        sample="gpu1:9:9 [0] NCCL WARN Call to socket failed: Too many open files",
        cause="`ulimit -n` of processes that sshd started is often 1024; NCCL needs several sockets a rank and "
        "channel, data loaders files besides.",
        cure=(
            there(
                "printf '* soft nofile 131072\\n* hard nofile 131072\\n' | sudo tee /etc/security/limits.d/nofile.conf",
                note="then log in anew",
            ),
            say(
                "Or torch.multiprocessing.set_sharing_strategy('file_system') in the script, where data loaders "
                "take them."
            ),
        ),
        doctor=("nofile",),
    ),
    Signature(
        id="threads",
        title="No further thread or process may be started",
        weight=Weight.COMPONENT,
        words=(
            "Thread creation failed",
            "pthread_create failed",
            "can't start new thread",
            "fork: retry: Resource temporarily unavailable",
        ),
        sample="gpu1:9:9 [0] NCCL WARN Call to pthread_create failed: Resource temporarily unavailable",
        cause="The user's limit of processes, or the container's or service's limit of tasks, is reached.",
        cure=(
            there("ulimit -u; cat /sys/fs/cgroup/pids.max", note="docker run --pids-limit=-1 lifts a container's"),
            again("--env OMP_NUM_THREADS=1", "fewer are needed"),
        ),
    ),
    Signature(
        id="selinux",
        title="SELinux refuses something to the process",
        weight=Weight.CAUSE,
        words=("avc: ",),
        pattern=r"avc: +denied",
        sample='type=AVC msg=audit(1700000000.1:7): avc:  denied  { name_connect } for  pid=4711 comm="python"',
        cause="The confined service or container may not open that socket or shared memory.",
        cure=(
            there("sudo ausearch -m avc -ts recent", note="what was refused to whom"),
            say("A container: docker run --security-opt label=disable"),
        ),
        doctor=("selinux",),
    ),
    Signature(
        id="cpu-memory",
        title="The program asked for more memory than the host has left",
        weight=Weight.CAUSE,
        words=(
            "DefaultCPUAllocator",
            "[Errno 12] Cannot allocate memory",
            "std::bad_alloc",
            "_ArrayMemoryError",
            "MemoryError",
        ),
        pattern=r"DefaultCPUAllocator: (?:can't allocate|not enough) memory|\[Errno 12\] Cannot allocate memory|"
        r"std::bad_alloc|_ArrayMemoryError: Unable to allocate|"
        r"^(?:\[rank\d+\]: ?)?MemoryError\b",
        sample="RuntimeError: [enforce fail at alloc_cpu.cpp:114] . DefaultCPUAllocator: can't allocate memory: "
        "you tried to allocate 17179869184 bytes.",
        cause="Every rank of {host} loads the whole model or data set into the host's memory, or a limit (ulimit "
        "-v, a container's) is low.",
        cure=(
            there("free -g; ulimit -v", note="what there is"),
            say("Load on one rank and broadcast, or by parts (mmap, low_cpu_mem_usage)."),
        ),
        over=("process-ended",),
    ),
)
