# SPDX-License-Identifier: Apache-2.0
"""Transforms of stoker.transforms that move pixels."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Sequence
from typing import Any

from stoker import _transform_arguments as arguments
from stoker import types
from stoker._transforms_base import Filled, Transform


class Padded(Filled):
    """A transform that adds pixels around the image: the color `fill`, or a continuation of the image (padding_mode)."""

    padding_mode: str  # "constant", "edge", "reflect" or "symmetric"


class RandomCrop(Padded):
    """Adds `padding` pixels around the image and cuts out a window at a random position. padding: one number, or (left and right, top and bottom), or (left,
    top, right, bottom). fill: one number, one number per channel, or {"Image": .., "Mask": ..}. padding_mode: "constant" (the fill), "edge", "reflect" or
    "symmetric"."""

    _is_never_grouped = True

    def __init__(
        self,
        size: int | Sequence[int],
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        fill: float | Sequence[float] | dict[Any, Any] = 0,
        padding_mode: str = "constant",
    ) -> None:
        self.size = arguments.pair("RandomCrop", size)
        self.padding = arguments.padding("RandomCrop", padding)
        self.pad_if_needed = bool(pad_if_needed)
        self.fill = arguments.fills(fill)
        self.padding_mode = arguments.padding_mode("RandomCrop", padding_mode)

    @property
    def _commutes_with_mirroring(self) -> bool:
        left, top, right, bottom = self.padding
        return left == right and top == bottom  # all windows are equally likely


class Pad(Padded):
    """Adds `padding` pixels around the image. The arguments are those of RandomCrop."""

    _is_never_grouped = True

    def __init__(self, padding: int | Sequence[int], fill: Any = 0, padding_mode: str = "constant") -> None:
        self.padding = arguments.padding("Pad", padding)
        self.fill = arguments.fills(fill)
        self.padding_mode = arguments.padding_mode("Pad", padding_mode)


class RandomZoomOut(Padded):
    """Puts the image at a random position on a larger canvas, with probability p. The canvas's sides are the image's times a factor drawn from side_range."""

    padding_mode = "constant"

    def __init__(self, fill: Any = 0, side_range: Sequence[float] = (1.0, 4.0), p: float = 0.5) -> None:
        self.fill = arguments.fills(fill)
        self.side_range = arguments.range("RandomZoomOut", "side_range", side_range, 1.0)
        self.p = arguments.probability("RandomZoomOut", p)


class RandomPerspective(Filled):
    """Changes the perspective with probability p. Each corner moves inwards by a random distance, up to distortion_scale times half the width and height."""

    distortion_scale: float
    p: float
    interpolation: types.DALIInterpType

    def __init__(self, distortion_scale: float = 0.5, p: float = 0.5, interpolation: Any = types.INTERP_LINEAR, fill: Any = 0) -> None:
        if not isinstance(distortion_scale, numbers.Real) or not 0 <= distortion_scale <= 1:
            raise ValueError(f"RandomPerspective: distortion_scale is from 0 to 1, not {distortion_scale!r}")
        self.distortion_scale = float(distortion_scale)
        self.p = arguments.probability("RandomPerspective", p)
        self.interpolation = arguments.nearest_or_bilinear("RandomPerspective", interpolation)
        self.fill = arguments.fills(fill)
        arguments.one_fill("RandomPerspective", self.fill_of("Image"))


class ElasticTransform(Filled):
    """Moves pixels by random displacements. A Gaussian filter of standard deviation sigma smooths them, and alpha scales them. sigma and alpha are one number
    or (x, y). Masks are moved like the image."""

    def __init__(
        self,
        alpha: float | Sequence[float] = 50.0,
        sigma: float | Sequence[float] = 5.0,
        interpolation: Any = types.INTERP_LINEAR,
        fill: Any = 0,
    ) -> None:
        name = "ElasticTransform"
        self.alpha = arguments.both_axes(name, "alpha", alpha)
        self.sigma = arguments.both_axes(name, "sigma", sigma)
        if min(self.sigma) < 0:
            raise ValueError(f"{name}: sigma is not negative, not {sigma!r}")
        self.interpolation = arguments.nearest_or_bilinear(name, interpolation)
        self.fill = arguments.fills(fill)


class ScaleJitter(Transform):
    """Resizes the image to a random scale, drawn from scale_range. At scale 1 the image just fits into target_size."""

    _is_never_grouped = True

    def __init__(
        self,
        target_size: Sequence[int],
        scale_range: Sequence[float] = (0.1, 2.0),
        interpolation: Any = types.INTERP_LINEAR,
        antialias: bool = True,
    ) -> None:
        self.target_size = arguments.pair("ScaleJitter", target_size, "target_size")
        self.scale_range = arguments.range("ScaleJitter", "scale_range", scale_range, 1e-6)
        self.interpolation = arguments.interp("ScaleJitter", interpolation)
        self.antialias = bool(antialias)


class RandomShortestSize(Transform):
    """Resizes the shorter edge to one of min_size, drawn for each sample, or to less if the longer edge would exceed max_size."""

    _is_never_grouped = True

    def __init__(
        self,
        min_size: int | Sequence[int],
        max_size: int | None = None,
        interpolation: Any = types.INTERP_LINEAR,
        antialias: bool = True,
    ) -> None:
        sizes = list(min_size) if isinstance(min_size, Iterable) else [min_size]
        if not sizes or any(not isinstance(s, numbers.Integral) or s < 1 for s in [*sizes, 1 if max_size is None else max_size]):
            raise ValueError(
                f"RandomShortestSize: min_size and max_size are whole numbers of at least 1, not {min_size!r} and {max_size!r}"
            )
        self.min_size = [int(s) for s in sizes]
        self.max_size = max_size
        self.interpolation = arguments.interp("RandomShortestSize", interpolation)
        self.antialias = bool(antialias)


class RandomResize(Transform):
    """Resizes the shorter edge to a size drawn for each sample, from min_size to max_size - 1."""

    _is_never_grouped = True

    def __init__(self, min_size: int, max_size: int, interpolation: Any = types.INTERP_LINEAR, antialias: bool = True) -> None:
        if any(not isinstance(s, numbers.Integral) for s in (min_size, max_size)) or not 1 <= min_size < max_size:
            raise ValueError(
                f"RandomResize: min_size and max_size are whole numbers with 1 <= min_size < max_size, not {min_size!r} and {max_size!r}"
            )
        self.min_size, self.max_size = int(min_size), int(max_size)
        self.interpolation = arguments.interp("RandomResize", interpolation)
        self.antialias = bool(antialias)


class Crops(Transform):
    """A transform that makes several images of one: batch.image is then a list with a tensor for each crop. Later transforms are applied to each crop."""

    _is_never_grouped = True

    size: tuple[int, int]


class FiveCrop(Crops):
    """Cuts out the four corners (top left, top right, bottom left, bottom right) and the middle."""

    def __init__(self, size: int | Sequence[int]) -> None:
        self.size = arguments.pair("FiveCrop", size)


class TenCrop(Crops):
    """Makes the crops of FiveCrop, then those of the mirrored image. Mirroring swaps left and right, or top and bottom with vertical_flip."""

    def __init__(self, size: int | Sequence[int], vertical_flip: bool = False) -> None:
        self.size = arguments.pair("TenCrop", size)
        self.vertical_flip = bool(vertical_flip)


class FixedSizeCrop(Padded):
    """Cuts out a window of at most this size at a random position, and pads smaller images on the right and at the bottom. Boxes outside of the window are
    removed, with their labels and masks. Does the same as FixedSizeCrop in torchvision's reference scripts for detection."""

    def __init__(self, size: int | Sequence[int], fill: Any = 0, padding_mode: str = "constant") -> None:
        self.size = arguments.pair("FixedSizeCrop", size)
        self.fill = arguments.fills(fill)
        self.padding_mode = arguments.padding_mode("FixedSizeCrop", padding_mode)


class RandomIoUCrop(Transform):
    """Cuts out a random window whose IoU with some box is at least a value drawn from sampler_options; values from 1 on keep the whole image. Boxes whose
    middle is outside of the window become empty, as in torchvision; SanitizeBoundingBoxes removes empty boxes."""

    min_scale: float
    max_scale: float
    min_aspect_ratio: float
    max_aspect_ratio: float
    trials: int

    def __init__(
        self,
        min_scale: float = 0.3,
        max_scale: float = 1.0,
        min_aspect_ratio: float = 0.5,
        max_aspect_ratio: float = 2.0,
        sampler_options: Sequence[float] | None = None,
        trials: int = 40,
    ) -> None:
        name = "RandomIoUCrop"
        self.min_scale, self.max_scale = arguments.range(name, "min_scale, max_scale", (min_scale, max_scale), 1e-6)
        ratios = (min_aspect_ratio, max_aspect_ratio)
        self.min_aspect_ratio, self.max_aspect_ratio = arguments.range(name, "min_aspect_ratio, max_aspect_ratio", ratios, 1e-6)
        options = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0) if sampler_options is None else sampler_options
        self.sampler_options = [float(option) for option in options]
        if not any(option >= 1 for option in self.sampler_options):
            raise ValueError(
                f"{name}: sampler_options {options!r} have no 1, so that an image without boxes would be tried for ever: add 1.0"
            )
        if not isinstance(trials, numbers.Integral) or trials < 1:
            raise ValueError(f"{name}: trials is a whole number of at least 1, not {trials!r}")
        self.trials = int(trials)


class SanitizeBoundingBoxes(Transform):
    """Removes boxes with an edge below min_size, an area below min_area, or a coordinate outside of the image, and their labels and masks. labels_getter: the
    name of the field of labels, or of several fields; "default": the field "labels", else one whose name contains "label"; None: labels are not changed."""

    def __init__(self, min_size: float = 1.0, min_area: float = 1.0, labels_getter: str | Sequence[str] | None = "default") -> None:
        name = "SanitizeBoundingBoxes"
        for what, value in (("min_size", min_size), ("min_area", min_area)):
            if not isinstance(value, numbers.Real) or value < 1:
                raise ValueError(f"{name}: {what} is a number of at least 1, not {value!r}")
        self.min_size, self.min_area = float(min_size), float(min_area)
        names = labels_getter if isinstance(labels_getter, (list, tuple)) else [labels_getter]
        if any(n is not None and not isinstance(n, str) for n in names):
            raise TypeError(
                f"{name}: labels_getter is the name of a field, several names, 'default' or None here, not {labels_getter!r}: fields go by name, as in "
                "stoker.transforms.SanitizeBoundingBoxes(labels_getter=('labels', 'area'))"
            )
        self.labels_getter = labels_getter if labels_getter is None or isinstance(labels_getter, str) else list(labels_getter)
