# SPDX-License-Identifier: Apache-2.0
"""Solves batches of linear assignment problems exactly, on the device that has the costs."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import ShapeError
from ._native import ASSIGNMENT, CODES, FLOATS, device_of, direct, lib, pointer
from ._ops import _dense, _register
from ._shapes import Layout, require, value_outside
from .ragged_batch import RaggedBatch

SOLVED, INFEASIBLE, INVALID = 0, 1, 2


class Assignment(NamedTuple):
    """The result of linear_sum_assignment.
    rows, cols: the matched pairs of each problem, sorted by row: int64 RaggedBatches of shape (*batch, min(R, C)) that share one layout.
    status: int8 of shape (*batch): 0 solved, 1 infeasible, 2 invalid (a cost is NaN or an infinity of the wrong sign). A problem that is not solved has no
    pairs."""

    rows: RaggedBatch
    cols: RaggedBatch
    status: Tensor


def _assign_run(cost: Tensor, num_rows: Tensor | None, num_cols: Tensor | None, maximize: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    device = device_of(cost)
    num_rows, num_cols = _dense(num_rows), _dense(num_cols)
    problems, rows, cols = cost.shape
    pairs = min(rows, cols)
    row = torch.empty((problems, pairs), dtype=torch.int64, device=cost.device)
    col = torch.empty_like(row)
    sizes = torch.empty(problems, dtype=torch.int64, device=cost.device)
    status = torch.empty(problems, dtype=torch.int8, device=cost.device)
    what = (CODES[cost.dtype], maximize, cost.data_ptr(), problems, rows, cols, *cost.stride())
    need = lib.assign_workspace(device.handle, *what)
    workspace = torch.empty(need, dtype=torch.uint8, device=cost.device) if need else None
    lib.assign(
        device.handle, *what, device.stream(), pointer(num_rows), pointer(num_cols), row.data_ptr(), col.data_ptr(), sizes.data_ptr(),
        status.data_ptr(), pointer(workspace), device.counter(ASSIGNMENT),
    )  # fmt: skip
    return row, col, sizes, status


def _assign_fake(cost, num_rows, num_cols, maximize):
    problems, pairs = cost.shape[0], min(cost.shape[1], cost.shape[2])
    return (
        cost.new_empty((problems, pairs), dtype=torch.int64),
        cost.new_empty((problems, pairs), dtype=torch.int64),
        cost.new_empty((problems,), dtype=torch.int64),
        cost.new_empty((problems,), dtype=torch.int8),
    )


_register(
    "assign(Tensor cost, Tensor? num_rows, Tensor? num_cols, bool maximize) -> (Tensor, Tensor, Tensor, Tensor)", _assign_run, _assign_fake
)


def _counts(name: str, given: Tensor | int | None, batch: torch.Size, cost: Tensor, limit: int) -> Tensor | None:
    if given is None:
        return None
    if isinstance(given, int):
        require(0 <= given <= limit, lambda: f"{name} is {given}, but cost {tuple(cost.shape)} has {limit} {name[4:]}")
        return torch.full((prod(batch),), given, dtype=torch.int64, device=cost.device)
    require(isinstance(given, Tensor), lambda: f"{name} is {type(given).__name__}: an int or an int64 Tensor is expected")
    require(not given.dtype.is_floating_point and given.dtype != torch.bool, lambda: f"{name} must be int64, not {given.dtype}")
    require(given.device == cost.device, lambda: f"{name} is on {given.device}, cost on {cost.device}")
    if given.dim() > len(batch) or any(g not in (1, b) for g, b in zip(given.shape[::-1], tuple(batch)[::-1], strict=False)):
        raise ShapeError(f"{name} has shape {tuple(given.shape)}, the batch of cost {tuple(cost.shape)} has shape {tuple(batch)}")
    wrong = value_outside(given, limit)
    require(wrong is None, lambda: f"{name} holds {wrong}, but cost {tuple(cost.shape)} has {limit} {name[4:]}")
    return given.long().expand(batch).reshape(-1)


def linear_sum_assignment(
    cost: Tensor | RaggedBatch,
    num_rows: Tensor | int | None = None,
    num_cols: Tensor | int | None = None,
    maximize: bool = False,
) -> Assignment:
    """Solves each problem of a batch exactly. The pairs are those of scipy.optimize.linear_sum_assignment, also if several solutions have the same cost.

    cost: (*batch, R, C) of any float type, or a RaggedBatch whose ragged dim is one of the last two. Without batch dims there is one problem, and
        the result has one batch dim of size 1. Integers are converted to float64. A cost of +inf forbids the pair (-inf with maximize).
    num_rows, num_cols: (*batch) or one integer: the number of rows and columns of each problem. Further rows and columns are ignored. Raises ShapeError for
        numbers that the cost does not have; if they are in a tensor on CUDA, they are cut instead.

    The call does not wait for a GPU, and the result has no gradient. A problem without a solution raises no error here: see Assignment.status and check().
    """
    tensor = cost.tensor if isinstance(cost, RaggedBatch) else cost
    require(isinstance(tensor, Tensor), lambda: f"cost is {type(tensor).__name__}: give a Tensor, as from torch.as_tensor(cost)")
    require(tensor.dim() >= 2, lambda: f"cost has shape {tuple(tensor.shape)}: (*batch, rows, columns) is expected")
    require(not tensor.dtype.is_complex, lambda: f"cost is {tensor.dtype}: floats or integers are expected")
    tensor = tensor.detach()
    batch, dims = tensor.shape[:-2], tensor.dim()
    if isinstance(cost, RaggedBatch):
        ragged_rows = cost.non_uniform_dim == dims - 2
        given = num_rows if ragged_rows else num_cols
        require(
            cost.num_batch_dims == dims - 2,
            lambda: f"cost {tuple(cost.shape)} has {cost.num_batch_dims} batch dims: all but two dims are expected",
        )
        require(
            given is None,
            lambda: f"cost is ragged in its {'rows' if ragged_rows else 'columns'}: give no num_{'rows' if ragged_rows else 'cols'} too",
        )
        if ragged_rows:
            num_rows = cost.sample_sizes
        else:
            num_cols = cost.sample_sizes
    if tensor.dtype not in FLOATS:
        tensor = tensor.double()
    rows, cols = (
        _counts(name, given, batch, tensor, tensor.shape[dim])
        for name, given, dim in (("num_rows", num_rows, -2), ("num_cols", num_cols, -1))
    )
    if dims != 3:
        tensor = tensor.reshape(prod(batch), *tensor.shape[-2:])
    if 1 not in tensor.stride()[1:] or (tensor.stride(0) == 0 and tensor.shape[0] > 1):
        tensor = tensor.contiguous()
    tensor = tensor.resolve_neg()
    run = _assign_run if direct(tensor) else torch.ops.stoker.assign
    row, col, sizes, status = run(tensor, rows, cols, maximize)
    shape = tuple(batch) or (1,)
    if dims != 3:
        row, col = row.reshape(*shape, row.shape[-1]), col.reshape(*shape, col.shape[-1])
        sizes, status = sizes.reshape(shape), status.reshape(shape)
    layout = Layout(None, sizes)
    return Assignment(RaggedBatch._of(row, layout, len(shape)), RaggedBatch._of(col, layout, len(shape)), status)
