"""What is a secret, and what is shown in its place."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from ncclrun.model.settings import SettingFinding

MASK = "***"
_WORD = r"(?:(?<!_IB_P)(?<!host_)KEY|TOKEN(?!IZ)|SECRET|PASS|_PWD|CREDENTIAL|COOKIE)"
_NAME = re.compile(_WORD, re.IGNORECASE)
"""Of variables whose values are masked (TOKENIZERS_PARALLELISM, NCCL_IB_PKEY and host_keys are no secrets)."""
_VALUE = re.compile(r"://[^/@\s]*:[^/@\s]+@")
"""A URL with a password in it, as of a proxy or a database."""
_SECRET = rf"(?=[\w-]*?{_WORD})(?!\w*(?:Error|Exception)\b)"
"""Stands before such a name in a text; a KeyError tells none."""
_PIECE = (
    r"""\\"(?:\\\\(?:\\.|.)|(?!\\").)*(?:\\")?|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?"""
    r"""|\\.|[^\s"',;}\\]|[,;}](?=[^\s"',;}\\])"""
)
"""Of a value: in quotes of any kind, or bare; shells and Python put several together."""
_SET = re.compile(
    rf"""(?P<front>\b{_SECRET}[A-Za-z_]\w*\\?["']?\]?\s*[=:]\s*(?!\*\*\*))(?P<value>(?:{_PIECE})+)""", re.IGNORECASE
)
"""A variable with its value; what stands in the value without a blank behind it belongs to it."""
_YAML = re.compile(
    rf"""^(?P<front>[ \t]*(?:- )?{_SECRET}[A-Za-z_][\w-]*: +)(?P<value>[^\s"'|>{{\[*][^\n]*)$""",
    re.MULTILINE | re.IGNORECASE,
)
"""A line that is nothing but a name and a value: there a value has blanks and needs no quotes."""
_OPTION = re.compile(
    rf"""(?P<front>(?<![\w-])--{_SECRET}[A-Za-z][\w-]*\\?["']?,?\s+)(?P<value>(?!-)(?:{_PIECE})+)""",
    re.IGNORECASE,
)
"""An option of a command line, with its value in the next word, or in the next one of a list."""
_BARE = re.compile(
    r"(?P<front>://[^/@\s:\"']*:)[^/@\s\"']+(?=@)"
    r"|\b(?P<kind>hf_|sk-|gh[opsur]_|github_pat_|glpat-|xox[abp]-|npm_|AKIA|ASIA|AIza)[A-Za-z0-9_-]{16,}"
    r"|(?P<header>\b(?:Authorization|(?:Set-)?Cookie)\\?[\"']?\s*[:=]\s*\\?[\"']?(?:(?:Basic|Bearer|Digest|Token) )?)"
    r"[^\n\"'\\]+"
    r"|(?P<scheme>\bBearer )[^\s\"']+"
    r"|(?P<login>\bwandb login (?:--\S+ )*|\bsshpass -p ?|\bcurl [^\n]{0,200}?(?:-u|--user)[ =]?[\"']?[^\s:\"']+:)"
    r"[^\s\"'-][^\s\"']*"
    r"|(?P<query>(?:[?&;]|u0026)[\w-]*(?:token|signature|sig|secret|credential|password|key|keyid)=)[^&\s\"'\\]+"
    r"|(?P<begin>-----BEGIN [A-Z ]*PRIVATE KEY-----)[\s\S]*?(?=-----END|\Z)",
    re.IGNORECASE,
)
"""What is a secret by its form, without a name: a URL's password, a bearer's token, tokens of known services."""
_REST_OF_KEY = re.compile(r"(?:^[A-Za-z0-9+/=]{1,76}\r?\n){1,120}(?=-----END [A-Z ]*PRIVATE KEY)", re.MULTILINE)
"""Of a private key whose beginning is cut off."""
_HINTS = (
    *("key", "token", "secret", "pass", "_pwd", "credential", "cookie", "@", "authorization", "bearer", "signature"),
    *("sig=", "curl", "wandb", "hf_", "sk-", "gho_", "ghp_", "ghs_", "ghu_", "ghr_", "github_", "glpat", "xox", "npm_"),
    *("akia", "asia", "aiza"),
)
"""A text without any of these has none: most have none, and all that is above takes its time."""
_QUOTED = re.compile(r'"[^"]*"')


def is_secret(name: str, value: str) -> bool:
    """By its name, or by its value."""
    return _NAME.search(name) is not None or _VALUE.search(value) is not None


def value_shown(name: str, value: str, secret: bool = False) -> str:
    """The value, or stars for a secret; ``secret``: it is known as one."""
    return MASK if value and (secret or is_secret(name, value)) else value


def text_shown(text: str) -> str:
    """A text of any kind, with stars for each secret that is set there; a KeyError tells none."""
    low = text.lower()
    if not any(hint in low for hint in _HINTS):
        return text
    text = _REST_OF_KEY.sub(f"{MASK}\n", text)
    text = _BARE.sub(lambda match: f"{next(filter(None, match.groups()))}{MASK}", text)
    for pattern in (_OPTION, _YAML, _SET):
        text = pattern.sub(_stars, text)
    return text


def _stars(match: re.Match[str]) -> str:
    quote = next((quote for quote in ('\\"', '"', "'") if match["value"].startswith(quote)), "")
    return f"{match['front']}{quote}{MASK}{quote}"


def data_shown(data: Any) -> Any:
    """What JSON holds, with stars for each secret: by the name it has there, as an option's value, or in a text."""
    if isinstance(data, str):
        return text_shown(data)
    if isinstance(data, dict):
        return {
            key: MASK if isinstance(value, str) and value and _NAME.search(key) else data_shown(value)
            for key, value in data.items()
        }
    if isinstance(data, (list, tuple)):
        return [
            MASK if at and isinstance(one, str) and _opens(data[at - 1]) else data_shown(one)
            for at, one in enumerate(data)
        ]
    return data


def _opens(option: Any) -> bool:
    """Whether a secret follows as the next word of a command line."""
    return (
        isinstance(option, str)
        and re.fullmatch(r"--?[A-Za-z][\w-]*", option) is not None
        and _NAME.search(option) is not None
    )


def finding_shown(finding: SettingFinding) -> SettingFinding:
    """The finding without a secret's value, wherever it says it, and without those of others on its line."""
    if value_shown(finding.name, finding.value) == finding.value:
        return replace(finding, fix=text_shown(finding.fix))
    # What is quoted may be a part of it.
    sees = _QUOTED.sub(f'"{MASK}"', finding.sees.replace(finding.value, MASK))
    return replace(finding, value=MASK, sees=sees, fix=f"{finding.name}={MASK}" if finding.fix else "")
