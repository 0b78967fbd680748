# SPDX-License-Identifier: Apache-2.0
"""Transforms of whole batches: Loader(batch_transforms=...). Part of stoker.transforms."""

from __future__ import annotations

import numbers

from stoker._transforms_base import Transform


class Mixing(Transform):
    """Mixes the image and the label of each sample with those of the previous sample of the batch. The share of each of the two is drawn once per batch."""

    alpha: float
    num_classes: int | None

    def __init__(self, *, alpha: float = 1.0, num_classes: int | None = None) -> None:
        name = type(self).__name__
        if not isinstance(alpha, numbers.Real) or not 0 < alpha < float("inf"):
            raise ValueError(f"{name}: alpha is a number above 0, not {alpha!r}")
        if num_classes is not None and (not isinstance(num_classes, numbers.Integral) or num_classes < 1):
            raise ValueError(f"{name}: num_classes is a whole number of at least 1, not {num_classes!r}")
        self.alpha = float(alpha)
        self.num_classes = None if num_classes is None else int(num_classes)


class MixUp(Mixing):
    """Replaces images and labels by the weighted mean of two samples; the weight is drawn from Beta(alpha, alpha). num_classes: the number of classes if labels
    are numbers; by default the number of classes that the Loader knows."""


class CutMix(Mixing):
    """Replaces a window of each image by the same window of another image, and mixes the labels by the window's share of the area. The size of the window is
    computed from a draw from Beta(alpha, alpha). num_classes: as in MixUp."""
