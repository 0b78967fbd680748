# SPDX-License-Identifier: Apache-2.0
"""A DETR-like set criterion twice: as the usual loop over decoder layers and samples, and batched with stoker.batching."""

from __future__ import annotations

import torch
from scipy.optimize import linear_sum_assignment
from stoker.batching import RaggedBatch, detection_cost, losses
from stoker.batching import linear_sum_assignment as assign
from torch import Tensor
from torch.nn import functional


def batched_criterion(logits: Tensor, boxes: Tensor, labels: RaggedBatch, targets: RaggedBatch) -> dict[str, Tensor]:
    """Returns the losses for logits (layers, batch, queries, classes) and boxes (layers, batch, queries, 4) as cxcywh, all layers and samples at once. Labels
    and targets are ragged over (batch, objects)."""
    costs = detection_cost(
        logits=logits, boxes=boxes, target_labels=labels, target_boxes=targets,
        class_weight=2.0, l1_weight=5.0, giou_weight=2.0, box_format="cxcywh",
    )  # fmt: skip
    matches = assign(costs)
    return {
        "class": 2.0 * losses.sigmoid_focal(logits, labels, matches).sum(),
        "l1": 5.0 * losses.l1(boxes, targets, matches).sum(),
        "giou": 2.0 * losses.giou(boxes, targets, matches, "cxcywh").sum(),
    }


def loop_criterion(logits: Tensor, boxes: Tensor, labels: list[Tensor], targets: list[Tensor]) -> dict[str, Tensor]:
    """Returns the same losses as batched_criterion, for lists with one tensor per sample."""
    total = {name: logits.new_zeros(()) for name in ("class", "l1", "giou")}
    for layer_logits, layer_boxes in zip(logits, boxes, strict=False):
        for x, box, label, target in zip(layer_logits, layer_boxes, labels, targets, strict=False):
            rows, cols = match(x.detach(), box.detach(), label, target)
            n = max(1, len(rows))
            hot = torch.zeros_like(x)
            hot[rows, label[cols]] = 1
            p = x.sigmoid()
            pt, a = torch.where(hot > 0, p, 1 - p), torch.where(hot > 0, 0.25, 0.75)
            focal = a * (1 - pt) ** 2 * functional.binary_cross_entropy_with_logits(x, hot, reduction="none")
            total["class"] = total["class"] + 2.0 * focal.sum() / n
            total["l1"] = total["l1"] + 5.0 * (box[rows] - target[cols]).abs().sum() / n
            pairs = losses.generalized_iou(losses.corners(box[rows], "cxcywh"), losses.corners(target[cols], "cxcywh"))
            total["giou"] = total["giou"] + 2.0 * (1 - pairs).sum() / n
    return total


def match(x: Tensor, box: Tensor, label: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    p = x.sigmoid()
    focal = -0.25 * (1 - p) ** 2 * torch.log(p + 1e-12) + 0.75 * p**2 * torch.log(1 - p + 1e-12)
    giou = losses.generalized_iou(losses.corners(box, "cxcywh")[:, None], losses.corners(target, "cxcywh")[None])
    cost = 2.0 * focal[:, label] + 5.0 * torch.cdist(box, target, p=1) - 2.0 * giou
    rows, cols = linear_sum_assignment(torch.nan_to_num(cost, nan=100.0, posinf=100.0, neginf=-100.0).cpu().numpy())
    return torch.as_tensor(rows, device=x.device), torch.as_tensor(cols, device=x.device)
