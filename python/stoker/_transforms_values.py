# SPDX-License-Identifier: Apache-2.0
"""Transforms that change the values of pixels and move none. Part of stoker.transforms."""

from __future__ import annotations

import numbers
from collections.abc import Sequence

from stoker import _transform_arguments as arguments
from stoker._transforms_base import Transform


class ColorJitter(Transform):
    """Changes brightness, contrast, saturation and hue at random, in a random order. The formulas are Pillow's, as in torchvision on PIL images."""

    _commutes_with_mirroring = True

    def __init__(
        self,
        brightness: float | Sequence[float] = 0,
        contrast: float | Sequence[float] = 0,
        saturation: float | Sequence[float] = 0,
        hue: float | Sequence[float] = 0,
    ) -> None:
        self.brightness = arguments.jitter("brightness", brightness)
        self.contrast = arguments.jitter("contrast", contrast)
        self.saturation = arguments.jitter("saturation", saturation)
        self.hue = arguments.jitter("hue", hue, centre=0.0)


class RandomPhotometricDistort(Transform):
    """Changes brightness, contrast, saturation and hue and permutes the channels, each with probability p. The contrast is changed before the saturation or
    after the hue, drawn for each sample."""

    _commutes_with_mirroring = True

    def __init__(
        self,
        brightness: Sequence[float] = (0.875, 1.125),
        contrast: Sequence[float] = (0.5, 1.5),
        saturation: Sequence[float] = (0.5, 1.5),
        hue: Sequence[float] = (-0.05, 0.05),
        p: float = 0.5,
    ) -> None:
        name = "RandomPhotometricDistort"
        self.brightness = arguments.range(name, "brightness", brightness, 0)
        self.contrast = arguments.range(name, "contrast", contrast, 0)
        self.saturation = arguments.range(name, "saturation", saturation, 0)
        self.hue = arguments.range(name, "hue", hue, -0.5)
        if self.hue[1] > 0.5:
            raise ValueError(f"{name}: hue lies inside (-0.5, 0.5), not {hue!r}")
        self.p = arguments.probability(name, p)


class RandomChannelPermutation(Transform):
    """Puts the channels in a random order."""

    _commutes_with_mirroring = True


class RandomEqualize(Transform):
    """Equalizes the histogram of each channel with probability p."""

    _commutes_with_mirroring = True

    def __init__(self, p: float = 0.5) -> None:
        self.p = arguments.probability("RandomEqualize", p)


class RandomAutocontrast(Transform):
    """Stretches each channel with probability p, so that its smallest value becomes 0 and its largest one 255."""

    _commutes_with_mirroring = True

    def __init__(self, p: float = 0.5) -> None:
        self.p = arguments.probability("RandomAutocontrast", p)


class RandomAdjustSharpness(Transform):
    """Mixes the image with a smoothed copy, with probability p: a factor of 0 smooths, 1 changes nothing, 2 sharpens."""

    _commutes_with_mirroring = True

    sharpness_factor: float
    p: float

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        if not isinstance(sharpness_factor, numbers.Real) or not 0 <= sharpness_factor < 2**24:
            raise ValueError(f"RandomAdjustSharpness: sharpness_factor is a number of at least 0, not {sharpness_factor!r}")
        self.sharpness_factor = float(sharpness_factor)
        self.p = arguments.probability("RandomAdjustSharpness", p)


class GaussianNoise(Transform):
    """Adds normally distributed noise to each value. mean and sigma are on the scale 0..1. Values are clipped to this scale and, unless the
    data set has images of floats, rounded to multiples of 1/255."""

    mean: float
    sigma: float

    def __init__(self, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> None:
        if not clip:
            raise ValueError("GaussianNoise: clip=False is not in Stoker: values are bytes before they are normalised. Leave it out")
        if not isinstance(sigma, numbers.Real) or sigma < 0:
            raise ValueError(f"GaussianNoise: sigma is a number of at least 0, not {sigma!r}")
        self.mean, self.sigma = float(mean), float(sigma)


class JPEG(Transform):
    """Compresses the image as a JPEG and decodes it again. quality: 1 to 100, or a range (least, most) from which each sample's quality is drawn."""

    def __init__(self, quality: int | Sequence[int]) -> None:
        pair = list(quality) if isinstance(quality, Sequence) else [quality, quality]
        if len(pair) != 2 or any(not isinstance(q, numbers.Integral) for q in pair) or not 1 <= pair[0] <= pair[1] <= 100:
            raise ValueError(f"JPEG: quality is a whole number from 1 to 100 or (least, most), not {quality!r}")
        self.quality = (int(pair[0]), int(pair[1]))
