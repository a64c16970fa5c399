"""SSH: hosts that don't let in, don't answer, aren't known."""

from __future__ import annotations

from ncclrun.diagnosis.explain.signature import Signature, Weight
from ncclrun.diagnosis.explain.steps import here

SIGNATURES = (
    Signature(
        id="ssh-auth",
        title="SSH does not let in",
        weight=Weight.CAUSE,
        words=(
            "Too many authentication failures",
            "REMOTE HOST IDENTIFICATION HAS CHANGED",
            "no matching host key type found",
            "Permission denied (publickey",
            "Host key verification failed",
            "Connection closed by remote host",
            "kex_exchange_identification",
        ),
        sample="ada@gpu3: Permission denied (publickey,password).",
        cause="No key of this user is installed there, the host's key is not known, or sshd drops connections "
        "because too many come at once (MaxStartups).",
        cure=(
            here("ncclrun ping {cluster}", note="what is missing on each host"),
            here("ncclrun trust {cluster}", note="the hosts' keys, compared and accepted"),
            here("ncclrun keys {cluster} --ask-pass", note="your key on all hosts"),
        ),
        check="`ncclrun ping` logs in everywhere first and names what is missing",
        likely=True,
    ),
    Signature(
        id="ssh-conn",
        title="A host does not answer SSH",
        weight=Weight.CAUSE,
        words=(
            "ssh exited with exit code 255",
            "ssh: connect to host",
            "ssh: Could not resolve hostname",
            "was not reachable via ssh",
            "SSH was not successful",
        ),
        pattern=r"(?P<name___>[\w.-]+): ssh exited with exit code 255|"
        r"ssh: connect to host (?P<name>\S+) port (?P<port>\d+): |"
        r"ssh: Could not resolve hostname (?P<name_>[^\s:]+)|host=(?P<name__>\S+) was not reachable via ssh|"
        r"SSH was not successful",
        sample="ssh: connect to host gpu2 port 22: Connection refused",
        cause="It is off, has another name or address, or its sshd listens on another port.",
        cure=(
            here("ssh -v -p {port} {name} true", "ssh -v {name} true", note="each step of it"),
            here(
                "ncclrun ping {cluster}",
                note="says of each host whether the name, the way, the port or the login fails",
            ),
        ),
        check="`ncclrun ping` calls every host",
        over=("process-ended",),
        likely=True,
    ),
)
