"""All that `doctor` asks beyond the facts, in parts that each are bounded in time, nearly all at once."""

from __future__ import annotations

import os
import selectors
import time
from functools import partial
from typing import Any

from . import firewall, gpuhealth, kernellog, libraries, loginshell, pcie, tasks

SECONDS = 75.0
"""For each part: they bound themselves, and this is for the file system that hangs under one."""


def find(python: str, environment: dict[str, str]) -> dict[str, Any]:
    """``environment`` is what workers get beyond the login's.

    The fields of model Examination: what each part found by its name, and in ``unknown`` why another did not.
    """
    # The login shell is timed: the start of torch beside it would count for its own slowness.
    first: dict[str, tasks.Work] = {"shell": loginshell.find}
    then: dict[str, tasks.Work] = {
        "health": gpuhealth.find,
        "kernel_log": kernellog.find,
        "firewall": firewall.find,
        "acs": pcie.find,
        "installed": partial(libraries.find, python, {**os.environ, **environment}),
    }
    found: dict[str, Any] = {}
    unknown: dict[str, str] = {}

    def done(name: str, answer: dict[str, Any]) -> None:
        if answer.pop("ok"):
            found[name] = answer
        else:
            # "OSError: words (place, function)" is for who mends us; the words alone are for people.
            words = str(answer["error"]["message"])
            unknown[name] = words.partition(": ")[2].rpartition(" (")[0] or words

    with selectors.DefaultSelector() as selector:
        children = tasks.Tasks(selector)
        for parts in (first, then):
            for name, part in parts.items():
                children.spawn(part, partial(done, name), SECONDS)
            while not parts.keys() <= {*found, *unknown}:
                for key, _ in selector.select(max(0.0, children.next_deadline() - time.monotonic())):
                    key.data()
                children.expire(time.monotonic())
    return {**found, "unknown": unknown}
