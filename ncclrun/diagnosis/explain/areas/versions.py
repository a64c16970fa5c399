"""Ranks that are not of one mind: versions, settings, sizes, numbers of ranks."""

from __future__ import annotations

from ncclrun.diagnosis.explain.signature import Signature, Weight
from ncclrun.diagnosis.explain.steps import LAUNCH, here, in_file, say, there

_SAME = (
    here("ncclrun ping {cluster}", note="what each node has"),
    say("Install the same torch and NCCL on all nodes: one image, or one lock file."),
)
_CHECK = "`ncclrun ping` and `launch` compare torch and NCCL of all nodes"

SIGNATURES = (
    Signature(
        id="ver-mismatch",
        title="Ranks have different versions of NCCL",
        weight=Weight.CAUSE,
        words=("Mismatched NCCL version detected",),
        sample="gpu2:9:9 [0] init.cc:1400 NCCL WARN Mismatched NCCL version detected : rank 1 version 22703 rank 0 "
        "version 22105",
        cause="Another libnccl.so.2 is loaded on some nodes: another wheel, a system package, or LD_LIBRARY_PATH.",
        cure=_SAME,
        check=_CHECK,
        doctor=("differs",),
    ),
    Signature(
        id="ver-differs",
        title="The hosts run different versions of NCCL",
        weight=Weight.CAUSE,
        sample="gpu1:9:9 [0] NCCL INFO NCCL version 2.21.5+cuda12.4\ngpu2:9:9 [0] NCCL INFO NCCL version "
        "2.18.1+cuda12.1\n"
        "gpu1:9:9 [0] NCCL WARN Message truncated : received 1024 bytes instead of 256",
        cause="{hosts}. Their messages have different forms; what comes of it is a wrong size, a garbled address or "
        "a hang.",
        cure=_SAME,
        check=_CHECK,
        over=("if-family-garbage",),
        circumstance=True,
        doctor=("differs",),
    ),
    Signature(
        id="size-mismatch",
        title="Ranks do not agree on what they exchange",
        weight=Weight.COMPONENT,
        words=("essage truncated", "collective mismatch error"),
        pattern=r"[Mm]essage truncated : receiv(?:ed|ing) \d+ bytes instead of \d+|collective mismatch error",
        sample="gpu1:9:30 [0] NCCL WARN NET/Socket : peer gpu2<41000> message truncated : receiving 524288 bytes "
        "instead of 65536",
        cause="Different versions of NCCL, NCCL_ALGO, NCCL_PROTO or NCCL_BUFFSIZE set on some ranks only, or a "
        "program that calls its collectives with different sizes.",
        cure=(
            here("ncclrun nccl show {cluster}", note="versions, and settings that differ"),
            say("If all is the same, the program's collectives differ in size."),
        ),
        check=f"{_CHECK}, and the settings that must be the same",
        network=True,
    ),
    Signature(
        id="root-mismatch",
        title="Ranks do not agree on how many they are",
        weight=Weight.CAUSE,
        words=("Bootstrap Root : mismatch in",),
        sample="gpu1:9:12 [0] NCCL WARN Bootstrap Root : mismatch in rank count from procs 8 : 16",
        cause="A process of an earlier run is still there and joined, or the nodes were started with different "
        "--nnodes or --nproc-per-node.",
        cure=(
            here("ncclrun status --cluster {cluster}", note="what still lives where"),
            here(LAUNCH, note="one start for all nodes"),
        ),
        check="one plan numbers all ranks of a launch, and leftovers of dead runs are told",
        doctor=("leftover",),
        likely=True,
    ),
    Signature(
        id="root-dup",
        title="Two processes have the same rank",
        weight=Weight.CAUSE,
        words=("has already checked in",),
        pattern=r"Bootstrap Root : rank (?P<rank>\d+) of \d+ ranks has already checked in",
        sample="gpu1:9:12 [0] NCCL WARN Bootstrap Root : rank 3 of 16 ranks has already checked in",
        cause="The same --node-rank on two hosts, or two launchers that both start workers (srun and torchrun).",
        cure=(here(LAUNCH, note="one start for all nodes gives each its own rank"),),
        check="one plan numbers all ranks of a launch",
    ),
    Signature(
        id="dup-gpu",
        title="Two ranks use the same GPU",
        weight=Weight.CAUSE,
        words=("Duplicate GPU detected", "Multiple ranks", "Multiple Ranks"),
        pattern=r"Duplicate GPU detected : rank \d+ and rank \d+ both on CUDA device (?P<device>\w+)|"
        r"Multiple [Rr]anks (?:are|detected) using the same GPU",
        sample="gpu1:9:9 [0] init.cc:900 NCCL WARN Duplicate GPU detected : rank 5 and rank 4 both on CUDA device "
        "1a000",
        cause="The script does not choose its GPU by LOCAL_RANK (all ranks are on cuda:0), there are more workers "
        "than GPUs, CUDA_VISIBLE_DEVICES is wrong on a host, or two "
        "hosts look like one (cloned host name and boot id, NCCL_HOSTID).",
        cure=(
            say("torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) in the script, before its first use of CUDA."),
            in_file("launch: {{nproc_per_node: auto}}", note="as many workers as there are GPUs"),
        ),
        check="`ncclrun ping` shows the GPUs that the workers of each node can see",
        doctor=("few_gpus", "shared_gpus", "gpu_mig"),
        likely=True,
    ),
    Signature(
        id="bad-ordinal",
        title="A worker asks for a GPU that its node does not have",
        weight=Weight.CAUSE,
        words=("invalid device ordinal",),
        sample="RuntimeError: CUDA error: invalid device ordinal",
        cause="More workers than visible GPUs on this host, or CUDA_VISIBLE_DEVICES names fewer than on the others.",
        cure=(
            in_file("launch: {{nproc_per_node: auto}}", note="as many workers as there are GPUs"),
            there("nvidia-smi -L; echo $CUDA_VISIBLE_DEVICES"),
        ),
        check="`ncclrun launch` warns of more workers than visible GPUs",
        doctor=("few_gpus",),
    ),
    Signature(
        id="nccl-params",
        title="A number of NCCL's settings was not understood",
        weight=Weight.REMARK,
        words=("using default",),
        pattern=r"Invalid value (?P<value>\S*) for (?P<name>NCCL_\w+), using default",
        sample="gpu1:9:9 [0] NCCL INFO Invalid value 99999999999999999999 for NCCL_BUFFSIZE, using default 4194304.",
        cause="{name}={value} is out of range, and the default counts. Words such as true are read as 0 without any "
        "message.",
        cure=(here("ncclrun nccl lint {cluster}", note="what counts, and the line as it should be"),),
        check="`ncclrun nccl lint` says so of every setting",
        doctor=("nccl_setting",),
    ),
    Signature(
        id="debug-useless",
        title="NCCL_DEBUG has a value that makes NCCL print nothing",
        weight=Weight.REMARK,
        words=("NCCL_DEBUG=",),
        pattern=r"NCCL_DEBUG=[\"']?(?P<value>ERROR|WARNING|DEBUG|1)\b",
        sample="export NCCL_DEBUG=WARNING",
        cause="{value} is no level of NCCL's: it is accepted, and not even warnings are printed, so that this log "
        "lacks what NCCL would have said.",
        cure=(here("ncclrun nccl lint {cluster}", note="what counts, and the line as it should be"),),
        check="`ncclrun nccl lint` says so",
        doctor=("nccl_setting",),
    ),
    Signature(
        id="rank-invalid",
        title="A rank has a number that its world does not have",
        weight=Weight.CAUSE,
        words=("Invalid rank requested", "must be less than world size"),
        pattern=r"Invalid rank requested ?: \d+/\d+|"
        r"must be less than world size",
        sample="gpu2:25:25 [0] init.cc:981 NCCL WARN Invalid rank requested : 2/2",
        cause="RANK and WORLD_SIZE do not fit: ranks counted from one, nodes taken for ranks, or a launcher "
        "within a launcher that sets them again.",
        cure=(here(LAUNCH, note="one plan numbers all ranks"),),
        check="one plan numbers all ranks of a launch",
        likely=True,
    ),
)
