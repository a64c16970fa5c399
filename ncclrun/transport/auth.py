"""Logging in to an SSH server without ever asking anybody: keys, the agent, and a password only when one was given."""

from __future__ import annotations

import base64
import re
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from paramiko import (
    AuthenticationException,
    BadAuthenticationType,
    PasswordRequiredException,
    PKey,
    SSHException,
    Transport,
)
from paramiko.agent import AgentSSH
from paramiko.auth_strategy import AuthResult, AuthSource, AuthStrategy
from paramiko.config import SSHConfig
from paramiko.pkey import UnknownKeyType

from ncclrun.model.errors import HostError
from ncclrun.transport.dial import Deadline
from ncclrun.transport.target import DEFAULT_KEYS, Target

Password = str | Callable[[], str] | None

_METHODS = ("publickey", "password", "keyboard-interactive")


_CODE = re.compile(r"code|otp|token|factor|one.?time|\bpin\b", re.IGNORECASE)


def _wants_password(prompt: str, echo: bool) -> bool:
    """Whether a prompt can be for a password: nothing is shown while typing, and it is not for a second factor."""
    return not echo and not _CODE.search(prompt)


class KeyUnusable(Exception):
    """A private key file that can't be used as it is; the text says why."""


class Keys:
    """Private key files, each read once for all connections. Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[str, PKey | KeyUnusable] = {}
        self._lock = threading.Lock()

    def load(self, path: str) -> PKey:
        """The key in a file; raises KeyUnusable."""
        with self._lock:
            if path not in self._known:
                try:
                    self._known[path] = _load(Path(path).expanduser())
                except KeyUnusable as error:
                    self._known[path] = error
            key = self._known[path]
        if isinstance(key, KeyUnusable):
            raise key
        return key


def _load(path: Path) -> PKey:
    try:
        return PKey.from_path(path)
    except FileNotFoundError:
        raise KeyUnusable("does not exist") from None
    except OSError as error:
        raise KeyUnusable(f"can't be read ({error.strerror})") from error
    except (PasswordRequiredException, TypeError) as error:  # the latter is cryptography's way to ask for a password
        raise KeyUnusable("is encrypted and not in an SSH agent") from error
    except (SSHException, ValueError, UnknownKeyType, UnsupportedAlgorithm) as error:
        if _public_blob(str(path)) and path.suffix == ".pub":
            raise KeyUnusable("is a public key, whose private one no SSH agent holds") from error
        why = str(error).split(". See ")[0]  # cryptography goes on with a link to its own questions and answers
        raise KeyUnusable(f"is no private key that can be used ({why})") from error


class Agent(AgentSSH):
    """An SSH agent by the path of its socket; one a login, since its connection can't be shared by threads."""

    def __init__(self, path: str, seconds: float) -> None:
        super().__init__()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(seconds)
        try:
            self._socket.connect(path)
            self._connect(self._socket)  # type: ignore[attr-defined]  # how paramiko's own subclasses begin
        except (OSError, SSHException):
            self._socket.close()
            raise

    def close(self) -> None:
        """Ends the connection to the agent."""
        self._close()  # type: ignore[attr-defined]  # as above


class _Ended(Exception):
    """The server ended the connection, or the time is up, in the middle of the login."""


class Login(AuthStrategy):
    """One login: keys, password, keyboard-interactive, as the server allows them; no method is tried twice."""

    def __init__(self, target: Target, password: Password, keys: Keys, deadline: Deadline, cluster: str) -> None:
        super().__init__(ssh_config=SSHConfig())
        self._target = target
        self._password = password
        self._keys = keys
        self._deadline = deadline
        self._cluster = cluster
        self._tried: list[str] = []
        self._fixes: list[str] = []
        self._prompts: list[str] = []
        self._partly = False

    def authenticate(self, transport: Transport) -> AuthResult:
        """Logs in. Raises HostError ``auth`` with what was tried and is allowed; TimeoutError when the time is up."""
        agent = self._open_agent()
        try:
            allowed = self._allowed(transport)
            used: set[str] = set()
            while allowed:
                method = next((m for m in _METHODS if m in allowed and m not in used), None)
                if method is None:
                    raise self._refused(allowed)
                used.add(method)
                answer = self._attempt(method, transport, agent)
                if answer is not None:
                    allowed, self._partly = answer, True
        except _Ended as error:
            if self._deadline.passed():
                raise TimeoutError("the login took too long") from error
            raise self._refused([]) from error
        finally:
            if agent is not None:
                agent.close()
        return AuthResult(self)

    def get_sources(self) -> Iterator[AuthSource]:
        """None: ``authenticate`` chooses by what the server answers."""
        return iter(())

    def _allowed(self, transport: Transport) -> list[str]:
        """What the server lets us try; an empty list when it lets us in as we are."""
        transport.auth_timeout = self._deadline.left()
        try:
            transport.auth_none(self._target.user)
        except BadAuthenticationType as error:
            return list(error.allowed_types)
        except AuthenticationException as error:
            raise _Ended from error
        return []

    def _attempt(self, method: str, transport: Transport, agent: Agent | None) -> list[str] | None:
        """None: refused; a list: what the server wants besides (nothing: we are in)."""
        if method == "publickey":
            return self._publickey(transport, agent)
        if method == "password":
            return self._with_password(transport)
        return self._interactive(transport)

    def _publickey(self, transport: Transport, agent: Agent | None) -> list[str] | None:
        for name, key in self._candidates(agent):
            self._tried.append(name)
            answer = self._ask(transport, lambda key=key: transport.auth_publickey(self._target.user, key))  # type: ignore[misc]
            if answer is not None:
                return answer
        return None

    def _with_password(self, transport: Transport) -> list[str] | None:
        password = self._secret()
        if password is None:
            return None
        self._tried.append("password")
        return self._ask(transport, lambda: transport.auth_password(self._target.user, password, fallback=False))

    def _interactive(self, transport: Transport) -> list[str] | None:
        """Answers the one prompt that can be a password's; what else is asked for ends the login unanswered.

        Without a password it is begun only where a key was accepted and was not enough, to learn what is asked for.
        """
        password = self._secret()
        if (password is None or "password" in self._tried) and not self._partly:
            return None
        answered = False

        def answer(_title: str, _instructions: str, prompts: Sequence[tuple[str, bool]]) -> list[Any]:
            nonlocal answered
            if not prompts:
                return []
            if password is not None and not answered and len(prompts) == 1 and _wants_password(*prompts[0]):
                answered = True
                return [password]
            self._prompts = [text.strip() for text, _ in prompts]
            # raised in paramiko's thread, which ends the connection: no answer, so nothing counts as a wrong code
            raise AuthenticationException("a prompt that only a person can answer")

        if password is not None:
            self._tried.append("password (keyboard-interactive)")
        return self._ask(transport, lambda: transport.auth_interactive(self._target.user, answer))

    def _ask(self, transport: Transport, method: Callable[[], Sequence[str]]) -> list[str] | None:
        """One attempt; None when refused. Raises _Ended when there is no connection left to go on with."""
        transport.auth_timeout = self._deadline.left()
        try:
            return list(method())
        except (AuthenticationException, SSHException) as error:
            if self._deadline.passed() or not transport.is_active():
                raise _Ended from error
            return None

    def _secret(self) -> Any:
        """The password as bytes, None without one; paramiko takes them, though its types say text."""
        password = self._password() if callable(self._password) else self._password
        return None if password is None else password.encode("utf-8", "surrogateescape")

    def _open_agent(self) -> Agent | None:
        if self._target.agent is None:
            return None
        try:
            return Agent(self._target.agent, min(self._deadline.left(), 5.0))
        except (OSError, SSHException) as error:
            self._tried.append(f"the agent at {self._target.agent} (does not answer: {error})")
            return None

    def _candidates(self, agent: Agent | None) -> Iterator[tuple[str, PKey]]:
        """The keys in the order of the offer: files that were asked for, the agent's, the default files."""
        seen: set[bytes] = set()
        held: dict[bytes, PKey] = {key.asbytes(): key for key in agent.get_keys()} if agent else {}
        wanted = [(path, _public_blob(path)) for path in self._target.identity_files]
        for path, public in wanted:
            if public in held:
                seen.add(public)
                yield f"{path} (from the agent)", held[public]
            elif (key := self._file(path, asked_for=True)) is not None and key.asbytes() not in seen:
                seen.add(key.asbytes())
                yield path, key
        if not self._target.identities_only:
            for blob, key in held.items():
                if blob not in seen:
                    seen.add(blob)
                    yield f"{getattr(key, 'comment', '') or key.get_name()} (from the agent)", key
        for path in () if wanted else DEFAULT_KEYS:
            if Path(path).expanduser().exists():
                found = self._file(path, asked_for=False, held=held)
                if found is not None and found.asbytes() not in seen:
                    yield path, found

    def _file(self, path: str, *, asked_for: bool, held: dict[bytes, PKey] | None = None) -> PKey | None:
        """The key of a file, None (and a note for the message) where it can't be used."""
        try:
            return self._keys.load(path)
        except KeyUnusable as error:
            if asked_for or _public_blob(path) not in (held or {}):
                self._tried.append(f"{path} ({error})")
            if "encrypted" in str(error):
                self._fixes.append(f"ssh-add {path}")
            return None

    def _refused(self, allowed: list[str]) -> HostError:
        """The error that tells everything that was tried."""
        target = self._target
        tried = ", ".join(self._tried) or "nothing: there is no key and no agent here"
        message = f"{target.label}: login as {target.user} was refused; tried: {tried}"
        port = f"-p {target.port} " if target.port != 22 else ""
        fix = f"ncclrun keys {self._cluster} --ask-pass, or ssh-copy-id {port}{target.user}@{target.hostname}"
        if any(name.startswith("password") for name in self._tried):
            fix = f"is the password that of {target.user} there (NCCLRUN_SSH_PASSWORD, or --ask-pass)?"
        elif "publickey" in allowed and len(allowed) == 1:  # no password would be heard
            fix = f"name the `user` and `identity_file` that {target.hostname} lets in, or have your public key added "
            fix += "to ~/.ssh/authorized_keys there"
        if self._prompts:
            message += f"; the server asks: {' / '.join(repr(p) for p in self._prompts)}"
            fix = "only a person can answer that: let the server take a key alone from this machine"
        elif not allowed:
            message += "; then the server ended the connection (too many keys? see its MaxAuthTries)"
            fix = "name one key with `identity_file`, and IdentitiesOnly yes in ssh_config"
        else:
            message += f"; the server allows: {', '.join(allowed)}"
        return HostError("auth", message, fix=", or ".join([*self._fixes, fix]))


def _public_blob(path: str) -> bytes:
    """The public key beside a private one (``.pub``), or in the file itself, as for a key that only an agent has."""
    for name in (path + ".pub", path):
        try:
            kind, encoded = Path(name).expanduser().read_text(encoding="utf-8").split()[:2]
            blob = base64.b64decode(encoded)
        except (OSError, ValueError):  # not there or not a key: the private file alone counts
            continue
        if blob[4:].startswith(kind.encode()):
            return blob
    return b""
