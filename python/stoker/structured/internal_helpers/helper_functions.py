# SPDX-License-Identifier: Apache-2.0
"""Makes nodes from constants, and maps texts to numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stoker._arrays import refuse_masked
from stoker.data_node import DataNode, constant_node
from stoker.errors import InvalidArgumentError


def get_as_data_node(value: Any) -> DataNode:
    """Returns a node with this value for all samples: int32 for integers and bools, float32 for other types. A DataNode is returned unchanged. Raises
    InvalidArgumentError for numbers that are too large for these types."""
    if isinstance(value, DataNode):
        return value
    refuse_masked(value)
    array = np.asarray(value)
    whole = array.dtype.kind in "biu"
    with np.errstate(over="ignore"):
        made = array.astype(np.int32 if whole else np.float32)
    fits = made == array if whole else np.isfinite(made) | ~np.isfinite(array.astype(np.float64))
    if not fits.all():
        raise InvalidArgumentError(
            f"{value!r} becomes a constant of type {made.dtype}, which is too small for it: give types.Constant(value, dtype=...)"
        )
    return constant_node(made)


def get_mapped(val: Any, mapping: Mapping[Any, Any], encapsulate: bool = False) -> Any:
    """Returns the mapping's value for a text; for nested sequences of texts, nested lists of values. A text without an entry gets the value of the key None, or
    raises KeyError if there is no such key. Other values are returned unchanged, except None if it is a key. encapsulate: whether the result for a
    value that is not a sequence is returned in a list."""
    if isinstance(val, (list, tuple)):
        return [get_mapped(v, mapping) for v in val]
    if isinstance(val, np.ndarray) and val.dtype.kind in "USO":
        return get_mapped(val.tolist(), mapping)
    if val in mapping if isinstance(val, (str, type(None))) else False:
        mapped = mapping[val]
    elif isinstance(val, str):
        if None not in mapping:
            raise KeyError(val)
        mapped = mapping[None]
    else:
        mapped = val
    return [mapped] if encapsulate else mapped
