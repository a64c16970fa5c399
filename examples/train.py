"""Trains a small net on scikit-learn's handwritten digits with DistributedDataParallel, on GPUs or CPUs, in seconds."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from pathlib import Path

try:
    import torch
    import torch.distributed as dist
    from sklearn.datasets import load_digits
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
except ImportError as missing:
    sys.exit(
        f"{sys.executable} on {socket.gethostname()} cannot import {missing.name}.\n"
        f"Mend it there: {sys.executable} -m pip install torch numpy scikit-learn"
    )

TRAINING = 1500  # of the 1797 images; the rest measures the accuracy


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=32, help="images a rank and step")
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--out", type=Path, default=Path("digits.pt"), help="checkpoint, written by rank 0")
    return parser.parse_args()


def digits() -> tuple[TensorDataset, TensorDataset]:
    """The images (1 x 8 x 8, from 0 to 1) with their labels, in one order on all ranks: to learn from, to test with."""
    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    x = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8)[order] / 16
    y = torch.tensor(labels, dtype=torch.int64)[order]
    return TensorDataset(x[:TRAINING], y[:TRAINING]), TensorDataset(x[TRAINING:], y[TRAINING:])


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 4 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def train_epoch(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loader: DataLoader[tuple[torch.Tensor, ...]],
    device: torch.device,
) -> float:
    """One pass over this rank's share of the images; returns the mean loss of all ranks."""
    total = torch.zeros(2, device=device)  # sum of the losses, number of images
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        optimizer.step()
        total += torch.stack([loss.detach() * len(labels), torch.tensor(float(len(labels)), device=device)])
    dist.all_reduce(total)
    return (total[0] / total[1]).item()


@torch.no_grad()
def accuracy(model: nn.Module, test: TensorDataset, device: torch.device) -> float:
    """The share of the test images that is recognised; each rank looks at its part of them."""
    images, labels = (part[dist.get_rank() :: dist.get_world_size()].to(device) for part in test.tensors)
    right = (model(images).argmax(dim=1) == labels).sum()
    counts = torch.stack([right, torch.tensor(len(labels), device=device)])
    dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()


def choose_device() -> torch.device:
    """This rank's GPU where every rank has one to itself, else the CPU on all: NCCL takes no two ranks on one GPU."""
    local_rank = int(os.environ["LOCAL_RANK"])
    there = local_rank < torch.cuda.device_count()
    mine = str(torch.cuda.get_device_properties(local_rank).uuid) if there else None
    gpus: list[str | None] = [None] * dist.get_world_size()
    dist.all_gather_object(gpus, mine)
    if None in gpus or len(set(gpus)) < len(gpus):
        return torch.device("cpu")
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def main() -> None:
    options = arguments()
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    device = choose_device()
    rank, world_size = dist.get_rank(), dist.get_world_size()
    backend = "nccl" if device.type == "cuda" else "gloo"
    print(f"rank {rank} of {world_size} on {socket.gethostname()}, {device}, {backend}", flush=True)

    torch.manual_seed(0)
    training, test = digits()
    sampler: DistributedSampler[tuple[torch.Tensor, ...]] = DistributedSampler(training)
    loader = DataLoader(training, batch_size=options.batch_size, sampler=sampler)
    model = DistributedDataParallel(network().to(device), device_ids=[device] if device.type == "cuda" else None)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    for epoch in range(1, options.epochs + 1):
        sampler.set_epoch(epoch)
        loss = train_epoch(model, optimizer, loader, device)
        right = accuracy(model, test, device)
        if rank == 0:
            print(f"epoch {epoch}  loss {loss:.4f}  accuracy {right:.1%}", flush=True)
    if rank == 0:
        torch.save(model.module.state_dict(), options.out)
        print(f"checkpoint {options.out.resolve()}", flush=True)
    # Gloo's threads are over before Python ends only if nobody holds the group any more when it is destroyed.
    del model
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
