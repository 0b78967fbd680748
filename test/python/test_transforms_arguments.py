# SPDX-License-Identifier: Apache-2.0
"""Transforms refuse invalid arguments when they are made."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from stoker import transforms as T

# All numeric arguments of each transform that has any.
GIVEN: dict[str, dict[str, Any]] = {
    "AugMix": {"severity": 3, "mixture_width": 3, "chain_depth": 2, "alpha": 1.0, "fill": 0.0},
    "AutoAugment": {"fill": [0.0, 1.0, 2.0]},
    "CenterCrop": {"size": [4, 5]},
    "ColorJitter": {"brightness": 0.5, "contrast": [0.5, 1.5], "saturation": 0.5, "hue": [-0.1, 0.1]},
    "CutMix": {"alpha": 1.0, "num_classes": 3},
    "FixedSizeCrop": {"size": [24, 24], "fill": 0.0},
    "RandomIoUCrop": {
        "min_scale": 0.3,
        "max_scale": 1.0,
        "min_aspect_ratio": 0.5,
        "max_aspect_ratio": 2.0,
        "sampler_options": [0.5, 1.0],
        "trials": 40,
    },
    "SanitizeBoundingBoxes": {"min_size": 1.0, "min_area": 1.0},
    "ElasticTransform": {"alpha": 50.0, "sigma": [5.0, 5.0], "fill": 0.0},
    "FiveCrop": {"size": 4},
    "GaussianBlur": {"kernel_size": 3, "sigma": [0.1, 2.0]},
    "GaussianNoise": {"mean": 0.0, "sigma": 0.1},
    "Grayscale": {"num_output_channels": 1},
    "JPEG": {"quality": [50, 60]},
    "MixUp": {"alpha": 1.0, "num_classes": 3},
    "Normalize": {"mean": [0.5, 0.4, 0.3], "std": [0.5, 0.4, 0.3]},
    "Pad": {"padding": 3, "fill": {"Image": 1.0, "Mask": 2.0}},
    "RandAugment": {"num_ops": 2, "magnitude": 9, "num_magnitude_bins": 31, "fill": 0.0},
    "RandomAdjustSharpness": {"sharpness_factor": 2.0, "p": 0.5},
    "RandomAffine": {
        "degrees": 10.0,
        "translate": [0.1, 0.2],
        "scale": [0.5, 2.0],
        "shear": [1.0, 2.0, 3.0, 4.0],
        "fill": 0.0,
        "center": [3.0, 4.0],
    },
    "RandomAutocontrast": {"p": 0.5},
    "RandomChoice": {"transforms": [T.Identity(), T.Identity()], "p": [0.5, 0.5]},
    "RandomApply": {"transforms": [T.Identity()], "p": 0.5},
    "RandomCrop": {"size": 4, "padding": [1, 2], "fill": [0.0, 1.0, 2.0]},
    "RandomEqualize": {"p": 0.5},
    "RandomErasing": {"p": 0.5, "scale": [0.02, 0.33], "ratio": [0.3, 3.3], "value": [0.0, 0.5, 1.0]},
    "RandomGrayscale": {"p": 0.5},
    "RandomHorizontalFlip": {"p": 0.5},
    "RandomInvert": {"p": 0.5},
    "RandomPerspective": {"distortion_scale": 0.5, "p": 0.5, "fill": 0.0},
    "RandomPhotometricDistort": {
        "brightness": [0.9, 1.1],
        "contrast": [0.5, 1.5],
        "saturation": [0.5, 1.5],
        "hue": [-0.05, 0.05],
        "p": 0.5,
    },
    "RandomPosterize": {"bits": 3, "p": 0.5},
    "RandomResize": {"min_size": 4, "max_size": 8},
    "RandomResizedCrop": {"size": [4, 5], "scale": [0.08, 1.0], "ratio": [0.75, 1.25]},
    "RandomRotation": {"degrees": [-10.0, 10.0], "center": [3.0, 4.0], "fill": 0.0},
    "RandomShortestSize": {"min_size": [4, 5], "max_size": 8},
    "RandomSolarize": {"threshold": 128.0, "p": 0.5},
    "RandomVerticalFlip": {"p": 0.5},
    "RandomZoomOut": {"fill": 0.0, "side_range": [1.0, 4.0], "p": 0.5},
    "Resize": {"size": 4, "max_size": 8},
    "ScaleJitter": {"target_size": [4, 5], "scale_range": [0.1, 2.0]},
    "TenCrop": {"size": 4},
    "TrivialAugmentWide": {"num_magnitude_bins": 31, "fill": 0.0},
}


def is_number(parameter: inspect.Parameter) -> bool:
    """Returns whether a parameter is a number, by its annotation or its default."""
    default = parameter.default[0] if isinstance(parameter.default, tuple) else parameter.default
    return bool(re.search(r"\b(int|float)\b", str(parameter.annotation))) or type(default) in (int, float)


def test_no_transform_with_numbers_is_left_out() -> None:
    for name in T.__all__:
        made = getattr(T, name)
        if inspect.isclass(made) and issubclass(made, T.Transform):
            named = {k for k, parameter in inspect.signature(made).parameters.items() if is_number(parameter)}
            assert named <= set(GIVEN.get(name, ())), name


def replaced(value: Any, by: float) -> Iterator[Any]:
    """Yields copies of the value with one of its numbers replaced, for each number in turn."""
    if isinstance(value, dict):
        yield from ({**value, key: by} for key in value)
    elif isinstance(value, list):
        if not isinstance(value[0], T.Transform):
            yield from ([*value[:i], by, *value[i + 1 :]] for i in range(len(value)))
    else:
        yield by


@pytest.mark.parametrize("by", [math.nan, math.inf, -math.inf, np.float32("nan")])
@pytest.mark.parametrize("name", GIVEN)
def test_numbers_are_finite(name: str, by: float) -> None:
    make, given = getattr(T, name), GIVEN[name]
    make(**given)
    for argument, value in given.items():
        for wrong in replaced(value, by):
            with pytest.raises(ValueError, match=argument if name != "RandomRotation" else "RandomRotation"):
                make(**{**given, argument: wrong})


def test_an_attribute_that_is_set_later_is_checked_too() -> None:
    blur = T.GaussianBlur(3)
    with pytest.raises(ValueError, match=re.escape("GaussianBlur: sigma takes finite numbers, not (0.1, nan)")):
        blur.sigma = (0.1, math.nan)
    assert blur.sigma == (0.1, 2.0)


@pytest.mark.parametrize("size", [-4, 0, (4, -1), (0, 4), 4.5, "4", (1, 2, 3), None])
@pytest.mark.parametrize("name", ["Resize", "CenterCrop", "RandomCrop", "RandomResizedCrop", "FiveCrop"])
def test_wrong_sizes_are_refused(name: str, size: Any) -> None:
    with pytest.raises(ValueError, match=rf"{name}: size is a whole number from 1 on, or \(height, width\) of such, not "):
        getattr(T, name)(size)


@pytest.mark.parametrize("wrong", [None, 1j, object(), "1", [1, 2, 3], [None, 1]])
@pytest.mark.parametrize("argument", ["alpha", "sigma"])
def test_wrong_axes_are_refused(argument: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=f"ElasticTransform: {argument} is a number or two, not "):
        T.ElasticTransform(**{argument: wrong})


def test_sizes_of_numpy() -> None:
    assert T.Resize(np.int64(4)).size == 4 and T.Resize([np.int64(4)]).size == 4 and T.Resize((np.int32(4), 5)).size == (4, 5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"translate": (0.1, 0.1, 0.1)}, "translate is two numbers"),
        ({"translate": 0.1}, "translate is two numbers"),
        ({"center": (1, 2, 3)}, "center is two numbers"),
        ({"shear": (1, 2, 3)}, "shear is one number, "),
        ({"shear": (1, 2, 3, 4, 5)}, "shear is one number, "),
    ],
)
def test_numbers_too_many(arguments: dict[str, Any], message: str) -> None:
    """RandomAffine refuses an argument with too few or too many numbers, instead of ignoring the surplus."""
    with pytest.raises(ValueError, match=f"RandomAffine: {message}"):
        T.RandomAffine(10, **arguments)


def test_a_largest_edge_of_0() -> None:
    with pytest.raises(ValueError, match="RandomShortestSize: min_size and max_size are whole numbers of at least 1"):
        T.RandomShortestSize(4, max_size=0)
