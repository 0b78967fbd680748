# SPDX-License-Identifier: Apache-2.0
"""Transforms of whole batches: Loader(batch_transforms=...). Part of stoker.transforms."""

from __future__ import annotations

import numbers

from stoker._transforms_base import Transform


class Mixing(Transform):
    """What mixes each sample with the one before it in the batch, images and labels, by a share drawn for the batch."""

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
    """Images and labels become the weighted mean of two; the share is drawn from Beta(alpha, alpha). num_classes: of labels that are numbers; by default as many
    as the Loader knows classes."""


class CutMix(Mixing):
    """A window of each image, whose share of the area follows from a draw from Beta(alpha, alpha), comes from another one, and labels are mixed by that share.
    num_classes: as MixUp's."""
