"""The plan in full, for `--dry-run`: each node's address, ranks, environment and command, ready to be copied."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ncclrun.console.sanitize import one_line
from ncclrun.console.words import count, shell_word
from ncclrun.model.events import Planned


def plan_text(event: Planned) -> str:
    """The plan as lines, each with its line feed."""
    port = event.master_port or "a free port, chosen at the start"
    lines = [
        f"run {event.run_id} by {event.launcher}: "
        f"{count(event.world_size, 'rank')} on {count(len(event.nodes), 'node')}",
        f"master {event.master_addr}, {port}",
    ]
    for node in event.nodes:
        lines += ["", *_node(node)]
    return "".join(one_line(line) + "\n" for line in lines)


def _node(node: Mapping[str, Any]) -> list[str]:
    first, last = node["ranks"]
    host = "" if node["host"] == node["node"] else f" (host {node['host']})"
    lines = [
        f"node {node['node_rank']}: {node['node']}{host}",
        f"  network      {node['interface']} {node['address']}: {node['why']}",
        f"  ranks        {first if first == last else f'{first}-{last}'}",
        f"  directory    {node['workdir'] or 'the run directory, with the code that is sent'}",
        "  environment",
        *_variables(node["environment"], shell_word),
    ]
    if node["conf"]:
        lines += ["  NCCL's conf file", *_variables(node["conf"], str)]
    if node["unset"]:
        lines.append(f"  taken away   {' '.join(node['unset'])}")
    return [*lines, "  command", "    " + " ".join(shell_word(word) for word in node["command"])]


def _variables(found: Mapping[str, Mapping[str, Any]], written: Callable[[str], str]) -> list[str]:
    words = {name: f"{name}={written(str(value['value']))}" for name, value in found.items()}
    width = min(60, max(map(len, words.values()), default=0))
    return [f"    {words[name]:<{width}}  # {value['from']}" for name, value in found.items()]
