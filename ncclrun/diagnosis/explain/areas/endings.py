"""Processes that ended: by a signal, by an order to stop, or as somebody who waited for them reports."""

from __future__ import annotations

from ncclrun.diagnosis.explain.signature import Signature, Weight
from ncclrun.diagnosis.explain.steps import again, here, say, there

_FOLLOWS = ("uniqueid", "conn-failed", "conn-refused-retry", "timeout-generic")
"""What the other ranks say when one of them was killed."""

SIGNATURES = (
    Signature(
        id="host-oom",
        title="The host's memory, or the container's, was full",
        weight=Weight.CAUSE,
        words=(
            "Out of memory: Killed process",
            "oom-kill",
            "oom_kill event",
            "OOMKilled",
            "Out Of Memory",
            "out-of-memory handler",
            "Memory cgroup out of memory",
            "due to memory pressure (OOM)",
            "node running low on memory",
            "Exceeded job memory limit",
            "exceeded memory limit",
        ),
        pattern=r"Out of memory: Killed process|oom[-_]kill|OOMKilled|: Out Of Memory\b|out-of-memory handler|"
        r"Memory cgroup out of memory|killed due to memory pressure \(OOM\)|node running low on memory|"
        r"[Ee]xceeded (?:job )?memory limit",
        sample="[88123.4] Out of memory: Killed process 4711 (python) total-vm:98123456kB, anon-rss:61234567kB",
        cause="The kernel, or who hands out the memory there, killed a process of {host}: data loader workers, "
        "checkpoints that pass through the host's memory, a limit that is too low.",
        cure=(
            there("free -g; sudo dmesg -T | grep -i 'killed process'", note="how much there is, and who was killed"),
            say(
                "Fewer data loader workers, or more memory: --mem in Slurm, limits.memory in Kubernetes, -m in docker."
            ),
        ),
        over=("sigkill", "told-to-stop", "process-ended", "slurm-cancelled", "horovod-stalled", *_FOLLOWS),
        doctor=("oom",),
    ),
    Signature(
        id="sigkill",
        title="A process was killed from outside: mostly the host's memory was full",
        weight=Weight.COMPONENT,
        words=(
            "died with <Signals.SIGKILL",
            "exitcode",
            "Signal 9 (SIGKILL)",
            "is killed by signal: Killed",
            "exits with return code = -9",
            "exited on signal 9",
            "signal SIGKILL",
            "exit code 137",
            "exited with code 137",
            "Exit Code:",
            "task ",
        ),
        pattern=r"died with <Signals\.SIGKILL|exitcode\s*: ?-9\b|Signal 9 \(SIGKILL\) received by PID|"
        r"is killed by signal: Killed|"
        r"exits with return code = -9\b|exited on signal 9\b|signal SIGKILL|exit(?:ed with)? code 137\b|"
        r"Exit Code: +137\b|srun: error: \S+ tasks? [\d,-]+: Killed",
        sample="  exitcode  : -9 (pid: 9923)",
        cause="The kernel's out-of-memory killer, a container's memory limit, or a person. The log alone does "
        "not tell which.",
        cure=(
            there("sudo dmesg -T | grep -i 'killed process'", note="whether it was the kernel, for want of memory"),
            say("If so: fewer data loader workers, or more memory."),
        ),
        over=("process-ended", "slurm-cancelled", *_FOLLOWS),
        doctor=("oom",),
    ),
    Signature(
        id="sigbus",
        title="A process was ended by SIGBUS, mostly a full /dev/shm",
        weight=Weight.COMPONENT,
        words=(
            "died with <Signals.SIGBUS",
            "exitcode",
            "Signal 7 (SIGBUS)",
            "Bus error",
            "exited on signal 7",
            "exits with return code = -7",
            "signal SIGBUS",
        ),
        pattern=r"died with <Signals\.SIGBUS|exitcode\s*: ?-7\b|Signal 7 \(SIGBUS\)|(?<!by signal: )\bBus error\b|"
        r"exited on signal 7\b|"
        r"return code = -7\b|signal SIGBUS",
        sample="  exitcode  : -7 (pid: 4711)",
        cause="Memory that was promised is not there: /dev/shm was full when it was first written. (A file on a disk "
        "that shrank under a memory map is the rare other reason.)",
        cure=(
            there("df -h /dev/shm; ls -l /dev/shm", note="how large it is, and whose files are in it"),
            say("A container: docker run --shm-size=8g, or --ipc=host."),
        ),
        check="`ncclrun launch` warns where /dev/shm is nearly full",
        over=_FOLLOWS,
        doctor=("shared_memory",),
    ),
    Signature(
        id="sigsegv",
        title="A process crashed (SIGSEGV)",
        weight=Weight.COMPONENT,
        words=(
            "died with <Signals.SIGSEGV",
            "exitcode",
            "Signal 11 (SIGSEGV)",
            "Segmentation fault",
            "exited on signal 11",
            "exits with return code = -11",
            "signal SIGSEGV",
            "exit code 139",
            "exited with code 139",
        ),
        pattern=r"died with <Signals\.SIGSEGV|exitcode\s*: ?-11\b|Signal 11 \(SIGSEGV\)|\bSegmentation fault\b|"
        r"exited on signal 11\b|"
        r"exits with return code = -11\b|signal SIGSEGV|exit(?:ed with)? code 139\b",
        sample="  exitcode  : -11 (pid: 9923)",
        cause="Compiled code went wrong: libraries that do not fit together (torch, NCCL, CUDA, an extension "
        "that was built for another version), seldom hardware.",
        cure=(
            again("--env PYTHONFAULTHANDLER=1", "prints where each thread was"),
            here("ncclrun doctor {cluster}", note="versions that differ, and a library that is loaded twice"),
        ),
        over=("told-to-stop", *_FOLLOWS),
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
        cure=(here("ncclrun launch -d {cluster} {script}", note="the nodes own the run; no terminal is needed"),),
        check="what `ncclrun launch` starts is in a session of its own and hears no terminal",
        over=("sigkill",),
    ),
    Signature(
        id="told-to-stop",
        title="The launcher was told to stop",
        weight=Weight.CONSEQUENCE,
        words=("got signal: ", "death signal", "KeyboardInterrupt", "Caught signal 15", "task "),
        pattern=r"SignalException: Process \d+ got signal: (?:2|15)\b|"
        r"Received (?:2|15|Signals\.SIG(?:INT|TERM)) death signal|^(?:\[rank\d+\]: ?)?KeyboardInterrupt\s*$|"
        r"srun: error: \S+ tasks? [\d,-]+: (?:Terminated|Interrupt)",
        sample="torch.distributed.elastic.multiprocessing.api.SignalException: Process 4711 got signal: 15",
        cause="SIGTERM or Ctrl-C came from outside: a scheduler, a container that was stopped, a launcher whose "
        "other part failed, or a person. The log does not tell who.",
        cure=(
            here("ncclrun launch -d {cluster} {script}", note="hangs on no terminal and no session"),
            say("Under a scheduler ask it why it ended the job."),
        ),
        over=("child-failed",),
    ),
    Signature(
        id="process-ended",
        title="A framework reports that one of its processes ended",
        weight=Weight.CONSEQUENCE,
        words=(
            "died with <Signals.",
            "ProcessExitedException",
            "ProcessRaisedException",
            "BrokenProcessPool",
            "DeadlockDetectedException",
            "Engine core initialization failed",
            "EngineDeadError",
            "RayActorError",
            "ActorDiedError",
            "WorkerCrashedError",
            "exits with return code = ",
            "returned non-zero exit status",
            "a non-zero exit code",
            "exited with non-zero status",
            "exited on signal",
            "CrashLoopBackOff",
            "Back-off restarting failed container",
            "MPI_ABORT was invoked on rank",
            "Exited with exit code",
            "Horovod has been shut down",
            "Terminating remaining workers after failure",
            "was aborted",
        ),
        pattern=r"died with <Signals\.|exited on signal (?!7\b|9\b|11\b)\d+|CrashLoopBackOff|"
        r"Back-off restarting failed container|"
        r"Process(?:Exited|Raised)Exception|BrokenProcessPool|DeadlockDetectedException|"
        r"Engine core initialization failed|EngineDeadError|(?:RayActor|ActorDied|WorkerCrashed)Error|"
        r"exits with return code = (?!-9\b|-11\b)-?[1-9]|"
        r"CalledProcessError: .*returned non-zero exit status|a non-zero exit code|"
        r"exited with non-zero status|MPI_ABORT was invoked on rank \d+|"
        r"Exited with exit code [1-9]|Horovod has been shut down|"
        r"Terminating remaining workers after failure|trainer process with rank=.* was aborted",
        sample="srun: error: n03: task 5: Exited with exit code 1",
        cause="The process's own output has the reason, mostly above this line or in another file.",
        cure=(say("Look at the end of that process's log: the first error there is the cause."),),
    ),
    Signature(
        id="sigill",
        title="A process used an instruction that the processor does not have",
        weight=Weight.COMPONENT,
        words=("exitcode", "Signal 4 (SIGILL)", "Illegal instruction", "exited on signal 4", "signal SIGILL"),
        pattern=r"exitcode\s*: ?-4\b|Signal 4 \(SIGILL\)|\bIllegal instruction\b|exited on signal 4\b|signal SIGILL",
        sample="  exitcode  : -4 (pid: 9923)",
        cause="A library was built for a newer processor (AVX2, AVX512) than that of {host}.",
        cure=(
            there("lscpu | grep -e 'Model name' -e Flags", note="what it can"),
            say(
                "Build the library there, or take the package from its makers instead of one that was built on "
                "another host."
            ),
        ),
        over=("process-ended", *_FOLLOWS),
    ),
    Signature(
        id="waits-for-ranks",
        title="A rank waits for others that did not come",
        weight=Weight.CONSEQUENCE,
        words=("MEMBER: ",),
        pattern=r"GLOBAL_RANK: \d+, MEMBER: (?P<value>\d+/\d+)",
        sample="Initializing distributed: GLOBAL_RANK: 1, MEMBER: 2/8",
        cause="Lightning said which of how many it is ({value}), and nothing after it: another was not started, "
        "has the same number, or can't reach MASTER_ADDR.",
        cure=(
            say(
                "See that each number comes once, from 1 to the last: devices and num_nodes are to be what the "
                "launcher starts."
            ),
            here("ncclrun ping {cluster}", note="who reaches whom, and what to open"),
        ),
        network=True,
    ),
)
