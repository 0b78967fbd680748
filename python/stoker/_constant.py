# SPDX-License-Identifier: Apache-2.0
"""Nodes that hold the same value for each sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stoker import types
from stoker._build import NodeRef, Value, current_builder
from stoker._values import ValueKind

if TYPE_CHECKING:
    from stoker.data_node import DataNode

_INTEGERS = {"i", "u", "b"}


def _nested(value: Any) -> tuple[list[int], list[Any]]:
    """Shape and elements of nested lists."""
    if not isinstance(value, (list, tuple)):
        return [], [value]
    shape: list[int] = []
    flat: list[Any] = []
    for item in value:
        inner, elements = _nested(item)
        if flat and inner != shape:
            raise ValueError("the lists of a constant differ in length")
        shape = inner
        flat += elements
    return [len(value), *shape], flat


def _guess_dtype(elements: list[Any]) -> types.DALIDataType:
    if all(isinstance(e, bool) for e in elements):
        return types.BOOL
    if any(isinstance(e, float) for e in elements):
        return types.FLOAT
    wide = any(not -(2**31) <= e < 2**31 for e in elements)
    return types.INT64 if wide else types.INT32


def constant_node(
    value: Any, dtype: types.DALIDataType | None = None, shape: Sequence[int] | None = None, layout: str | None = None, **_: Any
) -> DataNode:
    """A node from a number, nested lists or an array."""
    from stoker.data_node import DataNode

    if isinstance(value, types.ScalarConstant):
        value, dtype = value.value, dtype or value.dtype
    if hasattr(value, "tolist"):
        dtype = types.to_dtype(value.dtype) if dtype is None else dtype
        extents, flat = [int(n) for n in value.shape], _nested(value.tolist())[1]
    else:
        extents, flat = _nested(value)
    if dtype is None:
        dtype = _guess_dtype(flat)
    real = dtype in (types.FLOAT, types.FLOAT16, types.FLOAT64, types.BFLOAT16)
    data: Value = (
        ("fdata", int(ValueKind.FLOATS), [float(v) for v in flat]) if real else ("idata", int(ValueKind.INTS), [int(v) for v in flat])
    )
    args: list[Value] = [data, ("dtype", int(ValueKind.INT), int(dtype))]
    args.append(("shape", int(ValueKind.INTS), list(extents if shape is None else shape)))
    if layout:
        args.append(("layout", int(ValueKind.STRING), layout))
    builder = current_builder("constant")
    builder.add("constant", [], args)
    return DataNode(builder, NodeRef(len(builder.records) - 1, 0), "constant")
