# SPDX-License-Identifier: Apache-2.0
"""Transforms for stoker.Loader, with torchvision's names, arguments and meaning; none of them needs torchvision.

They describe what is done and hold no data: the Loader compiles them into one pass over each image, in C. Values are on torchvision's scale (0..1), so that
mean and std are the usual ones. Geometry and colours agree with torchvision on PIL images within 1 of 255, except where a class says otherwise.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from stoker import types

__all__ = [
    "RGB",
    "CenterCrop",
    "ColorJitter",
    "Compose",
    "ConvertImageDtype",
    "Identity",
    "InterpolationMode",
    "Normalize",
    "PILToTensor",
    "RandomApply",
    "RandomChoice",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomOrder",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "Resize",
    "ToDtype",
    "ToImage",
    "ToTensor",
    "Transform",
]


class InterpolationMode(Enum):
    """Interpolation, with torchvision's names."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    LANCZOS = "lanczos"


_INTERP = {
    "nearest": types.INTERP_NN,
    "nearest-exact": types.INTERP_NN,
    "bilinear": types.INTERP_LINEAR,
    "bicubic": types.INTERP_CUBIC,
    "lanczos": types.INTERP_LANCZOS3,
}
_PIL = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}


def _interp(owner: str, mode: Any) -> types.DALIInterpType:
    """One of ours from torchvision's mode, PIL's number, a name, or one of ours."""
    if isinstance(mode, types.DALIInterpType):
        return mode
    name = getattr(mode, "value", mode)
    name = _PIL.get(name, name) if isinstance(name, int) else name
    if name not in _INTERP:
        raise ValueError(f"{owner}: interpolation {mode!r} is not known; there are {', '.join(_INTERP)}")
    return _INTERP[name]


def _pair(owner: str, size: Any) -> tuple[int, int]:
    """(height, width) from one or two numbers."""
    values = [size, size] if isinstance(size, numbers.Integral) else list(size) if isinstance(size, Sequence) else [None]
    if len(values) == 1:
        values *= 2
    if len(values) != 2 or any(not isinstance(v, numbers.Integral) or v < 1 for v in values):
        raise ValueError(f"{owner}: size is a whole number or (height, width), not {size!r}")
    height, width = (int(v) for v in values if v is not None)
    return height, width


def _probability(owner: str, p: float) -> float:
    if not isinstance(p, numbers.Real) or not 0 <= p <= 1:
        raise ValueError(f"{owner}: p is a probability, from 0 to 1, not {p!r}")
    return float(p)


def _range(owner: str, name: str, pair: Any, least: float) -> tuple[float, float]:
    try:
        low, high = (float(v) for v in pair)
    except (TypeError, ValueError):
        raise ValueError(f"{owner}: {name} is (least, most), not {pair!r}") from None
    if not least <= low <= high or math.isinf(high):
        raise ValueError(f"{owner}: {name} is (least, most) with {least:g} <= least <= most, not {pair!r}")
    return low, high


class Transform:
    """What the Loader compiles. The attributes are the arguments."""

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={v!r}" for k, v in vars(self).items())
        return f"{type(self).__name__}({shown})"


class Group(Transform):
    """What holds other transforms."""

    transforms: Sequence[Transform]


class Compose(Group):
    """Transforms one after another."""

    def __init__(self, transforms: Sequence[Transform]) -> None:
        self.transforms = list(transforms)


class RandomResizedCrop(Transform):
    """A window of random area and aspect, resized."""

    def __init__(
        self,
        size: int | Sequence[int],
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3 / 4, 4 / 3),
        interpolation: Any = InterpolationMode.BILINEAR,
        antialias: bool = True,
    ) -> None:
        self.size = _pair("RandomResizedCrop", size)
        self.scale = _range("RandomResizedCrop", "scale", scale, 0)
        self.ratio = _range("RandomResizedCrop", "ratio", ratio, 1e-4)
        self.interpolation = _interp("RandomResizedCrop", interpolation)
        self.antialias = bool(antialias)


class Resize(Transform):
    """The shorter edge to `size` with the aspect kept (the longer one is cut to a whole number, as torchvision does), or to (height, width)."""

    def __init__(
        self,
        size: int | Sequence[int],
        interpolation: Any = InterpolationMode.BILINEAR,
        max_size: int | None = None,
        antialias: bool = True,
    ) -> None:
        if max_size is not None:
            raise ValueError("Resize: max_size is not in Stoker yet")
        one = isinstance(size, int) or len(size) == 1
        self.size: int | tuple[int, int] = _pair("Resize", size)[0] if one else _pair("Resize", size)
        self.interpolation = _interp("Resize", interpolation)
        self.antialias = bool(antialias)


class CenterCrop(Transform):
    """The middle of the image; what lies outside is black."""

    def __init__(self, size: int | Sequence[int]) -> None:
        self.size = _pair("CenterCrop", size)


class RandomCrop(Transform):
    """A window at a random place, of the image with `padding` pixels of `fill` around it (one number, or left/right and top/bottom, or left, top, right,
    bottom). fill: one number, one a channel, or {"Image": .., "Mask": ..}."""

    def __init__(
        self,
        size: int | Sequence[int],
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        fill: float | Sequence[float] | dict[Any, Any] = 0,
        padding_mode: str = "constant",
    ) -> None:
        if padding_mode != "constant":
            raise ValueError(f"RandomCrop: padding_mode={padding_mode!r} is not in Stoker yet; 'constant' is")
        if pad_if_needed:
            raise ValueError("RandomCrop: pad_if_needed is not in Stoker yet")
        self.size = _pair("RandomCrop", size)
        self.padding = _padding(padding)
        self.fill = {_kind_name(kind): f for kind, f in fill.items()} if isinstance(fill, dict) else fill

    def fill_of(self, kind: str) -> list[float]:
        """Of images, one or one a channel; of masks, one."""
        fill = self.fill.get(kind, self.fill.get("others", 0)) if isinstance(self.fill, dict) else self.fill
        values = [float(f) for f in fill] if isinstance(fill, Sequence) else [float(fill or 0)]
        if kind == "Mask" and len(values) > 1:
            raise ValueError(f'RandomCrop: a mask has one fill, not {fill!r}: fill={{"Image": {fill!r}, "Mask": 0}}')
        return values


def _kind_name(kind: Any) -> str:
    """ "Image", "Mask" or "others", also from the classes of torchvision.tv_tensors."""
    return str(getattr(kind, "__name__", kind))


def _padding(padding: int | Sequence[int] | None) -> tuple[int, int, int, int]:
    """(left, top, right, bottom) as torchvision reads it."""
    if padding is None:
        return (0, 0, 0, 0)
    values = [padding] if isinstance(padding, numbers.Integral) else list(padding)  # type: ignore[arg-type]
    if len(values) not in (1, 2, 4) or any(not isinstance(v, numbers.Integral) or v < 0 for v in values):
        raise ValueError(f"RandomCrop: padding is one, two or four whole numbers, not {padding!r}")
    left, top, right, bottom = (values * 4)[:4] if len(values) == 1 else values * 2 if len(values) == 2 else values
    return int(left), int(top), int(right), int(bottom)


class RandomHorizontalFlip(Transform):
    """Left and right exchanged, with probability p."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = _probability("RandomHorizontalFlip", p)


class RandomVerticalFlip(Transform):
    """Top and bottom exchanged, with probability p."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = _probability("RandomVerticalFlip", p)


class ColorJitter(Transform):
    """Random brightness, contrast, saturation and hue.

    Three differences from torchvision: the order is always brightness, contrast, saturation, hue; contrast is around mid-gray (128) and not around
    the image's mean; hue turns in the YIQ plane (linear, as DALI) and not in HSV.
    """

    def __init__(
        self,
        brightness: float | Sequence[float] = 0,
        contrast: float | Sequence[float] = 0,
        saturation: float | Sequence[float] = 0,
        hue: float | Sequence[float] = 0,
    ) -> None:
        self.brightness = _jitter("brightness", brightness)
        self.contrast = _jitter("contrast", contrast)
        self.saturation = _jitter("saturation", saturation)
        self.hue = _jitter("hue", hue, centre=0.0)


def _jitter(name: str, value: Any, centre: float = 1.0) -> tuple[float, float] | None:
    """The range to draw from; None: nothing is changed."""
    if isinstance(value, numbers.Real):
        if value < 0:
            raise ValueError(f"ColorJitter: {name} is not negative")
        low = centre - float(value)
        pair = (low if centre == 0 else max(low, 0.0), centre + float(value))
    else:
        pair = _range("ColorJitter", name, value, -0.5 if centre == 0 else 0.0)
    if centre == 0 and not -0.5 <= pair[0] <= pair[1] <= 0.5:
        raise ValueError("ColorJitter: hue is at most 0.5, or a range inside (-0.5, 0.5)")
    return None if pair == (centre, centre) else pair


class Normalize(Transform):
    """(value - mean) / std for each channel, on the scale 0..1."""

    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> None:
        self.mean = [float(m) for m in (mean if isinstance(mean, (Sequence,)) or hasattr(mean, "__iter__") else [mean])]
        self.std = [float(s) for s in (std if isinstance(std, (Sequence,)) or hasattr(std, "__iter__") else [std])]
        if any(s == 0 for s in self.std):
            raise ValueError("Normalize: std holds a zero")


class ToDtype(Transform):
    """The type of the images. With scale=True values are brought to the type's range (0..1 for floats); with scale=False, torchvision's default, uint8
    images stay on the scale 0..255."""

    def __init__(self, dtype: Any, scale: bool = False) -> None:
        self.dtype = types.to_dtype(dtype)
        self.scale = bool(scale)


class ConvertImageDtype(ToDtype):
    """The type of the images, values brought to its range: ToDtype with scale=True."""

    def __init__(self, dtype: Any = types.FLOAT) -> None:
        super().__init__(dtype, scale=True)


class ToTensor(ToDtype):
    """float32 on the scale 0..1, which is also what the Loader makes when no transform says anything about types."""

    def __init__(self) -> None:
        super().__init__(types.FLOAT, scale=True)


class PILToTensor(Transform):
    """uint8 on the scale 0..255, unless a later transform or the Loader's dtype says otherwise."""


class ToImage(PILToTensor):
    """uint8 on the scale 0..255, as PILToTensor."""


class Identity(Transform):
    """Changes nothing."""


class RGB(Identity):
    """Changes nothing: the Loader's images are RGB."""


class RandomApply(Group):
    """All of `transforms` with probability p, or none of them, drawn for each sample. Inside stand flips, ColorJitter, and groups of these."""

    def __init__(self, transforms: Any, p: float = 0.5) -> None:
        self.transforms = flatten(transforms)
        self.p = _probability("RandomApply", p)


class RandomChoice(Group):
    """One of `transforms`, drawn for each sample; p: their weights, equal by default. Inside stand flips, ColorJitter, and groups of these."""

    def __init__(self, transforms: Sequence[Any], p: Sequence[float] | None = None) -> None:
        self.transforms = [Compose(flatten(t)) for t in transforms]
        if not self.transforms:
            raise ValueError("RandomChoice: there is nothing to choose from")
        weights = [1.0] * len(self.transforms) if p is None else [float(v) for v in p]
        if len(weights) != len(self.transforms):
            raise ValueError(f"RandomChoice: p has {len(weights)} weights for {len(self.transforms)} transforms")
        if any(not 0 <= w < math.inf for w in weights) or sum(weights) <= 0:
            raise ValueError(f"RandomChoice: p holds weights, none of them negative and not all of them zero, not {p!r}")
        self.p = [w / sum(weights) for w in weights]


class RandomOrder(Group):
    """All of `transforms`, in an order drawn for each sample. Taken where the order makes no difference: flips, and one ColorJitter among them."""

    def __init__(self, transforms: Sequence[Any]) -> None:
        self.transforms = [Compose(flatten(t)) for t in transforms]
        if sum(not _turns(t) for t in self.transforms) > 1:
            raise ValueError(
                "RandomOrder: a random order of transforms that do not commute is not in Stoker yet; give them in one order, or draw one with RandomChoice"
            )


def _turns(transform: Transform) -> bool:
    """Whether this only mirrors the image, which commutes with everything but crops."""
    if isinstance(transform, Group):
        return all(_turns(t) for t in transform.transforms)
    return isinstance(transform, (RandomHorizontalFlip, RandomVerticalFlip, Identity))


def flatten(transforms: Any) -> list[Transform]:
    """A Compose, a list, or one transform, as a flat list of ours; torchvision's own are translated."""
    if transforms is None:
        return []
    if isinstance(transforms, (list, tuple)):
        return [t for item in transforms for t in flatten(item)]
    if isinstance(transforms, Compose) or (_is_torchvision(transforms) and type(transforms).__name__ == "Compose"):
        return flatten(list(transforms.transforms))
    if type(transforms).__module__.startswith("torch.nn.") and type(transforms).__name__ in ("Sequential", "ModuleList"):
        return flatten(list(transforms))
    if isinstance(transforms, Transform):
        return [transforms]
    return [translate(transforms)]


def _is_torchvision(thing: Any) -> bool:
    return type(thing).__module__.partition(".")[0] == "torchvision"


def _get(thing: Any, *names: str) -> list[Any]:
    return [getattr(thing, n) for n in names]


_TRANSLATE: dict[str, Callable[[Any], Transform]] = {
    "RandomResizedCrop": lambda t: RandomResizedCrop(*_get(t, "size", "scale", "ratio", "interpolation")),
    "Resize": lambda t: Resize(t.size, t.interpolation, t.max_size),
    "CenterCrop": lambda t: CenterCrop(t.size),
    "RandomCrop": lambda t: RandomCrop(t.size, t.padding, t.pad_if_needed, _fill(t.fill), _name(t.padding_mode)),
    "RandomHorizontalFlip": lambda t: RandomHorizontalFlip(t.p),
    "RandomVerticalFlip": lambda t: RandomVerticalFlip(t.p),
    "ColorJitter": lambda t: ColorJitter(*(v if v is not None else 0 for v in _get(t, "brightness", "contrast", "saturation", "hue"))),
    "Normalize": lambda t: Normalize(t.mean, t.std),
    "ToDtype": lambda t: ToDtype(_image_dtype(t.dtype), t.scale),
    "ConvertImageDtype": lambda t: ConvertImageDtype(t.dtype),
    "ToTensor": lambda t: ToTensor(),
    "ToImage": lambda t: ToImage(),
    "PILToTensor": lambda t: PILToTensor(),
    "ToPureTensor": lambda t: Identity(),
    "Identity": lambda t: Identity(),
    "RGB": lambda t: RGB(),
    "RandomApply": lambda t: RandomApply(list(t.transforms), t.p),
    "RandomChoice": lambda t: RandomChoice(list(t.transforms), t.p),
    "RandomOrder": lambda t: RandomOrder(list(t.transforms)),
}


def _image_dtype(dtype: Any) -> Any:
    """torchvision's ToDtype also takes a type for each kind of input."""
    if not isinstance(dtype, dict):
        return dtype
    for kind in ("Image", "others"):
        for key, wanted in dtype.items():
            if wanted is not None and getattr(key, "__name__", key) == kind:
                return wanted
    raise ValueError(f"ToDtype: {dtype!r} names no type for images")


def _name(mode: Any) -> str:
    return str(getattr(mode, "value", mode))


def _fill(fill: Any) -> Any:
    """torchvision's v2 keeps fills by type of input."""
    return 0 if fill is None or fill == {} else fill


def translate(transform: Any) -> Transform:
    """One of torchvision's transforms as one of ours; a TypeError that names it where there is none."""
    name = type(transform).__name__
    if type(transform).__module__.startswith("torch.nn.") and name == "Identity":
        return Identity()
    if _is_torchvision(transform) and name in _TRANSLATE:
        return _TRANSLATE[name](transform)
    known = ", ".join(sorted(_TRANSLATE))
    raise TypeError(f"the transform {name} ({type(transform).__module__}) has no counterpart in stoker.transforms; there are: {known}")
