"""The layers of the package: an import goes only to a row above; all may raise errors."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import adjudge

SOURCE = Path(adjudge.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

#: Longest prefix wins.
ROWS = {
    "errors": -2, "schema": -1, "registry": 0, "exchange": 0, "cache": 0, "rubrics": 0,
    "prompts": 1, "criteria": 1, "formats": 1, "stats": 1, "benchmarks": 1,
    "engines.prefix": 1, "engines.base": 1, "runs.store": 1,
    "judges": 2, "engines": 2,
    "runs": 3, "training": 3,
    "api": 4, "experiments": 4, "grading": 5,
    "reports": 5, "viewer": 5,
    "cli": 6, "__main__": 7,
}  # fmt: skip
#: Third-party packages that may be imported at the top of a module, by row; others only inside
#: the functions that need them.
AT_TOP = {
    -2: set(),
    -1: set(),
    0: {"numpy"},
    1: {"numpy", "jinja2"},  # scipy only inside functions
    2: {"numpy"},
    3: {"numpy"},
    4: {"numpy"},
    5: {"numpy", "rich"},
    6: {"numpy", "rich", "typer"},
    7: set(),
}
FORBIDDEN_NAMES = {"utils", "common", "helpers", "misc"}


def module(path: Path) -> str:
    """Return a file's dotted name below the package: "engines.base"."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def row(name: str) -> int:
    matching = [key for key in ROWS if name == key or name.startswith(f"{key}.")]
    assert matching, f"{name} is in no row"
    return ROWS[max(matching, key=len)]


def package(name: str) -> str:
    return name.partition(".")[0]


def imports(path: Path, *, top_only: bool) -> set[str]:
    """Return what a file imports, those for type checkers left out."""
    tree = ast.parse(path.read_text("utf-8"))
    found: set[str] = set()

    def visit(nodes: list[ast.stmt]) -> None:
        for node in nodes:
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
                continue
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}: relative import"
                module_name = node.module or ""
                for alias in node.names:
                    full = f"{module_name}.{alias.name}"
                    inside = SOURCE / Path(*full.split(".")[1:])
                    is_module = full.startswith("adjudge") and (
                        inside.with_suffix(".py").exists() or inside.is_dir()
                    )
                    found.add(full if is_module else module_name)
            elif not (top_only and isinstance(node, ast.FunctionDef | ast.ClassDef)):
                for block in ("body", "orelse", "finalbody", "handlers"):
                    visit(getattr(node, block, []))

    visit(tree.body)
    return found


def inner_imports(path: Path) -> set[str]:
    names = imports(path, top_only=False)
    return {name.removeprefix("adjudge.") for name in names if name.startswith("adjudge.")}


@pytest.mark.parametrize("path", FILES, ids=module)
def test_imports_go_only_to_rows_above(path: Path) -> None:
    name = module(path)
    if not name:
        return
    for other in inner_imports(path):
        same_package = package(other) == package(name)
        allowed = row(other) < row(name) or (row(other) == row(name) and same_package)
        assert allowed, f"{name} (row {row(name)}) imports {other} (row {row(other)})"
        if name.startswith("judges.") and other.startswith("engines"):
            assert other == "engines.base", f"{name} sees an engine: {other}"


def test_there_are_no_import_cycles() -> None:
    graph = {module(path): inner_imports(path) - {module(path)} for path in FILES if module(path)}
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("path", FILES, ids=module)
def test_third_party_packages_at_the_top_are_light(path: Path) -> None:
    name = module(path)
    allowed = AT_TOP[row(name)] if name else set()
    for other in imports(path, top_only=True):
        top = other.partition(".")[0]
        assert top in allowed | {"adjudge"} | sys.stdlib_module_names, f"{name} imports {other}"


@pytest.mark.parametrize("path", FILES, ids=module)
def test_files_and_functions_are_short(path: Path) -> None:
    text = path.read_text("utf-8")
    assert len(text.splitlines()) <= 600
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            start = (first.end_lineno or 0) if documented else node.lineno
            assert (node.end_lineno or 0) - start < 60, f"{node.name} is too long"


@pytest.mark.parametrize("path", FILES, ids=module)
def test_package_inits_are_empty_and_names_say_something(path: Path) -> None:
    if path.name == "__init__.py" and module(path):
        assert not path.read_text()
    assert not FORBIDDEN_NAMES & set(module(path).split("."))


def test_public_names_are_sorted_and_there() -> None:
    assert adjudge.__all__ == sorted(adjudge.__all__)
    for name in adjudge.__all__:
        assert getattr(adjudge, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        adjudge.nothing  # noqa: B018


@pytest.mark.parametrize(
    "code",
    ["import adjudge", "from adjudge.cli.main import app; app(['--help'], standalone_mode=False)"],
)
def test_starting_up_loads_nothing_heavy(code: str) -> None:
    heavy = ["torch", "scipy", "polars", "pydantic", "jinja2", "xllamacpp", "httpx"]
    check = f"import sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{check}"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_public_functions_and_classes_are_documented() -> None:
    for path in FILES:
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                assert ast.get_docstring(node), f"{module(path)}.{node.name}"
