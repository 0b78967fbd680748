# SPDX-License-Identifier: Apache-2.0
"""Converts rows of tables to the members of tars, for `stoker pack`: which column becomes which file, and the bytes of each value."""

from __future__ import annotations

import functools
import io
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stoker import _files
from stoker._storage import Storage
from stoker.errors import InvalidArgumentError, ReadError, StokerError
from stoker.loader.sources import _table_columns as columns
from stoker.loader.sources._table_columns import Column, column_of, is_text, looks_like_images, may_hold_files, plain_type, values_of
from stoker.loader.sources._table_rows import Rows

Bytes = bytes | memoryview
_LONGEST = 80  # the most bytes of an ending, so that a member's name fits into the 100 bytes of a tar's header

# (offset, bytes, ending): a file that has these bytes at this offset gets this ending.
_SIGNS: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\xff\xd8\xff", "jpg"),
    (0, b"\x89PNG\r\n\x1a\n", "png"),
    (8, b"WEBP", "webp"),
    (0, b"II*\0", "tif"),
    (0, b"MM\0*", "tif"),
    (0, b"BM", "bmp"),
    (0, b"GIF8", "gif"),
    (4, b"ftypavif", "avif"),
    (4, b"ftypheic", "heic"),
    (4, b"ftypM4A", "m4a"),
    (4, b"ftyp", "mp4"),
    (0, b"\x1aE\xdf\xa3", "mkv"),
    (8, b"WAVE", "wav"),
    (0, b"fLaC", "flac"),
    (28, b"OpusHead", "opus"),
    (0, b"OggS", "ogg"),
    (0, b"ID3", "mp3"),
    (0, b"\xff\xfb", "mp3"),
    (0, b"\xff\xf3", "mp3"),
)
_PNM = re.compile(rb"P([1-6])\s")
_PNM_ENDINGS = {b"1": "pbm", b"4": "pbm", b"2": "pgm", b"5": "pgm", b"3": "ppm", b"6": "ppm"}


_NOT_FILES = ("cls", "txt", "json", "npy")  # endings of members that are no images, sounds or videos


def ending_of(data: Bytes, path: Callable[[], str | None]) -> str | None:
    """Returns the ending for a file from its first bytes, else the ending of its path; None if neither is known. path: a function that returns the path; called
    only if no known format begins with these bytes."""
    head = bytes(data[:40])
    for at, sign, ending in _SIGNS:
        if head[at : at + len(sign)] == sign:
            return ending
    if found := _PNM.match(head):
        return _PNM_ENDINGS[found[1]]
    ending = os.path.splitext(path() or "")[1][1:].lower()
    return ending if len(data) and ending.isascii() and ending.isalnum() and len(ending) <= 5 and ending not in _NOT_FILES else None


@dataclass(frozen=True)
class Member:
    """The file that a column becomes in each sample of a tar."""

    column: Column
    ending: str  # ending of the file's name; in a column of images or sounds that is not the main one, the format's ending follows
    is_main: bool = False  # whether this is the sample's image or sound

    def name(self, data: Bytes, path: Callable[[], str | None]) -> str | None:
        """Returns the ending of one row's file. In columns of images or sounds the ending depends on the row: for an unknown format, None in the main column
        and the member's ending plus ".bin" in others."""
        if self.column.kind != columns.IMAGE:
            return self.ending
        own = ending_of(data, path)
        if self.is_main:
            return own
        return f"{self.ending}.{own or 'bin'}"


@dataclass(frozen=True)
class Plan:
    """Describes the files that each row of a table becomes in a tar."""

    members: list[Member]  # one for each column, the image or sound first
    classes: list[str]  # the label column's class names, by number; [] if the table does not give them

    @property
    def names(self) -> list[str]:
        return [m.column.name for m in self.members]


def plan_of(rows: Rows, image: str | None, label: str | None, wanted: Sequence[str] | None) -> Plan:
    """Chooses a file for each column. image, label: columns that the user named, or None. wanted: the columns to pack besides these; None: all. Raises
    InvalidArgumentError if a column is missing, if the label is the image or sound, if `datasets` converts images to another mode, if a tar cannot hold a
    column's values, and if the files of two columns would have the same name."""
    names = rows.schema.names
    for option, given in (("--image", [image]), ("--label", [label]), ("--columns", wanted or ())):
        for name in given:
            if name is not None and name not in names:
                raise InvalidArgumentError(f"{option}: the table has no column '{name}'; it has {', '.join(names)}")
    main = image if image is not None else _main(rows, wanted)
    label = label if label is not None else _label(rows, wanted, main)
    if label == main:
        raise InvalidArgumentError(f"the column '{main}' is the image or sound, so it cannot be the label: --label names another column")
    chosen = [main, *(n for n in names if n != main and (wanted is None or n in wanted or n == label))]
    _check_modes(rows, chosen, main)
    members = [_member(rows, name, name == main, name == label) for name in chosen]
    used: dict[str, str] = {}
    for m in members[1:]:
        same = used.setdefault(m.ending.lower(), m.column.name)
        if same != m.column.name:
            raise InvalidArgumentError(
                f"the columns '{same}' and '{m.column.name}' would both become files named NUMBER.{m.ending}: rename one, or leave it out by --columns"
            )
    return Plan(members, _class_names(rows, label))


def _check_modes(rows: Rows, names: Sequence[str], main: str) -> None:
    """Raises InvalidArgumentError if `datasets` converts the images of a column to a mode of Pillow. A Loader over the tars would not know of the mode."""
    for name in names:
        if name in rows.modes:
            mode, file = rows.modes[name]
            rest = "" if name == main else ", or leave the column out by --columns"
            raise InvalidArgumentError(
                f"{file}: the column '{name}' has the feature Image(mode={mode!r}), to which `datasets` converts images, and a tar holds the files as they are: "
                f".cast_column('{name}', datasets.Image()) of the data set removes the mode{rest}"
            )


def _main(rows: Rows, wanted: Sequence[str] | None) -> str:
    """Returns the column of images or sounds: "image" or "audio", or the only such column. Raises InvalidArgumentError otherwise. wanted: the columns to pack;
    None: all."""
    types = {n: rows.features.get(n, {}).get("_type") for n in rows.schema.names}
    columns = [n for n in rows.schema.names if wanted is None or n in wanted]
    found = [n for n in columns if types[n] in ("Image", "Audio") or looks_like_images(rows.schema.field(n).type)]
    found = found or [n for n in columns if may_hold_files(rows.schema.field(n).type)]
    for usual in ("image", "audio"):
        if usual in found:
            return usual
    if len(found) == 1:
        return found[0]
    raise InvalidArgumentError(
        f"{rows.files[0]}: {'several columns' if found else 'no column'} of images or sounds ({', '.join(found or columns)}): --image names the one "
        "that gives each "
        "sample its file"
    )


def _label(rows: Rows, wanted: Sequence[str] | None, main: str) -> str | None:
    """Returns the column of labels: the only ClassLabel, else whole numbers in a column called label, labels or cls; None if there is none of these."""
    columns = [n for n in rows.schema.names if n != main and (wanted is None or n in wanted)]
    classes = [n for n in columns if rows.features.get(n, {}).get("_type") == "ClassLabel"]
    if len(classes) == 1:
        return classes[0]
    return next((n for n in ("label", "labels", "cls") if n in columns and _is_whole(rows.schema.field(n).type)), None)


def _is_whole(type: Any) -> bool:
    import pyarrow.types as t

    plain = plain_type(type)
    return bool(t.is_integer(plain) or t.is_boolean(plain))


def _class_names(rows: Rows, label: str | None) -> list[str]:
    given = rows.features.get(label or "", {}).get("names")
    names = [str(n) for n in given] if isinstance(given, list) else []
    for name in names:
        if "\n" in name or "\r" in name:
            raise InvalidArgumentError(
                f"the column '{label}' has a class named {name!r}: classes.txt has a line for each name, so none holds a line's end"
            )
    return names


def _member(rows: Rows, name: str, is_main: bool, is_label: bool) -> Member:
    type = rows.schema.field(name).type
    is_file = is_main or rows.features.get(name, {}).get("_type") in ("Image", "Audio") or looks_like_images(type)
    column = column_of(name, type, is_file)
    if is_main and (column is None or column.kind != columns.IMAGE):
        raise InvalidArgumentError(
            f"the column '{name}' holds {type}: a column of images or sounds holds the bytes of their files, paths, or the struct of both that "
            "`datasets` writes"
        )
    if column is None:
        raise InvalidArgumentError(
            f"the column '{name}' holds {type}, which a tar cannot hold: leave it out by --columns, or convert it to text when the table is written"
        )
    if is_label:
        if not _is_whole(type):
            raise InvalidArgumentError(f"--label: the column '{name}' holds {type}, and a label is a whole number")
        return Member(column, "cls")
    if is_main:
        return Member(column, "", True)
    ending = {columns.TEXT: "txt", columns.BYTES: "bin", columns.ARRAY: "npy", columns.IMAGE: ""}.get(column.kind, "json")
    safe = re.sub(r"[^\w-]", "_", name) or "_"
    whole = safe if not ending or (safe == ending and ending != "bin") else f"{safe}.{ending}"
    if len(whole.encode()) > _LONGEST:
        raise InvalidArgumentError(
            f"the column '{name}' has a name of {len(name)} characters, too long for names in a tar: rename it, or leave it out by --columns"
        )
    if column.kind == columns.ARRAY:
        column = replace(column, dtype=_exact(type))
    return Member(column, whole)


def _exact(type: Any) -> str:
    """Returns NumPy's name for the type of a list's numbers. Unlike in batches, the type is not converted."""
    import numpy as np
    import pyarrow.types as t

    inner = plain_type(type)
    while hasattr(inner, "value_type"):
        inner = plain_type(inner.value_type)
    return f"int{inner.bit_width}" if t.is_temporal(inner) else str(np.dtype(inner.to_pandas_dtype()))


Sample = list[tuple[str, Bytes]]  # the endings and bytes of a row's files


def samples(plan: Plan, table: Any, where: str, first: int, nulls: dict[str, int], storage: Storage) -> Iterator[Sample]:
    """Yields the files of each row from row `first` on. nulls: dict from columns to numbers of nulls, to which this adds. where: how messages begin; a "[" in
    it is closed after the row's number. Raises InvalidArgumentError, with the row and the column, if a tar cannot hold a value."""
    values = [_encoded(m, table.column(m.column.name)) for m in plan.members]
    paths = {m.column.name: _paths(table.column(m.column.name)) for m in plan.members if m.column.kind == columns.IMAGE}
    for row in range(first, table.num_rows):
        sample: Sample = []
        for member, value in zip(plan.members, values, strict=True):
            name = member.column.name
            try:
                data = value(row)
                path = functools.partial(paths[name], row) if name in paths else _no_path
                if isinstance(data, str) and member.column.kind == columns.IMAGE:
                    data, path = _read(data, storage), functools.partial(str, data)
                if data is None and member.is_main:
                    raise ValueError("it is null, and a sample is nothing without its image or sound")
                if data is None:
                    nulls[name] = nulls.get(name, 0) + 1
                    continue
                ending = member.name(data, path)
                if ending is None:
                    raise ValueError(
                        f"it is no image, sound or video of a known format: its {len(data)} bytes begin with {bytes(data[:8])!r}"
                    )
            except (ValueError, OverflowError, OSError, StokerError) as e:
                reason = f"{e.strerror}: {e.filename}" if isinstance(e, OSError) and e.strerror else str(e)
                rest = "" if member.is_main else " (--columns leaves columns out)"
                raise InvalidArgumentError(f"{where}, row {row}], column '{name}': {reason}{rest}") from e
            sample.append((ending, data))
        yield sample


def _read(path: str, storage: Storage) -> Bytes:
    """Reads the file that a row names by its path or URL. Raises an error if its size is unknown or it was replaced meanwhile."""
    if "://" not in path:
        return _files.read_bytes(path)
    core = storage.core()
    _, size, version = core.read(path, 0, 4)
    if size < 0:
        raise ValueError(f"{path}: its size is unknown")
    data, *now = core.read(path, 0, size, size, version)
    if now != [size, version]:
        raise ReadError(f"{path}: it was replaced while it was read")
    return memoryview(data)[:size]


def _paths(chunked: Any) -> Callable[[int], str | None]:
    """Returns a function from a row to its path. The path is None unless the column holds structs with a text `path`."""
    import pyarrow.compute as pc
    import pyarrow.types as t

    if not t.is_struct(chunked.type) or chunked.type.get_field_index("path") < 0 or not is_text(chunked.type.field("path").type):
        return lambda row: None
    paths = pc.struct_field(chunked, "path")
    return lambda row: paths[row].as_py()


def _no_path() -> None:
    """Returns None: the `path` argument of Member.name for values that have no path."""


def _encoded(member: Member, chunked: Any) -> Callable[[int], Any]:
    """Returns a function from a row to the bytes of its file, or to a path for images and sounds; None for nulls."""
    column = member.column
    if column.kind == columns.NUMBER:
        return _numbers(column, chunked, member.ending == "cls")
    value = values_of(column, chunked).at
    if column.kind == columns.ARRAY:
        return lambda row: None if (found := value(row)) is None else _npy(found)
    if column.kind == columns.OBJECT:
        parse = columns.parsing(column.type)
        return lambda row: None if (found := chunked[row].as_py()) is None else _json(parse(found) if parse else found)
    if column.kind == columns.TEXT:
        return lambda row: None if (found := value(row)) is None else found.encode()
    return value


def _numbers(column: Column, chunked: Any, is_label: bool) -> Callable[[int], bytes | None]:
    import pyarrow as pa
    import pyarrow.types as t

    if t.is_temporal(plain_type(column.type)):  # times become whole numbers in the column's unit, as in batches
        chunked = chunked.cast({32: pa.int32(), 64: pa.int64()}[plain_type(column.type).bit_width])
    found = chunked.to_pylist()

    def value(row: int) -> bytes | None:
        if found[row] is None:
            return None
        return b"%d" % found[row] if is_label else _json(found[row])

    return value


def _json(value: Any) -> bytes:
    """Returns a value as JSON. Raises ValueError for NaN and infinity, which JSON does not have."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        bad = value if isinstance(value, float) and not math.isfinite(value) else "nan or infinity"
        raise ValueError(f"it holds {bad}, which JSON cannot hold") from None


def _npy(array: Any) -> bytes:
    import numpy as np

    out = io.BytesIO()
    np.lib.format.write_array(out, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
    return out.getvalue()


def null_notes(plan: Plan, nulls: Mapping[str, int]) -> list[str]:
    """Returns a sentence for each column that had nulls. nulls: as in `samples`."""
    return [
        f"column '{m.column.name}': {nulls[m.column.name]} of the rows have no value, so these samples have no file for it"
        for m in plan.members
        if m.column.name in nulls
    ]
