# SPDX-License-Identifier: Apache-2.0
"""Converts constants (numbers, nested lists and arrays) to arguments of the operator that makes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from stoker import _types as types
from stoker._build import Value
from stoker._values import ValueKind
from stoker.errors import ArgumentError, InvalidArgumentError


def _nested(value: Any) -> tuple[list[int], list[Any]]:
    """Returns the shape and the elements of nested lists, row by row. Raises ValueError if lists of one level differ in length."""
    if not isinstance(value, (list, tuple)):
        return [], [value]
    shape: list[int] = []
    flat: list[Any] = []
    for k, item in enumerate(value):
        inner, elements = _nested(item)
        if k and inner != shape:
            raise ValueError("the lists of a constant differ in length")
        shape = inner
        flat += elements
    return [len(value), *shape], flat


_ENUMERATIONS = {
    types.DALIImageType: types.IMAGE_TYPE,
    types.DALIDataType: types.DATA_TYPE,
    types.DALIInterpType: types.INTERP_TYPE,
}


def _guess_dtype(elements: list[Any]) -> types.DALIDataType:
    kinds = {type(e) for e in elements}
    if _ENUMERATIONS.keys() & kinds:
        if len(kinds) > 1:
            raise ArgumentError("a constant: values of one enumeration are needed, not of " + ", ".join(sorted(k.__name__ for k in kinds)))
        return _ENUMERATIONS[kinds.pop()]
    if elements and all(isinstance(e, bool) for e in elements):
        return types.BOOL
    if not elements or any(isinstance(e, float) for e in elements):
        return types.FLOAT
    wide = any(not -(2**31) <= e < 2**31 for e in elements)
    return types.INT64 if wide else types.INT32


# For each type of 64 bits, the type to which DALI narrows an array that becomes a constant.
_NARROWER = {types.INT64: types.INT32, types.UINT64: types.UINT32, types.FLOAT64: types.FLOAT}


def _narrowed(dtype: types.DALIDataType, flat: list[Any]) -> types.DALIDataType:
    narrow = _NARROWER.get(dtype, dtype)
    low, high = {types.INT32: (-(2**31), 2**31), types.UINT32: (0, 2**32)}.get(narrow, (None, None))
    if narrow is not dtype and low is not None and not all(low <= v < high for v in flat):
        raise InvalidArgumentError(
            f"a constant: an array of {dtype!r} becomes {narrow!r}, as in DALI, and not all of its values fit; types.Constant takes a dtype"
        )
    return narrow


def _whole(value: Any) -> int:
    """Rounds a number to an int, halves away from zero, as the operator cast does."""
    return int(math.copysign(math.floor(abs(value) + 0.5), value)) if isinstance(value, float) else int(value)


def constant_arguments(value: Any, dtype: types.DALIDataType | None, shape: Sequence[int] | None, layout: str | None) -> list[Value]:
    """Returns the arguments of the operator `constant` for a number, nested lists or an array. dtype, shape: those of the constant; None: those of
    the value. layout: names of the axes; None or "": no names."""
    if isinstance(value, types.ScalarConstant):
        value, dtype = value.value, value.dtype if dtype is None else dtype
    if hasattr(value, "tolist"):
        extents, flat = [int(n) for n in value.shape], _nested(value.tolist())[1]
        dtype = _narrowed(types.to_dtype(value.dtype), flat) if dtype is None else dtype
    else:
        extents, flat = _nested(value)
    if text := [v for v in flat if not isinstance(v, (bool, int, float))]:
        raise ArgumentError(f"a constant holds numbers, not {text[0]!r}")
    if dtype is None:
        dtype = _guess_dtype(flat)
    real = dtype in (types.FLOAT, types.FLOAT16, types.FLOAT64, types.BFLOAT16)
    data: Value = (
        ("fdata", int(ValueKind.FLOATS), [float(v) for v in flat]) if real else ("idata", int(ValueKind.INTS), [_whole(v) for v in flat])
    )
    args: list[Value] = [data, ("dtype", int(ValueKind.INT), int(dtype))]
    args.append(("shape", int(ValueKind.INTS), list(extents if shape is None else shape)))
    if layout:
        args.append(("layout", int(ValueKind.STRING), layout))
    return args
