"""Writes docs/cluster.md, the reference of the cluster file, from the models: `python docs/generate.py`."""

from __future__ import annotations

import json
import re
from pathlib import Path

from ncclrun.planning.fields import field_at, keys_at, resolve, wanted

TARGET = Path(__file__).with_name("cluster.md")
BLOCKS = ("ssh", "network", "nccl", "launch")

INTRO = """\
<!-- Written by docs/generate.py from the models; change these, or the generator, and run it again. -->

# The cluster file

A cluster file says which machines there are, how they are reached, and how jobs start on them. The shortest one is a
list:

```yaml
nodes: [gpu1, gpu2]
```

Everything else has a default. A block at the top holds for all nodes; the same field on a node overrides it there.

```yaml
name: lab
ssh: {user: ubuntu}
network: {subnet: 10.0.0.0/24}
nccl:
  env: {NCCL_DEBUG: WARN}
launch:
  python: /opt/env/bin/python
  env: {OMP_NUM_THREADS: 8}
nodes:
  - host: gpu1                      # the first node is the master
  - {host: gpu2, interface: enp7s0, gpus: [0, 1]}
  - host: gpu[03-16]                # gpu03, gpu04, … gpu16
```

`ncclrun schema > cluster.schema.json` writes the JSON schema. Editors with the YAML language server use it after this
first line:

```yaml
# yaml-language-server: $schema=cluster.schema.json
```

## At the top
"""

NODES = """\
## `nodes`

A list. Each item is a host as plain text, or a mapping:
"""

REST = """\
**Ranges.** `gpu[03-16]` stands for fourteen hosts, `gpu[1-3,7]` for four; zeros in front are kept, and several
brackets multiply. A `name` beside it must be a range of the same length. Inside `{ }` and `[ ]` YAML wants such text
in quotes: `{host: "gpu[1-3]"}`.

**Names.** A node is called by its `name`, else by its host. A host that is listed more than once with different ports
(rented containers are reached so) gives `box-2201`, `box-2202`, …: the host, a hyphen and the port (an entry without
a port is plain `box`). `localhost`, `127.0.0.1` and `::1` run without SSH and may be repeated as they are:
`localhost`, `localhost-1`, … Two nodes with one name are an error.

**Overrides.** Variables of a node are added to `launch.env` and win over it; its `forward_env` adds to that of
`launch`. `master_port`, `rendezvous` and `max_restarts` must be the same everywhere, so a node may not say otherwise
than the master.

## Variables

The values in `env` are text and arrive byte for byte. Decimal numbers may stand without quotes and are taken as they
are written (`1.50` stays `1.50`). `true` and `false` need quotes; for NCCL write 1 or 0, as it reads the word true as
0.

## What is refused

The YAML is read strictly, so that nothing means something else than it seems: no key twice, no anchors and aliases,
no tags, no tabs in front of or between fields, no second document, no unknown field. Plain text that YAML would take
for something else must be put in quotes, or written differently: `yes`, `no`, `on`, `off` (booleans), `22:22` (a
number to the base 60), `010` and `0x10`, `1_000`, `2024-01-01`, `.inf`, and nothing at all. Every fault of a file is
shown at once, with line, column and field.

## Without a cluster file

`--hosts gpu1,me@gpu2:2222,gpu[03-05]` in place of the file lists hosts as `[user@]host[:port]`; an IPv6 address with
a port stands in brackets.

A hostfile of DeepSpeed or MPI is known by its content, whatever its name: one host a line, `[user@]host slots=N`, `#`
comments. `slots` is `nproc_per_node`; `max_slots` is passed over. `host:N` is MPICH's way to write slots, so a
hostfile names no ports.

## Choosing nodes and ranks

`--nodes` takes names, ranges of names (`gpu[1-3]`), indexes from 0 (`0`, `0-2`), separated by commas; `!` before one
takes it out, and with exclusions alone all others are meant. The order stays that of the file. A node that is named
by digits alone is meant by its name. `--ranks` takes ranks in the same way: `0`, `0-3`, `!5`.
"""


def reference() -> str:
    """The whole of docs/cluster.md."""
    parts = [INTRO, table(())]
    for block in BLOCKS:
        parts += [f"## `{block}`\n", f"{_cell(resolve(field_at((block,)) or {})['description'])}\n", table((block,))]
    return "\n".join([*parts, NODES, table(("nodes", 0)), REST])


def table(path: tuple[str | int, ...]) -> str:
    """One row for each field of the block at ``path``."""
    rows = ["| field | takes | default | |", "|---|---|---|---|"]
    for name in keys_at(path):
        field = resolve(field_at((*path, name)) or {})
        takes = "see below" if name in (*BLOCKS, "nodes") else _cell(wanted(field))
        default = f"`{_value(field['default'])}`" if field.get("default") not in (None, []) else ""
        override = re.match(r"Overrides `[^`]+`\.", field["description"])  # what it means stands in its own block
        meaning = override[0] if override else _cell(field["description"])
        rows.append(f"| `{name}` | {takes} | {default} | {meaning} |")
    return "\n".join(rows) + "\n"


def _value(default: object) -> str:
    if isinstance(default, float):
        return f"{default:g}"  # 10, be it 10 or 10.0
    return default if isinstance(default, str) else json.dumps(default)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    TARGET.write_text(reference(), encoding="utf-8")
