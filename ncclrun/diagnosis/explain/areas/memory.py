"""Shared memory, locked files, open files, processes: what a host or a container limits."""

from __future__ import annotations

from ncclrun.diagnosis.explain.signature import Signature, Weight

_SHM = (
    "docker run --shm-size=8g …   (or --ipc=host; Kubernetes: an emptyDir with medium: Memory at /dev/shm); on a "
    "host:  df -h /dev/shm; ls /dev/shm"
)
_CHECK = "`ncclrun launch` warns where /dev/shm is nearly full"
_FOLLOWS = ("watchdog", "heartbeat", "uniqueid", "conn-failed", "conn-refused-retry", "timeout-generic", "last-member")
"""What the other ranks say when one of them was killed."""

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
        cure="printf '[Login]\\nRemoveIPC=no\\n' | sudo tee /etc/systemd/logind.conf.d/ipc.conf && sudo systemctl "
        "restart systemd-logind   on {host}",
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
        cure="--ipc=host   for all of them, or a NCCL_HOSTID for each container, or NCCL_SHM_DISABLE=1",
    ),
    Signature(
        id="dl-shm",
        title="A data loader's worker ran out of shared memory",
        weight=Weight.CAUSE,
        words=(
            "killed by signal: Bus error",
            "unable to open shared memory object",
            "unable to write to file </torch_",
        ),
        sample="RuntimeError: DataLoader worker (pid 4711) is killed by signal: Bus error. It is possible that "
        "dataloader's workers are out of shared memory.",
        cause="Workers hand batches over through /dev/shm, and it is too small for num_workers times a batch.",
        cure=_SHM,
        check=_CHECK,
        doctor=("shared_memory",),
    ),
    Signature(
        id="sigbus",
        title="A process was ended by SIGBUS, mostly a full /dev/shm",
        weight=Weight.COMPONENT,
        words=("exitcode", "Signal 7 (SIGBUS)"),
        pattern=r"exitcode\s*: ?-7\b|Signal 7 \(SIGBUS\)",
        sample="  exitcode  : -7 (pid: 4711)",
        cause="Memory that was promised is not there: /dev/shm was full when it was first written. (A file on a disk "
        "that shrank under a memory map is the rare other reason.)",
        cure=_SHM,
        check=_CHECK,
        over=_FOLLOWS,
        doctor=("shared_memory",),
    ),
    Signature(
        id="host-oom",
        title="The memory of the host, or of its container, was full",
        weight=Weight.CAUSE,
        words=("memory: Killed process", "oom-kill", "OOMKilled"),
        sample="[88123.4] Out of memory: Killed process 4711 (python) total-vm:90123456kB",
        cause="The kernel killed a process to get memory back: data loader workers times prefetch, a dataset that "
        "each rank holds for itself, pinned buffers.",
        cure="free -h; sudo dmesg -T | grep -i 'killed process'   on {host}; then fewer data loader workers, or more "
        "memory",
        over=("sigkill", *_FOLLOWS),
        doctor=("oom",),
    ),
    Signature(
        id="sigkill",
        title="A process was killed from outside: mostly the host's memory was full",
        weight=Weight.COMPONENT,
        words=(
            "exitcode",
            "Signal 9 (SIGKILL)",
            "is killed by signal: Killed",
            "exits with return code = -9",
            "exited on signal 9",
        ),
        pattern=r"exitcode\s*: ?-9\b|Signal 9 \(SIGKILL\) received by PID|is killed by signal: Killed|"
        r"exits with return code = -9\b|exited on signal 9\b",
        sample="  exitcode  : -9 (pid: 9923)",
        cause="The kernel's out-of-memory killer, a container's memory limit, or a person. The log alone does not "
        "tell which.",
        cure="sudo dmesg -T | grep -i 'killed process'   on {host}; then fewer data loader workers, or more memory",
        over=_FOLLOWS,
        doctor=("oom",),
    ),
    Signature(
        id="nofile",
        title="The limit of open files is too low",
        weight=Weight.CAUSE,
        words=("Too many open files",),
        sample="gpu1:9:9 [0] NCCL WARN Call to socket failed: Too many open files",
        cause="`ulimit -n` of processes that sshd started is often 1024; NCCL needs several sockets a rank and "
        "channel, data loaders files besides.",
        cure="printf '* soft nofile 131072\\n* hard nofile 131072\\n' | sudo tee "
        "/etc/security/limits.d/nofile.conf   on {host}, then log in anew",
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
        cure="ulimit -u; cat /sys/fs/cgroup/pids.max   on {host}; raise it (docker run --pids-limit=-1), or "
        "OMP_NUM_THREADS and num_workers lower",
    ),
    Signature(
        id="selinux",
        title="SELinux refuses something to the process",
        weight=Weight.CAUSE,
        words=("avc: ",),
        pattern=r"avc: +denied",
        sample='type=AVC msg=audit(1700000000.1:7): avc:  denied  { name_connect } for  pid=4711 comm="python"',
        cause="The confined service or container may not open that socket or shared memory.",
        cure="sudo ausearch -m avc -ts recent   on {host}, then a policy or the container's label (docker run "
        "--security-opt label=disable)",
        doctor=("selinux",),
    ),
    Signature(
        id="sighup",
        title="The terminal that the launcher hung on was closed",
        weight=Weight.CAUSE,
        words=("got signal: 1", "Signals.SIGHUP", "Signal 1 (", "Received 1 death"),
        pattern=r"got signal: 1\b|Received (?:1|Signals\.SIGHUP) death signal|Signal 1 \(",
        sample="torch.distributed.elastic.multiprocessing.api.SignalException: Process 18669 got signal: 1",
        cause="torchrun takes SIGHUP for an order to stop, also under nohup: the SSH session or the terminal went "
        "away.",
        cure="ncclrun launch -d CLUSTER SCRIPT   (the nodes own the run; no terminal is needed), or tmux",
        check="what `ncclrun launch` starts is in a session of its own and hears no terminal",
        over=("sigkill",),
    ),
)
