# SPDX-License-Identifier: Apache-2.0
"""Writes the stubs of stoker.fn from the operators' tables: python -m stoker.tools.stubs FOLDER_OF_THE_PACKAGE."""

from __future__ import annotations

import sys
import textwrap
from collections import defaultdict
from pathlib import Path

from stoker import _docs
from stoker._catalog import Arg, Op, aliases, operators

_HEAD = """# SPDX-License-Identifier: Apache-2.0
# Made from the operators' tables by stoker.tools.stubs.

from collections.abc import Sequence
from os import PathLike
from typing import Any

from stoker.data_node import DataNode
from stoker.types import DALIDataType, DALIImageType, DALIInterpType

DTypeLike = DALIDataType | Any
Input = DataNode | Any
"""


def _parameter(arg: Arg) -> str:
    text = f"{arg.name}: {_docs.annotate(arg)}"
    return text if arg.required else text + " = ..."


def _inputs(op: Op) -> list[str]:
    names = _docs.input_names(op)
    if not names:
        return ["*inputs: Input"] if op.max_inputs else ["*"]
    given = [f"{n}: Input" + ("" if i < op.min_inputs else " | None = ...") for i, n in enumerate(names)]
    return [*given, "/", "*"]


def _result(op: Op) -> str:
    return {1: "DataNode"}.get(op.outputs, "list[DataNode]" if op.outputs > 1 else "Any")


def function_stub(op: Op, name: str) -> str:
    """def name(...) -> ...: with its documentation."""
    taken = {a.name for a in op.args}
    arguments = [_parameter(a) for a in sorted(op.args, key=lambda a: not a.required)]
    arguments += [
        f"{n}: {'bool' if n == 'preserve' else 'int' if n.startswith('bytes') else 'str'} | None = ..."
        for n in _docs.COMMON
        if n not in taken
    ]
    lines = ",\n".join("    " + p for p in [*_inputs(op), *arguments])
    doc = textwrap.indent(f'"""{_docs.docstring(op)}\n"""', "    ").replace("\\", "\\\\")
    return f"def {name}(\n{lines},\n) -> {_result(op)}:\n{doc}\n"


def stubs() -> dict[str, str]:
    """File name in fn/ -> text."""
    groups: dict[str, list[str]] = defaultdict(list)
    for op in operators().values():
        if op.hidden or op.name == "external_source":
            continue
        for full in [op.name] + [a for a, n in aliases().items() if n == op.name]:
            group, _, name = full.rpartition(".")
            groups[group].append(function_stub(op, name))
    files = {f"{g.replace('.', '/')}.pyi": _HEAD + "\n" + "\n".join(sorted(texts)) for g, texts in groups.items() if g}
    imports = "".join(f"from stoker.fn import {g} as {g}\n" for g in sorted(g for g in groups if g))
    files["__init__.pyi"] = (
        _HEAD + "\nfrom stoker._external import external_source as external_source\n" + imports + "\n" + "\n".join(sorted(groups[""]))
    )
    return files


def main(package: str) -> None:
    for name, text in stubs().items():
        path = Path(package) / "fn" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1])
