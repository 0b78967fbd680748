# SPDX-License-Identifier: Apache-2.0
"""Advice for torchvision's transforms that stoker.transforms does not have: what to use instead of each."""

from __future__ import annotations

_CLAMPED = "boxes are clipped to the image after each crop; points are not, and torchvision.transforms.v2.functional.clamp_keypoints takes those of a batch"

INSTEAD = {
    "ClampBoundingBoxes": _CLAMPED,
    "ClampKeyPoints": _CLAMPED,
    "ConvertBoundingBoxFormat": 'fields={"boxes": ("BoundingBoxes", "XYWH")} says what the boxes are; torchvision.ops.box_convert takes those of a batch',
    "LinearTransformation": "on the batch: (batch.image.flatten(1) - mean) @ matrix",
    "SanitizeKeyPoints": "on the batch: keep the points of each sample that lie inside of its image",
    "SetClampingMode": _CLAMPED,
    "ToPILImage": "leave it out: images go through the list as they are, and come as tensors",
    "UniformTemporalSubsample": "Loader(frames=, stride=) and stoker.Video choose the frames of a clip",
}


def advice(name: str) -> str | None:
    """Returns advice on what to use instead of the transform of this name; None for names that INSTEAD lacks, such as those of stoker.transforms."""
    return INSTEAD.get(name)
