# SPDX-License-Identifier: Apache-2.0
"""TrivialAugment (https://arxiv.org/abs/2103.10158): each sample gets one random augmentation with a random magnitude."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker import fn, types
from stoker.auto_aug import augmentations as a
from stoker.auto_aug._suites import check_bins, selected, translations, without
from stoker.auto_aug.core import _Augmentation, signed_bin
from stoker.auto_aug.core._arguments import check_used
from stoker.auto_aug.core._augmentation import seed_of
from stoker.data_node import DataNode
from stoker.errors import InvalidArgumentError


def trivial_augment_wide(
    data: DataNode,
    num_magnitude_bins: int = 31,
    shape: Any = None,
    fill_value: int | None = 128,
    interp_type: Any = None,
    max_translate_abs: Any = None,
    max_translate_rel: Any = None,
    seed: int | None = None,
    excluded: list[str] | None = None,
) -> DataNode:
    """Applies TrivialAugment with its wide ranges to uint8 images (HWC) or sequences of images (FHWC).

    num_magnitude_bins: number of steps into which each range of magnitudes is divided; one is drawn for each sample.
    shape: height and width of the images, as a node or a tuple. With it, translations are at most the share max_translate_rel of the height or width
    (default 1); without it, at most max_translate_abs pixels (default 32). fill_value: value of pixels that a warp takes from outside the image; None repeats
    the image's border. interp_type: interpolation of warps; default linear. seed: seed of all random draws; None: they depend on the pipeline's seed.
    excluded: names of augmentations not to use.
    """
    given = {"fill_value": fill_value, "interp_type": interp_type, **({} if shape is None else {"shape": shape})}
    suite = get_trivial_augment_wide_suite(shape is not None, max_translate_abs, max_translate_rel)
    return apply_trivial_augment(without(suite, excluded, "TrivialAugmentWide"), data, num_magnitude_bins, seed, **given)


def apply_trivial_augment(
    augmentations: Sequence[_Augmentation], data: DataNode, num_magnitude_bins: int = 31, seed: int | None = None, **kwargs: Any
) -> DataNode:
    """Applies to each sample one of `augmentations` with one of the magnitudes, both drawn at random. Named arguments go to the augmentations that take
    them."""
    check_bins(num_magnitude_bins)
    if len(augmentations) == 0:
        raise InvalidArgumentError("The `augmentations` list cannot be empty. Got empty list in `apply_trivial_augment` call.")
    check_used(augmentations, kwargs, "apply_trivial_augment")
    magnitude_bin: Any = fn.random.uniform(values=list(range(num_magnitude_bins)), dtype=types.INT32, seed=seed)
    if any(augmentation.randomly_negate for augmentation in augmentations):
        magnitude_bin = signed_bin(magnitude_bin, seed=seed_of(seed, 1))
    which = fn.random.uniform(values=list(range(len(augmentations))), dtype=types.INT32, seed=seed_of(seed, 2))
    made: DataNode = selected(
        augmentations,
        which,
        "apply_trivial_augment",
        "get_trivial_augment_wide_suite",
        data=data,
        magnitude_bin=magnitude_bin,
        num_magnitude_bins=num_magnitude_bins,
        **kwargs,
    )
    return made


def get_trivial_augment_wide_suite(
    use_shape: bool = False, max_translate_abs: Any = None, max_translate_rel: Any = None
) -> list[_Augmentation]:
    """Returns the 14 augmentations of TrivialAugment with their wide ranges."""
    return [
        *translations(use_shape, 32, 1.0, max_translate_abs, max_translate_rel),
        a.shear_x.augmentation((0, 0.99), True),
        a.shear_y.augmentation((0, 0.99), True),
        a.rotate.augmentation((0, 135), True),
        a.brightness.augmentation((0.01, 0.99), True, a.shift_enhance_range),
        a.contrast.augmentation((0.01, 0.99), True, a.shift_enhance_range),
        a.color.augmentation((0.01, 0.99), True, a.shift_enhance_range),
        a.sharpness.augmentation((0.01, 0.99), True, a.sharpness_kernel),
        a.posterize.augmentation((8, 2), False, a.poster_mask_uint8),
        a.solarize.augmentation((256, 0)),
        a.equalize,
        a.auto_contrast,
        a.identity,
    ]
