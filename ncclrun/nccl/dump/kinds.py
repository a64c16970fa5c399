"""What kind of text this is, by its name and by what stands in it: a conf file, variables, a script, or another."""

from __future__ import annotations

import re
from typing import Literal

from ncclrun.nccl.dump.reader import is_environment
from ncclrun.nccl.patterns import FAMILY, NAME

Kind = Literal["conf", "variables", "script", "other"]
"""conf: what NCCL reads; variables: lines that a program puts into an environment (`env`, .env, EnvironmentFile);
script: a POSIX shell runs it; other: YAML, a program, a document, a Dockerfile."""

_BY_NAME: tuple[tuple[Kind, str], ...] = (
    (
        "script",
        r"\.?(?:ba|z|k|mk)sh(?:rc|env|login|logout|_login|_profile|_logout|profile|_aliases)|\.?profile|rc\.local",
    ),
    ("script", r"bash\.bashrc|xprofile|\.envrc|.*\.(?:sh|bash|zsh|ksh|sbatch|slurm|pbs|lsf|bashrc|profile)"),
    ("variables", r"environment|\.?env(?:\.[\w-]+)*|.*\.env"),
    ("other", r"(?:docker|container|make)file.*|\.?(?:cshrc|tcshrc|login)|.*\.(?:csh|fish|ps1|bat|mk|dockerfile)"),
    ("other", r".*\.(?:yaml|yml|json|ipynb|toml|py|md|rst|service|conf\.j2|tf|xml|html|c|cc|cpp|cu|h)"),
    ("conf", r".*\.conf"),
)
_SHEBANG = re.compile(r"#![^\n]*?(?P<program>[\w.+-]+)(?:[ \t]+-[^\n]*)?(?:\n|$)")
_SHELLS = re.compile(r"(?:ba|da|z|k|mk|a)?sh")
_QUOTED_OR_NOT = r"(?:\"[^\"]*\"|'[^']*'|[^\s\"']*)"
_SPOKEN = re.compile(
    rf"""^[ \t]*(?:
    (?:fi|done|esac|then|else|do|\}}|\{{|;;)[ \t]*(?:[;#&|>].*)?$
    |(?:if|elif|while|until)[ \t]+(?:[\[!(]|.*;[ \t]*(?:then|do)\b)
    |(?:if|elif|while|until)[ \t]+(?:test|command|grep|which)\b
    |for[ \t]+\w+[ \t]+in\b | case[ \t].*[ \t]in\b | function[ \t]+[\w-]+ | [\w-]+[ \t]*\(\)
    |(?:source|\.)[ \t]+[~/$."'\w-] | (?:un)?alias[ \t]+\w | (?:eval|exec|return|unset|shopt|umask|ulimit|setopt)\b
    |set[ \t]+[-+]\w | set[ \t]+-o | trap[ \t]
    |(?:export|declare|typeset|readonly|local)[ \t]+(?:-\w+[ \t]+)*(?!(?:{FAMILY})\b){NAME}\b
    |(?:PATH|LD_LIBRARY_PATH)=.*\$
    |(?:echo|cd|mkdir|sudo|module|conda|srun|mpirun|mpiexec|torchrun|python3?|docker|ncclrun)[ \t]+\S
    |(?!(?:{FAMILY})=){NAME}=\$\(
    |(?:{NAME}={_QUOTED_OR_NOT}[ \t]+)+(?:srun|mpirun|mpiexec|torchrun|python3?|docker|accelerate|deepspeed|\./)
    )""",
    re.VERBOSE | re.MULTILINE,
)
"""What no line of a conf file is, however badly it is written."""
_EXPORTED = re.compile(rf"^[ \t]*(?:export|declare[ \t]+-x|typeset[ \t]+-x)[ \t]+(?:{FAMILY})\b", re.MULTILINE)
_SET = re.compile(rf"^[ \t]*(?:{FAMILY})[ \t]*[=:]", re.MULTILINE)


def kind_of(name: str, text: str) -> Kind:
    """``name`` is the file's own, without its directory; "" for a text that has none, which is a conf file in doubt."""
    begins = _SHEBANG.match(text)
    if begins:
        return "script" if _SHELLS.fullmatch(begins["program"]) else "other"
    for kind, pattern in _BY_NAME:
        if re.fullmatch(pattern, name, re.IGNORECASE):
            return kind
    if is_environment(text):
        return "variables"
    if _SPOKEN.search(text):
        return "script"
    # One `export` among plain lines is that line's mistake; where all have one, it is a shell that reads them.
    return "script" if name and _EXPORTED.search(text) and not _SET.search(text) else "conf"


def runs_alone(name: str, text: str) -> bool:
    """Whether a script is surely run, or read by a login, and not a list of variables for others to `source`."""
    start_up = any(kind == "script" and re.fullmatch(p, name, re.IGNORECASE) for kind, p in _BY_NAME[:1])
    return start_up or text.startswith("#!") or _SPOKEN.search(text) is not None
