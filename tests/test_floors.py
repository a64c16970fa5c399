"""The floors of docs/architecture.md hold: imports go downwards, and what is pure stays pure."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "ncclrun"
FLOORS = {"cli": 6, "console": 5, "commands": 4, "transport": 3, "planning": 2, "diagnosis": 2, "nccl": 1, "model": 0}
FLOORS["__main__"] = 7
PURE = ("model", "planning", "nccl", "diagnosis")
# fmt: off
WORLD = frozenset((
    "asyncio", "ctypes", "fcntl", "getpass", "glob", "http", "importlib", "io", "locale", "logging", "mmap",
    "multiprocessing", "netifaces", "os", "pathlib", "platform", "pwd", "queue", "random", "resource", "sched",
    "secrets", "select", "selectors", "shutil", "socket", "ssl", "subprocess", "sys", "tempfile", "threading",
    "time", "urllib", "uuid",
))
# fmt: on
"""What lets a module see or change the world outside its arguments."""
CHANGES = ("update", "pop", "popitem", "clear", "setdefault", "__setitem__", "__delitem__")


class Module:
    """One source file, its place in the package, and what it imports."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.parts = path.relative_to(PACKAGE).with_suffix("").parts
        self.tree = ast.parse(path.read_text(encoding="utf-8"))

    @property
    def place(self) -> str:
        """The sub-package, or the module's own name at the top."""
        return self.parts[0]

    def imports(self) -> Iterator[tuple[str, int]]:
        """Absolute dotted names that are imported anywhere in the file, with their lines."""
        package = ("ncclrun", *self.parts[:-1])
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((alias.name, node.lineno) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = package[: len(package) - node.level + 1] if node.level else ()
                name = ".".join([*base, *([node.module] if node.module else [])])
                # `from ncclrun import commands` imports a floor too, so the names count as well.
                yield from ((f"{name}.{alias.name}", node.lineno) for alias in node.names)

    def at(self, line: int) -> str:
        """Where that is, for the message of a failed test."""
        return f"{self.path.relative_to(ROOT)}:{line}"


MODULES = [Module(path) for path in sorted(PACKAGE.rglob("*.py"))]
INNER = [module for module in MODULES if module.path.name != "__init__.py"]
ABOVE_NODE = [module for module in INNER if module.place != "node"]
BELOW_CLI = [module for module in INNER if module.place != "cli"]


def names(modules: list[Module]) -> list[str]:
    return [".".join(module.parts) for module in modules]


@pytest.mark.parametrize("module", INNER, ids=names(INNER))
def test_a_module_stands_on_a_floor(module: Module) -> None:
    assert module.place in {*FLOORS, "node"}, f"{module.path}: {module.place} is on no floor; give it one in {__file__}"


@pytest.mark.parametrize("module", ABOVE_NODE, ids=names(ABOVE_NODE))
def test_a_module_imports_from_its_own_package_and_from_floors_below(module: Module) -> None:
    wrong = []
    for name, line in module.imports():
        target = name.split(".")[1] if name.startswith("ncclrun.") else ""
        if target in FLOORS and target != module.place and FLOORS[target] >= FLOORS[module.place]:
            wrong.append(f"{module.at(line)} imports {name}")
        if target == "node" and not (module.place == "transport" and name.startswith("ncclrun.node.wire.")):
            wrong.append(f"{module.at(line)} imports {name}: only the transport may, and only the frames")
    assert wrong == []


PURE_MODULES = [module for module in INNER if module.place in PURE]


@pytest.mark.parametrize("module", PURE_MODULES, ids=names(PURE_MODULES))
def test_the_lower_floors_know_nothing_of_the_world(module: Module) -> None:
    wrong = [f"{module.at(line)} imports {name}" for name, line in module.imports() if name.split(".")[0] in WORLD]
    assert wrong == []
    opened = [module.at(call.lineno) for call in calls(module.tree) if is_name(call.func, "open", "input")]
    assert opened == []


NODE_MODULES = [module for module in MODULES if module.place == "node"]


@pytest.mark.parametrize("module", NODE_MODULES, ids=names(NODE_MODULES))
def test_the_node_part_needs_the_standard_library_alone(module: Module) -> None:
    own = ("ncclrun.node.",)
    wrong = [
        f"{module.at(line)} imports {name}"
        for name, line in module.imports()
        if not name.startswith(own) and name.split(".")[0] not in sys.stdlib_module_names
    ]
    assert wrong == []


@pytest.mark.parametrize("module", NODE_MODULES, ids=names(NODE_MODULES))
def test_the_node_part_refers_to_itself_relatively_for_it_runs_under_another_name(module: Module) -> None:
    imports = [node for node in ast.walk(module.tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    named = [alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names]
    named += [node.module or "" for node in imports if isinstance(node, ast.ImportFrom) and not node.level]
    assert [name for name in named if name.split(".")[0] == "ncclrun"] == []


def test_only_one_file_knows_fabric() -> None:
    users = {module.parts for module in MODULES for name, _line in module.imports() if name.split(".")[0] == "fabric"}
    assert users <= {("transport", "ssh")}


@pytest.mark.parametrize("module", BELOW_CLI, ids=names(BELOW_CLI))
def test_below_the_command_line_nothing_prints_exits_or_sets_the_environment(module: Module) -> None:
    # The node part is a program of its own, of processes that fork: these end by exiting. One of its modules runs in
    # the user's program, where it takes away what led to it.
    harmless: tuple[str, ...] = ("exits by",) if module.place == "node" else ()
    harmless += ("changes the environment",) if module.parts == ("node", "stackarm") else ()
    found = [(what, line) for what, line in liberties(module.tree) if not what.startswith(harmless or ("never",))]
    assert [f"{module.at(line)} {what}" for what, line in found] == []


@pytest.mark.parametrize("module", [m for m in MODULES if m not in INNER], ids=lambda module: module.place)
def test_an_init_file_holds_a_docstring_and_nothing_else(module: Module) -> None:
    assert ast.get_docstring(module.tree)
    others = [node for node in module.tree.body[1:] if not is_version(node)]
    assert others == []


@pytest.mark.parametrize("module", INNER, ids=names(INNER))
def test_a_module_says_in_its_first_sentence_what_it_is_for(module: Module) -> None:
    assert ast.get_docstring(module.tree)


class TestTheseChecks:
    """A check that finds nothing anywhere would pass for ever."""

    @pytest.mark.parametrize(
        "source",
        [
            "print(1)",
            "import sys\nsys.exit(1)",
            "raise SystemExit",
            "import os\nos._exit(1)",
            "import os\nos.environ['A'] = 'b'",
            "import os\ndel os.environ['A']",
            "import os\nos.environ.update(A='b')",
            "import os\nos.putenv('A', 'b')",
        ],
    )
    def test_they_see_each_liberty(self, source: str) -> None:
        assert list(liberties(ast.parse(source)))

    @pytest.mark.parametrize(
        "source", ["console.print(1)", "import os\nx = dict(os.environ)", "import os\nx = os.environ['A']"]
    )
    def test_they_leave_what_is_harmless(self, source: str) -> None:
        assert not list(liberties(ast.parse(source)))

    def test_they_resolve_relative_imports(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
        (tmp_path / "node").mkdir()
        path = tmp_path / "node/x.py"
        path.write_text("from . import wire\nfrom .wire import encode\nfrom ..cli import main\nimport os.path\n")
        found = [name for name, _line in Module(path).imports()]
        assert found == ["ncclrun.node.wire", "ncclrun.node.wire.encode", "ncclrun.cli.main", "os.path"]


def liberties(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Calls and statements that only the command line may have, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in ("print", "breakpoint"):
                yield f"calls {called}", node.lineno
            elif called in ("exit", "quit", "sys.exit", "os._exit", "os.abort"):
                yield f"exits by {called}", node.lineno
            elif called in ("os.putenv", "os.unsetenv") or called in (f"os.environ.{name}" for name in CHANGES):
                yield f"changes the environment by {called}", node.lineno
        elif isinstance(node, ast.Raise) and node.exc is not None and "SystemExit" in ast.unparse(node.exc):
            yield "exits by SystemExit", node.lineno
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load) and is_environ(node.value):
            yield "changes the environment", node.lineno


def calls(tree: ast.Module) -> Iterator[ast.Call]:
    """All calls in a file."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def is_name(node: ast.expr, *wanted: str) -> bool:
    """Whether the expression is one of these plain names."""
    return isinstance(node, ast.Name) and node.id in wanted


def is_environ(node: ast.expr) -> bool:
    """Whether the expression is `os.environ`."""
    return ast.unparse(node) == "os.environ"


def is_version(node: ast.stmt) -> bool:
    """`__version__ = "…"`, which a package's init may say."""
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__version__"
