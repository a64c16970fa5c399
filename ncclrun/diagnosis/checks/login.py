"""What a login brings along: a shell that talks or is slow, variables of another launcher, settings of NCCL."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ncclrun.diagnosis.checks.kind import Kind
from ncclrun.diagnosis.checks.subject import START_UP_FILES, Subject
from ncclrun.diagnosis.interfaces import with_interfaces
from ncclrun.diagnosis.settings import SETTING as SETTING_ID
from ncclrun.diagnosis.settings import node_values
from ncclrun.diagnosis.settings import problems as setting_problems
from ncclrun.model.netevents import Problem
from ncclrun.model.secrets import value_shown
from ncclrun.nccl.version import parse

SLOW_SHELL = 2.0
SLOW_SSH = 5.0
MOST_PLACES = 4

STALE = Kind(
    id="stale",
    title="another launcher's variables are in the login environment",
    symptom="Ranks wait for a master that is somebody else's; torchrun takes options that nobody gave it (PET_…).",
    cause="A start-up file exports RANK, WORLD_SIZE, MASTER_ADDR or PET_… of an earlier setup, or the host is a "
    "container of a cluster manager.",
    cure="Take them out of the start-up file. ncclrun takes them away for its runs.",
    launch=True,
)
NOISE = Kind(
    id="login_noise",
    title="the login shell prints something before a command",
    symptom="scp, rsync and sftp break (`Received message too long`); ncclrun itself skips it.",
    cause="A start-up file (.bashrc, /etc/profile.d) prints without asking whether somebody is there to read.",
    cure="Let it print only where somebody reads: `[ -t 1 ] && echo …`.",
)
SHELL_SLOW = Kind(
    id="login_slow",
    title="the login shell takes long to start",
    symptom="Every command by SSH begins with seconds of nothing.",
    cause="conda init, a module system, a home on a slow network disk, or a network call in a start-up file.",
    cure="`env -u SHLVL SSH_CLIENT=x bash -xc exit` shows where it stays; one without a terminal may leave at once.",
)
SSH_SLOW = Kind(
    id="ssh_slow",
    title="the SSH login takes long",
    symptom="All ncclrun commands begin slowly for this host.",
    cause="sshd looks up the caller's name at a dead name server (UseDNS), PAM waits for a directory, or GSSAPI does.",
    cure="`UseDNS no` in sshd_config of that host; see its journal for where the login stays.",
)
INTERFACE = Kind(
    id="no_such_interface",
    title="a setting names a network interface that the host does not have",
    symptom="NCCL: `Bootstrap : no socket interface found`; Gloo: `Unable to find address for: eth0`.",
    cause="NCCL_SOCKET_IFNAME or GLOO_SOCKET_IFNAME was copied from another host, in a start-up file or nccl.conf.",
    cure="Take the line out, or name an interface that is there. ncclrun sets the right one for each node.",
)
SETTING = Kind(
    id=SETTING_ID,
    title="a setting does not do what it says",
    symptom="NCCL behaves as if the variable were not set, or were set to something else; no log says so.",
    cause="A word where NCCL wants a number (`true` is read as 0), a name that this version does not read, a blank, "
    "quotes or a comment behind the value, or a conf file that can't be read.",
    cure="Write the line that the finding gives. `ncclrun nccl lint CLUSTER` shows every setting of all nodes in this "
    "way.",
    launch=True,
)
KINDS = (STALE, NOISE, SHELL_SLOW, SSH_SLOW, INTERFACE, SETTING)


def stale(subject: Subject) -> Iterator[Problem]:
    """Leftovers of another launcher in the login environment, where the workers would take them for their own."""
    facts = subject.facts
    if facts.stale:
        places = list(dict.fromkeys(f"{m.file}:{m.line}" for m in facts.settings.mentions if m.name in facts.stale))
        known = f" ({', '.join(places[:MOST_PLACES])})" if places else ""
        message = f"its login environment sets {', '.join(facts.stale)}{known}: taken away for a run"
        fix = subject.there(f"grep -nE '{'|'.join(facts.stale)}' {START_UP_FILES}   (and take them out there)")
        yield STALE.found(message, fix)


def shell(subject: Subject) -> Iterator[Problem]:
    """What it prints, and how long that takes."""
    told = subject.exam.shell if subject.exam is not None else None
    shell_took = (told.seconds if told is not None else None) or 0.0
    if subject.connected is not None and subject.connected - shell_took > SLOW_SSH:
        fix = f"ssh -v {subject.node.host} true   (shows where it stays)"
        yield SSH_SLOW.found(f"{subject.connected:.1f} s until the node part spoke", fix)
    if told is None:
        return
    if told.printed:
        first = told.printed.splitlines()[0][:80]
        fix = (
            subject.there(f"grep -nE 'echo|printf|cat |stty|tput|bind|mesg' {START_UP_FILES}")
            + "   (and write  [ -t 1 ] &&  before what prints)"
        )
        yield NOISE.found(f"{told.path} prints {first!r}", fix, "info")
    if told.seconds is None or told.seconds > SLOW_SHELL:
        took = "did not end" if told.seconds is None else f"took {told.seconds:.1f} s"
        yield SHELL_SLOW.found(f"{told.path} {took}", subject.there(f"time {_as_sshd_starts(told.path)} exit"))


def _as_sshd_starts(path: str) -> str:
    """The shell, saying what it does; bash reads .bashrc for a command only where it takes itself for sshd's own."""
    if path.endswith("/bash"):
        return "env -u SHLVL SSH_CLIENT=x bash -xc"
    return f"{shlex.quote(path)} {'-c' if path.endswith('fish') else '-xc'}"


def settings(subject: Subject) -> Iterator[Problem]:
    """What of its own settings of NCCL, Gloo and torch does not do what it says."""
    facts = subject.facts
    values = node_values(subject.name, (), facts.settings, parse(facts.python.nccl))
    yield from setting_problems(values)
    own = [one for one in values.counting if one.name != "HOME"]
    for one in with_interfaces((), own, values, facts.interfaces):
        places = [f"{m.file}:{m.line}" for m in facts.settings.mentions if m.name == one.name]
        where = places[0] if places else one.file
        fix = f"write  {one.fix}" if one.fix else f"leave {one.name} out"
        message = f"{one.name}={value_shown(one.name, one.value)} ({where}): {one.sees}"
        yield INTERFACE.found(message, f"in {where} on {subject.name} {fix}")
