# SPDX-License-Identifier: Apache-2.0
"""Converts the values that users give for an operator's arguments to the types that its table declares."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, MappingView, Sequence, Set
from enum import IntEnum
from typing import Any

from stoker import _types as types
from stoker._catalog import Arg, ArgKind, Op


class ValueKind(IntEnum):
    """The forms in which values are passed to the library. The numbers are those of enum stk_value_kind."""

    NONE = 0
    BOOL = 1
    INT = 2
    FLOAT = 3
    STRING = 4
    INTS = 5
    FLOATS = 6
    STRINGS = 7
    NODE = 8


class BadValue(TypeError):
    """Raised for a value that does not fit its argument. The caller adds the operator and the line to the message."""


_WORDS = {
    ArgKind.BOOL: "True or False",
    ArgKind.INT: "a whole number",
    ArgKind.FLOAT: "a number",
    ArgKind.STRING: "a string",
    ArgKind.INTS: "a list of whole numbers",
    ArgKind.FLOATS: "a list of numbers",
    ArgKind.STRINGS: "a list of strings",
}


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def _wrong(arg: Arg, value: Any) -> BadValue:
    return BadValue(f"argument '{arg.name}' takes {_WORDS.get(arg.kind, arg.type)}, not {_shown(value)} ({type(value).__name__})")


def _plain(value: Any) -> Any:
    """Converts a ScalarConstant, and values of NumPy and torch, to Python numbers and lists. Returns other values unchanged."""
    if isinstance(value, types.ScalarConstant):
        return value.value
    if hasattr(value, "tolist") and not isinstance(value, (list, tuple, str, bytes, memoryview)):
        return value.tolist()
    return value


def _int(arg: Arg, value: Any) -> int:
    try:
        number = int(value) if isinstance(value, float) and value.is_integer() else operator.index(value)
    except TypeError:
        raise _wrong(arg, value) from None
    if not -(2**63) <= number < 2**63:
        raise BadValue(f"argument '{arg.name}': {_shown(value)} is beyond whole numbers of 64 bits")
    return number


def _float(arg: Arg, value: Any) -> float:
    if isinstance(value, (str, bytes)):
        raise _wrong(arg, value)
    try:
        return float(value)
    except OverflowError:
        raise BadValue(f"argument '{arg.name}': {_shown(value)} is beyond floating-point numbers") from None
    except (TypeError, ValueError):
        raise _wrong(arg, value) from None


def _string(arg: Arg, value: Any) -> str | bytes:
    if isinstance(value, (str, bytes)):
        return value
    if isinstance(value, os.PathLike):
        path: str | bytes = os.fspath(value)
        return path
    raise _wrong(arg, value)


def _flat(arg: Arg, value: Sequence[Any]) -> list[Any]:
    """Flattens nested lists (a matrix), row by row. Raises BadValue if rows differ in length."""
    lengths = {len(v) if isinstance(v, (list, tuple)) else -1 for v in value}
    if lengths <= {-1}:
        return list(value)
    if len(lengths) > 1:
        raise BadValue(f"argument '{arg.name}' takes one list or rows of equal length, not {_shown(value)}")
    return [x for row in value for x in row]


_LISTS = {
    ArgKind.INTS: (ValueKind.INTS, _int),
    ArgKind.FLOATS: (ValueKind.FLOATS, _float),
    ArgKind.STRINGS: (ValueKind.STRINGS, _string),
}


def _list(arg: Arg, value: Any) -> tuple[ValueKind, Any]:
    kind, one = _LISTS[arg.kind]
    if isinstance(value, (list, tuple, range)):
        return kind, [one(arg, _plain(v)) for v in _flat(arg, value)]
    if isinstance(value, (str, bytes, os.PathLike)) and arg.kind != ArgKind.STRINGS:
        raise _wrong(arg, value)
    if isinstance(value, (Set, Mapping, MappingView)):
        raise BadValue(
            f"argument '{arg.name}' takes {_WORDS[arg.kind]}, not a {type(value).__name__}, whose order means nothing: {_shown(value)}"
        )
    if hasattr(value, "__iter__") and not isinstance(value, (str, bytes)):
        return kind, [one(arg, _plain(v)) for v in value]
    if not arg.scalar_ok and arg.kind != ArgKind.STRINGS:
        raise _wrong(arg, value)
    return kind, [one(arg, value)]


def _enum(arg: Arg, value: Any, enum: type[IntEnum]) -> int:
    if isinstance(value, str):
        for member in enum:
            if value.upper() in (member.name.upper(), member.name.upper().removeprefix("INTERP_")):
                return int(member)
    elif isinstance(value, int) and value in list(enum):
        return int(value)
    raise BadValue(f"argument '{arg.name}' takes one of {', '.join('types.' + m.name for m in enum)}, not {value!r}")


def _dtype(arg: Arg, value: Any) -> int:
    try:
        return int(types.to_dtype(value))
    except (TypeError, ValueError) as e:
        raise BadValue(f"argument '{arg.name}': {e}") from None


def convert(op: Op, arg: Arg, value: Any) -> tuple[ValueKind, Any]:
    """Returns (kind, value) in the form that the library accepts. Raises BadValue if the value does not fit the argument."""
    if arg.kind == ArgKind.DTYPE:
        return ValueKind.INT, _dtype(arg, value)
    value = _plain(value)
    if arg.kind == ArgKind.IMAGE_TYPE:
        return ValueKind.INT, _enum(arg, value, types.DALIImageType)
    if arg.kind == ArgKind.INTERP:
        return ValueKind.INT, _enum(arg, value, types.DALIInterpType)
    if arg.kind in _LISTS:
        return _list(arg, value)
    if isinstance(value, (list, tuple)) and len(value) == 1:
        value = value[0]
    if arg.kind == ArgKind.BOOL:
        if isinstance(value, (bool, int, float)) and value in (0, 1):
            return ValueKind.BOOL, bool(value)
        raise _wrong(arg, value)
    if arg.kind == ArgKind.INT:
        return ValueKind.INT, _int(arg, value)
    if arg.kind == ArgKind.FLOAT:
        return ValueKind.FLOAT, _float(arg, value)
    if arg.name == "enable_frame_num" and isinstance(value, bool):  # DALI accepts a bool too
        value = "scalar" if value else "none"
    return ValueKind.STRING, _string(arg, value)
