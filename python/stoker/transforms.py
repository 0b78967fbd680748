# SPDX-License-Identifier: Apache-2.0
"""Transforms for stoker.Loader, with torchvision's names, arguments and meaning; none of them needs torchvision.

The objects only describe the transforms: the Loader compiles them into one pass over each image, in C. Values are on torchvision's scale (0..1), so that the
usual mean and std apply. Geometry and colors differ from torchvision's on PIL images by at most 1 of 255, with two exceptions: classes whose docstring says
otherwise, and bicubic and lanczos at hard edges, because Pillow rounds and clips to bytes between its two passes (doc/from-torchvision.md has figures).
"""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from stoker import _transform_arguments as arguments
from stoker import _transforms_elsewhere, _transforms_timm, types
from stoker._signatures import hint_for
from stoker._transform_arguments import InterpolationMode
from stoker._transforms_base import Filled, Group, Transform
from stoker._transforms_base import with_parts as with_parts
from stoker._transforms_batch import CutMix, MixUp
from stoker._transforms_batch import Mixing as Mixing
from stoker._transforms_geometry import Crops as Crops
from stoker._transforms_geometry import (
    ElasticTransform,
    FiveCrop,
    FixedSizeCrop,
    Pad,
    RandomCrop,
    RandomIoUCrop,
    RandomPerspective,
    RandomResize,
    RandomShortestSize,
    RandomZoomOut,
    SanitizeBoundingBoxes,
    ScaleJitter,
    TenCrop,
)
from stoker._transforms_geometry import Padded as Padded
from stoker._transforms_policies import AugMix, AutoAugment, AutoAugmentPolicy, RandAugment, TrivialAugmentWide
from stoker._transforms_values import (
    JPEG,
    ColorJitter,
    GaussianNoise,
    RandomAdjustSharpness,
    RandomAutocontrast,
    RandomChannelPermutation,
    RandomEqualize,
    RandomPhotometricDistort,
)
from stoker._where import missing
from stoker.errors import ArgumentError

__all__ = [
    "JPEG",
    "RGB",
    "AugMix",
    "AutoAugment",
    "AutoAugmentPolicy",
    "CenterCrop",
    "ColorJitter",
    "Compose",
    "ConvertImageDtype",
    "CutMix",
    "ElasticTransform",
    "FiveCrop",
    "FixedSizeCrop",
    "GaussianBlur",
    "GaussianNoise",
    "Grayscale",
    "Identity",
    "InterpolationMode",
    "Lambda",
    "MixUp",
    "Normalize",
    "PILToTensor",
    "Pad",
    "RandAugment",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomApply",
    "RandomAutocontrast",
    "RandomChannelPermutation",
    "RandomChoice",
    "RandomCrop",
    "RandomEqualize",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomInvert",
    "RandomIoUCrop",
    "RandomOrder",
    "RandomPerspective",
    "RandomPhotometricDistort",
    "RandomPosterize",
    "RandomResize",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomShortestSize",
    "RandomSolarize",
    "RandomVerticalFlip",
    "RandomZoomOut",
    "Resize",
    "SanitizeBoundingBoxes",
    "ScaleJitter",
    "TenCrop",
    "ToDtype",
    "ToImage",
    "ToTensor",
    "Transform",
    "TrivialAugmentWide",
]


class Compose(Group):
    """Applies transforms one after another."""

    def __init__(self, transforms: Sequence[Transform]) -> None:
        if isinstance(transforms, Transform) or not isinstance(transforms, Iterable):
            raise ArgumentError(f"Compose: transforms is a list, as [Resize(256), CenterCrop(224)], not {transforms!r:.60}")
        self.transforms = list(transforms)


class RandomResizedCrop(Transform):
    """Cuts out a window of random area and aspect ratio (width / height), and resizes it to `size`. scale: range of the area, as a share of the image's. ratio:
    range of the aspect ratio."""

    _is_never_grouped = True

    def __init__(
        self,
        size: int | Sequence[int],
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3 / 4, 4 / 3),
        interpolation: Any = InterpolationMode.BILINEAR,
        antialias: bool = True,
    ) -> None:
        self.size = arguments.pair("RandomResizedCrop", size)
        self.scale = arguments.range("RandomResizedCrop", "scale", scale, 0)
        self.ratio = arguments.range("RandomResizedCrop", "ratio", ratio, 1e-4)
        self.interpolation = arguments.interp("RandomResizedCrop", interpolation)
        self.antialias = bool(antialias)
        self.drawn: list[types.DALIInterpType] | None = None  # if not None, each sample draws its interpolation from this list


class Resize(Transform):
    """Resizes to size=(height, width). If `size` is one number, resizes the shorter edge to it and keeps the aspect ratio; the longer edge is then truncated to
    a whole number, as in torchvision, and is at most max_size."""

    _is_never_grouped = True

    def __init__(
        self,
        size: int | Sequence[int],
        interpolation: Any = InterpolationMode.BILINEAR,
        max_size: int | None = None,
        antialias: bool = True,
    ) -> None:
        pair = arguments.pair("Resize", size)
        self.size: int | tuple[int, int] = pair[0] if isinstance(size, (int, numbers.Integral)) or len(size) == 1 else pair
        self.interpolation = arguments.interp("Resize", interpolation)
        self.antialias = bool(antialias)
        self.max_size = max_size
        if max_size is not None and (not isinstance(self.size, int) or not isinstance(max_size, numbers.Integral) or max_size <= self.size):
            raise ValueError(f"Resize: max_size is a whole number above the size of the shorter edge, not {max_size!r} for {size!r}")


class CenterCrop(Transform):
    """Cuts a window of `size` out of the middle of the image. Pixels outside of the image are black. size: (height, width), or one number for both."""

    _is_never_grouped = True

    def __init__(self, size: int | Sequence[int]) -> None:
        self.size = arguments.pair("CenterCrop", size)


class RandomAffine(Filled):
    """Rotates the image about its center or `center` (x, y), shifts, scales and shears it. Angle, shift, scale and shear are drawn for each
    sample. Angles are in degrees, shifts in shares of the image's size."""

    expand = False  # whether the output grows or shrinks to hold the whole rotated image

    def __init__(
        self,
        degrees: float | Sequence[float],
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: float | Sequence[float] | None = None,
        interpolation: Any = InterpolationMode.NEAREST,
        fill: Any = 0,
        center: Sequence[float] | None = None,
    ) -> None:
        name = type(self).__name__
        self.degrees = arguments.symmetric(name, "degrees", degrees)
        self.translate = (0.0, 0.0) if translate is None else arguments.two(name, "translate", translate)
        if any(not 0 <= v <= 1 for v in self.translate):
            raise ValueError(f"{name}: translate is two shares of the extents, from 0 to 1, not {translate!r}")
        self.scale = arguments.range(name, "scale", scale, 1e-6) if scale else (1.0, 1.0)
        given = [] if shear is None else [shear] if isinstance(shear, numbers.Real) else shear
        shears = [float(v) for v in given]  # type: ignore[union-attr]
        if len(shears) not in (0, 1, 2, 4):
            raise ValueError(f"{name}: shear is one number, (least, most) of x, or these of x and of y, not {shear!r}")
        across = arguments.symmetric(name, "shear", shears[0] if len(shears) == 1 else shears[:2]) if shears else (0.0, 0.0)
        self.shear = (*across, *(arguments.symmetric(name, "shear", shears[2:]) if len(shears) == 4 else (0.0, 0.0)))
        self.interpolation = arguments.nearest_or_bilinear(name, interpolation)
        self.center = None if center is None else arguments.two(name, "center", center)
        self.fill = arguments.fills(fill)
        arguments.one_fill(name, self.fill_of("Image"))

    @property
    def _is_never_grouped(self) -> bool:
        return self.expand


class RandomRotation(RandomAffine):
    """Rotates the image about its center or `center` (x, y), counter-clockwise, by an angle drawn for each sample. The image keeps its size; with expand=True
    the output has the size that holds the whole rotated image."""

    def __init__(
        self,
        degrees: float | Sequence[float],
        interpolation: Any = InterpolationMode.NEAREST,
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: Any = 0,
    ) -> None:
        low, high = arguments.symmetric("RandomRotation", "degrees", degrees)
        super().__init__((-high, -low), interpolation=interpolation, fill=fill, center=center)  # RandomAffine turns clockwise
        self.expand = bool(expand)


class RandomHorizontalFlip(Transform):
    """Swaps left and right with probability p."""

    _mirrors = True
    _commutes_with_mirroring = True

    def __init__(self, p: float = 0.5) -> None:
        self.p = arguments.probability("RandomHorizontalFlip", p)


class RandomVerticalFlip(Transform):
    """Swaps top and bottom with probability p."""

    _mirrors = True
    _commutes_with_mirroring = True

    def __init__(self, p: float = 0.5) -> None:
        self.p = arguments.probability("RandomVerticalFlip", p)


class Grayscale(Transform):
    """Converts the image to its luma, in one channel or in three equal channels."""

    _commutes_with_mirroring = True

    def __init__(self, num_output_channels: int = 1) -> None:
        if num_output_channels not in (1, 3):
            raise ValueError(f"Grayscale: num_output_channels is 1 or 3, not {num_output_channels!r}")
        self.num_output_channels = int(num_output_channels)

    @property
    def _is_never_grouped(self) -> bool:
        return self.num_output_channels == 1


class RandomGrayscale(Transform):
    """Converts the image to gray in three equal channels, with probability p."""

    _commutes_with_mirroring = True

    def __init__(self, p: float = 0.1) -> None:
        self.p = arguments.probability("RandomGrayscale", p)


class RandomInvert(Transform):
    """Replaces each value by 255 - value, or by 1 - value in images of floats, with probability p."""

    _commutes_with_mirroring = True

    def __init__(self, p: float = 0.5) -> None:
        self.p = arguments.probability("RandomInvert", p)


class RandomSolarize(Transform):
    """Replaces each value that is at least the threshold by 255 - value, or by 1 - value in images of floats, with probability p. The threshold is on the scale
    of the images: 0..255, 0..1 after ToTensor, or that of the data set's floats."""

    _commutes_with_mirroring = True

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        self.threshold = float(threshold)
        self.p = arguments.probability("RandomSolarize", p)


class RandomPosterize(Transform):
    """Keeps the `bits` most significant bits of each value and clears the others, with probability p."""

    _commutes_with_mirroring = True

    p: float

    def __init__(self, bits: int, p: float = 0.5) -> None:
        if not isinstance(bits, numbers.Integral) or not 0 <= bits <= 8:
            raise ValueError(f"RandomPosterize: bits is a whole number from 0 to 8, not {bits!r}")
        self.bits: int = int(bits)
        self.p = arguments.probability("RandomPosterize", p)


class GaussianBlur(Transform):
    """Blurs the image with a Gaussian filter of kernel_size pixels: one number, or (width, height). sigma is drawn for each sample. The image is mirrored at
    its edges."""

    _commutes_with_mirroring = True

    def __init__(self, kernel_size: int | Sequence[int], sigma: float | Sequence[float] = (0.1, 2.0)) -> None:
        self.kernel_size = arguments.pair("GaussianBlur", kernel_size, "kernel_size")
        if any(k % 2 == 0 for k in self.kernel_size):
            raise ValueError(f"GaussianBlur: kernel_size is odd, not {kernel_size!r}")
        self.sigma = arguments.range("GaussianBlur", "sigma", (sigma, sigma) if isinstance(sigma, numbers.Real) else sigma, 1e-6)


class RandomErasing(Transform):
    """Fills a window of random area and aspect ratio with a value, with probability p. value: one number, or one per channel, on the scale that images have
    after the transforms before this one: 0..1, or normalized. "random" draws each value from a normal distribution; transforms of images must come before
    such a RandomErasing."""

    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: float | Sequence[float] | str = 0,
        inplace: bool = False,
    ) -> None:
        self.p = arguments.probability("RandomErasing", p)
        self.scale = arguments.range("RandomErasing", "scale", scale, 0)
        self.ratio = arguments.range("RandomErasing", "ratio", ratio, 1e-4)
        if isinstance(value, str) and value != "random":
            raise ValueError(f'RandomErasing: value is a number, one a channel or "random", not {value!r}')
        self.noise: str | None = (
            "values" if isinstance(value, str) else None
        )  # "values" or "channels": draws a random number for each value or for each channel; None: fills with `value`
        self.value = [0.0] if isinstance(value, str) else [float(v) for v in value] if isinstance(value, Sequence) else [float(value)]

    @property
    def _makes_floats(self) -> bool:
        return self.noise is not None  # the noise has values around zero

    @property
    def _is_never_grouped(self) -> bool:
        return self.noise is not None


class Lambda(Transform):
    """Calls the user's function with the image as a uint8 array (H, W, C); the function returns such an array. It runs in Python, so calls run in parallel only
    while they release the GIL. stoker.sample_rng() gives the function random numbers."""

    def __init__(self, lambd: Callable[[Any], Any]) -> None:
        if not callable(lambd):
            raise TypeError(f"Lambda: a function is wanted, not {type(lambd).__name__}")
        self.lambd = lambd
        # The form of images that the function gets: "array", "PIL", "tensor" for uint8 (C, H, W), or "keyword" for an array as the argument image=, for which
        # it returns a dict with the image.
        self.takes = "array"

    _classes: tuple[type, ...] = (object,)  # the types of torchvision's Lambda, which calls the function only for objects of these classes


class Normalize(Transform):
    """Computes (value - mean) / std for each channel. mean and std are on the scale 0..1, or on the scale of the data set's floats."""

    _makes_floats = True
    _is_never_grouped = True

    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> None:
        self.mean = arguments.channels("Normalize", "mean", mean)
        self.std = arguments.channels("Normalize", "std", std)
        if any(s == 0 for s in self.std):
            raise ValueError("Normalize: std holds a zero")


class ToDtype(Transform):
    """Converts images to a type. scale=True also scales values to the type's range (0..1 for floats). scale=False, torchvision's default, keeps uint8 images on
    the scale 0..255. dtype: a type, or a dict with types for "Image", "Mask" and "others", or torchvision's classes; None: those do not change."""

    _is_never_grouped = True

    def __init__(self, dtype: Any, scale: bool = False) -> None:
        self.dtype: Any = (
            {str(getattr(kind, "__name__", kind)): None if to is None else types.to_dtype(to) for kind, to in dtype.items()}
            if isinstance(dtype, dict)
            else types.to_dtype(dtype)
        )
        self.scale = bool(scale)
        dtype_for(self.dtype, "Image")

    @property
    def _makes_floats(self) -> bool:
        return dtype_for(self.dtype, "Image") is not None


class ConvertImageDtype(ToDtype):
    """Converts images to a type and scales values to the type's range, as ToDtype with scale=True."""

    def __init__(self, dtype: Any = types.FLOAT) -> None:
        super().__init__(dtype, scale=True)


class ToTensor(ToDtype):
    """Converts images to float32 on the scale 0..1. The Loader does the same if no transform sets a type."""

    def __init__(self) -> None:
        super().__init__(types.FLOAT, scale=True)


class PILToTensor(Transform):
    """Keeps images as uint8 on the scale 0..255, unless a later transform or the Loader's dtype sets another type."""

    _is_never_grouped = True


class ToImage(PILToTensor):
    """The name that torchvision's v2 uses for PILToTensor."""


class Identity(Transform):
    """Changes nothing."""

    _mirrors = True
    _commutes_with_mirroring = True


class ToPureTensor(Identity):
    """Makes images plain tensors, as torchvision's class of this name. ToDtype and Lambda, if they name classes of images, tell the two apart."""


class RGB(Identity):
    """Gives gray arrays three channels, if all arrays of the data set are gray. Does nothing otherwise: all other images are RGB already."""


class RandomApply(Group):
    """Applies all of `transforms` with probability p, else none of them, drawn for each sample."""

    def __init__(self, transforms: Any, p: float = 0.5) -> None:
        self.transforms = flatten(transforms)
        self.p = arguments.probability("RandomApply", p)


class RandomChoice(Group):
    """Applies one of `transforms`, drawn for each sample. p: weights of the transforms, equal by default."""

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
    """Applies all of `transforms` in an order drawn for each sample. At most five of them may depend on the order. Flips do not, unless
    another of `transforms` gives other results before a flip than after it."""

    MOST = 5  # each transform is compiled once for each position in the order

    def __init__(self, transforms: Sequence[Any]) -> None:
        self.transforms = [Compose(flatten(t)) for t in transforms]
        count = len(self.in_random_order())
        if count > self.MOST:
            raise ValueError(
                f"RandomOrder: {count} transforms in a random order are too many, at most {self.MOST} are compiled: give some of them in one order, before or "
                "after the RandomOrder, or draw the order in Python, in a Dataset"
            )

    def in_random_order(self) -> list[Transform]:
        """Returns the transforms whose order matters. Leaves out flips if all other transforms commute with flips. Returns [] if all orders are equivalent."""
        others = [t for t in self.transforms if not t._mirrors]
        turned = len(others) < len(self.transforms)
        commute = all(t._commutes_with_mirroring for t in others)
        if len(self.transforms) < 2 or (commute and len(others) < 2):
            return []
        return list(self.transforms) if turned and not commute else others


def flatten(transforms: Any, pil: bool = False) -> list[Transform]:
    """Makes a flat list of Stoker's transforms from a Compose, a list or one transform, and translates those of torchvision and timm. pil: functions get PIL
    images, as in torchvision. Functions also get PIL images if their list holds a transform of torchvision or timm."""
    if transforms is None:
        return []
    _refuse_added(transforms)
    if isinstance(transforms, (list, tuple)):
        pil = pil or any(map(_is_of_pil_library, transforms))
        return [t for item in transforms for t in flatten(item, pil)]
    if isinstance(transforms, Compose) or (_is_torchvision(transforms) and type(transforms).__name__ == "Compose"):
        return flatten(list(transforms.transforms), pil)
    if type(transforms).__module__.startswith("torch.nn.") and type(transforms).__name__ in ("Sequential", "ModuleList"):
        return flatten(list(transforms), pil)
    if isinstance(transforms, Transform):
        for part in with_parts([transforms]):  # the user may have changed the list of a group after its constructor had checked it
            _refuse_added(part)
        return [transforms]
    if _is_preset(transforms):
        return flatten(transforms.transforms, pil)
    if type(transforms).__module__ == "torchvision.transforms._presets" and type(transforms).__name__ in _PRESETS:
        return _PRESETS[type(transforms).__name__](transforms)
    return [translate(transforms, pil)]


def _refuse_added(transform: Any) -> None:
    """Raises TypeError if code was added to a transform."""
    if added := _added_to(transform):
        raise TypeError(
            f"the transform {type(transform).__name__} has {added}, which Stoker would not call: remove it, or give a function that calls the transform, which "
            "then runs in Python"
        )


def _is_of_pil_library(thing: Any) -> bool:
    """Returns whether a transform comes from torchvision or timm, whose transforms pass PIL images to each other."""
    return _is_torchvision(thing) or type(thing).__module__.startswith("timm.data.")


class _Preset:
    """A preset as torchvision's reference scripts write it: its attribute `transforms` holds the transforms, and __call__ only calls them."""

    transforms: Any

    def __call__(self, img: Any) -> Any:
        return self.transforms(img)


def _is_preset(thing: Any) -> bool:
    """Returns whether the object's class has the same code in __call__ as _Preset."""
    code, known = getattr(getattr(type(thing), "__call__", None), "__code__", None), _Preset.__call__.__code__  # noqa: B004
    return code is not None and (code.co_code, code.co_names) == (known.co_code, known.co_names)


def _added_to(thing: Any) -> str:
    """Returns a description of code that was added to a transform of stoker, torchvision or torchaudio or a module of torch, and that its class does not have: a
    hook, a method that was set on the object, or the __call__ of a subclass; "" otherwise."""
    home = type(thing).__module__
    known = isinstance(thing, Transform) or _is_torchvision(thing) or home.startswith(("torch.nn.", "torchaudio."))
    if not known and not _is_preset(thing):
        return ""
    if isinstance(thing, Transform) and type(thing).__call__ is not Transform.__call__:
        return "a __call__ of its own"
    kept = getattr(thing, "__dict__", {})
    if kept.get("_forward_hooks") or kept.get("_forward_pre_hooks"):
        return "a hook (register_forward_hook or register_forward_pre_hook)"
    own = (name for name, value in kept.items() if callable(value) and inspect.isfunction(getattr(type(thing), name, None)))
    if (name := next(own, None)) is not None:
        return f"a method {name} of its own"
    # MelSpectrogram has a Spectrogram, for example; torchaudio's other objects are no modules.
    parts: Any = thing.named_children() if home.startswith("torchaudio.") and hasattr(thing, "named_children") else ()
    return next((f"{added} in its part {name}" for name, part in parts if (added := _added_to(part))), "")


def _is_torchvision(thing: Any) -> bool:
    return type(thing).__module__.partition(".")[0] == "torchvision"


def _get(thing: Any, *names: str) -> list[Any]:
    return [getattr(thing, n) for n in names]


# The classes of presets that torchvision's weights.transforms() returns, each with a function that lists the preset's transforms in the order of use.
_PRESETS: dict[str, Callable[[Any], list[Transform]]] = {
    "ImageClassification": lambda t: [
        Resize(t.resize_size, t.interpolation, antialias=t.antialias is not False),
        CenterCrop(t.crop_size),
        ToTensor(),
        Normalize(t.mean, t.std),
    ],
    "ObjectDetection": lambda t: [ToTensor()],
    "SemanticSegmentation": lambda t: [
        *([] if t.resize_size is None else [Resize(t.resize_size, t.interpolation, antialias=t.antialias is not False)]),
        ToTensor(),
        Normalize(t.mean, t.std),
    ],
}


_TRANSLATE: dict[str, Callable[[Any], Transform]] = {
    "RandomResizedCrop": lambda t: RandomResizedCrop(*_get(t, "size", "scale", "ratio", "interpolation")),
    "Resize": lambda t: Resize(t.size, t.interpolation, t.max_size),
    "CenterCrop": lambda t: CenterCrop(t.size),
    "RandomCrop": lambda t: RandomCrop(t.size, _padding(t), t.pad_if_needed, _fill(t.fill), _name(t.padding_mode)),
    "RandomHorizontalFlip": lambda t: RandomHorizontalFlip(t.p),
    "RandomVerticalFlip": lambda t: RandomVerticalFlip(t.p),
    "ColorJitter": lambda t: ColorJitter(*(v if v is not None else 0 for v in _get(t, "brightness", "contrast", "saturation", "hue"))),
    "Normalize": lambda t: Normalize(t.mean, t.std),
    "AugMix": lambda t: AugMix(t.severity, t.mixture_width, t.chain_depth, t.alpha, t.all_ops, t.interpolation, _fill(t.fill)),
    "AutoAugment": lambda t: AutoAugment(t.policy, t.interpolation, _fill(t.fill)),
    "RandAugment": lambda t: RandAugment(t.num_ops, t.magnitude, t.num_magnitude_bins, t.interpolation, _fill(t.fill)),
    "TrivialAugmentWide": lambda t: TrivialAugmentWide(t.num_magnitude_bins, t.interpolation, _fill(t.fill)),
    "CutMix": lambda t: _mixing(t, CutMix),
    "MixUp": lambda t: _mixing(t, MixUp),
    "ElasticTransform": lambda t: ElasticTransform(t.alpha, t.sigma, t.interpolation, _fill(t.fill)),
    "FiveCrop": lambda t: FiveCrop(t.size),
    "TenCrop": lambda t: TenCrop(t.size, t.vertical_flip),
    "RandomPerspective": lambda t: RandomPerspective(t.distortion_scale, t.p, t.interpolation, _fill(t.fill)),
    "RandomResize": lambda t: RandomResize(*_get(t, "min_size", "max_size", "interpolation")),
    "RandomShortestSize": lambda t: RandomShortestSize(*_get(t, "min_size", "max_size", "interpolation")),
    "RandomZoomOut": lambda t: RandomZoomOut(_fill(t.fill), t.side_range, t.p),
    "RandomIoUCrop": lambda t: RandomIoUCrop(
        *_get(t, "min_scale", "max_scale", "min_aspect_ratio", "max_aspect_ratio", "options", "trials")
    ),
    "SanitizeBoundingBoxes": lambda t: SanitizeBoundingBoxes(*_get(t, "min_size", "min_area", "labels_getter")),
    "ScaleJitter": lambda t: ScaleJitter(*_get(t, "target_size", "scale_range", "interpolation")),
    "GaussianNoise": lambda t: GaussianNoise(*_get(t, "mean", "sigma", "clip")),
    "JPEG": lambda t: JPEG(t.quality),
    "RandomAdjustSharpness": lambda t: RandomAdjustSharpness(t.sharpness_factor, t.p),
    "RandomAutocontrast": lambda t: RandomAutocontrast(t.p),
    "RandomChannelPermutation": lambda t: RandomChannelPermutation(),
    "RandomEqualize": lambda t: RandomEqualize(t.p),
    "RandomPhotometricDistort": lambda t: RandomPhotometricDistort(*_get(t, "brightness", "contrast", "saturation", "hue", "p")),
    "GaussianBlur": lambda t: GaussianBlur(list(t.kernel_size), list(t.sigma)),
    "Grayscale": lambda t: Grayscale(t.num_output_channels),
    "Lambda": lambda t: _calling(t.lambd, "PIL", getattr(t, "types", (object,))),
    "Pad": lambda t: Pad(t.padding, _fill(t.fill), _name(t.padding_mode)),
    "RandomAffine": lambda t: RandomAffine(t.degrees, t.translate, t.scale, t.shear, t.interpolation, _fill(t.fill), t.center),
    "RandomErasing": lambda t: RandomErasing(t.p, t.scale, t.ratio, "random" if t.value is None else t.value),
    "RandomGrayscale": lambda t: RandomGrayscale(t.p),
    "RandomInvert": lambda t: RandomInvert(t.p),
    "RandomPosterize": lambda t: RandomPosterize(t.bits, t.p),
    "RandomRotation": lambda t: RandomRotation(t.degrees, t.interpolation, t.expand, t.center, _fill(t.fill)),
    "RandomSolarize": lambda t: RandomSolarize(t.threshold, t.p),
    "ToDtype": lambda t: ToDtype(t.dtype, t.scale),
    "ConvertImageDtype": lambda t: ConvertImageDtype(t.dtype),
    "ToTensor": lambda t: ToTensor(),
    "ToImage": lambda t: ToImage(),
    "PILToTensor": lambda t: PILToTensor(),
    "ToPureTensor": lambda t: ToPureTensor(),
    "Identity": lambda t: Identity(),
    "RGB": lambda t: RGB(),
    "RandomApply": lambda t: _group(t, RandomApply(flatten(list(t.transforms), True), t.p)),
    "RandomChoice": lambda t: _group(t, RandomChoice([flatten(part, True) for part in t.transforms], t.p)),
    "RandomOrder": lambda t: _group(t, RandomOrder([flatten(part, True) for part in t.transforms])),
}


def _group(own: Any, made: Group) -> Transform:
    """Returns `made`, the translation of torchvision's group `own`. If a part cannot be compiled inside a group, returns a Lambda that calls `own`."""
    if isinstance(made, RandomOrder) and not made.in_random_order():  # the parts of this group are compiled one after the other
        return made
    return _calling(own, "PIL") if any(t._is_never_grouped for t in made.transforms) else made


def _timm_crop(t: Any) -> Transform:
    """Translates timm's random crop. If its interpolation is a list, one entry is drawn for each sample."""
    several = isinstance(t.interpolation, (tuple, list))
    made = RandomResizedCrop(t.size, t.scale, t.ratio, t.interpolation[0] if several else t.interpolation)
    made.drawn = [arguments.interp("RandomResizedCrop", mode) for mode in t.interpolation] if several else None
    return made


def _timm_erasing(t: Any) -> Transform:
    if t.max_count > 1:
        raise ValueError(f"{t!r}: Stoker erases only one window: give re_count=1 to timm's create_transform")
    made = RandomErasing(t.probability, (t.min_area, t.max_area), tuple(map(math.exp, t.log_aspect_ratio)))
    made.noise = "values" if t.per_pixel else "channels" if t.rand_color else None
    return made


_TIMM: dict[str, Callable[[Any], Transform]] = {
    "AutoAugment": lambda t: _transforms_timm.augmentation(t) or _calling(t, "PIL"),
    "MaybePILToTensor": lambda t: PILToTensor(),
    "MaybeToTensor": lambda t: ToTensor(),
    "RandAugment": lambda t: _transforms_timm.augmentation(t) or _calling(t, "PIL"),
    "RandomErasing": _timm_erasing,
    "RandomResizedCropAndInterpolation": _timm_crop,
    "ToNumpy": lambda t: PILToTensor(),
}


def dtype_for(dtype: Any, kind: str) -> Any:
    """Returns the type to which ToDtype(dtype) converts one kind of input: "Image", "Mask", "Video", "Tensor" for an image that is a plain tensor, and so on;
    None if they do not change. Raises ValueError if a dict has no type for images."""
    if not isinstance(dtype, dict):
        return dtype if kind in ("Image", "Video", "Tensor") else None
    types_of = {getattr(key, "__name__", key): wanted for key, wanted in dtype.items()}
    if kind in ("Image", "Tensor") and kind not in types_of and "others" not in types_of:
        raise ValueError(f"ToDtype: {dtype!r} names no type for images: add one for {kind} or others; None leaves them as they are")
    return types_of.get(kind, types_of.get("others"))


def _mixing(own: Any, kind: type[Mixing]) -> Mixing:
    """Translates torchvision's MixUp or CutMix. Raises ValueError if the user gave a function that finds the labels."""
    getter = getattr(own, "_labels_getter", None)
    if getter is not None and getattr(getter, "__name__", "") != "_find_labels_default_heuristic":
        name = type(own).__name__
        raise ValueError(
            f"{name}: labels_getter is not compiled; batch_transforms mixes the field `label`, or the only other field than the image. To mix another one, call "
            "torchvision's transform: collate_fn=lambda batch: mix(batch._asdict())"
        )
    return kind(alpha=own.alpha, num_classes=own.num_classes)


def _name(mode: Any) -> str:
    return str(getattr(mode, "value", mode))


# Transforms whose results for tensors differ from those for PIL images at more than single pixels, if their interpolation is not nearest. AugMix is not among
# them, because torchvision changes PIL images as tensors, too.
_WARPS = {"RandomAffine", "RandomPerspective", "RandomRotation"}
_MAY_WARP = _WARPS | {"AutoAugment", "RandAugment", "TrivialAugmentWide"}


def _other_for_tensors(part: Any) -> str:
    """Returns the settings with which a transform of torchvision gives other pixels for a tensor than for a PIL image, by more than rounding; "" without such
    settings."""
    name = type(part).__name__
    if name == "RandomPhotometricDistort" or (name == "ColorJitter" and part.hue is not None):
        return "with a hue"
    if name not in _MAY_WARP:
        return ""
    mode = _name(part.interpolation)
    if mode != "nearest":
        return f"with {mode}"
    return "by a fixed angle, scale or shear" if name in _WARPS and _fixed(part) else ""


def _fixed(warp: Any) -> bool:
    """Returns whether a RandomAffine or RandomRotation turns, scales or shears all images by the same numbers. For such numbers, as 90 degrees, many pixels may
    lie halfway between two pixels of the source. The nearest one is then another for tensors."""
    drawn = [getattr(warp, given, None) or usual for given, usual in (("degrees", (0, 0)), ("scale", (1, 1)), ("shear", (0, 0)))]
    ranges = [(values[k], values[k + 1]) for values in drawn for k in range(0, len(values), 2)]
    moves = any(low != usual for (low, _), usual in zip(ranges, (0, 1, 0, 0), strict=False))
    return moves and all(low == high for low, high in ranges)


def _fill(fill: Any) -> Any:
    """Returns 0 for a fill that was not given: None, or in torchvision's v2 an empty dict. Returns other fills unchanged."""
    return 0 if fill is None or fill == {} else fill


def other_fill(own: Any, kind: str) -> bool:
    """Returns whether torchvision's transform `own` fills images of a kind with another value than the compiled transform, which takes that of "Image" in a
    dict of fills. kind: "PIL", "Image" or "Video" for those of tv_tensors, or "Tensor" for plain tensors."""
    fill = getattr(own, "fill", None)
    if not isinstance(fill, dict):
        return False
    import torch
    from PIL import Image as pil
    from torchvision import tv_tensors

    others = fill.get("others")
    classes = {"PIL": pil.Image, "Image": tv_tensors.Image, "Video": tv_tensors.Video, "Tensor": torch.Tensor}
    theirs = fill.get(classes[kind], others)
    return _channels(theirs) != _channels(arguments.fills(fill).get("Image", others))


def _channels(fill: Any) -> tuple[float, ...]:
    """Returns a fill as numbers: one number if it is the same in all channels."""
    values = tuple(float(f) for f in fill) if isinstance(fill, Sequence) else (float(fill or 0),)
    return values[:1] if len(set(values)) == 1 else values


def _padding(crop: Any) -> Any:
    """Returns the padding of torchvision's RandomCrop in the order of its argument. The class of v2 keeps it as (left, right, top, bottom)."""
    if crop.padding is None or ".v2." not in type(crop).__module__:
        return crop.padding
    if crop.pad_if_needed and any(crop.padding) and _name(crop.padding_mode) in ("reflect", "symmetric"):
        raise ValueError(
            "RandomCrop of v2 pads once, by the sum of both paddings; here and in v1, the second padding continues the padded image"
        )
    left, right, top, bottom = crop.padding
    return [left, top, right, bottom]


def _calling(function: Any, takes: str, classes: tuple[type, ...] = (object,)) -> Lambda:
    made = Lambda(function)
    made.takes, made._classes = takes, classes
    return made


def _translated(transform: Any, name: str) -> Transform:
    """Translates one of torchvision's transforms. If Stoker cannot compile its arguments, such as a fill for each channel of a warp, returns a Lambda that
    calls torchvision's transform in Python."""
    try:
        made = _TRANSLATE[name](transform)
    except ValueError:
        if not callable(transform) or name in ("CutMix", "MixUp", "RandomIoUCrop", "SanitizeBoundingBoxes", "ToDtype"):
            raise
        return _calling(transform, "PIL")
    mode = _name(getattr(transform, "interpolation", None))
    # torchvision's NEAREST takes the pixel at a position's corner for tensors, and at its center for PIL images.
    if hasattr(transform, "antialias") and mode == "nearest":
        made._of_tensors = "give InterpolationMode.NEAREST_EXACT in place of NEAREST"
    elif not getattr(transform, "antialias", True) and mode in ("bilinear", "bicubic"):  # PIL images are always antialiased
        advice = (
            "give antialias=True, or stoker.transforms.{0} with antialias=False, which is within 1 of 255 of torchvision's for bilinear"
        )
        made._of_tensors = f"antialias=False or None has an effect there; {advice}"
    made._other_for_tensors = _other_for_tensors(transform)
    object.__setattr__(
        made, "_own", transform
    )  # if an earlier function in the list returns tensors, torchvision's own transform runs on them in Python
    return made


def translate(transform: Any, pil: bool = False) -> Transform:
    """Translates a transform of torchvision or timm into one of this module. Raises TypeError for transforms of torchvision that have no counterpart here, for
    classes, and for objects that cannot be called. Returns a Lambda for other callables, which then run in Python. Torch's modules and torchvision's
    LinearTransformation get tensors; other transforms of timm get PIL images; those of albumentations get arrays; all others get arrays, or PIL images if
    `pil` is true."""
    name, module = type(transform).__name__, type(transform).__module__
    if module.startswith("torch.nn.") and name == "Identity":
        return Identity()
    if _is_torchvision(transform) and name in _TRANSLATE:
        return _translated(transform, name)
    if _is_torchvision(transform) and name == "LinearTransformation":
        return _calling(transform, "tensor")
    if module.startswith("timm.data."):
        return _TIMM[name](transform) if name in _TIMM else _calling(transform, "PIL")
    if module.partition(".")[0] == "albumentations":
        return _calling(transform, "keyword")
    if _is_torchvision(transform):
        raise TypeError(
            f"the transform {name} has no counterpart in stoker.transforms: "
            f"{_transforms_elsewhere.advice(name) or 'do its work in the Dataset, or on the batch'}"
        )
    if isinstance(transform, type) and (
        issubclass(transform, Transform) or any({"__call__", "forward"} & {*vars(kind)} for kind in transform.__mro__)
    ):
        raise TypeError(f"a transform is an object, and {transform.__name__} is a class: {transform.__name__}(...)")
    if callable(transform):
        module_of_torch = any(k.__module__ == "torch.nn.modules.module" for k in type(transform).__mro__)
        return _calling(transform, "tensor" if module_of_torch else "PIL" if pil else "array")
    what = repr(transform) if module == "builtins" else f"{name} ({module})"
    raise TypeError(f"a transform is an object of stoker.transforms or torchvision, or a function, not {what}")


def __getattr__(name: str) -> Any:
    if name.startswith("__"):  # Python looks up such names itself, at each import from here
        raise AttributeError(f"module 'stoker.transforms' has no attribute {name!r}")
    instead = _transforms_elsewhere.advice(name) or hint_for(name, __all__, "there are " + ", ".join(__all__), 0.7)
    raise missing(f"module 'stoker.transforms' has no attribute {name!r}: {instead}")
