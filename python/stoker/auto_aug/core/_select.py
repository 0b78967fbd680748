# SPDX-License-Identifier: Apache-2.0
"""Runs one of several operations for each sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stoker.data_node import DataNode


def select(ops: Sequence[Callable[..., Any]], selected_op_idx: DataNode, *op_args: Any, **op_kwargs: Any) -> Any:
    """Runs only ops[selected_op_idx](*op_args, **op_kwargs) for each sample, and returns its result. selected_op_idx: an integer from 0 to len(ops) - 1."""
    return _among(ops, 0, selected_op_idx, op_args, op_kwargs)


def _among(ops: Sequence[Callable[..., Any]], first: int, chosen: DataNode, args: Any, kwargs: Any) -> Any:
    """Builds a binary tree of conditions, so that a sample passes few of them. first: the value of `chosen` that selects ops[0]."""
    if len(ops) == 1:
        return ops[0](*args, **kwargs)
    half = (len(ops) + 1) // 2
    if chosen < first + half:
        return _among(ops[:half], first, chosen, args, kwargs)
    else:
        return _among(ops[half:], first + half, chosen, args, kwargs)
