# SPDX-License-Identifier: Apache-2.0
"""The focal loss and the L1 loss in one kernel each, forward and backward, for eager code on CUDA. torch.compile, functorch, second derivatives, and the CPU,
where torch's vectorised loops are faster, use the same losses composed of torch's operators."""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ._native import CODES, FLOATS, INDEX_BYTES, device_of, direct, has_tangent, lib, pointer
from ._ops import _dense


def _strided(scale: Tensor) -> tuple[Tensor, int]:
    """Returns the gradient of the losses and its stride in elements: 0 for one value that was expanded, which is how the gradient of a sum arrives."""
    if not any(scale.stride()):
        return scale, 0
    return _dense(scale), 1


# ---- focal loss ----


def composed_focal(logits: Tensor, wanted: Tensor, alpha: Any, gamma: Any) -> Tensor:
    """Returns the sum of the focal loss (.., B) of logits (.., B, Q, C). wanted: (.., B, Q), the class of each query, or C for a query without a target."""
    hot = wanted.unsqueeze(-1) == torch.arange(logits.shape[-1], dtype=wanted.dtype, device=logits.device)
    x = torch.where(hot, logits, -logits).float()  # sigmoid(x) is the probability of the right answer
    weight = torch.where(hot, alpha, 1 - alpha)
    return -(torch.sigmoid(-x) ** gamma * functional.logsigmoid(x) * weight).sum((-1, -2))


def takes_focal(logits: Tensor, wanted: Tensor, alpha: Any, gamma: Any) -> bool:
    """Returns whether focal() computes this loss, with the result of composed_focal."""
    return (
        logits.is_cuda
        and direct(logits)
        and not has_tangent(logits)
        and logits.dtype in FLOATS
        and wanted.dtype in INDEX_BYTES
        and type(alpha) in (float, int)
        and type(gamma) in (float, int)
        and torch.get_default_dtype() == torch.float32  # the dtype of the composed loss depends on it
        and logits.shape[-1] * logits.shape[-2] < 1 << 31
    )


def _focal_run(
    logits: Tensor, wanted: Tensor, sizes: Tensor | None, alpha: float, gamma: float, loss: Tensor | None, scale: Tensor | None,
    grad: Tensor | None,
) -> None:  # fmt: skip
    device, stride = device_of(logits), 0
    if scale is not None:
        scale, stride = _strided(scale)
    lib.focal(
        device.handle, device.stream(), prod(logits.shape[:-2]), logits.shape[-2], logits.shape[-1], CODES[logits.dtype],
        INDEX_BYTES[wanted.dtype], logits.data_ptr(), wanted.data_ptr(), pointer(sizes), alpha, gamma, pointer(loss), pointer(scale), stride,
        pointer(grad),
    )  # fmt: skip


def _focal_loss(logits: Tensor, wanted: Tensor, sizes: Tensor | None, alpha: float, gamma: float) -> Tensor:
    loss = torch.empty(logits.shape[:-2], dtype=torch.float32, device=logits.device)
    _focal_run(logits, wanted, sizes, alpha, gamma, loss, None, None)
    return loss


class _Focal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, wanted: Tensor, sizes: Tensor | None, alpha: float, gamma: float) -> Tensor:
        ctx.save_for_backward(logits, wanted, sizes)
        ctx.alpha, ctx.gamma = alpha, gamma
        return _focal_loss(_dense(logits), wanted, sizes, alpha, gamma)

    @staticmethod
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        logits, wanted, sizes = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph=True: a second derivative may follow, which the kernel lacks
            loss = composed_focal(logits, wanted, ctx.alpha, ctx.gamma)
            loss = loss if sizes is None else loss / sizes.clamp(min=1)
            return torch.autograd.grad(loss, logits, scale, create_graph=True)[0], None, None, None, None
        logits = _dense(logits)
        grad = torch.empty_like(logits)
        _focal_run(logits, wanted, sizes, ctx.alpha, ctx.gamma, None, scale, grad)
        return grad, None, None, None, None


def focal(logits: Tensor, wanted: Tensor, sizes: Tensor | None, alpha: float, gamma: float) -> Tensor:
    """Returns composed_focal(logits, wanted, alpha, gamma), divided by sizes.clamp(min=1) if sizes (.., B) is given, as float32."""
    wanted, sizes = _dense(wanted), _dense(sizes)
    if torch.is_grad_enabled() and logits.requires_grad:
        return _Focal.apply(logits, wanted, sizes, alpha, gamma)
    return _focal_loss(_dense(logits), wanted, sizes, alpha, gamma)


# ---- L1 loss ----


def takes_l1(ours: Tensor, theirs: Tensor, sizes: Tensor, weight: Any) -> bool:
    """Returns whether l1() computes this loss."""
    return (
        ours.is_cuda
        and direct(ours)
        and not has_tangent(ours)
        and not has_tangent(theirs)
        and ours.dim() == sizes.dim() + 2
        and ours.dtype == theirs.dtype == torch.float32
        and ours.shape == theirs.shape
        and not (theirs.requires_grad and torch.is_grad_enabled())
        and type(weight) in (float, int)
    )


def _l1_run(
    ours: Tensor, theirs: Tensor, sizes: Tensor, mean: bool, loss: Tensor | None, scale: Tensor | None, grad: Tensor | None
) -> None:
    device, stride = device_of(ours), 0
    if scale is not None:
        scale, stride = _strided(scale)
    lib.l1(
        device.handle, device.stream(), prod(ours.shape[:-2]), ours.shape[-2], ours.shape[-1], ours.data_ptr(),
        theirs.data_ptr(), sizes.data_ptr(), mean, pointer(loss), pointer(scale), stride, pointer(grad),
    )  # fmt: skip


def _l1_loss(ours: Tensor, theirs: Tensor, sizes: Tensor, mean: bool) -> Tensor:
    loss = torch.empty(sizes.shape, dtype=torch.float32, device=ours.device)
    _l1_run(ours, theirs, sizes, mean, loss, None, None)
    return loss


class _L1(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ours: Tensor, theirs: Tensor, sizes: Tensor, mean: bool) -> Tensor:
        ctx.save_for_backward(ours, theirs, sizes)
        ctx.mean = mean
        return _l1_loss(_dense(ours), theirs, sizes, mean)

    @staticmethod
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        ours, theirs, sizes = ctx.saved_tensors
        if torch.is_grad_enabled():
            loss = (ours - theirs).abs().sum((-1, -2))
            loss = loss / sizes.clamp(min=1) if ctx.mean else loss
            return torch.autograd.grad(loss, ours, scale, create_graph=True)[0], None, None, None
        ours = _dense(ours)
        grad = torch.empty_like(ours)
        _l1_run(ours, theirs, sizes, ctx.mean, None, scale, grad)
        return grad, None, None, None


def l1(ours: Tensor, theirs: Tensor, sizes: Tensor, mean: bool) -> Tensor:
    """Returns the sum of |ours - theirs| (.., B) over pairs and values. ours, theirs: (.., B, pairs, D), with zeros after the sizes (.., B) of the samples.
    mean: the sum is divided by sizes.clamp(min=1)."""
    theirs, sizes = _dense(theirs), _dense(sizes)
    if torch.is_grad_enabled() and ours.requires_grad:
        return _L1.apply(ours, theirs, sizes, mean)
    return _l1_loss(_dense(ours), theirs, sizes, mean)
