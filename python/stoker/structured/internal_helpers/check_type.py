# SPDX-License-Identifier: Apache-2.0
"""Types of nodes, compared while a graph is built."""

from __future__ import annotations

from typing import Any

from stoker import types
from stoker.data_node import DataNode


def check_type(input: DataNode, expected_type_np: Any, identifier: str) -> DataNode:
    """Returns the node itself if its elements have the type, else raises a ValueError that names `identifier`. The type of a text is that of its bytes.

    Types are known while the graph is built, so nothing is added to it. What a user's function returns has no type yet: an iterator compares its first
    batch with the blueprint.
    """
    expected = types.to_dtype(expected_type_np)
    if expected == types.STRING:
        expected = types.UINT8
    actual = types.DALIDataType(input._builder.describe(input.ref)[0])
    if actual not in (expected, types.NO_TYPE):
        raise ValueError(
            f"'{identifier}' is declared as {expected}, and what is assigned to it ({input.name}) is {actual}: convert it by fn.cast, or "
            "change the field by change_type_of_data_and_remove_data"
        )
    return input
