# SPDX-License-Identifier: Apache-2.0
"""Converts columns of Arrow to values of samples. Images are not copied, numbers and lists of numbers become arrays, other nested values JSON."""

from __future__ import annotations

import itertools
import json
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from stoker._arrays import infinite_in
from stoker.errors import InvalidArgumentError

INDEX = 4  # bytes of an index into a dictionary, and of an offset of a text
_WIDTHS = {"bool": 1, "float32": 4, "int64": 8}  # bytes of a value by its type in batches
_PHYSICAL = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 8, "FLOAT": 4, "DOUBLE": 8}  # bytes of a value by its type in Parquet
_JSON = "arrow.json"
# The names of extension types whose values are those of their storage, and of JSON. Old versions of `datasets` called their Array2D arrow.py_extension_type.
_KNOWN = ("arrow.fixed_shape_tensor", "arrow.uuid", "arrow.bool8", _JSON, "arrow.py_extension_type", "pandas.period", "pandas.interval")
_OF_DATASETS = "datasets.features.features.Array"  # begins the names of Array2D and its relatives
IMAGE, BYTES, TEXT, NUMBER, ARRAY, OBJECT = "image", "bytes", "text", "number", "array", "object"


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    type: Any  # pyarrow's type
    kind: str  # one of the constants above
    dtype: str = ""  # element type of this column in a batch; "" unless kind is NUMBER or ARRAY
    shape: tuple[int, ...] = ()  # extents of Arrow's fixed_shape_tensor, which are a row's last extents; () for other types


class NullError(ValueError):
    """Raised for a null in a column for which the user gave no value to replace nulls."""


class InnerNullError(NullError):
    """Raised for a null in a list, which the user's value for nulls of the column does not replace."""


def column_of(name: str, type: Any, is_image: bool) -> Column | None:
    """Returns a Column for a column of this name and type of pyarrow; None if values of the type cannot be in a batch. is_image: whether the column holds
    images if its type allows that."""
    if is_json(type):
        return Column(name, type, OBJECT)
    plain = plain_type(type)
    if is_image and _holds_images(plain):
        return Column(name, type, IMAGE)
    import pyarrow.types as t

    if _is_binary(plain):
        return Column(name, type, BYTES)
    if _is_text(plain):
        return Column(name, type, TEXT)
    if dtype := _dtype(plain):
        return Column(name, type, NUMBER, dtype)
    levels = [type]
    while t.is_list(inner := plain_type(levels[-1])) or t.is_large_list(inner) or t.is_fixed_size_list(inner):
        levels.append(inner.value_type)
    if len(levels) > 1 and (dtype := _dtype(inner)):
        tensor = levels[-2]  # fixed_shape_tensor is a list of numbers with a shape
        if getattr(tensor, "permutation", None) not in (None, [*range(len(getattr(tensor, "shape", ())))]):
            return None  # the values of a tensor lie in memory in another order than its dimensions
        return Column(name, type, ARRAY, dtype, tuple(getattr(tensor, "shape", ())))
    return Column(name, type, OBJECT) if _is_plain_data(plain) else None


def plain_type(type: Any) -> Any:
    """Returns the type of the values themselves, without known extension types, dictionaries and run-end encoding. Other extension types stay, because only
    their own package knows what their values mean."""
    import pyarrow.types as t

    while True:
        if (name := _extension_name(type)) in _KNOWN or name.startswith(_OF_DATASETS):
            type = type.storage_type
        elif t.is_dictionary(type) or t.is_run_end_encoded(type):
            type = type.value_type
        else:
            return type


def _extension_name(type: Any) -> str:
    """Returns the name of an extension type; "" for other types."""
    return getattr(type, "extension_name", "")


def is_json(type: Any) -> bool:
    return _extension_name(type) == _JSON


def _is_binary(type: Any) -> bool:
    import pyarrow.types as t

    return bool(t.is_binary(type) or t.is_large_binary(type) or t.is_fixed_size_binary(type) or t.is_binary_view(type))


def _is_text(type: Any) -> bool:
    import pyarrow.types as t

    return bool(t.is_string(type) or t.is_large_string(type) or t.is_string_view(type))


def _dtype(type: Any) -> str:
    """Returns the name of the type that numbers of an Arrow type get in batches, as in `datasets` with torch's format; "" for other types. Times become whole
    numbers in their unit."""
    import pyarrow.types as t

    if t.is_boolean(type):
        return "bool"
    if t.is_floating(type):
        return "float32"
    return "int64" if t.is_integer(type) or (t.is_temporal(type) and not t.is_interval(type)) else ""


def _is_plain_data(type: Any) -> bool:
    import pyarrow.types as t

    if t.is_struct(type):
        return all(_is_plain_data(plain_type(type.field(k).type)) for k in range(type.num_fields))
    if t.is_list(type) or t.is_large_list(type) or t.is_fixed_size_list(type):
        return _is_plain_data(plain_type(type.value_type))
    return bool(_is_text(type) or t.is_null(type) or t.is_boolean(type) or t.is_integer(type) or t.is_floating(type))


def _holds_images(type: Any) -> bool:
    """Returns whether columns of this type can hold images: as bytes, paths, or a struct with the field "bytes"."""
    import pyarrow.types as t

    return _is_binary(type) or _is_text(type) or (t.is_struct(type) and type.get_field_index("bytes") >= 0)


def has_empty_lists(type: Any) -> bool:
    """Returns whether a type is that of lists of unknown type, as pyarrow writes a column in which all lists are empty."""
    import pyarrow.types as t

    plain = plain_type(type)
    return bool((t.is_list(plain) or t.is_large_list(plain)) and t.is_null(plain.value_type))


def takes_empty_lists(type: Any) -> bool:
    """Returns whether a column of has_empty_lists can be read as one of this type."""
    import pyarrow.types as t

    return bool(t.is_list(type) or t.is_large_list(type))


def looks_like_images(type: Any) -> bool:
    """Returns whether a type is the struct of bytes and path that `datasets` writes for images and sounds."""
    import pyarrow.types as t

    plain = plain_type(type)
    return bool(t.is_struct(plain) and {plain.field(k).name for k in range(plain.num_fields)} == {"bytes", "path"})


def may_hold_files(type: Any) -> bool:
    """Returns whether values of this type can be the bytes of files. Bytes of a fixed length, such as UUIDs, cannot: files differ in length."""
    import pyarrow.types as t

    plain = plain_type(type)
    return _is_binary(plain) and not t.is_fixed_size_binary(plain)


def is_text(type: Any) -> bool:
    return _is_text(plain_type(type))


class Values(NamedTuple):
    """The values of a column's rows."""

    at: Callable[[int], Any]  # returns the value of a row, or None if it is null
    bytes: int  # size of the memory that `at` refers to


def decoded_bytes(column: Column, chunk: Any) -> int:
    """Returns about how many bytes the values of a column chunk take in memory, from pyarrow's metadata of the chunk. The size of its pages says too little: the
    pages hold a number that repeats only once, and small numbers in few bits. Texts and bytes that repeat stay indices in memory, too (see read_group)."""
    pages = max(0, chunk.total_uncompressed_size)
    if column.kind == IMAGE:
        return pages
    width = _WIDTHS.get(column.dtype) or _width(column, chunk)
    return max(pages, chunk.num_values * width)


def _width(column: Column, chunk: Any) -> int:
    """Returns the least bytes that a value of a column of bytes, texts or objects takes in memory."""
    import pyarrow.types as t

    type = plain_type(column.type)
    if t.is_fixed_size_binary(type):
        return int(type.byte_width) + 8  # each value gets an offset of 8 bytes
    return _PHYSICAL.get(chunk.physical_type, INDEX)


def values_of(column: Column, chunked: Any) -> Values:
    """Returns the values of a column. Does not join the chunks, which would take their memory a second time."""
    parts = [_values(column, _without_encoding(part, column)) for part in (chunked.chunks if hasattr(chunked, "chunks") else [chunked])]
    if len(parts) == 1:
        return parts[0]
    starts = list(itertools.accumulate(map(len, chunked.chunks), initial=0))
    functions = [part.at for part in parts]

    def value(row: int) -> Any:
        part = bisect_right(starts, row) - 1
        return functions[part](row - starts[part])

    return Values(value, sum(part.bytes for part in parts))


def _values(column: Column, array: Any) -> Values:
    if column.kind == IMAGE:
        return _images(array)
    if column.kind in (BYTES, TEXT):
        return _buffers(array, column.kind == TEXT)
    if column.kind == NUMBER:
        return _numbers(array, column.dtype)
    if column.kind == ARRAY:
        values = _arrays(array, column.dtype)
        if not column.shape:
            return values
        at, shape = values.at, column.shape
        return values._replace(at=lambda row: None if (value := at(row)) is None else value.reshape(value.shape[:-1] + shape))
    parse = parsing(column.type)
    return Values(lambda row: None if (value := array[row].as_py()) is None else json.dumps(parse(value) if parse else value), array.nbytes)


def parsing(type: Any) -> Callable[[Any], Any] | None:
    """Returns a function that replaces the JSON texts in a value of this type, as pyarrow gives it, by what they hold. Returns None if there are no such texts
    in values of this type. The function raises ValueError for a text that is not JSON."""
    import pyarrow.types as t

    if is_json(type):
        return _parsed
    plain = plain_type(type)
    if t.is_struct(plain):
        fields = {f.name: parse for f in map(plain.field, range(plain.num_fields)) if (parse := parsing(f.type)) is not None}
        if not fields:
            return None
        return lambda value: (
            None if value is None else {name: fields[name](part) if name in fields else part for name, part in value.items()}
        )
    inner = parsing(plain.value_type) if t.is_list(plain) or t.is_large_list(plain) or t.is_fixed_size_list(plain) else None
    return None if inner is None else lambda value: None if value is None else [inner(part) for part in value]


def _parsed(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError) as e:
        raise ValueError(f"it is not JSON: {e}") from None


def _without_encoding(part: Any, column: Column) -> Any:
    """Returns the array without extension types, and without dictionaries unless it holds texts or bytes. Those keep their dictionary, which takes less memory
    if values repeat."""
    plain = plain_type(column.type)
    part = getattr(part, "storage", part)
    if column.kind in (IMAGE, BYTES, TEXT) and _has_dictionary(part):
        return part
    if part.type != plain:
        part = part.dictionary_decode() if hasattr(part, "dictionary_decode") else part.cast(plain)
    return getattr(part, "storage", part)


def _has_dictionary(part: Any) -> bool:
    """Returns whether texts, bytes, or a field of a struct, are indices into a dictionary."""
    import pyarrow.types as t

    if t.is_struct(part.type):
        return any(_has_dictionary(field) for field in part.flatten())
    return t.is_dictionary(part.type) and (_is_binary(part.type.value_type) or _is_text(part.type.value_type))


def _nulls(array: Any) -> Any:
    """Returns a bool array that is True for nulls; None if there are no nulls."""
    return array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None


def _size(*arrays: Any) -> int:
    """Returns the bytes of those arrays that are not None."""
    return sum(array.nbytes for array in arrays if array is not None)


def _buffers(array: Any, text: bool) -> Values:
    """Returns the values of bytes or texts. Bytes are views of Arrow's memory, texts are str."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.types as t

    if t.is_dictionary(array.type):
        (entry, size), missing = _buffers(array.dictionary, text), _nulls(array)
        indices = (array.indices.fill_null(0) if array.indices.null_count else array.indices).to_numpy(zero_copy_only=False)
        return Values(
            lambda row: None if missing is not None and missing[row] else entry(int(indices[row])), size + _size(indices, missing)
        )
    if not (t.is_binary(array.type) or t.is_large_binary(array.type) or t.is_string(array.type) or t.is_large_string(array.type)):
        array = array.cast(pa.large_string() if text else pa.large_binary())
    wide = t.is_large_binary(array.type) or t.is_large_string(array.type)
    _, offsets, data = array.buffers()
    width = np.dtype(np.int64 if wide else np.int32)
    ends = np.frombuffer(offsets, width, len(array) + 1, array.offset * width.itemsize) if len(array) else None
    memory = memoryview(data).cast("B") if data is not None else memoryview(b"")
    nulls = _nulls(array)

    def value(row: int) -> Any:
        if nulls is not None and nulls[row]:
            return None
        part = memory[ends[row] : ends[row + 1]]  # type: ignore[index]
        return str(part, "utf-8") if text else part

    return Values(value, _size(array, nulls))


def _images(array: Any) -> Values:
    import pyarrow.types as t

    if not t.is_struct(array.type):
        return _buffers(array, is_text(array.type))
    parts = dict(zip((array.type.field(k).name for k in range(array.type.num_fields)), array.flatten(), strict=True))
    data, size = _buffers(parts["bytes"], False)
    paths = None
    if "path" in parts and _is_text(plain_type(parts["path"].type)):
        paths, more = _buffers(parts["path"], True)
        size += more

    def value(row: int) -> Any:
        found = data(row)
        return found if found is not None or paths is None else paths(row)

    return Values(value, size)


@dataclass(frozen=True)
class _Numbers:
    """The numbers of a column, converted to the type that they have in batches. Numbers that do not fit into this type raise an error only when they are
    used."""

    made: Any  # a read-only NumPy array in the type of batches, 0 for nulls
    given: Any  # the numbers in the column's own type; None if `over` is None
    over: Any  # a bool array that is True where `made` cannot represent the number; None if it represents all numbers

    def check(self, at: Any) -> None:
        """Raises OverflowError if the number `at`, or one of the slice `at`, does not fit into the type that batches have."""
        if self.over is not None and (over := self.over[at]).any():
            value = self.given[at][over].ravel()[0]
            kinds = f"floats are float32, and {value:g}" if self.made.dtype.kind == "f" else f"whole numbers are int64, and {value}"
            raise OverflowError(f"{kinds} does not fit")

    @property
    def bytes(self) -> int:
        return _size(self.made, self.given, self.over)


def _flat(array: Any, dtype: str) -> _Numbers:
    """Converts numbers to `dtype`. Times and dates become whole numbers in Arrow's unit, nulls 0 or False."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.types as t

    if t.is_temporal(array.type):
        array = array.cast({32: pa.int32(), 64: pa.int64()}[array.type.bit_width])
    if array.null_count:
        array = array.fill_null(False if t.is_boolean(array.type) else pa.scalar(0, array.type))
    given = array.to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        made = given.astype(dtype, copy=False)
    over = None
    if given.dtype == np.uint64 and dtype == "int64":
        over = made < 0 if len(made) and made.min() < 0 else None
    elif given.dtype == np.float64 and dtype == "float32":
        over = infinite_in(given, made)
    made.flags.writeable = False
    return _Numbers(made, given if over is not None else None, over)


def _numbers(array: Any, dtype: str) -> Values:
    numbers, nulls = _flat(array, dtype), _nulls(array)
    made = numbers.made

    def value(row: int) -> Any:
        if nulls is not None and nulls[row]:
            return None
        numbers.check(row)
        return made[row].item()

    return Values(value, numbers.bytes + _size(nulls))


def _arrays(array: Any, dtype: str) -> Values:
    """Returns the arrays of a column of lists of numbers. Lists may be nested. An empty list becomes an array with the extents of the column's type, 0 for lists
    of any length. Asking for a row raises an error if the lists inside of it differ in length."""
    import numpy as np

    empty = (0, *(max(n, 0) for n in _extents(array.type)[1:]))
    ends, nulls, inner = _list_of(array)
    if hasattr(inner.type, "value_type") and _dtype(plain_type(inner.type)) == "":
        deeper, size = _arrays(inner, dtype)

        def nested(row: int) -> Any:
            if nulls is not None and nulls[row]:
                return None
            rows = [deeper(k) for k in range(ends[row], ends[row + 1])]
            if any(r is None for r in rows):
                raise InnerNullError("a list in it is null")
            if len({r.shape for r in rows}) > 1:
                lengths = ", ".join(str(len(r)) for r in rows[:8])
                raise ValueError(
                    f"its lists have different lengths, {lengths}, so that they are no tensor: write each one as a struct, such as {{'points': [...]}}, which "
                    "batches hold as Python objects, or as one list with a column of lengths"
                )
            return np.stack(rows) if rows else np.zeros(empty, dtype)

        return Values(nested, size + _size(ends, nulls))
    numbers, missing = _flat(inner, dtype), _nulls(inner)

    def value(row: int) -> Any:
        if nulls is not None and nulls[row]:
            return None
        if missing is not None and missing[ends[row] : ends[row + 1]].any():
            raise InnerNullError("a number in its list is null")
        numbers.check(slice(ends[row], ends[row + 1]))
        return numbers.made[ends[row] : ends[row + 1]]

    return Values(value, numbers.bytes + _size(ends, nulls, missing))


def _extents(type: Any) -> list[int]:
    """Returns the length of the lists in each dimension of a type of nested lists, -1 for lists of any length."""
    import pyarrow.types as t

    type, found = plain_type(type), []
    while hasattr(type, "value_type"):
        found.append(type.list_size if t.is_fixed_size_list(type) else -1)
        type = plain_type(type.value_type)
    return found


def _list_of(array: Any) -> tuple[Any, Any, Any]:
    """Returns three arrays: the offsets of lists (one more than there are lists), True for each null list (or None), and the values of all lists."""
    import numpy as np
    import pyarrow.compute as pc

    lengths = pc.list_value_length(array)
    nulls = _nulls(array)
    counts = lengths.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    inner = array.flatten()
    inner = getattr(inner, "storage", inner)
    if hasattr(inner, "dictionary_decode"):
        inner = inner.dictionary_decode()
    return np.concatenate([[0], np.cumsum(counts)]), nulls, inner


def fill_of(name: str, given: Mapping[str, Any], column: Column) -> Any:
    """Returns the user's value that replaces nulls, in the form of a row's value. Raises InvalidArgumentError if it does not fit the column's type."""
    value = given[name]
    try:
        made = _filling(value, column)
    except (TypeError, ValueError, OverflowError, RecursionError):
        made = None
    if made is None:
        what = "such a list of numbers" if column.kind == ARRAY else "a value of that type"
        inside = f", in batches {column.dtype}" if column.kind == NUMBER else ""
        raise InvalidArgumentError(f"nulls[{name!r}] is {value!r:.100}, and the column holds {column.type}{inside}: give {what}")
    return made


def _filling(value: Any, column: Column) -> Any:
    """Returns a value that replaces nulls in the form of a row's value. Returns None, or raises an error, if it does not fit the column's type."""
    import numpy as np
    import pyarrow.types as t

    if value is None or ((column.kind == TEXT) != isinstance(value, str) and not is_json(column.type)):
        return None
    if column.kind == OBJECT:
        return json.dumps(value)
    if column.kind == ARRAY:
        return _filling_list(value, column)
    if column.kind == NUMBER:
        return filling_number(value, column.dtype)
    if column.kind != BYTES:
        return value
    given, type = np.frombuffer(value, np.uint8), plain_type(column.type)
    return given.tobytes() if not t.is_fixed_size_binary(type) or given.size == type.byte_width else None


def filling_number(value: Any, dtype: str) -> Any:
    """Returns a number for the place of a null, or after the end of a list, in a column with this type in batches; None if the type cannot represent it. The
    number may be one of NumPy or torch."""
    import numpy as np

    made = np.asarray(value)
    fits = _fitting(made, dtype) if made.ndim == 0 else None
    return None if fits is None else fits.item()


def _fitting(given: Any, dtype: str) -> Any:
    """Converts an array of numbers to `dtype`, the type of a column in batches. Returns None if `dtype` cannot represent all of them."""
    import numpy as np

    if given.size and given.dtype.kind not in "biuf":
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        made = given.astype(dtype)
    if dtype == "float32":
        return None if infinite_in(given, made) is not None else made
    return made if (made == given).all() and not (given.dtype == np.uint64 and (made < 0).any()) else None


def _filling_list(value: Any, column: Column) -> Any:
    """Returns the user's list that replaces nulls as an array; None if it does not fit the column."""
    import numpy as np

    made = np.asarray(value)
    extents = _extents(column.type)
    if column.shape:
        extents[-1:] = column.shape
    if made.ndim != len(extents) or any(want not in (-1, n) for want, n in zip(extents, made.shape, strict=True)):
        return None
    return _fitting(made, column.dtype)
