# SPDX-License-Identifier: Apache-2.0
"""Checks and converts arguments of transforms, in the forms that torchvision accepts. owner: the transform's name in messages."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping, Sequence, Set
from enum import Enum
from typing import Any

from stoker import types


class InterpolationMode(Enum):
    """Methods of interpolation, with torchvision's names and values."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    LANCZOS = "lanczos"


_MODES = {
    "nearest": types.INTERP_NN,
    "nearest-exact": types.INTERP_NN,
    "bilinear": types.INTERP_LINEAR,
    "bicubic": types.INTERP_CUBIC,
    "lanczos": types.INTERP_LANCZOS3,
}
_PIL = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}


def interp(owner: str, mode: Any) -> types.DALIInterpType:
    """Converts torchvision's mode, PIL's number, a name or a DALIInterpType to a DALIInterpType."""
    if isinstance(mode, types.DALIInterpType):
        return mode
    name = getattr(mode, "value", mode)
    name = _PIL.get(name, name) if isinstance(name, int) else name
    if name not in _MODES:
        raise ValueError(f"{owner}: interpolation {mode!r} is not known; there are {', '.join(_MODES)}")
    return _MODES[name]


def pair(owner: str, size: Any, name: str = "size") -> tuple[int, int]:
    """Returns (height, width) from one or two whole numbers. name: the argument's name in messages."""
    values = [size, size] if isinstance(size, numbers.Integral) else list(size) if isinstance(size, Sequence) else [None]
    if len(values) == 1:
        values *= 2
    if len(values) != 2 or any(not isinstance(v, numbers.Integral) or v < 1 for v in values):
        raise ValueError(f"{owner}: {name} is a whole number from 1 on, or (height, width) of such, not {size!r}")
    height, width = (int(v) for v in values if v is not None)
    return height, width


def probability(owner: str, p: float) -> float:
    if not isinstance(p, numbers.Real) or not 0 <= p <= 1:
        raise ValueError(f"{owner}: p is a probability, from 0 to 1, not {p!r}")
    return float(p)


def range(owner: str, name: str, pair: Any, least: float) -> tuple[float, float]:
    try:
        low, high = (float(v) for v in pair)
    except (TypeError, ValueError):
        raise ValueError(f"{owner}: {name} is (least, most), not {pair!r}") from None
    if not least <= low <= high or not math.isfinite(high - low):
        above = "" if math.isinf(least) else f"{least:g} <= "
        raise ValueError(f"{owner}: {name} is (least, most) with {above}least <= most, both finite, not {pair!r}")
    return low, high


def two(owner: str, name: str, pair: Any) -> tuple[float, float]:
    """Returns two numbers (x, y). name: the argument's name in messages."""
    try:
        x, y = (float(v) for v in pair)
    except (TypeError, ValueError):
        raise ValueError(f"{owner}: {name} is two numbers, of x and of y, not {pair!r}") from None
    return x, y


def channels(owner: str, name: str, values: Any) -> list[float]:
    """Returns a list of numbers, one for each channel; a single number gives a list of one, for all channels."""
    given = [values] if isinstance(values, numbers.Real) or not hasattr(values, "__iter__") else values
    try:
        if isinstance(values, (str, bytes, Set, Mapping)) or any(isinstance(v, (str, bytes)) for v in given):
            raise TypeError
        return [float(v) for v in given]
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{owner}: {name} is a number, or a list of one for each channel, not {values!r}") from None


def fills(fill: Any) -> Any:
    """Replaces classes among the keys of a dict of fills, such as torchvision.tv_tensors.Mask, by their names. Returns other fills unchanged."""
    return {str(getattr(kind, "__name__", kind)): f for kind, f in fill.items()} if isinstance(fill, dict) else fill


def symmetric(owner: str, name: str, value: Any) -> tuple[float, float]:
    """Returns (-value, value) for a number from 0 on, and a pair unchanged."""
    if isinstance(value, numbers.Real):
        if value < 0:
            raise ValueError(f"{owner}: {name} is not negative, or a pair")
        return -float(value), float(value)
    return range(owner, name, value, -math.inf)


def padding(owner: str, padding: int | Sequence[int] | None) -> tuple[int, int, int, int]:
    """Returns (left, top, right, bottom). padding: None, one number, (left and right, top and bottom), or all four."""
    if padding is None:
        return (0, 0, 0, 0)
    values = list(padding) if isinstance(padding, Iterable) else [padding]
    if len(values) not in (1, 2, 4) or any(not isinstance(v, numbers.Integral) or v < 0 for v in values):
        raise ValueError(f"{owner}: padding is one, two or four whole numbers, not {padding!r}")
    left, top, right, bottom = (values * 4)[:4] if len(values) == 1 else values * 2 if len(values) == 2 else values
    return int(left), int(top), int(right), int(bottom)


def jitter(name: str, value: Any, centre: float = 1.0) -> tuple[float, float] | None:
    """Returns the range for ColorJitter's argument `name` from a number or a pair; None if the range is only `centre`, the value that leaves images
    unchanged."""
    if isinstance(value, numbers.Real):
        if value < 0:
            raise ValueError(f"ColorJitter: {name} is not negative")
        low = centre - float(value)
        pair = (low if centre == 0 else max(low, 0.0), centre + float(value))
    else:
        pair = range("ColorJitter", name, value, -0.5 if centre == 0 else 0.0)
    if centre == 0 and not -0.5 <= pair[0] <= pair[1] <= 0.5:
        raise ValueError("ColorJitter: hue is at most 0.5, or a range inside (-0.5, 0.5)")
    return None if pair == (centre, centre) else pair


def padding_mode(owner: str, mode: Any) -> str:
    name = str(getattr(mode, "value", mode))
    if name not in ("constant", "edge", "reflect", "symmetric"):
        raise ValueError(f"{owner}: padding_mode is constant, edge, reflect or symmetric, not {mode!r}")
    return name


def nearest_or_bilinear(owner: str, mode: Any) -> types.DALIInterpType:
    made = interp(owner, mode)
    if made not in (types.INTERP_NN, types.INTERP_LINEAR):
        raise ValueError(f"{owner}: interpolation is nearest or bilinear, not {mode!r}")
    return made


def one_fill(owner: str, values: Sequence[float]) -> None:
    if len(set(values)) > 1:
        raise ValueError(f"{owner}: fill takes one number for all channels; one for each channel is not in Stoker yet")


def both_axes(owner: str, name: str, value: Any) -> tuple[float, float]:
    """Returns (x, y). value: two numbers, or one number for both axes."""
    values = list(value) if isinstance(value, Iterable) else [value]
    if len(values) not in (1, 2) or any(not isinstance(v, numbers.Real) or not math.isfinite(v) for v in values):
        raise ValueError(f"{owner}: {name} is a number or two, not {value!r}")
    return float(values[0]), float(values[-1])
