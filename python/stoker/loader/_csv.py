# SPDX-License-Identifier: Apache-2.0
"""Tables of paths and targets: CSV files and DataFrames."""

from __future__ import annotations

import csv
import keyword
import os
from collections.abc import Sequence
from typing import Any

from stoker.errors import InvalidArgumentError
from stoker.loader._sources import FileSource


def from_table(table: Any, path: str, targets: str | Sequence[str] | None, root: str | os.PathLike[str] | None) -> FileSource:
    """table: a CSV file with a line of names, or a DataFrame. path: the column of paths, which begin at `root`, by default the CSV file's folder.
    targets: one column or several, by default all others."""
    if isinstance(table, (str, os.PathLike)):
        name, columns = os.fspath(table), _read(os.fspath(table))
        root = os.path.dirname(name) if root is None else root
    elif hasattr(table, "columns") and hasattr(table, "__getitem__"):
        name, columns = "the table", {str(c): table[c].tolist() for c in table.columns}
    else:
        raise InvalidArgumentError(f"Loader.from_csv: the table is a path or a DataFrame, not {type(table).__name__}")
    wanted = [c for c in columns if c != path] if targets is None else [targets] if isinstance(targets, str) else list(targets)
    for column in (path, *wanted):
        if column not in columns:
            import difflib

            close = difflib.get_close_matches(column, columns, 1, 0.6)
            raise InvalidArgumentError(
                f"Loader.from_csv: {name} has no column {column!r}"
                + (f"; did you mean {close[0]!r}?" if close else f"; it has {', '.join(columns)}")
            )
    for column in wanted:
        if not column.isidentifier() or keyword.iskeyword(column) or column.startswith("_"):
            raise InvalidArgumentError(f"Loader.from_csv: the column {column!r} cannot be the name of a field: rename it")
    if not columns[path]:
        raise InvalidArgumentError(f"Loader.from_csv: {name} has no rows")
    return FileSource(
        None,
        [os.path.join(root or "", str(p)) for p in columns[path]],
        {column: _typed(name, column, columns[column]) for column in wanted} or None,
    )


def _read(path: str) -> dict[str, list[str]]:
    with open(path, newline="", encoding="utf-8-sig") as f:
        tabs = "\t" in f.readline()
        f.seek(0)
        rows = csv.reader(f, delimiter="\t" if tabs else ",")
        names = next(rows, [])
        if not names or len(set(names)) != len(names):
            raise InvalidArgumentError(f"Loader.from_csv: {path}: its first line names the columns, each once")
        columns: dict[str, list[str]] = {name: [] for name in names}
        for row in rows:
            if not row:
                continue
            if len(row) != len(names):
                raise InvalidArgumentError(f"Loader.from_csv: {path}: line {rows.line_num} has {len(row)} values for {len(names)} columns")
            for name, value in zip(names, row, strict=True):
                columns[name].append(value)
    return columns


def _typed(name: str, column: str, values: list[Any]) -> list[Any]:
    """All rows in one type: whole numbers if all are such, else numbers, else strings."""
    if not any(isinstance(v, str) for v in values):
        _check_missing(name, column, values)
        return values
    for kind in (int, float):
        try:
            numbers = [kind(v) for v in values]
        except (TypeError, ValueError):
            continue
        _check_missing(name, column, numbers)
        return numbers
    if not all(isinstance(v, str) for v in values):
        raise InvalidArgumentError(f"Loader.from_csv: {name}: the column {column!r} holds strings and other things")
    if "" in values and any(_is_number(v) for v in values):
        raise InvalidArgumentError(f"Loader.from_csv: {name}: row {values.index('') + 1} has no value for {column!r}")
    return values


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _check_missing(name: str, column: str, values: list[Any]) -> None:
    for row, value in enumerate(values, 1):
        if value is None or value != value:  # NaN does not equal itself
            raise InvalidArgumentError(f"Loader.from_csv: {name}: row {row} has no value for {column!r}")
