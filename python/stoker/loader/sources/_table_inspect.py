# SPDX-License-Identifier: Apache-2.0
"""The command `stoker inspect` for Parquet files: prints facts from the footers, and the form of each column in a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker.loader.sources._command import shown, storage_of
from stoker.loader.sources._inspect import count_text, operands, print_facts
from stoker.loader.sources._table import inspect
from stoker.loader.sources._table_folders import is_table, names_tables, tables_of

_BECOMES = {
    "image": "an image",
    "sound": "a sound",
    "bytes": "bytes (uint8)",
    "text": "a list of str",
    "number": "a number",
    "array": "an array",
    "object": "a list of Python objects",
    "nothing": "left out: its type has no form in a batch",
}
# The forms of columns whose values are decoded only if fields= names the column.
_DECODED_IF_NAMED = {
    "image": "an image if fields names it",
    "sound": "a sound if fields names it",
    "bytes": "bytes (uint8), or an image or a sound if fields names it as one",
}


def asked(arguments: Sequence[str]) -> tuple[list[str], dict[str, Any]] | None:
    """Returns the paths and options of `stoker inspect FILE.parquet ...`, or of `stoker inspect FOLDER` if a Loader would read the folder as a table. Returns
    None for other commands. arguments: the arguments after `inspect`."""
    paths, options = operands(arguments)
    tables = is_table(paths[0]) if len(paths) == 1 else paths and all(map(names_tables, paths))
    return (paths, options) if tables else None


def main(paths: Sequence[str], options: dict[str, Any]) -> int:
    """Prints facts about tables, as text or JSON. Returns the exit status, as print_facts does."""
    return print_facts(lambda: inspect(_files(paths), storage_of(options)), _lines, "json" in options)


def _files(paths: Sequence[str]) -> Sequence[str]:
    return (tables_of(paths[0]) or paths) if len(paths) == 1 else paths


def _size(n: int) -> str:
    value, unit = float(n), "B"
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            break
        value /= 1000
    return f"{value:.3g} {unit}"


def _lines(facts: dict[str, Any]) -> list[str]:
    few, many = facts["group_rows"]
    rows = f"{few}" if few == many else f"{few} to {many}"
    files, groups = count_text(facts["files"], "file"), count_text(facts["groups"], "row group")
    of = f"{rows} row" if rows == "1" else f"{rows} rows"
    lines = [f"{count_text(facts['rows'], 'row')} in {files} ({_size(facts['bytes'])}), {groups} of {of}"]
    if not facts["alike"]:
        lines.append("the files differ in their columns, types or classes: a Loader refuses columns that differ")
    names = [shown(c["name"]) for c in facts["columns"]]
    width = max(map(len, names), default=0)
    for name, c in zip(names, facts["columns"], strict=True):
        form = (_DECODED_IF_NAMED if c["decoded_if_named"] else _BECOMES)[c["becomes"]]
        lines.append(f"  {name:{width}}  {_size(c['bytes']):>8}  {shown(c['type'])}: {form}")
    return lines
