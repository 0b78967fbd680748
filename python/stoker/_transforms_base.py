# SPDX-License-Identifier: Apache-2.0
"""What all transforms are."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any


def _finite(value: Any) -> bool:
    """Whether no number in it is NaN or infinite, also where it holds others."""
    if isinstance(value, (list, tuple)):
        return all(map(_finite, value))
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    return isinstance(value, numbers.Integral) or not isinstance(value, numbers.Real) or math.isfinite(value)


class Transform:
    """What the Loader compiles. The attributes are the arguments; their numbers are finite."""

    of_tensors: str | None = None  # if torchvision resizes tensors otherwise than PIL images: the way out, for a message

    def __setattr__(self, name: str, value: Any) -> None:
        if not _finite(value):
            raise ValueError(f"{type(self).__name__}: {name} takes finite numbers, not {value!r}")
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={v!r}" for k, v in vars(self).items() if not k.startswith("_"))
        return f"{type(self).__name__}({shown})"


class Group(Transform):
    """What holds other transforms."""

    transforms: Sequence[Transform]


class Filled(Transform):
    """What brings in pixels from outside the image."""

    fill: Any  # one number, one a channel, or these by kind: "Image", "Mask", "others"

    def fill_of(self, kind: str) -> list[float]:
        """Of images, one or one a channel; of masks, one."""
        fill = self.fill.get(kind, self.fill.get("others", 0)) if isinstance(self.fill, dict) else self.fill
        values = [float(f) for f in fill] if isinstance(fill, Sequence) else [float(fill or 0)]
        if kind == "Mask" and len(values) > 1:
            raise ValueError(f'{type(self).__name__}: a mask has one fill, not {fill!r}: fill={{"Image": {fill!r}, "Mask": 0}}')
        return values
