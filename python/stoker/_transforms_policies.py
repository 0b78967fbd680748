# SPDX-License-Identifier: Apache-2.0
"""Automatic augmentations: AutoAugment, RandAugment, TrivialAugmentWide, AugMix. Part of stoker.transforms.

A space maps the names of operations to their largest magnitudes, as in torchvision. A transform describes the operations that may be drawn for a sample; the
Loader compiles this description into tables.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from enum import Enum
from typing import Any

from stoker import _transform_arguments as arguments
from stoker import types
from stoker._transforms_base import Filled

Space = Mapping[str, float | None]  # operation -> its largest magnitude, or None if the operation has no magnitude


def _space(shear: float, move: float, turn: float, enhance: float, posterize: float) -> dict[str, float | None]:
    """Returns a space. Each argument is the largest magnitude of a group of operations. shear: a factor. move: pixels if above 1, else a share of the width or
    height. turn: degrees. enhance: the largest difference of the factor from 1. posterize: the number of bits that are removed."""
    return {
        "ShearX": shear,
        "ShearY": shear,
        "TranslateX": move,
        "TranslateY": move,
        "Rotate": turn,
        "Brightness": enhance,
        "Color": enhance,
        "Contrast": enhance,
        "Sharpness": enhance,
        "Posterize": posterize,
        "Solarize": 255.0,
        "AutoContrast": None,
        "Equalize": None,
    }


NARROW: Space = {"Identity": None, **_space(0.3, 150 / 331, 30.0, 0.9, 4.0)}
WIDE: Space = {"Identity": None, **_space(0.99, 32.0, 135.0, 0.99, 6.0)}
MIXED: Space = _space(0.3, 1 / 3, 30.0, 0.9, 4.0)


class AutoAugmentPolicy(Enum):
    """The policies of AutoAugment, with torchvision's names."""

    IMAGENET = "imagenet"
    CIFAR10 = "cifar10"
    SVHN = "svhn"


class Augmentation(Filled):
    """A transform that draws operations for each sample. interpolation and fill apply to shears, translations and rotations."""

    def __init__(self, interpolation: Any, fill: Any) -> None:
        name = type(self).__name__
        self.interpolation = arguments.interp(name, interpolation)
        if self.interpolation not in (types.INTERP_NN, types.INTERP_LINEAR, types.INTERP_CUBIC):
            raise ValueError(f"{name}: interpolation is nearest, bilinear or bicubic, not {interpolation!r}")
        self.fill = arguments.fills(0 if fill is None else fill)
        values = self.fill_of("Image")
        if len(values) not in (1, 3) or any(not 0 <= v <= 255 for v in values):
            raise ValueError(f"{name}: fill is one number from 0 to 255, or one for each of three channels, not {fill!r}")


def _count(owner: str, name: str, value: Any, least: int) -> int:
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{owner}: {name} is a whole number of at least {least}, not {value!r}")
    return int(value)


class RandAugment(Augmentation):
    """Applies num_ops operations, each drawn from fourteen. The range of each operation's magnitude has num_magnitude_bins steps; all operations use step
    `magnitude`, from 0 to num_magnitude_bins - 1."""

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: Any = arguments.InterpolationMode.NEAREST,
        fill: Any = None,
    ) -> None:
        self.num_ops = _count("RandAugment", "num_ops", num_ops, 0)
        self.num_magnitude_bins = _count("RandAugment", "num_magnitude_bins", num_magnitude_bins, 2)
        self.magnitude = _count("RandAugment", "magnitude", magnitude, 0)
        if self.magnitude >= self.num_magnitude_bins:
            raise ValueError(f"RandAugment: magnitude is below num_magnitude_bins, which is {num_magnitude_bins}, not {magnitude!r}")
        super().__init__(interpolation, fill)


class TrivialAugmentWide(Augmentation):
    """Applies one operation, drawn from fourteen, with a magnitude drawn from num_magnitude_bins."""

    def __init__(self, num_magnitude_bins: int = 31, interpolation: Any = arguments.InterpolationMode.NEAREST, fill: Any = None) -> None:
        self.num_magnitude_bins = _count("TrivialAugmentWide", "num_magnitude_bins", num_magnitude_bins, 2)
        super().__init__(interpolation, fill)


class AutoAugment(Augmentation):
    """Draws one of the policy's pairs of operations, and applies each operation of the pair with its own probability."""

    def __init__(
        self,
        policy: Any = AutoAugmentPolicy.IMAGENET,
        interpolation: Any = arguments.InterpolationMode.NEAREST,
        fill: Any = None,
    ) -> None:
        name = getattr(policy, "value", policy)
        if name not in POLICIES:
            raise ValueError(f"AutoAugment: policy is one of {', '.join(POLICIES)}, not {policy!r}")
        self.policy = AutoAugmentPolicy(name)
        super().__init__(interpolation, fill)


class AugMix(Augmentation):
    """Mixes the image with mixture_width augmented copies. Each copy goes through chain_depth operations (-1 or 0: 1 to 3, drawn), whose magnitudes are drawn
    from the first `severity` of ten. The weights of the mixture are drawn from Dirichlet distributions with the parameter alpha. all_ops: whether operations
    that change colors, contrast, brightness and sharpness may be drawn too."""

    severity: int
    mixture_width: int
    chain_depth: int
    alpha: float
    all_ops: bool

    def __init__(
        self,
        severity: int = 3,
        mixture_width: int = 3,
        chain_depth: int = -1,
        alpha: float = 1.0,
        all_ops: bool = True,
        interpolation: Any = arguments.InterpolationMode.BILINEAR,
        fill: Any = None,
    ) -> None:
        if not isinstance(severity, numbers.Integral) or not 1 <= severity <= 10:
            raise ValueError(f"AugMix: severity is a whole number from 1 to 10, not {severity!r}")
        if not isinstance(alpha, numbers.Real) or not 0 < alpha < 2**24:
            raise ValueError(f"AugMix: alpha is a number above 0, not {alpha!r}")
        self.severity = int(severity)
        self.mixture_width = _count("AugMix", "mixture_width", mixture_width, 1)
        self.chain_depth = _count("AugMix", "chain_depth", chain_depth, -1) or -1
        self.alpha = float(alpha)
        self.all_ops = bool(all_ops)
        super().__init__(interpolation, fill)


# Each line is one pair of operations. An operation is written as its name, its probability and, if it has a magnitude, an index into the ten magnitudes.
POLICIES = {
    "imagenet": """
Posterize 0.4 8, Rotate 0.6 9
Solarize 0.6 5, AutoContrast 0.6
Equalize 0.8, Equalize 0.6
Posterize 0.6 7, Posterize 0.6 6
Equalize 0.4, Solarize 0.2 4
Equalize 0.4, Rotate 0.8 8
Solarize 0.6 3, Equalize 0.6
Posterize 0.8 5, Equalize 1.0
Rotate 0.2 3, Solarize 0.6 8
Equalize 0.6, Posterize 0.4 6
Rotate 0.8 8, Color 0.4 0
Rotate 0.4 9, Equalize 0.6
Equalize 0.0, Equalize 0.8
Invert 0.6, Equalize 1.0
Color 0.6 4, Contrast 1.0 8
Rotate 0.8 8, Color 1.0 2
Color 0.8 8, Solarize 0.8 7
Sharpness 0.4 7, Invert 0.6
ShearX 0.6 5, Equalize 1.0
Color 0.4 0, Equalize 0.6
Equalize 0.4, Solarize 0.2 4
Solarize 0.6 5, AutoContrast 0.6
Invert 0.6, Equalize 1.0
Color 0.6 4, Contrast 1.0 8
Equalize 0.8, Equalize 0.6
""",
    "cifar10": """
Invert 0.1, Contrast 0.2 6
Rotate 0.7 2, TranslateX 0.3 9
Sharpness 0.8 1, Sharpness 0.9 3
ShearY 0.5 8, TranslateY 0.7 9
AutoContrast 0.5, Equalize 0.9
ShearY 0.2 7, Posterize 0.3 7
Color 0.4 3, Brightness 0.6 7
Sharpness 0.3 9, Brightness 0.7 9
Equalize 0.6, Equalize 0.5
Contrast 0.6 7, Sharpness 0.6 5
Color 0.7 7, TranslateX 0.5 8
Equalize 0.3, AutoContrast 0.4
TranslateY 0.4 3, Sharpness 0.2 6
Brightness 0.9 6, Color 0.2 8
Solarize 0.5 2, Invert 0.0
Equalize 0.2, AutoContrast 0.6
Equalize 0.2, Equalize 0.6
Color 0.9 9, Equalize 0.6
AutoContrast 0.8, Solarize 0.2 8
Brightness 0.1 3, Color 0.7 0
Solarize 0.4 5, AutoContrast 0.9
TranslateY 0.9 9, TranslateY 0.7 9
AutoContrast 0.9, Solarize 0.8 3
Equalize 0.8, Invert 0.1
TranslateY 0.7 9, AutoContrast 0.9
""",
    "svhn": """
ShearX 0.9 4, Invert 0.2
ShearY 0.9 8, Invert 0.7
Equalize 0.6, Solarize 0.6 6
Invert 0.9, Equalize 0.6
Equalize 0.6, Rotate 0.9 3
ShearX 0.9 4, AutoContrast 0.8
ShearY 0.9 8, Invert 0.4
ShearY 0.9 5, Solarize 0.2 6
Invert 0.9, AutoContrast 0.8
Equalize 0.6, Rotate 0.9 3
ShearX 0.9 4, Solarize 0.3 3
ShearY 0.8 8, Invert 0.7
Equalize 0.9, TranslateY 0.6 6
Invert 0.9, Equalize 0.6
Contrast 0.3 3, Rotate 0.8 4
Invert 0.8, TranslateY 0.0 2
ShearY 0.7 6, Solarize 0.4 8
Invert 0.6, Rotate 0.8 4
ShearY 0.3 7, TranslateX 0.9 3
ShearX 0.1 6, Invert 0.6
Solarize 0.7 2, TranslateY 0.6 7
ShearY 0.8 4, Invert 0.8
ShearX 0.7 9, TranslateY 0.8 3
ShearY 0.8 5, AutoContrast 0.7
ShearX 0.7 2, Invert 0.1
""",
}
