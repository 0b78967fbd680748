# SPDX-License-Identifier: Apache-2.0
"""The focal loss and the L1 loss of matched predictions in one kernel each, forward and backward, for eager code on CUDA. torch.compile, functorch, second
derivatives, and the CPU, where torch's vectorised loops are faster, use the same losses composed of torch's operators (losses.py)."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import Tensor

from ._native import ACCESS, CODES, FLOATS, INDEX_BYTES, MAPPING, UNCOUNTED, device_of, direct, has_tangent, lib, pointer
from ._ops import _dense
from .assignment import Assignment
from .ragged_batch import RaggedBatch

Composed = Callable[[Tensor], Tensor]  # computes the loss of predictions by torch's operators, for second derivatives


def _fits(predictions: Tensor, targets: RaggedBatch, matches: Assignment) -> bool:
    """Returns whether the kernels take predictions (.., B, Q, D) with these targets and matches, whose errors they would not report."""
    rows, cols = matches.rows, matches.cols
    batch, given = predictions.shape[:-2], rows.tensor
    return (
        predictions.is_cuda
        and direct(predictions)
        and not has_tangent(predictions)
        and rows._layout is cols._layout  # as linear_sum_assignment returns them
        and given.dtype == cols.tensor.dtype == torch.int64
        and given.shape == cols.tensor.shape
        and given.shape[:-1] == batch
        and given.dim() == rows.num_batch_dims + 1
        and targets.non_uniform_dim == targets.num_batch_dims
        and batch[len(batch) - targets.num_batch_dims :] == targets.batch_shape
        and given.device == cols.tensor.device == targets.tensor.device == predictions.device
        and predictions.shape[-2] * predictions.shape[-1] < 1 << 31
        and given.shape[-1] * predictions.shape[-1] < 1 << 31
    )


def _tensors(matches: Assignment, targets: RaggedBatch) -> tuple[Tensor, ...]:
    """Returns the tensors that _arguments takes: rows, cols, sizes, the data and the sizes of the targets."""
    rows, cols = matches.rows, matches.cols
    return tuple(map(_dense, (rows.tensor, cols.tensor, rows.sample_sizes, targets.tensor, targets.sample_sizes)))


def _arguments(tensors: tuple[Tensor, ...], refused: int) -> tuple[int, ...]:
    """Returns the members of struct stk_matches. refused: the address of the counter."""
    rows, cols, sizes, data, data_sizes = tensors
    return (
        rows.shape[-1], data_sizes.numel(), data.shape[data_sizes.dim()], rows.data_ptr(), cols.data_ptr(), sizes.data_ptr(),
        data_sizes.data_ptr(), refused,
    )  # fmt: skip


def _strided(scale: Tensor) -> tuple[Tensor, int]:
    """Returns the gradient of the losses and its stride in elements: 0 for one value that was expanded, which is how the gradient of a sum arrives."""
    if not any(scale.stride()):
        return scale, 0
    return _dense(scale), 1


def _second_derivative(composed: Composed, predictions: Tensor, sizes: Tensor, mean: bool, scale: Tensor) -> Tensor:
    """Returns the gradient of the loss as a tensor that has a derivative too."""
    loss = composed(predictions)
    return torch.autograd.grad(loss / sizes.clamp(min=1) if mean else loss, predictions, scale, create_graph=True)[0]


# ---- focal loss ----


def takes_focal(logits: Tensor, labels: RaggedBatch, matches: Assignment, alpha: Any, gamma: Any) -> bool:
    """Returns whether focal() computes this loss."""
    return (
        _fits(logits, labels, matches)
        and logits.dtype in FLOATS
        and labels.dtype in INDEX_BYTES
        and labels.dim() == labels.num_batch_dims + 1
        and type(alpha) in (float, int)
        and type(gamma) in (float, int)
        and torch.get_default_dtype() == torch.float32  # the dtype of the composed loss depends on it
    )


def _focal_run(
    logits: Tensor, tensors: tuple[Tensor, ...], mean: bool, alpha: float, gamma: float, loss: Tensor | None, scale: Tensor | None,
    grad: Tensor | None,
) -> None:  # fmt: skip
    device, stride, labels = device_of(logits), 0, tensors[3]
    if scale is not None:
        scale, stride = _strided(scale)
    lib.focal(
        device.handle, device.stream(), prod(logits.shape[:-2]), logits.shape[-2], logits.shape[-1], CODES[logits.dtype],
        INDEX_BYTES[labels.dtype], logits.data_ptr(), labels.data_ptr(),
        *_arguments(tensors, device.shared_counter(MAPPING if grad is None else UNCOUNTED)), mean, alpha, gamma, pointer(loss), pointer(scale),
        stride, pointer(grad),
    )  # fmt: skip


def _focal_loss(logits: Tensor, tensors: tuple[Tensor, ...], mean: bool, alpha: float, gamma: float) -> Tensor:
    loss = torch.empty(logits.shape[:-2], dtype=torch.float32, device=logits.device)
    _focal_run(logits, tensors, mean, alpha, gamma, loss, None, None)
    return loss


class _Focal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, mean: bool, alpha: float, gamma: float, composed: Composed, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(logits, *tensors)
        ctx.rest = (mean, alpha, gamma)
        ctx.composed = composed
        return _focal_loss(_dense(logits), tensors, mean, alpha, gamma)

    @staticmethod
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        logits, *tensors = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph=True: a second derivative may follow, which the kernel lacks
            return _second_derivative(ctx.composed, logits, tensors[2], ctx.rest[0], scale), *(None,) * 9
        logits = _dense(logits)
        grad = torch.empty_like(logits)
        mean, alpha, gamma = ctx.rest
        _focal_run(logits, tuple(tensors), mean, alpha, gamma, None, scale, grad)
        return grad, *(None,) * 9


def focal(logits: Tensor, labels: RaggedBatch, matches: Assignment, mean: bool, alpha: float, gamma: float, composed: Composed) -> Tensor:
    """Returns composed(logits) as float32. mean: it is divided by the number of pairs, at least 1."""
    tensors = _tensors(matches, labels)
    if torch.is_grad_enabled() and logits.requires_grad:
        return _Focal.apply(logits, mean, alpha, gamma, composed, *tensors)
    return _focal_loss(_dense(logits), tensors, mean, alpha, gamma)


# ---- L1 loss ----


def takes_l1(boxes: Tensor, targets: RaggedBatch, matches: Assignment, weight: Any) -> bool:
    """Returns whether l1() computes this loss."""
    return (
        _fits(boxes, targets, matches)
        and boxes.dtype == targets.dtype == torch.float32
        and targets.dim() == targets.num_batch_dims + 2
        and boxes.shape[-1] == targets.shape[-1]
        and not has_tangent(targets.tensor)
        and not (targets.tensor.requires_grad and torch.is_grad_enabled())
        and type(weight) in (float, int)
    )


def _l1_run(boxes: Tensor, tensors: tuple[Tensor, ...], mean: bool, loss: Tensor | None, scale: Tensor | None, grad: Tensor | None) -> None:
    device, stride = device_of(boxes), 0
    if scale is not None:
        scale, stride = _strided(scale)
    lib.l1(
        device.handle, device.stream(), prod(boxes.shape[:-2]), boxes.shape[-2], boxes.shape[-1], boxes.data_ptr(), tensors[3].data_ptr(),
        *_arguments(tensors, device.shared_counter(ACCESS if grad is None else UNCOUNTED)), mean, pointer(loss), pointer(scale), stride,
        pointer(grad),
    )  # fmt: skip


def _l1_loss(boxes: Tensor, tensors: tuple[Tensor, ...], mean: bool) -> Tensor:
    loss = torch.empty(boxes.shape[:-2], dtype=torch.float32, device=boxes.device)
    _l1_run(boxes, tensors, mean, loss, None, None)
    return loss


class _L1(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, boxes: Tensor, mean: bool, composed: Composed, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(boxes, *tensors)
        ctx.mean, ctx.composed = mean, composed
        return _l1_loss(_dense(boxes), tensors, mean)

    @staticmethod
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        boxes, *tensors = ctx.saved_tensors
        if torch.is_grad_enabled():
            return _second_derivative(ctx.composed, boxes, tensors[2], ctx.mean, scale), *(None,) * 7
        boxes = _dense(boxes)
        grad = torch.empty_like(boxes)
        _l1_run(boxes, tuple(tensors), ctx.mean, None, scale, grad)
        return grad, *(None,) * 7


def l1(boxes: Tensor, targets: RaggedBatch, matches: Assignment, mean: bool, composed: Composed) -> Tensor:
    """Returns composed(boxes). mean: it is divided by the number of pairs, at least 1."""
    tensors = _tensors(matches, targets)
    if torch.is_grad_enabled() and boxes.requires_grad:
        return _L1.apply(boxes, mean, composed, *tensors)
    return _l1_loss(_dense(boxes), tensors, mean)
