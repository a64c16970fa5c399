"""Turns the sources that came over stdin into the package `ncclrun_node`, which lives in memory only, and runs it."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from typing import Any

PACKAGE = "ncclrun_node"


class MemoryLoader(importlib.abc.InspectLoader):
    """Imports `ncclrun_node` and its modules from their sources; tracebacks show the lines."""

    def __init__(self, sources: dict[str, str]) -> None:
        self._sources = {PACKAGE: sources.get("__init__", "")}
        self._sources.update({f"{PACKAGE}.{name}": text for name, text in sources.items() if name != "__init__"})

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """A spec for the names that we have; None lets the other finders look."""
        if name not in self._sources:
            return None
        spec = importlib.machinery.ModuleSpec(name, self, origin=f"<{name}>", is_package=self.is_package(name))
        spec.has_location = False
        return spec

    def get_source(self, fullname: str) -> str:
        """The text of a module; ImportError for a name that is not ours."""
        try:
            return self._sources[fullname]
        except KeyError:
            raise ImportError(f"no module named {fullname!r}") from None

    def get_code(self, fullname: str) -> Any:
        """The compiled module, with a file name that says where a traceback's line stands."""
        return self.source_to_code(self.get_source(fullname), f"<{fullname}>")

    def is_package(self, fullname: str) -> bool:
        """Only the package itself has modules below it."""
        return fullname == PACKAGE


def load(sources: dict[str, str], name: str) -> Any:
    """The package's module of that name; whatever else it imports of the package must be in ``sources``."""
    sys.meta_path.insert(0, MemoryLoader(sources))
    return importlib.import_module(f"{PACKAGE}.{name}")


def run(sources: dict[str, str], nonce: str) -> None:
    """Serves the controller until the channel ends."""
    load(sources, "serve").main(nonce)
