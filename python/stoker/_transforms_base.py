# SPDX-License-Identifier: Apache-2.0
"""The base classes of all transforms."""

from __future__ import annotations

import importlib
import math
import numbers
from collections.abc import Sequence
from typing import Any


def _finite(value: Any) -> bool:
    """Returns whether a value holds no NaN and no infinity, also inside lists, tuples and dicts."""
    if isinstance(value, (list, tuple)):
        return all(map(_finite, value))
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    return isinstance(value, numbers.Integral) or not isinstance(value, numbers.Real) or math.isfinite(value)


class Transform:
    """One step that the Loader compiles. The constructor's arguments are kept as attributes, which take finite numbers only."""

    _of_tensors: str | None = None  # set if torchvision resizes tensors and PIL images differently: advice for an error message

    def __setattr__(self, name: str, value: Any) -> None:
        if not _finite(value):
            raise ValueError(f"{type(self).__name__}: {name} takes finite numbers, not {value!r}")
        object.__setattr__(self, name, value)

    def __call__(self, image: Any) -> Any:
        """Applies the transform to one image: an array (height, width, channels), a tensor (channels, height, width) or a PIL image. Returns the same kind of
        object, with the pixels that a Loader would make; uint8 stays uint8, unless the transform makes floats (Normalize, ToTensor, ToDtype,
        ConvertImageDtype). This builds a pipeline for the call, so it serves to look at a transform; a Loader is what trains."""
        # The Loader compiles transforms and imports this file, so it is loaded only when a transform is called.
        return importlib.import_module("stoker.loader._one_image").apply(self, image)

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={v!r}" for k, v in vars(self).items() if not k.startswith("_"))
        return f"{type(self).__name__}({shown})"


class Group(Transform):
    """A transform that holds other transforms."""

    transforms: Sequence[Transform]


class Filled(Transform):
    """A transform that shows pixels from outside the image, which take the color `fill`."""

    fill: Any  # one number, one number per channel, or a dict of these with the keys "Image", "Mask" and "others"

    def fill_of(self, kind: str) -> list[float]:
        """Returns the fill of one kind of input: one number for masks, and one number or one per channel for images."""
        fill = self.fill.get(kind, self.fill.get("others", 0)) if isinstance(self.fill, dict) else self.fill
        values = [float(f) for f in fill] if isinstance(fill, Sequence) else [float(fill or 0)]
        if kind == "Mask" and len(values) > 1:
            raise ValueError(f'{type(self).__name__}: a mask has one fill, not {fill!r}: fill={{"Image": {fill!r}, "Mask": 0}}')
        return values
