"""All that is known of faults, by area and by id."""

from __future__ import annotations

from ncclrun.diagnosis.explain.areas import (
    access,
    connecting,
    consequences,
    gloo,
    gpus,
    infiniband,
    interfaces,
    libraries,
    memory,
    program,
    rendezvous,
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
    "gpus": gpus.SIGNATURES,
    "ssh": access.SIGNATURES,
    "program": program.SIGNATURES,
    "consequences": consequences.SIGNATURES,
}
ALL: tuple[Signature, ...] = tuple(signature for group in AREAS.values() for signature in group)
BY_ID = {signature.id: signature for signature in ALL}
