"""What is a secret, and what is shown in its place."""

from __future__ import annotations

import re
from dataclasses import replace

from ncclrun.model.settings import SettingFinding

MASK = "***"
_NAME = re.compile(r"(?<!_IB_P)KEY|TOKEN(?!IZ)|SECRET|PASS|_PWD|CREDENTIAL", re.IGNORECASE)
"""Of variables whose values are masked (TOKENIZERS_PARALLELISM and NCCL_IB_PKEY are no secrets)."""
_VALUE = re.compile(r"://[^/@\s]*:[^/@\s]+@")
"""A URL with a password in it, as of a proxy or a database."""
_SET = re.compile(r"""(?P<front>\b(?P<name>[A-Za-z_]\w*)["']?\]?\s*[=:]\s*["']?)(?P<value>[^\s"',;}]+)""")
"""A variable with its value, in any kind of text."""
_OPTION = re.compile(r"(?P<front>(?<!\S)--(?P<name>[A-Za-z][\w-]*)\s+)(?P<value>[^\s-]\S*)")
"""An option of a command line, with its value in the next word."""
_BARE = re.compile(
    r"(?P<front>://[^/@\s:\"']*:)[^/@\s\"']+(?=@)|(?P<scheme>\bBearer )[^\s\"']+"
    r"|\b(?P<kind>hf_|sk-|gh[opsu]_|github_pat_|glpat-|xox[bp]-|AKIA)[A-Za-z0-9_-]{16,}"
    r"|(?P<header>\b(?:Authorization: Basic |(?:Set-)?Cookie: ))[^\n]+|(?P<login>\bwandb login )\S+"
    r"|(?P<query>[?&](?:[\w-]*(?:token|signature|secret|credential|password|key))=)[^&\s\"']+"
    r"|(?P<begin>-----BEGIN [A-Z ]*PRIVATE KEY-----)[\s\S]*?(?=-----END|\Z)",
    re.IGNORECASE,
)
"""What is a secret by its form, without a name: a URL's password, a bearer's token, tokens of known services."""
_QUOTED = re.compile(r'"[^"]*"')


def is_secret(name: str, value: str) -> bool:
    """By its name, or by its value."""
    return _NAME.search(name) is not None or _VALUE.search(value) is not None


def value_shown(name: str, value: str, secret: bool = False) -> str:
    """The value, or stars for a secret; ``secret``: it is known as one."""
    return MASK if value and (secret or is_secret(name, value)) else value


def text_shown(text: str) -> str:
    """A line of any kind, with stars for each secret that is set there; a KeyError tells none."""
    text = _BARE.sub(lambda match: f"{next(filter(None, match.groups()))}{MASK}", text)
    text = _OPTION.sub(lambda match: f"{match['front']}{value_shown(match['name'], match['value'])}", text)
    return _SET.sub(
        lambda match: (
            match[0]
            if match["name"].endswith(("Error", "Exception"))
            else f"{match['front']}{value_shown(match['name'], match['value'])}"
        ),
        text,
    )


def finding_shown(finding: SettingFinding) -> SettingFinding:
    """The finding without a secret's value, wherever it says it, and without those of others on its line."""
    if value_shown(finding.name, finding.value) == finding.value:
        return replace(finding, fix=text_shown(finding.fix))
    # What is quoted may be a part of it.
    sees = _QUOTED.sub(f'"{MASK}"', finding.sees.replace(finding.value, MASK))
    return replace(finding, value=MASK, sees=sees, fix=f"{finding.name}={MASK}" if finding.fix else "")
