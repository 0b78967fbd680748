# SPDX-License-Identifier: Apache-2.0
"""Computes losses of matched predictions for all samples, decoder layers and cameras in one call.

Predictions are (.., B, Q, D), for Q queries. Targets are (B, G, ..), ragged over G, and the same for all dims before B. `matches` is the result of
linear_sum_assignment for costs (.., B, Q, G). A loss has the shape (.., B): for each sample the sum over its pairs, divided by the number of pairs (at least
1). sigmoid_focal sums over all predictions instead, gaussian_focal over all pixels of heatmaps. `normalizer` replaces the divisor.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ..errors import ShapeError
from . import _fused
from ._shapes import Layout, require
from .assignment import Assignment
from .indexing import batched_index_mapping, batched_indexing_access
from .ragged_batch import RaggedBatch

Normalizer = Tensor | float | None


def _spread(targets: RaggedBatch, batch_shape: torch.Size) -> RaggedBatch:
    """Expands the targets to the batch shape of the predictions, without a copy of the data. Raises ShapeError if they do not fit."""
    extra = len(batch_shape) - targets.num_batch_dims
    require(
        extra >= 0 and tuple(batch_shape[extra:]) == tuple(targets.batch_shape),
        lambda: f"targets of batch shape {tuple(targets.batch_shape)} do not fit matches of batch shape {tuple(batch_shape)}",
    )
    if extra == 0:
        return targets
    tensor = targets.tensor.expand(*batch_shape[:extra], *targets.shape)
    return RaggedBatch._of(tensor, Layout(None, targets.sample_sizes.expand(batch_shape)), targets.non_uniform_dim + extra)


def _normalized(total: Tensor, matches: Assignment, normalizer: Normalizer) -> Tensor:
    if normalizer is None:
        return total / matches.rows.sample_sizes.clamp(min=1)
    return total / normalizer


def matched(predictions: Tensor, targets: RaggedBatch, matches: Assignment) -> tuple[RaggedBatch, RaggedBatch]:
    """Returns the matched predictions and the matched targets, each a RaggedBatch (.., B, pairs, ..) whose padding is 0."""
    spread = _spread(targets, matches.rows.batch_shape)
    return batched_indexing_access(predictions, matches.rows), batched_indexing_access(spread, matches.cols)


def _check_labels(labels: RaggedBatch) -> None:
    if labels.dtype.is_floating_point or labels.dtype.is_complex or labels.dtype == torch.bool:
        raise ShapeError(f"target_labels are {labels.dtype}: integers, the indices of classes, are expected")
    if labels.dim() != labels.num_batch_dims + 1:
        raise ShapeError(f"target_labels have the shape {tuple(labels.shape)}: (*batch, G), one label a target, is expected")


def _check_boxes(boxes: Tensor, targets: RaggedBatch) -> None:
    if targets.dim() != targets.num_batch_dims + 2 or boxes.shape[-1] != targets.shape[-1]:
        raise ShapeError(f"boxes {tuple(boxes.shape)} and target_boxes {tuple(targets.shape)} must have the same number of values a box")


def sigmoid_focal(
    logits: Tensor,
    target_labels: RaggedBatch,
    matches: Assignment,
    alpha: float = 0.25,
    gamma: float = 2.0,
    normalizer: Normalizer = None,
) -> Tensor:
    """Returns the focal loss (Lin et al., ICCV 2017) of logits (.., B, Q, C). A matched query should predict its target's class, other queries no class.
    target_labels: (B, G), integers."""

    _check_labels(target_labels)

    def composed(x: Tensor) -> Tensor:
        return _composed_focal(x, target_labels, matches, alpha, gamma)

    if not _fused.takes_focal(logits, target_labels, matches, alpha, gamma):
        return _normalized(composed(logits), matches, normalizer)
    total = _fused.focal(logits, target_labels, matches, normalizer is None, float(alpha), float(gamma), composed)
    return total if normalizer is None else total / normalizer


def _composed_focal(logits: Tensor, target_labels: RaggedBatch, matches: Assignment, alpha: Any, gamma: Any) -> Tensor:
    labels = _spread(target_labels, matches.rows.batch_shape)
    none = torch.full(logits.shape[:-1], logits.shape[-1], dtype=labels.dtype, device=logits.device)
    wanted = batched_index_mapping(labels, matches.cols, matches.rows, none)
    assert isinstance(wanted, Tensor)  # batched_index_mapping returns the type of its last argument
    hot = wanted.unsqueeze(-1) == torch.arange(logits.shape[-1], dtype=wanted.dtype, device=logits.device)
    x = torch.where(hot, logits, -logits).float()  # sigmoid(x) is the probability of the right answer
    weight = torch.where(hot, alpha, 1 - alpha)
    return -(torch.sigmoid(-x) ** gamma * functional.logsigmoid(x) * weight).sum((-1, -2))


def l1(
    boxes: Tensor,
    target_boxes: RaggedBatch,
    matches: Assignment,
    weight: Tensor | float = 1.0,
    normalizer: Normalizer = None,
) -> Tensor:
    """Returns the sum of absolute differences between matched boxes. weight: a number, or a tensor with a number for each value of a box."""
    _check_boxes(boxes, target_boxes)
    if not _fused.takes_l1(boxes, target_boxes, matches, weight):
        return _normalized(_composed_l1(boxes, target_boxes, matches, weight), matches, normalizer)
    total = _fused.l1(boxes, target_boxes, matches, normalizer is None, lambda x: _composed_l1(x, target_boxes, matches, 1.0))
    total = total if weight == 1 else total * weight
    return total if normalizer is None else total / normalizer


def _composed_l1(boxes: Tensor, target_boxes: RaggedBatch, matches: Assignment, weight: Tensor | float) -> Tensor:
    ours, theirs = matched(boxes, target_boxes, matches)
    difference = (ours.tensor - theirs.tensor).abs()  # 0 in padding: both hold zeros there
    return (difference * weight).sum((-1, -2))


def corners(boxes: Tensor, box_format: str = "xyxy") -> Tensor:
    """Converts boxes to (x0, y0, x1, y1). For the format "xyzwlh", these are the corners in the ground plane of the box before its rotation."""
    require(box_format in ("xyxy", "cxcywh", "xyzwlh"), lambda: f"box_format is {box_format!r}, not one of xyxy, cxcywh, xyzwlh")
    least = 6 if box_format == "xyzwlh" else 4
    require(boxes.shape[-1] >= least, lambda: f"boxes {tuple(boxes.shape)} have too few values for {box_format}: {least} are needed")
    if box_format == "xyxy":
        return boxes[..., :4]
    size = boxes[..., 2:4] if box_format == "cxcywh" else boxes[..., 3:5]
    return torch.cat((boxes[..., :2] - 0.5 * size, boxes[..., :2] + 0.5 * size), -1)


def _area(size: Tensor) -> Tensor:
    return size[..., 0] * size[..., 1]  # the derivative of torch.prod would wait for the GPU


def generalized_iou(a: Tensor, b: Tensor) -> Tensor:
    """Returns the GIoU (Rezatofighi et al., CVPR 2019) of each box (x0, y0, x1, y1) of `a` with the box at the same index of `b`."""
    if a.shape[-1] < 4 or b.shape[-1] < 4:
        raise ShapeError(f"boxes {tuple(a.shape)} and {tuple(b.shape)} have too few values for GIoU: 4 are needed")
    low, high = torch.minimum(a[..., :2], b[..., :2]), torch.maximum(a[..., 2:], b[..., 2:])
    inter = _area((torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0))
    join = _area(a[..., 2:] - a[..., :2]) + _area(b[..., 2:] - b[..., :2]) - inter
    hull = _area(high - low)
    return inter / join - (hull - join) / hull


def giou(boxes: Tensor, target_boxes: RaggedBatch, matches: Assignment, box_format: str = "xyxy", normalizer: Normalizer = None) -> Tensor:
    """Returns the sum of 1 - GIoU over matched boxes. box_format: as for corners()."""
    ours, theirs = matched(boxes, target_boxes, matches)
    loss = 1 - generalized_iou(corners(ours.tensor.float(), box_format), corners(theirs.tensor.float(), box_format))
    pairs = matches.rows.create_with_sample_sizes_like_self(loss)
    return _normalized(pairs.with_padded_set_to(0.0).tensor.sum(-1), matches, normalizer)


def gaussian_focal(
    heatmap: Tensor,
    target: Tensor,
    alpha: float = 2.0,
    beta: float = 4.0,
    normalizer: Normalizer = None,
    from_logits: bool = True,
    eps: float = 1e-12,
) -> Tensor:
    """Returns CornerNet's focal loss for each of B samples. heatmap, target: predicted and target heatmaps, both (B, .., H, W).
    Pixels whose target is 1 are positive; other pixels weigh less the nearer their target is to 1. The loss is divided by the number of positive pixels, at
    least 1. from_logits: heatmap holds logits; False: probabilities. eps: added to probabilities before their logarithm is taken.
    """
    require(
        heatmap.shape == target.shape, lambda: f"heatmap {tuple(heatmap.shape)} and target {tuple(target.shape)} must have the same shape"
    )
    heatmap, peak = heatmap.float(), target == 1
    if from_logits:
        p, log_p, log_q = heatmap.sigmoid(), functional.logsigmoid(heatmap), functional.logsigmoid(-heatmap)
    else:
        p, log_p, log_q = heatmap, (heatmap + eps).log(), (1 - heatmap + eps).log()
    loss = torch.where(peak, (1 - p) ** alpha * log_p, (1 - target) ** beta * p**alpha * log_q)
    dims = tuple(range(1, heatmap.dim()))
    count = peak.sum(dims).clamp(min=1) if normalizer is None else normalizer
    return -loss.sum(dims) / count
