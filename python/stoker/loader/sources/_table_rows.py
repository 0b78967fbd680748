# SPDX-License-Identifier: Apache-2.0
"""The rows of a table in parts, for `stoker pack`: the row groups of Parquet files, or the record batches of a folder that `datasets` saved."""

from __future__ import annotations

import functools
import json
import os
import struct
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from stoker import _files
from stoker._files import without_signature
from stoker._storage import Storage
from stoker.errors import CorruptError, InvalidArgumentError, ReadError
from stoker.loader.sources._table import partitions_of, with_partitions
from stoker.loader.sources._table_features import features_of, other_classes
from stoker.loader.sources._table_files import find, parquet, read_footers, read_group
from stoker.loader.sources._table_folders import SPLITS, STATE, is_saved, tables_of

_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3  # kinds of messages of an Arrow stream
_END = b"\xff\xff\xff\xff\0\0\0\0"  # the end of an Arrow stream; pyarrow does not require it, but files of `datasets` have it


@dataclass
class Part:
    """Successive rows of a table. read(columns): returns them as a pyarrow.Table. where: the file and its row group or record batch without a closing bracket,
    as "a.parquet[row group 3", because messages append ", row 5]"."""

    rows: int
    where: str
    read: Callable[[Sequence[str]], Any]


@dataclass
class Rows:
    """An opened table. Its rows are those of `parts`, one after the other; parts without rows are left out."""

    parts: list[Part]
    schema: Any  # pyarrow.Schema
    features: dict[str, Any]  # what `datasets` wrote about the columns
    files: list[str]
    modes: dict[
        str, tuple[str, str]
    ]  # by column of images: the mode of Pillow to which `datasets` converts them, and the first file that says so
    facts: list[Any]  # for each file, a list of its name and of values that change if the file is replaced; all can be written as JSON


def rows_of(sources: Sequence[str], storage: Storage, named: Collection[str] = ()) -> Rows:
    """Opens Parquet files, folders of these, or one folder that `datasets` saved. named: columns that the user named. If a partition (a folder "name=value")
    has the same value in all files, it becomes a column only if the user named it. Raises InvalidArgumentError for other sources."""
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


def _alike(files: Sequence[tuple[str, Any]]) -> None:
    """Raises InvalidArgumentError unless all files have the columns of the first one, with their types and classes. files: names and schemas."""
    for name, schema in files[1:]:
        _has_columns(name, schema, *files[0])
    differs = other_classes(files, files[0][1].names if files else ())
    if differs is not None:
        raise InvalidArgumentError(f"{differs}: pack the two kinds of files separately")


def _modes(files: Sequence[tuple[str, Any]]) -> dict[str, tuple[str, str]]:
    """Returns Rows.modes. Leaves out RGB, as which a Loader decodes images anyway. files: names and schemas."""
    found: dict[str, tuple[str, str]] = {}
    seen: set[bytes] = set()
    for name, schema in files:
        written = (schema.metadata or {}).get(b"huggingface", b"")
        if b'"mode"' not in written or written in seen:
            continue
        seen.add(written)
        for column, feature in features_of(schema).items():
            if feature.get("_type") == "Image" and feature.get("mode") not in (None, "RGB"):
                found.setdefault(column, (str(feature["mode"]), name))
    return found


def _has_columns(name: str, schema: Any, first: str, wanted: Any) -> None:
    """Raises InvalidArgumentError unless file `name` has exactly the columns `wanted` of file `first`, with their types. schema: the schema of file `name`."""
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
    schemas = [(f.shown, f.schema) for f in files]
    _alike(schemas)
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
        Part(f.footer.row_group(g).num_rows, f"{f.shown}[row group {g}", functools.partial(read, f, g))
        for f in files
        for g in range(f.footer.num_row_groups)
    ]
    facts = [[without_signature(f.name), *map(str, f.mark[:2])] for f in files]
    return Rows([p for p in parts if p.rows], schema, features_of(files[0].schema), [f.shown for f in files], _modes(schemas), facts)


def _saved(folder: str) -> Rows:
    """Opens a data set that `datasets` saved as Arrow streams. Raises InvalidArgumentError for a folder of several data sets."""
    import pyarrow as pa

    if not os.path.isfile(os.path.join(folder, STATE)):
        splits = _json(os.path.join(folder, SPLITS)).get("splits")
        first = str(splits[0]) if isinstance(splits, list) and splits else "train"
        raise InvalidArgumentError(f"{folder}: it holds several data sets: pack each one, as {os.path.join(folder, first)}")
    state = _json(os.path.join(folder, STATE))
    if state.get("_indices_data_files"):
        raise InvalidArgumentError(f"{folder}: its rows are chosen by a list of indices: load it, and save dataset.flatten_indices()")
    names = [os.path.join(folder, name) for name in _file_names(state, os.path.join(folder, STATE))]
    parts: list[Part] = []
    facts: list[Any] = []
    schemas: list[tuple[str, Any]] = []
    for name in names:
        stream = _Stream(name)
        schemas.append((name, stream.schema))
        parts += [Part(rows, f"{name}[record batch {k}", functools.partial(stream.read, k)) for k, (rows, _) in enumerate(stream.batches)]
        facts.append([name, *stream.mark[:2]])
    if not schemas:
        raise InvalidArgumentError(f"{folder}: the data set has no files")
    _alike(schemas)
    schema = schemas[0][1]
    shown = state.get("_format_columns")
    if (
        isinstance(shown, list) and shown and not state.get("_output_all_columns")
    ):  # with_format(columns=...) was in effect when the data set was saved
        schema = pa.schema([schema.field(n) for n in schema.names if n in shown], schema.metadata)
    return Rows([p for p in parts if p.rows], schema, features_of(schema), names, _modes(schemas), facts)


def _json(path: str) -> dict[str, Any]:
    try:
        found = json.loads(_files.read_text(path))
    except (ValueError, RecursionError) as e:
        raise CorruptError(f"{path}: {e}: it is damaged") from e
    return found if isinstance(found, dict) else {}


def _file_names(state: dict[str, Any], path: str) -> list[str]:
    """Returns the names of the files that a state.json at `path` lists. Raises CorruptError if they are not names of files in its folder."""
    try:
        names = [f["filename"] for f in state["_data_files"]]
    except (KeyError, TypeError):
        raise CorruptError(f"{path}: it does not name the files of the data set: it is damaged") from None
    for name in names:
        if not isinstance(name, str) or "\0" in name or name in ("", ".", "..") or os.path.basename(name) != name:
            raise CorruptError(f"{path}: it lists {name!r:.100}, which is no name of a file in this folder: it is damaged")
    return names


class _Stream:
    """A file with an Arrow stream. Its batches are read when they are needed. The file is not mapped into memory: if another program cuts a mapped file, the
    process ends by SIGBUS.

    batches: for each record batch, its number of rows and the (offset, size) of all messages that it needs: the schema, earlier dictionaries, and itself. mark:
    size, time and inode of the file, which differ if it is replaced."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.batches: list[tuple[int, list[tuple[int, int]]]] = []
        before: list[tuple[int, int]] = []
        with _files.open_binary(name) as file:
            self.mark = _mark_of(file)
            size, at = self.mark[0], 0
            while (head := _at(file, at, len(_END))) != _END:
                length = int.from_bytes(head[4:], "little")
                if head[:4] != _END[:4] or at + len(head) + length > size:
                    raise CorruptError(f"{name}: its stream has no end: it is damaged or cut short")
                try:
                    kind, rows, body = _facts_of_message(_at(file, at + len(head), length))
                except (struct.error, IndexError):
                    raise CorruptError(f"{name}: the message at byte {at} of its stream is damaged") from None
                place = (at, len(head) + length + body)
                at += place[1]
                if rows < 0 or body < 0 or at > size:
                    raise CorruptError(f"{name}: its stream ends before byte {at}: it is damaged or cut short")
                if kind not in ((_DICTIONARY, _BATCH) if before else (_SCHEMA,)):
                    raise CorruptError(f"{name}: the message before byte {at} of its stream is of kind {kind}: it is damaged")
                if kind == _BATCH:
                    self.batches.append((rows, [*before, place]))
                else:
                    before.append(place)
            if len(before) != (len(self.batches[-1][1]) - 1 if self.batches else 1):
                raise CorruptError(f"{name}: no batch of rows follows the last message of its stream: it is damaged")
            self.schema = self._opened(file, before[:1], "").schema

    def read(self, batch: int, columns: Sequence[str]) -> Any:
        """Returns columns of a record batch as a pyarrow.Table. Raises ReadError if the file was replaced, and CorruptError if it is damaged, also if values
        exceed their buffers: Arrow would read past the end."""
        import pyarrow as pa

        rows, places = self.batches[batch]
        detail = f"[record batch {batch}]"
        with _files.open_binary(self.name) as file:
            if _mark_of(file) != self.mark:
                raise ReadError(f"{self.name}: the file was replaced while it was packed: start the command again")
            reader = self._opened(file, places, detail)
            try:
                made = pa.Table.from_batches([reader.read_next_batch()]).select(list(columns))
                made.validate(full=True)
            except MemoryError:  # ArrowMemoryError is an ArrowException as well
                raise
            except (pa.ArrowException, KeyError, OSError, StopIteration) as e:
                raise CorruptError(f"{self.name}{detail}: {e}: the file is damaged") from e
        if made.num_rows != rows:
            raise CorruptError(f"{self.name}{detail}: it has {made.num_rows} rows, and its head says {rows}: the file is damaged")
        return made

    def _opened(self, file: BinaryIO, places: Sequence[tuple[int, int]], detail: str) -> Any:
        """Opens a stream that consists of the messages at these (offset, size). detail: the part of the file, for messages. Raises ReadError if the file is
        shorter now, and CorruptError if the stream is damaged."""
        import pyarrow as pa

        messages = [_at(file, *place) for place in places]
        if [len(m) for m in messages] != [size for _, size in places]:
            raise ReadError(f"{self.name}{detail}: the file was cut while it was packed")
        try:
            return pa.ipc.open_stream(b"".join([*messages, _END]), options=pa.ipc.IpcReadOptions(use_threads=False))
        except MemoryError:
            raise
        except (pa.ArrowException, OSError) as e:
            raise CorruptError(f"{self.name}{detail}: {e}: the file is damaged") from e


def _mark_of(file: BinaryIO) -> tuple[int, int, int]:
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns, status.st_ino


def _at(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)


def _facts_of_message(data: bytes) -> tuple[int, int, int]:
    """Returns the kind of a message of an Arrow stream, the number of rows of a record batch (else 0), and the size in bytes of its body. A message is a
    FlatBuffers table (Message.fbs of Arrow's format). Raises struct.error or IndexError if it is damaged; pyarrow checks it again when it reads the body."""

    def field(table: int, number: int, form: str) -> tuple[int, int]:
        """Returns the offset and the value of a table's field; (0, 0) if the table does not have it."""
        names = table - struct.unpack_from("<i", data, table)[0]
        end = struct.unpack_from("<H", data, names)[0]
        at = struct.unpack_from("<H", data, names + 4 + 2 * number)[0] if 4 + 2 * number < end else 0
        return (table + at, struct.unpack_from(form, data, table + at)[0]) if at else (0, 0)

    message = struct.unpack_from("<I", data)[0]
    kind = field(message, 1, "<B")[1]
    where, offset = field(message, 2, "<I")
    rows = field(where + offset, 0, "<q")[1] if kind == _BATCH else 0
    return kind, rows, field(message, 3, "<q")[1]
