"""Containers that don't start, or start without their GPUs."""

from __future__ import annotations

from ncclrun.diagnosis.explain.signature import Signature, Weight
from ncclrun.diagnosis.explain.steps import here, say, there

SIGNATURES = (
    Signature(
        id="docker-gpu",
        title="Docker can't hand GPUs into the container",
        weight=Weight.CAUSE,
        words=(
            "could not select device driver",
            "nvidia-container-cli",
            "unknown or invalid runtime name: nvidia",
            "failed to discover GPU vendor from CDI",
        ),
        pattern=r'could not select device driver "[^"]*" with capabilities: \[\[\w*gpu|'
        r"nvidia-container-cli: (?!requirement error)\w+|"
        r"unknown or invalid runtime name: nvidia|failed to discover GPU vendor from CDI",
        sample='docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].',
        cause="The NVIDIA container toolkit is not installed there, docker was not told of it, or the driver "
        "itself does not answer.",
        cure=(
            there("nvidia-smi -L", note="whether the driver answers"),
            there(
                "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker",
                note="after nvidia-container-toolkit is installed; it restarts the host's containers",
            ),
        ),
        over=("cuda-no-gpu",),
        doctor=("container_no_gpus", "no_driver"),
        likely=True,
    ),
    Signature(
        id="docker-daemon",
        title="Docker's daemon does not answer, or not this user",
        weight=Weight.CAUSE,
        words=("connect to the Docker daemon", "connect to the docker API"),
        sample="docker: permission denied while trying to connect to the Docker daemon socket at "
        "unix:///var/run/docker.sock",
        cause="The user of {host} is not in the group docker, or the service is not running.",
        cure=(
            there("id; systemctl is-active docker", note="the groups, and the service"),
            there('sudo usermod -aG docker "$USER"', note="then log in anew; members of that group can become root"),
        ),
    ),
    Signature(
        id="nvml-lost",
        title="The container lost its GPUs while it ran",
        weight=Weight.CAUSE,
        words=("Failed to initialize NVML: Unknown Error",),
        sample="Failed to initialize NVML: Unknown Error",
        cause="A systemctl daemon-reload on the host takes the devices away from containers whose cgroups "
        "systemd manages.",
        cure=(
            there("nvidia-smi -L", note="on the host itself: the GPUs are there"),
            say("Start the container anew, with --device for each /dev/nvidia* so that it keeps them."),
        ),
        over=("cuda-no-gpu", "cuda-unknown"),
    ),
    Signature(
        id="image-pull",
        title="The container's image can't be fetched",
        weight=Weight.CAUSE,
        words=("ErrImagePull", "ImagePullBackOff", "Failed to pull image", "pull access denied for"),
        pattern=r"ErrImagePull|ImagePullBackOff|Failed to pull image \"(?P<name>[^\"]+)\"|"
        r"pull access denied for (?P<name_>[^,\s]+)",
        sample='Warning  Failed  kubelet  Failed to pull image "lab/train:7": not found',
        cause="Its name or tag is not there, the node may not read it, or has no way to the registry.",
        cure=(
            there("docker pull {name}", note="the registry's own words"),
            here("kubectl get events --sort-by=.lastTimestamp", note="which node, and why"),
        ),
    ),
)
