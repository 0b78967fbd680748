# SPDX-License-Identifier: Apache-2.0
"""Computes the cost of matching each prediction of a detector with each target, in one pass over the predictions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from ..errors import ShapeError
from ._native import CODES, COST, FLOATS, INDEX_BYTES, device_of, direct, lib, pointer, refuse
from ._ops import _dense, _register
from ._shapes import Layout, require
from .ragged_batch import RaggedBatch, check_sizes

CLASSIFICATION = {"focal": 0, "softmax": 1, "probability": 2}
BOX_FORMAT = {"xyxy": 0, "cxcywh": 1, "xyzwlh": 2}
Ragged = RaggedBatch | Tensor


def _cost_run(
    logits: Tensor | None, boxes: Tensor | None, labels: Tensor | None, target_boxes: Tensor | None, sizes: Tensor | None,
    batch_dims: int, kind: int, box_format: int, weights: list[float],
) -> Tensor:  # fmt: skip
    given = logits if logits is not None else boxes
    target = labels if labels is not None else target_boxes
    assert given is not None and target is not None
    device = device_of(given)
    logits, boxes, labels, target_boxes, sizes = map(_dense, (logits, boxes, labels, target_boxes, sizes))
    lead, queries, targets = given.shape[:-2], given.shape[-2], target.shape[batch_dims]
    batch = prod(lead[len(lead) - batch_dims :])
    outer = prod(lead[: len(lead) - batch_dims])
    out = torch.empty((*lead, targets, queries), dtype=torch.float32, device=given.device)
    code = CODES[torch.float32]
    refused = lib.cost(
        device.handle, device.stream(), outer, batch, queries, targets, 0 if logits is None else logits.shape[-1],
        0 if boxes is None else boxes.shape[-1], pointer(logits), pointer(boxes), pointer(labels), pointer(target_boxes), pointer(sizes),
        code if logits is None else CODES[logits.dtype], code if boxes is None else CODES[boxes.dtype],
        code if target_boxes is None else CODES[target_boxes.dtype], 8 if labels is None else INDEX_BYTES[labels.dtype], kind, box_format,
        *weights[:7], out.data_ptr(), device.counter(COST), *weights[7:],
    )  # fmt: skip
    refuse(COST, refused)
    return out


def _cost_fake(logits, boxes, labels, target_boxes, sizes, batch_dims, kind, box_format, weights):
    given = logits if logits is not None else boxes
    target = labels if labels is not None else target_boxes
    return given.new_empty((*given.shape[:-2], target.shape[batch_dims], given.shape[-2]), dtype=torch.float32)


_register(
    "detection_cost(Tensor? logits, Tensor? boxes, Tensor? labels, Tensor? target_boxes, Tensor? sizes, int batch_dims, int kind, int box_format, "
    "float[] weights) -> Tensor",
    _cost_run,
    _cost_fake,
)


def _check_pair(name: str, given: Tensor, target_name: str, target: Tensor, batch: torch.Size) -> None:
    """Raises ShapeError unless the predictions (.., *batch, Q, D) fit the targets (*batch, G, ..) in shape and device and are floats."""
    if given.dim() < len(batch) + 2 or given.shape[given.dim() - 2 - len(batch) : -2] != batch:
        raise ShapeError(
            f"{name} {tuple(given.shape)} does not fit {target_name} {tuple(target.shape)}: (.., {', '.join(map(str, batch))}, Q, D) is expected"
        )
    require(given.dtype in FLOATS, lambda: f"{name} must be a float tensor, not {given.dtype}")
    require(given.device == target.device, lambda: f"{name} is on {given.device}, {target_name} on {target.device}")


def _tensor(data: Ragged | None) -> Tensor | None:
    return data.tensor if isinstance(data, RaggedBatch) else data


def _sizes_of(target_labels: Ragged | None, target_boxes: Ragged | None) -> Tensor | None:
    """Returns the numbers of targets of the samples; None if neither argument is a RaggedBatch. Raises ShapeError if the ragged dim is not that of the targets,
    and on the CPU if both arguments are ragged with different sizes."""
    given = [(n, d) for n, d in (("target_labels", target_labels), ("target_boxes", target_boxes)) if isinstance(d, RaggedBatch)]
    for name, data in given:
        if data.non_uniform_dim != data.num_batch_dims:
            raise ShapeError(
                f"{name} {tuple(data.shape)} is ragged in dim {data.non_uniform_dim}: dim {data.num_batch_dims}, the targets, is expected"
            )
    if not given:
        return None
    check_sizes("target_labels", target_labels, "target_boxes", target_boxes)
    return given[0][1].sample_sizes


def _check_labels(logits: Tensor, labels: Tensor, batch_dims: int) -> None:
    require(labels.dtype in INDEX_BYTES, lambda: f"target_labels must be int32 or int64, not {labels.dtype}")
    require(labels.dim() == batch_dims + 1, lambda: f"target_labels has shape {tuple(labels.shape)}: (*batch, G) is expected")
    _check_pair("logits", logits, "target_labels", labels, labels.shape[:batch_dims])


def _check_boxes(boxes: Tensor, target: Tensor, batch_dims: int, least: int) -> None:
    _check_pair("boxes", boxes, "target_boxes", target, target.shape[:batch_dims])
    require(target.dtype in FLOATS, lambda: f"target_boxes must be a float tensor, not {target.dtype}")
    if target.dim() != batch_dims + 2 or boxes.shape[-1] != target.shape[-1]:
        raise ShapeError(f"boxes {tuple(boxes.shape)} and target_boxes {tuple(target.shape)} must have the same number of values a box")
    require(boxes.shape[-1] <= 32, lambda: f"boxes {tuple(boxes.shape)} have more than 32 values")
    require(boxes.shape[-1] >= least, lambda: f"boxes {tuple(boxes.shape)} have too few values for GIoU: {least} are needed")


def _per_value(l1_weight: float | Sequence[float], boxes: Tensor) -> list[float]:
    values = boxes.shape[-1]
    if isinstance(l1_weight, (int, float)):
        return [float(l1_weight)] * values
    weights = [float(w) for w in l1_weight]
    require(len(weights) == values, lambda: f"l1_weight has {len(weights)} numbers, boxes {tuple(boxes.shape)} have {values} values")
    return weights


def detection_cost(
    *,
    logits: Tensor | None = None,
    boxes: Tensor | None = None,
    target_labels: Ragged | None = None,
    target_boxes: Ragged | None = None,
    classification: str = "focal",
    alpha: float = 0.25,
    gamma: float = 2.0,
    class_weight: float = 2.0,
    l1_weight: float | Sequence[float] = 0.25,
    giou_weight: float = 0.0,
    box_format: str = "xyxy",
    nan: float = 100.0,
    posinf: float = 100.0,
    neginf: float = -100.0,
) -> RaggedBatch:
    """Returns the costs of matching Q predictions with G targets, for each sample: a float32 RaggedBatch (.., B, Q, G), ragged over G and without gradient. A
    cost is
        class_weight * class + sum(l1_weight * |box - target|) - giou_weight * GIoU
    with NaN and infinities replaced by `nan`, `posinf` and `neginf`.

    logits: (.., B, Q, C). All entries of the dims before B, such as decoder layers, share the targets. classification: how the class's cost is computed.
        "focal": focal loss of sigmoid(logits) with `alpha` and `gamma`; "softmax": minus the probability of the class; "probability": the same, for logits
        that are already probabilities.
    boxes: (.., B, Q, D), with D up to 32. l1_weight: one number, or D numbers. GIoU is that of the first 4 values, or with box_format "xyzwlh" of the boxes in
        the ground plane.
    target_labels: (B, G), int32 or int64. target_boxes: (B, G, D). Each is a RaggedBatch, or a tensor without padding.
    The dim of the queries is contiguous in memory, which linear_sum_assignment reads fastest.
    """
    require((logits is None) == (target_labels is None), "logits and target_labels go together: give both or neither")
    require((boxes is None) == (target_boxes is None), "boxes and target_boxes go together: give both or neither")
    require(logits is not None or boxes is not None, "logits or boxes must be given")
    require(classification in CLASSIFICATION, lambda: f"classification is {classification!r}, not one of {', '.join(CLASSIFICATION)}")
    require(box_format in BOX_FORMAT, lambda: f"box_format is {box_format!r}, not one of {', '.join(BOX_FORMAT)}")
    sizes = _sizes_of(target_labels, target_boxes)
    batch_dims = 1 if sizes is None else sizes.dim()
    labels, target = _tensor(target_labels), _tensor(target_boxes)
    weights = [alpha, gamma, class_weight, giou_weight, nan, posinf, neginf]
    if logits is not None and labels is not None:
        _check_labels(logits, labels, batch_dims)
        logits = logits.detach()
    if boxes is not None and target is not None:
        _check_boxes(boxes, target, batch_dims, 0 if giou_weight == 0 else 6 if box_format == "xyzwlh" else 4)
        weights += _per_value(l1_weight, boxes)
        boxes, target = boxes.detach(), target.detach()
    if logits is not None and boxes is not None and labels is not None and target is not None:
        if logits.shape[:-1] != boxes.shape[:-1]:
            raise ShapeError(f"logits {tuple(logits.shape)} and boxes {tuple(boxes.shape)} must have the same shape but for the last dim")
        if labels.shape != target.shape[:-1]:
            raise ShapeError(
                f"target_labels {tuple(labels.shape)} and target_boxes {tuple(target.shape)} must have the same batch and size"
            )
    given = logits if logits is not None else boxes
    assert given is not None
    run = _cost_run if direct(given) else torch.ops.stoker.detection_cost
    kinds = (CLASSIFICATION[classification], BOX_FORMAT[box_format])
    out = run(logits, boxes, labels, target, sizes, batch_dims, *kinds, [float(w) for w in weights])
    lead = given.shape[:-2]
    if sizes is None:
        sizes = torch.full(lead, out.shape[-2], dtype=torch.int64, device=out.device)
    elif len(lead) > batch_dims:
        sizes = sizes.expand(lead).contiguous()
    return RaggedBatch._of(out.transpose(-1, -2), Layout(None, sizes), out.dim() - 1)
