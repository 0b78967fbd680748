# SPDX-License-Identifier: Apache-2.0
"""Checks the imports between files of python/stoker: they have layers, like src, and no circle. Part of check_includes.py.

Imports inside functions and under TYPE_CHECKING count too: they also mean that a reader of one file needs the other. So do calls of
importlib.import_module with the name of a file, unless UP lists them.
"""

import ast
from pathlib import Path

# The layers, lowest first. A file imports only from its own layer and those before it. The name of a folder stands for all of its files.
LAYERS = {
    "ground": [
        "_core",
        "errors",
        "_where",
        "_elsewhere",
        "_needs",
        "experimental",
        "_cores",
        "_types",
        "_numbers",
        "_progress",
        "_files",
        "_same_data",
        "_foreign_state",
        "_png",
        "_signatures",
        "_drawing",
        "_to_device",
        "_used_globals",
    ],
    "values": [
        "_catalog",
        "_docs",
        "_values",
        "_arrays",
        "_on_gpu",
        "_image",
        "_sheet",
        "_html",
        "tensors",
        "tfrecord",
        "backend",
    ],
    "graph": [
        "_build",
        "_constant",
        "data_node",
        "_liveness",
        "_rewrite",
        "_branches",
        "types",
        "backend_impl",
        "_operator",
        "_by_value",
        "_processes",
        "_sources",
        "_video_input",
        "_composed",
        "_external",
        "_function",
        "_groups",
        "_classes",
        "fn",
        "ops",
        "math",
    ],
    "pipeline": [
        "_at_exit",
        "_context",
        "_fetched",
        "_storage",
        "_audio",
        "_video",
        "samplers",
        "_settings",
        "_definition",
        "_session",
        "_ranks",
        "pipeline",
        "_eager",
        "video",
    ],
    "auto_aug": ["auto_aug"],
    "plugin": ["plugin"],
    "loader": [
        "_transform_arguments",
        "_transforms_elsewhere",
        "_transforms_base",
        "_transforms_batch",
        "_transforms_geometry",
        "_transforms_policies",
        "_transforms_timm",
        "_transforms_values",
        "transforms",
        "loader",
        "dataloader",
    ],
    "structured": ["structured"],
    "advise": ["_advise", "metrics"],
    "package": ["__init__", "__main__", "tools"],
}
# Batched losses do not depend on the pipeline, so they import only the lowest layer. Only the package, the Loader and structured samples, which make ragged
# batches, import them.
BESIDE = "batching"
# Permitted imports of later layers at run time, through importlib: (file, imported file), and the reason. ARCHITECTURE.md names them.
UP = {
    ("fn/__init__", "_eager"): "fn.eager runs an operator at once, for which it makes a pipeline",
    ("_transforms_base", "loader/_one_image"): "a transform that is called on one image runs as in a Loader",
}


def imports(package: Path) -> dict[str, dict[str, int]]:
    """Returns, for each file ("loader/_run"), the files of the package that it imports, each with the line of the import."""
    files = {path.relative_to(package).with_suffix("").as_posix(): path for path in sorted(package.rglob("*.py"))}
    return {name: _imports_of(name, path, package.name, set(files)) for name, path in files.items()}


def _imports_of(name: str, path: Path, package: str, files: set[str]) -> dict[str, int]:
    found: dict[str, int] = {}

    def note(parts: list[str], line: int) -> None:
        """Records an import. parts: the path of a module, or of a name inside a module."""
        for length in range(len(parts), -1, -1):
            base = "/".join(parts[:length])
            for file in (base, f"{base}/__init__".lstrip("/")):
                if file in files or file == "_core":
                    if file != name:
                        found.setdefault(file, line)
                    return

    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == package:
                    note(alias.name.split(".")[1:], node.lineno)
        elif isinstance(node, ast.ImportFrom):
            parts = node.module.split(".") if node.module else []
            if node.level:
                parts = name.split("/")[: -node.level] + parts
            elif parts[:1] == [package]:
                parts = parts[1:]
            else:
                continue
            for alias in node.names:
                note([*parts, alias.name], node.lineno)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "import_module":
            given = node.args[0]
            if isinstance(given, ast.Constant) and str(given.value).partition(".")[0] == package:
                note(str(given.value).split(".")[1:], node.lineno)
    return {other: line for other, line in found.items() if (name, other) not in UP}


def circles(edges: dict[str, dict[str, int]]) -> list[list[str]]:
    """Returns the circles: sets of two or more files that all import each other, directly or indirectly (by Tarjan's algorithm)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(file: str) -> None:
        order[file] = low[file] = len(order)
        stack.append(file)
        for other in edges.get(file, {}):
            if other not in order:
                visit(other)
                low[file] = min(low[file], low[other])
            elif other in stack:
                low[file] = min(low[file], order[other])
        if low[file] == order[file]:
            at = stack.index(file)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for file in edges:
        if file not in order:
            visit(file)
    return found


def faults(package: Path) -> list[str]:
    """Describes each forbidden import of the package."""
    place = {member: depth for depth, members in enumerate(LAYERS.values()) for member in members}
    names = list(LAYERS)
    edges = imports(package)
    wrong = []
    for file, seen in edges.items():
        top = file.split("/")[0]
        if top not in place and top != BESIDE:
            wrong.append(f"{package.name}/{file}.py: is in no layer of tools/python_imports.py")
            continue
        for other, line in seen.items():
            head = other.split("/")[0]
            where = f"{package.name}/{file}.py:{line}"
            if top == BESIDE:
                allowed = head == BESIDE or place.get(head) == 0
            else:
                allowed = names[place[top]] in ("loader", "structured", "package") if head == BESIDE else place.get(head, 0) <= place[top]
            if not allowed:
                wrong.append(f"{where}: layer {names[place[top]] if top in place else BESIDE} must not import {other}")
    return wrong + [f"{package.name}: a circle of imports: {', '.join(circle)}" for circle in circles(edges)]
