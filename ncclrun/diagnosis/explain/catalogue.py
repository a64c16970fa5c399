"""All that is known of faults, by area and by id."""

from __future__ import annotations

from ncclrun.diagnosis.explain.areas import (
    access,
    connecting,
    consequences,
    containers,
    cuda,
    disk,
    endings,
    frameworks,
    gloo,
    gpus,
    infiniband,
    interfaces,
    libraries,
    memory,
    program,
    rendezvous,
    schedulers,
    versions,
)
from ncclrun.diagnosis.explain.signature import Signature

AREAS = {
    "interfaces": interfaces.SIGNATURES,
    "connections": connecting.SIGNATURES,
    "rendezvous": rendezvous.SIGNATURES,
    "gloo": gloo.SIGNATURES,
    "infiniband": infiniband.SIGNATURES,
    "versions and numbers": versions.SIGNATURES,
    "libraries and programs": libraries.SIGNATURES,
    "memory and limits": memory.SIGNATURES,
    "disks": disk.SIGNATURES,
    "gpus": gpus.SIGNATURES,
    "cuda": cuda.SIGNATURES,
    "ssh": access.SIGNATURES,
    "schedulers": schedulers.SIGNATURES,
    "containers": containers.SIGNATURES,
    "frameworks": frameworks.SIGNATURES,
    "processes that ended": endings.SIGNATURES,
    "program": program.SIGNATURES,
    "consequences": consequences.SIGNATURES,
}
ALL: tuple[Signature, ...] = tuple(signature for group in AREAS.values() for signature in group)
BY_ID = {signature.id: signature for signature in ALL}
