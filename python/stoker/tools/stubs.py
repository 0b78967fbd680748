# SPDX-License-Identifier: Apache-2.0
"""Writes the stubs of stoker.fn and stoker.ops from the operators' tables: python -m stoker.tools.stubs FOLDER_OF_THE_PACKAGE."""

from __future__ import annotations

import sys
import textwrap
from collections import defaultdict
from pathlib import Path

from stoker import _docs
from stoker._catalog import Arg, Op, find, public_names
from stoker._classes import class_name

_HEAD = """# SPDX-License-Identifier: Apache-2.0
# Made from the operators' tables by stoker.tools.stubs.

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal, overload

from stoker.data_node import DataNode
from stoker.types import DALIDataType, DALIImageType, DALIInterpType

DTypeLike = DALIDataType | Any
Input = DataNode | Any
"""

# Operators whose functions and classes are written in Python, not made from a table.
BY_HAND = {"external_source", "python_function"}


def _parameter(arg: Arg) -> str:
    text = f"{arg.name}: {_docs.annotate(arg)}"
    return text if arg.required else text + " = ..."


def _inputs(op: Op) -> list[str]:
    names = _docs.input_names(op)
    if not names:
        return ["*inputs: Input"] if op.max_inputs else ["*"]
    given = [f"{n}: Input" + ("" if i < op.min_inputs else " | None = ...") for i, n in enumerate(names)]
    return [*given, "/", "*"]


# Operators with several outputs, whose number depends on the arguments.
SEVERAL = {"readers.coco", "random_bbox_crop"}
# Operators with one output, each with the argument that adds a second.
ADDS_OUTPUT = {"resize": "save_attrs"}
_COMMON = {name: "int" for name in _docs.COMMON} | {"preserve": "bool", "name": "str", "device": "Literal['cpu', 'gpu', 'mixed'] | str"}


def _result(op: Op) -> str:
    if op.name in SEVERAL or op.outputs > 1:
        return "list[DataNode]"
    return "DataNode" if op.outputs == 1 else "Any"


def function_stub(op: Op, name: str) -> str:
    """Returns the text of an operator's function, with its documentation."""
    taken = {a.name for a in op.args}
    adds = ADDS_OUTPUT.get(op.name)
    doc = textwrap.indent(f'"""{_docs.docstring(op)}\n"""', "    ").replace("\\", "\\\\")

    def text(result: str, given: str | None = None) -> str:
        """Returns one form of the function. given: the type of the argument that adds an output, if there are two forms."""
        parameters = [
            f"{a.name}: {given}" if given and a.name == adds else _parameter(a) for a in sorted(op.args, key=lambda a: not a.required)
        ]
        parameters += [f"{n}: {_COMMON[n]} | None = ..." for n in _docs.COMMON if n not in taken]
        lines = ",\n".join("    " + p for p in [*_inputs(op), *parameters])
        return f"def {name}(\n{lines},\n) -> {result}:\n{doc}\n"

    if adds is None:
        return text(_result(op))
    return f"@overload\n{text('DataNode', 'Literal[False] | None = ...')}@overload\n{text('list[DataNode]', 'Literal[True]')}"


def class_stub(op: Op, name: str) -> str:
    """Returns the text of an operator's class, with its documentation."""
    arguments = [_parameter(a).removesuffix(" = ...") + " = ..." for a in op.args] + ["device: str | None = ...", "name: str | None = ..."]
    lines = ", ".join(dict.fromkeys(arguments))
    doc = textwrap.indent(f'"""{_docs.docstring(op)}\n"""', "    ").replace("\\", "\\\\")
    call = f"    def __call__(self, *inputs: Input, **kwargs: Any) -> {_result(op)}: ...\n"
    return f"class {name}(Operator):\n{doc}\n    def __init__(self, *, {lines}, **kwargs: Any) -> None: ...\n{call}"


def _modules(family: str, head: str, texts: dict[str, list[str]]) -> dict[str, str]:
    """Returns a dict from file name to text for the modules of a family, "fn" or "ops". Each module imports the modules of the groups inside it."""
    groups = {g[:i] for g in texts for i in [*(k for k, c in enumerate(g) if c == "."), len(g)]} | {""}
    files = {}
    for group in groups:
        inner = sorted(g.rpartition(".")[2] for g in groups - {""} if g.rpartition(".")[0] == group)
        module = f"stoker.{family}" + (f".{group}" if group else "")
        imports = "".join(f"from {module} import {g} as {g}\n" for g in inner)
        path = "/".join([family, *group.split(".")] if group else [family])
        files[f"{path}/__init__.pyi"] = head + imports + "\n" + "\n".join(sorted(texts.get(group, [])))
    return files


def stubs() -> dict[str, str]:
    """Returns a dict from file name to text for stoker.fn and stoker.ops."""
    functions: dict[str, list[str]] = defaultdict(list)
    classes: dict[str, list[str]] = defaultdict(list)
    for full in public_names():
        op = find(full)
        if op is None or full in BY_HAND:
            continue
        group, _, name = full.rpartition(".")
        functions[group].append(function_stub(op, name))
        classes[group].append(class_stub(op, class_name(name)))
    functions[""].append("from stoker._external import external_source as external_source\n")
    functions[""].append("from stoker import _eager as eager\n")
    functions[""] += [f"from stoker._function import {name} as {name}\n" for name in ("dl_tensor_python_function", "python_function")]
    by_hand = ("Compose", "DLTensorPythonFunction", "ExternalSource", "PythonFunction")
    classes[""] += [f"from stoker._classes import {name} as {name}\n" for name in by_hand]
    return _modules("fn", _HEAD, functions) | _modules("ops", _HEAD + "from stoker._classes import Operator\n", classes)


def main(package: str) -> None:
    for name, text in stubs().items():
        path = Path(package) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1])
