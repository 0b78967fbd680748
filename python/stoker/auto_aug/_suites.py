# SPDX-License-Identifier: Apache-2.0
"""Code that AutoAugment, RandAugment and TrivialAugment share: ranges of translations, selection of augmentations, and messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker.auto_aug import augmentations as a
from stoker.auto_aug.core import _Augmentation, select
from stoker.auto_aug.core._arguments import MissingArgException
from stoker.data_node import DataNode
from stoker.errors import ArgumentError, InvalidArgumentError


def translations(
    use_shape: bool, default_abs: float, default_rel: float, max_translate_abs: Any, max_translate_rel: Any
) -> tuple[_Augmentation, _Augmentation]:
    """Returns the augmentations that translate along x and y: by shares of the extents if use_shape, else by pixels. A maximum is one number, or (height,
    width)."""
    if not isinstance(use_shape, bool):
        raise ArgumentError(f"The `use_shape` is a flag that should be set to either True or False, got {use_shape}.")
    if use_shape and max_translate_abs is not None:
        raise ArgumentError("The argument `max_translate_abs` cannot be used with image shapes. You may use `max_translate_rel` instead.")
    if not use_shape and max_translate_rel is not None:
        raise ArgumentError(
            "The argument `max_translate_rel` cannot be used without image shapes. You may use `max_translate_abs` instead."
        )
    given, default = (max_translate_rel, default_rel) if use_shape else (max_translate_abs, default_abs)
    most = default if given is None else given
    height, width = most if isinstance(most, (tuple, list)) else (most, most)
    along_x, along_y = (a.translate_x, a.translate_y) if use_shape else (a.translate_x_no_shape, a.translate_y_no_shape)
    return along_x.augmentation((0, width), True), along_y.augmentation((0, height), True)


def without(suite: Sequence[_Augmentation], excluded: Sequence[str] | None, of: str) -> list[_Augmentation]:
    """Returns the augmentations whose names are not in `excluded`. Raises InvalidArgumentError if `excluded` has a name that the suite lacks. of: the suite's
    name in that message."""
    names = [augmentation.name for augmentation in suite]
    for name in excluded or ():
        if name not in names:
            raise InvalidArgumentError(
                f"The `{name}` was specified in `excluded`, but the {of} suite does not contain augmentation with this name. The augmentations in the "
                "suite are: "
                f"{', '.join(names)}."
            )
    return [augmentation for augmentation in suite if augmentation.name not in (excluded or ())]


def selected(suite: Sequence[_Augmentation], which: DataNode, caller: str, reference: str, **kwargs: Any) -> Any:
    """Applies to each sample the augmentation whose index in the suite is in `which`. caller, reference: names of functions, for the error about a missing
    `shape`."""
    try:
        return select(suite, which, **kwargs)
    except MissingArgException as e:
        if e.missing_args != ["shape"] or e.augmentation.op not in (a.translate_x.op, a.translate_y.op):
            raise
        raise MissingArgException(
            f"The augmentation `{e.augmentation.name}` requires `shape` argument that describes image shape (height and width). Please provide it as `shape` "
            f"argument to `{caller}` call; fn.peek_image_shape reads it from files. `translate_x_no_shape` and `translate_y_no_shape` move by pixels "
            "instead: see "
            f"`{reference}` and its `use_shape`",
            e.augmentation,
            e.missing_args,
        ) from None


def check_bins(num_magnitude_bins: Any) -> None:
    """Raises InvalidArgumentError unless the number of magnitudes is a positive integer."""
    if isinstance(num_magnitude_bins, bool) or not isinstance(num_magnitude_bins, int) or num_magnitude_bins < 1:
        raise InvalidArgumentError(f"The `num_magnitude_bins` must be a positive integer, got {num_magnitude_bins}.")
