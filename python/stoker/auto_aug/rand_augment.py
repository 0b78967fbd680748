# SPDX-License-Identifier: Apache-2.0
"""RandAugment (https://arxiv.org/abs/1909.13719): each sample gets a few random augmentations, all of the same magnitude."""

from __future__ import annotations

import warnings
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


def rand_augment(
    data: DataNode,
    n: int,
    m: int,
    num_magnitude_bins: int = 31,
    shape: Any = None,
    fill_value: int | None = 128,
    interp_type: Any = None,
    max_translate_abs: Any = None,
    max_translate_rel: Any = None,
    seed: int | None = None,
    monotonic_mag: bool = True,
    excluded: list[str] | None = None,
) -> DataNode:
    """Applies RandAugment to uint8 images (HWC) or sequences of images (FHWC): n random augmentations with magnitude bin m, from 0 to num_magnitude_bins - 1.

    shape: height and width of the images, as a node or a tuple. With it, translations are at most the share max_translate_rel of the height or width
    (default 100/224); without it, at most max_translate_abs pixels (default 100). fill_value: value of pixels that a warp takes from outside the image; None
    repeats the image's border. interp_type: interpolation of warps; default linear. seed: seed of all random draws; None: they depend on the pipeline's seed.
    monotonic_mag: True: higher bins change an image more; False: augmentations have the ranges of AutoAugment. excluded: names of augmentations not to use.
    """
    given = {"fill_value": fill_value, "interp_type": interp_type, **({} if shape is None else {"shape": shape})}
    suite_of = get_rand_augment_suite if monotonic_mag else get_rand_augment_non_monotonic_suite
    suite = suite_of(shape is not None, max_translate_abs, max_translate_rel)
    return apply_rand_augment(without(suite, excluded, "RandAugment"), data, n, m, num_magnitude_bins, seed, **given)


def apply_rand_augment(
    augmentations: Sequence[_Augmentation],
    data: DataNode,
    n: int,
    m: int,
    num_magnitude_bins: int = 31,
    seed: int | None = None,
    **kwargs: Any,
) -> DataNode:
    """Applies n of `augmentations` to each sample, one after the other, with magnitude bin m. The named arguments are passed to the augmentations that take
    them."""
    check_bins(num_magnitude_bins)
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise InvalidArgumentError(f"The number of operations to apply `n` must be a non-negative integer, got {n}.")
    if isinstance(m, bool) or not isinstance(m, int) or not 0 <= m < num_magnitude_bins:
        raise InvalidArgumentError(f"The magnitude bin `m` must be an integer from `[0, {num_magnitude_bins - 1}]` range. Got {m}.")
    if n == 0:
        warnings.warn("The `apply_rand_augment` was called with `n=0`, no augmentation will be applied.", Warning, stacklevel=2)
        return data
    if len(augmentations) == 0:
        raise InvalidArgumentError("The `augmentations` list cannot be empty, unless n=0. Got empty list in `apply_rand_augment` call.")
    check_used(augmentations, kwargs, "apply_rand_augment")
    signed = any(augmentation.randomly_negate for augmentation in augmentations)
    which = fn.random.uniform(values=list(range(len(augmentations))), dtype=types.INT32, seed=seed, shape=(n,))
    bins: Any = signed_bin(m, seed=seed_of(seed, 1), shape=(n,)) if signed else m
    for level in range(n):
        data = selected(
            augmentations,
            which[level],
            "apply_rand_augment",
            "get_rand_augment_suite",
            data=data,
            magnitude_bin=bins[level] if signed else m,
            num_magnitude_bins=num_magnitude_bins,
            **kwargs,
        )
    return data


def _geometry(use_shape: bool, max_translate_abs: Any, max_translate_rel: Any) -> list[_Augmentation]:
    return [
        *translations(use_shape, 100, 100 / 224, max_translate_abs, max_translate_rel),
        a.shear_x.augmentation((0, 0.3), True),
        a.shear_y.augmentation((0, 0.3), True),
        a.rotate.augmentation((0, 30), True),
    ]


def get_rand_augment_suite(use_shape: bool = False, max_translate_abs: Any = None, max_translate_rel: Any = None) -> list[_Augmentation]:
    """Returns the 14 augmentations of RandAugment, with ranges in which higher bins change an image more."""
    return [
        *_geometry(use_shape, max_translate_abs, max_translate_rel),
        a.brightness.augmentation((0, 0.9), True, a.shift_enhance_range),
        a.contrast.augmentation((0, 0.9), True, a.shift_enhance_range),
        a.color.augmentation((0, 0.9), True, a.shift_enhance_range),
        a.sharpness.augmentation((0, 0.9), True, a.sharpness_kernel),
        a.posterize.augmentation((8, 4), False, a.poster_mask_uint8),
        a.solarize.augmentation((256, 0)),
        a.equalize,
        a.auto_contrast,
        a.identity,
    ]


def get_rand_augment_non_monotonic_suite(
    use_shape: bool = False, max_translate_abs: Any = None, max_translate_rel: Any = None
) -> list[_Augmentation]:
    """Returns the 14 augmentations of RandAugment with the ranges of AutoAugment: factors of colour, contrast, brightness and sharpness from 0.1 to 1.9, so
    that the middle bin changes nothing. In posterize and solarize, higher bins change an image less."""
    return [
        *_geometry(use_shape, max_translate_abs, max_translate_rel),
        a.brightness.augmentation((0.1, 1.9), False, None),
        a.contrast.augmentation((0.1, 1.9), False, None),
        a.color.augmentation((0.1, 1.9), False, None),
        a.sharpness.augmentation((0.1, 1.9), False, a.sharpness_kernel_shifted),
        a.posterize.augmentation((0, 4), False, a.poster_mask_uint8),
        a.solarize.augmentation((0, 256), False, None),
        a.equalize,
        a.auto_contrast,
        a.identity,
    ]
