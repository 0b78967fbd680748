# SPDX-License-Identifier: Apache-2.0
"""The rows of a table in parts, for `stoker pack`: the row groups of Parquet files, or the record batches of a folder that `datasets` saved."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from stoker import _files
from stoker._storage import Storage
from stoker.errors import CorruptError, InvalidArgumentError
from stoker.loader._table import features_of, partitions_of, with_partitions
from stoker.loader._table_files import find, parquet, read_footers, read_group, tables_of

_STATE, _SPLITS = "state.json", "dataset_dict.json"  # files that `datasets` writes into the folder of a data set, and of its splits


@dataclass
class Part:
    """Some successive rows. read(columns): returns them as a pyarrow.Table. where: the file and its row group or record batch, as "a.parquet[row group 3"; a
    message appends ", row 5]"."""

    rows: int
    where: str
    read: Callable[[Sequence[str]], Any]


@dataclass
class Rows:
    """A table. features: what `datasets` wrote about its columns. facts: values that differ if a file of the table is replaced; JSON holds them."""

    parts: list[Part]
    schema: Any  # pyarrow.Schema
    features: dict[str, Any]
    files: list[str]
    facts: list[Any]


def is_saved(folder: str) -> bool:
    """Returns whether `datasets` saved the folder, by save_to_disk."""
    return any(os.path.isfile(os.path.join(folder, name)) for name in (_STATE, _SPLITS))


def rows_of(sources: Sequence[str], storage: Storage, named: Collection[str] = ()) -> Rows:
    """Opens Parquet files, folders of them, or one folder that `datasets` saved. named: columns that the user named. A partition (a folder "name=value") that
    has the same value in all files becomes a column only if the user named it."""
    parquet()
    if len(sources) == 1 and os.path.isdir(sources[0]) and is_saved(sources[0]):
        return _saved(sources[0])
    names: list[str] = []
    for source in sources:
        found = tables_of(source)
        if found is None:
            raise InvalidArgumentError(f"{source}: it is no Parquet file, and no folder of Parquet files; name all sources of one kind")
        names += found
    return _parquet(names, storage, named)


def _alike(name: str, schema: Any, first: str, wanted: Any) -> None:
    """Raises an error unless the file `name`, whose schema is `schema`, has all columns that are wanted of the file `first`, with the same types."""
    for field in wanted:
        at = schema.get_field_index(field.name)
        if at < 0:
            raise InvalidArgumentError(
                f"{name}: it has no column '{field.name}', which {first} has: pack the two kinds of files separately"
            )
        if schema.field(at).type != field.type:
            raise InvalidArgumentError(
                f"{name}: the column '{field.name}' holds {schema.field(at).type}, and in {first} {field.type}: pack the two kinds of files separately"
            )
    more = [n for n in schema.names if n not in wanted.names]
    if more:
        raise InvalidArgumentError(f"{name}: it has a column '{more[0]}', which {first} lacks: pack the two kinds of files separately")


def _parquet(patterns: Sequence[str], storage: Storage, named: Collection[str]) -> Rows:
    files = read_footers(find(patterns, storage), storage)
    for f in files[1:]:
        _alike(f.name, f.schema, files[0].name, files[0].schema)
    partitions = {n: values for n, values in partitions_of(files).items() if n in named or len(set(values.values())) > 1}

    def read(file: Any, group: int, columns: Sequence[str]) -> Any:
        import pyarrow as pa

        inside = [c for c in columns if c not in partitions]
        table = read_group(file, group, inside, storage)
        for name in columns:
            if name in partitions:
                value = partitions[name][file.name]
                type = schema.field(name).type
                made = pa.nulls(table.num_rows, type) if value is None else pa.repeat(pa.scalar(value, type), table.num_rows)
                table = table.append_column(name, made)
        return table

    schema = with_partitions(files[0].schema, partitions)
    parts = [
        Part(f.footer.row_group(g).num_rows, f"{f.name}[row group {g}", functools.partial(read, f, g))
        for f in files
        for g in range(f.footer.num_row_groups)
    ]
    facts = [[f.name, *map(str, f.mark[:2])] for f in files]
    return Rows([p for p in parts if p.rows], schema, features_of(files[0].schema), [f.name for f in files], facts)


def _saved(folder: str) -> Rows:
    """Opens a folder that `datasets` saved: files of Arrow streams, which are mapped into memory."""
    import pyarrow as pa

    if not os.path.isfile(os.path.join(folder, _STATE)):
        splits = _json(os.path.join(folder, _SPLITS)).get("splits") or []
        raise InvalidArgumentError(
            f"{folder}: it holds several data sets: pack each one, as {os.path.join(folder, str((splits or ['train'])[0]))}"
        )
    state = _json(os.path.join(folder, _STATE))
    if state.get("_indices_data_files"):
        raise InvalidArgumentError(f"{folder}: its rows are chosen by a list of indices: load it, and save dataset.flatten_indices()")
    try:
        names = [os.path.join(folder, f["filename"]) for f in state["_data_files"]]
    except (KeyError, TypeError):
        raise CorruptError(f"{os.path.join(folder, _STATE)}: it does not name the files of the data set: it is damaged") from None
    parts: list[Part] = []
    facts: list[Any] = []
    schema = None
    for name in names:
        batches, found = _batches(name)
        if schema is None:
            schema = found
        else:
            _alike(name, found, names[0], schema)
        for k, batch in enumerate(batches):
            parts.append(Part(batch.num_rows, f"{name}[record batch {k}", functools.partial(_columns_of, pa.Table.from_batches([batch]))))
        status = os.stat(name)
        facts.append([name, status.st_size, status.st_mtime_ns])
    if schema is None:
        raise InvalidArgumentError(f"{folder}: the data set has no files")
    shown = state.get("_format_columns")
    if shown:  # the data set was saved with_format(columns=...)
        schema = pa.schema([schema.field(n) for n in schema.names if n in shown], schema.metadata)
    return Rows([p for p in parts if p.rows], schema, features_of(schema), names, facts)


def _columns_of(table: Any, columns: Sequence[str]) -> Any:
    return table.select(list(columns))


def _json(path: str) -> dict[str, Any]:
    try:
        found = json.loads(_files.read_text(path))
    except ValueError as e:
        raise CorruptError(f"{path}: {e}: it is damaged") from e
    return found if isinstance(found, dict) else {}


def _batches(name: str) -> tuple[list[Any], Any]:
    """Returns the record batches of an Arrow file and its schema."""
    import pyarrow as pa

    _files.open_binary(name).close()  # raises an error for what is no regular file
    try:
        with pa.memory_map(name) as file, pa.ipc.open_stream(file) as reader:
            return list(reader), reader.schema
    except pa.ArrowInvalid as e:
        raise CorruptError(f"{name}: {e}: it is damaged or cut short") from e
