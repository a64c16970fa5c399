"""The test cluster by hand: ``python -m tests.cluster up 4``, then use it like real machines."""

from __future__ import annotations

import argparse
import os
import sys

from tests.cluster import registry
from tests.cluster.cluster import Cluster
from tests.cluster.registry import ClusterError

USAGE = """\
{count} hosts are up. As root or trainer, with the key {home}/id_ed25519:
  ssh -F {home}/ssh_config node0
The cluster file is {home}/cluster.yaml:
  ncclrun ping {home}/cluster.yaml
  ncclrun launch {home}/cluster.yaml examples/train.py
To break something, and to end it:
  {command} kill|reboot|cut|heal INDEX
  {command} down"""


def main(argv: list[str] | None = None) -> int:
    """Does what the command line says and returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.add_argument("--tag", default="hand", help="name of the cluster, for several at once (default: %(default)s)")
    verbs = parser.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="make a cluster; needs root")
    up.add_argument("count", type=int, nargs="?", default=3)
    up.add_argument("--shared-management", action="store_true", help="one management subnet for all hosts")
    for verb, text in (
        ("down", "take it away"),
        ("status", "its hosts, and whether they are on"),
        ("yaml", "print its cluster file"),
    ):
        verbs.add_parser(verb, help=text)
    for verb, text in (("kill", "cut a host's power"), ("reboot", "boot a host anew, also after kill")):
        verbs.add_parser(verb, help=text).add_argument("index", type=int)
    for verb, text in (("cut", "drop all packets of a link"), ("heal", "let packets through again")):
        parts = verbs.add_parser(verb, help=text)
        parts.add_argument("index", type=int)
        parts.add_argument("link", nargs="?", default="management", choices=["management", "data"])
    execute = verbs.add_parser("exec", help="run a command on a host, not over SSH")
    execute.add_argument("--user", default="root", choices=["root", "trainer"])
    execute.add_argument("index", type=int)
    execute.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args(argv)
    try:
        return run(options)
    except ClusterError as error:
        say(f"python -m tests.cluster: {error}")
        return 1


def run(options: argparse.Namespace) -> int:
    """One verb."""
    if options.verb == "up":
        cluster = Cluster(options.count, tag=options.tag, shared_management=options.shared_management, keep=True).up()
        cluster.write_yaml(cluster.home)
        command = "python -m tests.cluster" + ("" if options.tag == "hand" else f" --tag {options.tag}")
        say(USAGE.format(count=options.count, home=cluster.home, command=command))
        return 0
    if options.verb == "down":
        if registry.load(options.tag) is None:
            raise ClusterError(f"there is no cluster with the tag {options.tag!r}")
        Cluster(1, tag=options.tag).down()
        return 0
    cluster = Cluster.find(options.tag)
    if options.verb == "status":
        for host in cluster.hosts:
            state = f"on (init {host.pid})" if host.pid else "off"
            say(f"{host.name}  {host.address}  {host.data_interface} {host.data_address}  {state}")
    elif options.verb == "yaml":
        say(cluster.yaml())
    else:
        return run_on_host(cluster, options)
    return 0


def run_on_host(cluster: Cluster, options: argparse.Namespace) -> int:
    """One verb that concerns one host."""
    if not 0 <= options.index < cluster.count:
        raise ClusterError(f"hosts are numbered 0 to {cluster.count - 1}")
    host = cluster.hosts[options.index]
    if options.verb == "exec":
        command = host.command(
            options.command or ["/bin/sh"], user=options.user, env={"TERM": os.environ.get("TERM", "dumb")}
        )
        sys.stdout.flush()
        os.execvp(command[0], command)  # noqa: S606  (no shell: the command is a list)
    elif options.verb in ("cut", "heal"):
        (host.cut if options.verb == "cut" else host.heal)(options.link)
    else:
        (host.kill if options.verb == "kill" else host.reboot)()
    return 0


def say(text: str) -> None:
    """One message for the reader."""
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
