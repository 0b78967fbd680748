# SPDX-License-Identifier: Apache-2.0
"""torchvision's transforms that are not in stoker.transforms: those that run as they are, in Python, and what to do in place of the others."""

from __future__ import annotations

# These take an image and return one, with random numbers of their own.
IN_PYTHON = frozenset(
    [
        "ElasticTransform",
        "JPEG",
        "RandomAdjustSharpness",
        "RandomAutocontrast",
        "RandomChannelPermutation",
    ]
    + [
        "RandomEqualize",
        "RandomPerspective",
        "RandomPhotometricDistort",
        "RandomResize",
        "RandomShortestSize",
        "RandomZoomOut",
        "ScaleJitter",
    ]
)

_CLAMPED = "boxes end at the image's edges after each crop; points do not, and torchvision.transforms.v2.functional.clamp_keypoints takes those of a batch"
_SANITIZED = "on the batch: keep what torchvision.ops.remove_small_boxes keeps of each sample's boxes"
_MIXED = "on the batch: collate_fn=lambda batch: v2.{}(num_classes=10)(batch.image, batch.label)"

INSTEAD = {
    "ClampBoundingBoxes": _CLAMPED,
    "ClampKeyPoints": _CLAMPED,
    "ConvertBoundingBoxFormat": 'fields={"boxes": ("BoundingBoxes", "XYWH")} says what the boxes are; torchvision.ops.box_convert takes those of a batch',
    "CutMix": _MIXED.format("CutMix"),
    "FiveCrop": "views=[(1, first), (1, second), ...] gives several crops of an image",
    "GaussianNoise": "on the batch: batch.image + 0.1 * torch.randn_like(batch.image)",
    "LinearTransformation": "on the batch: (batch.image.flatten(1) - mean) @ matrix",
    "MixUp": _MIXED.format("MixUp"),
    "RandomIoUCrop": "in the Dataset, which has image and boxes",
    "SanitizeBoundingBoxes": _SANITIZED,
    "SanitizeKeyPoints": _SANITIZED,
    "SetClampingMode": _CLAMPED,
    "TenCrop": "views=[(1, first), (1, second), ...] gives several crops of an image",
    "ToPILImage": "leave it out: images go through the list as they are, and come as tensors",
    "UniformTemporalSubsample": "in the Dataset: there are no videos here",
}


def way(name: str) -> str | None:
    """What to do for a transform of this name; None: torchvision has none, or it is here."""
    if name in IN_PYTHON:
        return f"torchvision's is taken as it is, in Python: transforms=[torchvision.transforms.v2.{name}(...)]"
    return INSTEAD.get(name)
