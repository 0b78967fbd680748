# SPDX-License-Identifier: Apache-2.0
"""Finds the length of each sound in a table, so that sounds of similar lengths can be put into the same batch."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from stoker._progress import counted
from stoker.errors import InvalidArgumentError
from stoker.loader.sources._sound_lengths import length_of
from stoker.loader.sources._table import Table
from stoker.loader.sources._table_columns import NUMBER, column_of, values_of
from stoker.loader.sources._table_files import read_group

LENGTHS = "duration"  # name of the column that has the lengths, as in NeMo's manifests
_THREADS = 4  # each keeps the sounds of one row group in memory


def durations(table: Table, bad_may_pass: bool) -> list[float]:
    """Returns the length in seconds of each row's sound: from the column `duration` if the first file has one, else from the headers of the sounds, for which
    all sounds are read once. Returns 0 for a row without a positive length, and for sounds for which length_of does. bad_may_pass: as in length_of. Raises
    InvalidArgumentError if `duration` does not hold numbers, or if another file lacks it."""
    named = LENGTHS in table.files[0].schema.names
    at = range(len(table.groups))
    with ThreadPoolExecutor(_THREADS) as pool:
        made = pool.map(lambda group: _of_column(table, group) if named else _of_sounds(table, group, bad_may_pass), at)
        groups = list(counted(made, "bucket_by: row groups whose lengths are read", len(at)))
    return [seconds for group in groups for seconds in group]


def _of_column(table: Table, group: int) -> list[float]:
    file, number = table.groups[group]
    field = file.schema.field(LENGTHS) if LENGTHS in file.schema.names else None
    column = column_of(LENGTHS, field.type, False) if field is not None else None
    if column is None or column.kind != NUMBER or column.dtype == "bool":
        fault = "there is no such column" if field is None else f"it holds {field.type}"
        raise InvalidArgumentError(
            f"{file.shown}: bucket_by reads the lengths from the column '{LENGTHS}', and {fault}: write numbers of seconds into it, or give bucket_by a list "
            "with one key for each sample"
        )
    value = values_of(column, read_group(file, number, [LENGTHS], table.storage).column(LENGTHS)).at
    try:
        made = [0.0 if (seconds := value(row)) is None else float(seconds) for row in range(table.rows[group])]
    except OverflowError as e:
        raise InvalidArgumentError(f"{file.shown}[row group {number}]: bucket_by reads seconds from the column '{LENGTHS}': {e}") from None
    return [seconds if seconds > 0 else 0.0 for seconds in made]  # NaN is not above 0


def _of_sounds(table: Table, group: int, bad_may_pass: bool) -> list[float]:
    file, number = table.groups[group]
    (column,) = (c for c in table.columns if c.name == table.image)
    value = values_of(column, read_group(file, number, [column.name], table.storage).column(column.name)).at

    def length(row: int) -> float:
        sound = value(row)
        if sound is None:
            return 0.0
        named = isinstance(sound, (str, os.PathLike))
        path, data = (sound, None) if named else (None, sound)
        return length_of(path, data, table.storage, bad_may_pass, lambda: table.where(table.starts[group] + row))

    return [length(row) for row in range(table.rows[group])]
