# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

from stoker import types
from stoker.data_node import DataNode


def check_type(input: DataNode, expected_type_np: Any, identifier: str) -> DataNode:
    """Returns the node if its elements have the expected type; otherwise raises a ValueError that names `identifier`. A text counts as UINT8, the type of its
    bytes.

    The check is made while the graph is built, and adds no operator. A node whose type is not known then, such as the output of a Python function, passes.
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
