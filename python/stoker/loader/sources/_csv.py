# SPDX-License-Identifier: Apache-2.0
"""Reads tables of paths and targets for Loader.from_csv: CSV files and DataFrames."""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

from stoker import _files
from stoker._signatures import hint_for
from stoker.errors import InvalidArgumentError
from stoker.loader import _fields, _targets
from stoker.loader._kinds import BOXES, MASK, PICTURES, POINTS, Kind, main_of
from stoker.loader.sources._files import FileSource


def from_table(
    table: Any, path: str, targets: str | Sequence[str] | Mapping[str, str] | None, root: str | os.PathLike[str] | None
) -> FileSource:
    """Makes a source from a table whose targets are values, not images.

    table: a CSV file whose first line names the columns, or a DataFrame. path: the column with paths or URIs. root: the folder of relative paths, by default
    that of the CSV file. targets: one or several columns, or a dict from fields to columns; by default all columns but `path`.
    """
    paths, columns, _ = _parts_of(table, path, targets, root)
    return FileSource(None, paths, columns)


def rows_of(
    table: Any,
    path: str,
    targets: str | Sequence[str] | Mapping[str, str] | None,
    root: str | os.PathLike[str] | None,
    kinds: Mapping[str, Kind],
) -> list[dict[str, Any]]:
    """Returns a dict of fields for each sample, for tables in which some columns hold the paths of images, masks or maps. Relative paths are joined to `root`.
    Raises InvalidArgumentError if such a column does not hold paths. kinds: the fields' kinds. The other arguments are those of from_table."""
    main = main_of(dict(kinds))
    paths, columns, root = _parts_of(table, path, targets, root)
    for field, kind in kinds.items():
        if field != main and kind.name in (MASK, *PICTURES):
            values = columns.get(field)
            bad = 0 if values is None else next((row for row, v in enumerate(values, 1) if not isinstance(v, str) or not v), None)
            if values is None or bad is not None:
                where = f": in row {bad} it holds {values[bad - 1]!r}" if values and bad else ""
                raise InvalidArgumentError(
                    f"Loader.from_csv: the field {field!r} is a {kind.name}, so a column of this name has to hold paths{where}"
                )
            columns[field] = [_beneath(root, v) for v in values]
    columns = {main: paths, **{field: values for field, values in columns.items() if field != main}}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def refuse_coordinates(kinds: Mapping[str, Kind]) -> None:
    """Raises InvalidArgumentError for fields that are boxes or points, which no column can hold."""
    for field, kind in kinds.items():
        if kind.name in (BOXES, POINTS):
            raise InvalidArgumentError(
                f"Loader.from_csv: the field {field!r} is of the kind {kind.name}, and a column holds one value for a sample: give a Dataset that returns "
                "the image, and an array with a row for each of them"
            )


def _parts_of(
    table: Any, path: str, targets: str | Sequence[str] | Mapping[str, str] | None, root: str | os.PathLike[str] | None
) -> tuple[list[Any], dict[str, list[Any]], str]:
    """Returns the paths, a dict from fields to values, and the folder to which relative paths are joined. Raises InvalidArgumentError for a missing column,
    an empty table, or a row without a path. The arguments are those of from_table."""
    if isinstance(table, (str, os.PathLike)):
        name, columns = os.fspath(table), _read(os.fspath(table))
        root = os.path.dirname(name) if root is None else root
    elif hasattr(table, "columns") and hasattr(table, "__getitem__"):
        name, path, columns = "the table", str(path), _of_frame(table)
    else:
        raise InvalidArgumentError(f"Loader.from_csv: the table is a path or a DataFrame, not {type(table).__name__}")
    wanted = _columns_of_fields([c for c in columns if c != path] if targets is None else targets)
    for column in (path, *wanted.values()):
        if column not in columns:
            single = next(iter(columns)) if isinstance(table, (str, os.PathLike)) and len(columns) == 1 else ""
            for other in "| ":  # perhaps the file separates its columns by one of these, and not by commas or tabs
                value = str(columns[single][0]) if single and columns[single] else ""
                if single and column in single.split(other) and value.count(other) == single.count(other):
                    raise _of_separator(name, other)
            there = (
                f"its first line names {', '.join(columns)}" if isinstance(table, (str, os.PathLike)) else f"it has {', '.join(columns)}"
            )
            hint = hint_for(column, columns, there)
            which = ": path= names the column of paths" if column == path else ""
            raise InvalidArgumentError(f"Loader.from_csv: {name} has no column {column!r}; {hint}{which}")
    _check_names(name, wanted)
    if not columns[path]:
        raise InvalidArgumentError(f"Loader.from_csv: {name} has no rows")
    for row, value in enumerate(columns[path], 1):
        if value == "" or not isinstance(value, (str, os.PathLike)):
            raise InvalidArgumentError(f"Loader.from_csv: {name}: row {row} has no path: {path!r} is {value!r}")
        if "\0" in os.fsdecode(value):
            raise InvalidArgumentError(f"Loader.from_csv: {name}: row {row}: the path {value!r} holds a zero byte, which no path may")
    root = os.fspath(root or "")
    fields = {field: _typed(name, column, columns[column]) for field, column in wanted.items()}
    return [_beneath(root, str(p)) for p in columns[path]], fields, root


def _beneath(root: str, path: str) -> str:
    """Joins a relative path to root. Returns absolute paths and URIs unchanged."""
    return path if "://" in path else os.path.join(root, path)


def _of_frame(table: Any) -> dict[str, list[Any]]:
    """Returns the columns of a table of pandas, polars or pyarrow."""
    columns = getattr(table, "column_names", table.columns)  # in pyarrow, `columns` are not the names
    names = [str(c) for c in columns]
    if len(set(names)) != len(names):
        raise InvalidArgumentError(f"Loader.from_csv: the table has several columns of one name: {', '.join(names)}")
    found = {name: table[c] for name, c in zip(names, columns, strict=True)}
    return {name: next(getattr(c, m) for m in ("tolist", "to_list", "to_pylist") if hasattr(c, m))() for name, c in found.items()}


def _columns_of_fields(targets: str | Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """Returns a dict from fields to columns. If the user gave column names only, a field has its column's name. If that is not a valid field name, each run of
    characters other than letters and digits becomes _: the column "Patient Age" becomes Patient_Age. Raises InvalidArgumentError if two columns get the same
    field."""
    if isinstance(targets, Mapping):
        return {str(field): str(column) for field, column in targets.items()}
    fields: dict[str, str] = {}
    for column in [targets] if isinstance(targets, str) else targets:
        field = column if _fields.is_name(column) else re.sub(r"\W+", "_", column).strip("_")
        field = field if _fields.is_name(field) else column
        if field in fields and fields[field] != column:
            raise InvalidArgumentError(
                f"Loader.from_csv: the columns {fields[field]!r} and {column!r} would both be the field {field!r}: give each field a name of its own, as "
                f"targets={{'first': {fields[field]!r}, 'second': {column!r}}}"
            )
        fields[field] = column
    return fields


def _check_names(name: str, wanted: Mapping[str, str]) -> None:
    """Raises InvalidArgumentError unless all fields have possible names. name: the table's name in messages."""
    for field, column in wanted.items():
        if field in ("image", *_fields.FROM_SAMPLES):
            raise InvalidArgumentError(
                f"Loader.from_csv: {name} has a column {column!r}, and a batch has a field of this name that means another thing: rename the column, "
                "or name the targets that you want, targets={'my_name': column}"
            )
        if not _fields.is_name(field):
            index = " (as the index is, which pandas writes without index=False)" if column == "" else ""
            raise InvalidArgumentError(
                f"Loader.from_csv: {field!r}{index} cannot be the name of a field: rename it, or name the targets that you want: targets={{'my_name': "
                f"{column!r}}}"
            )


def _read(path: str) -> dict[str, list[str]]:
    try:
        return _read_text(path)
    except UnicodeDecodeError as e:
        if _files.read_bytes(path).startswith(_COMPRESSED):
            raise InvalidArgumentError(
                f"Loader.from_csv: {path} is compressed: decompress it, or give the table that pandas.read_csv({path!r}) reads"
            ) from None
        raise InvalidArgumentError(
            f"Loader.from_csv: {path} is no text in UTF-8 ({e}): give the table that pandas.read_csv({path!r}, encoding=...) reads"
        ) from None


def _rows(file: TextIO, path: str, delimiter: str, strict: bool) -> Iterator[tuple[int, list[str]]]:
    """Yields (line number, values) for each row that is not empty; for a row of several lines, the number of the last one. Raises errors of the module csv with
    the file and the line in their messages, except the error about a letter after a closing quote, which _read_text handles."""
    rows = csv.reader(file, delimiter=delimiter, strict=strict)
    while True:
        try:
            row = next(rows, None)
        except csv.Error as e:
            if "expected after" in str(e):
                raise
            raise InvalidArgumentError(
                f"Loader.from_csv: {path}: line {rows.line_num}: {e}: is a quote left open? If the file is right, give the table that "
                f"pandas.read_csv({path!r}) reads"
            ) from None
        if row is None:
            return
        if row:
            yield rows.line_num, row


def _read_text(path: str) -> dict[str, list[str]]:
    with io.TextIOWrapper(io.BytesIO(_files.read_bytes(path)), newline="", encoding="utf-8-sig") as f:
        delimiter = "\t" if "\t" in f.readline() else ","
        try:
            return _columns(f, path, delimiter, True)
        except csv.Error:  # a letter after a closing quote, which pandas reads too. A quote that is never closed is an error in both modes
            return _columns(f, path, delimiter, False)


def _columns(file: TextIO, path: str, delimiter: str, strict: bool) -> dict[str, list[str]]:
    file.seek(0)
    rows = _rows(file, path, delimiter, strict)
    _, names = next(rows, (0, []))
    twice = next((name for name in names if names.count(name) > 1), None)
    if not names or twice is not None:
        which = "" if twice is None else f", and it has {twice!r} {names.count(twice)} times"
        raise InvalidArgumentError(f"Loader.from_csv: {path}: its first line names the columns, each once{which}")
    if len(names) == 1 and ";" in names[0]:
        raise _of_separator(path, ";")
    columns: dict[str, list[str]] = {name: [] for name in names}
    for line, row in rows:
        if len(row) != len(names):
            raise InvalidArgumentError(f"Loader.from_csv: {path}: line {line} has {len(row)} values for {len(names)} columns")
        for name, value in zip(names, row, strict=True):
            columns[name].append(value)
    return columns


def _of_separator(path: str, separator: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"Loader.from_csv: {path} has {separator!r} between its columns, and commas or tabs are read: give the table that pandas.read_csv({path!r}, "
        f"sep={separator!r}) reads"
    )


def _typed(name: str, column: str, values: list[Any]) -> list[Any]:
    """Returns the values of a column in one type. Texts become whole numbers if possible, else floats, else strings; those in _TRUTH become 1 and 0. Returns a
    column without texts, as in a DataFrame, unchanged. Raises InvalidArgumentError for a missing number, which may be one of the texts in _MISSING, and for
    other mixtures of types."""
    if not any(isinstance(v, str) for v in values):
        _check_missing(name, column, values)
        return _checked(name, column, values)
    if all(v in _TRUTH for v in values):
        return [_TRUTH[v] for v in values]
    for kind in (int, float):
        try:
            numbers = [kind(_plain(v)) for v in values]
        except (TypeError, ValueError):
            continue
        _check_missing(name, column, numbers)
        for row, (text, number) in enumerate(zip(values, numbers, strict=True), 1):
            if kind is float and math.isinf(number) and "inf" not in str(text).lower():
                raise InvalidArgumentError(
                    f"Loader.from_csv: {name}: row {row}: {column!r} is {text}, which no float holds: scale the column"
                )
        return _checked(name, column, numbers)
    if not all(isinstance(v, str) for v in values):
        raise InvalidArgumentError(f"Loader.from_csv: {name}: the column {column!r} holds strings and other things")
    if "" in values and any(_is_number(v) for v in values):
        raise InvalidArgumentError(f"Loader.from_csv: {name}: row {values.index('') + 1} has no value for {column!r}")
    present = [v for v in values if v not in _MISSING]
    if 0 < len(present) < len(values) and (all(v in _TRUTH for v in present) or all(_is_number(v) and "_" not in v for v in present)):
        row, text = next((row, v) for row, v in enumerate(values, 1) if v in _MISSING)
        held = f": it holds {text!r}" if text else ""
        raise InvalidArgumentError(f"Loader.from_csv: {name}: row {row} has no value for {column!r}{held}")
    return values


# The first bytes of files of gzip, zip, xz, bzip2 and Zstandard.
_COMPRESSED = (b"\x1f\x8b", b"PK\x03\x04", b"\xfd7zXZ", b"BZh", b"\x28\xb5\x2f\xfd")
# The texts that pandas reads as bools, and the numbers that they become in a batch.
_TRUTH = {"True": 1, "TRUE": 1, "true": 1, "False": 0, "FALSE": 0, "false": 0}

# The texts that pandas reads as missing values, and that are no numbers in Python.
_MISSING = {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL", "None", "n/a", "null"}


def _plain(value: Any) -> Any:
    """Returns the value. Raises ValueError for a text with an underscore, such as 1_000, which Python would read as a number."""
    if isinstance(value, str) and "_" in value:
        raise ValueError(value)
    return value


def _checked(name: str, column: str, values: list[Any]) -> list[Any]:
    try:
        _targets.table(values)
    except InvalidArgumentError as e:
        raise InvalidArgumentError(f"Loader.from_csv: {name}: the column {column!r}: {e}") from None
    return values


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _check_missing(name: str, column: str, values: list[Any]) -> None:
    for row, value in enumerate(values, 1):
        if value is None or str(value) in ("nan", "NaT", "<NA>"):
            raise InvalidArgumentError(f"Loader.from_csv: {name}: row {row} has no value for {column!r}")
