# SPDX-License-Identifier: Apache-2.0
"""Applies MixUp, CutMix and the user's functions to finished batches, on the batch's device. The draws depend only on the seed, the epoch and the position of
the batch's first sample, so that a resumed run draws the same numbers."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from stoker import transforms as T
from stoker.errors import InvalidArgumentError
from stoker.loader._kinds import BOXES, MASK, PICTURES, POINTS
from stoker.loader._random import mix
from stoker.loader._refused import changed

if TYPE_CHECKING:
    import torch


class BatchTransforms:
    """The transforms of Loader(batch_transforms=...). classes: a function that returns the Loader's number of classes, or 0 if that number is not known."""

    def __init__(self, transforms: Any, classes: Callable[[], int]) -> None:
        self._given = transforms
        self._steps = T.flatten(transforms)
        self._classes = classes
        for step in T.with_parts(self._steps):
            _check(step)

    def check(self) -> None:
        """Raises StateError if the list or a transform of torchvision in it was changed. Stoker's own transforms may change, as each batch reads their
        settings."""
        if T.flatten(self._given) != self._steps:
            raise changed(
                "Loader: the argument batch_transforms", "or give MixUp and CutMix of stoker.transforms, whose attributes may change"
            )

    def refuse_followers(self, kinds: Iterable[str]) -> None:
        """Raises InvalidArgumentError for a transform that mixes images if samples have masks, boxes, points or further images: these would stay those of one
        sample. torchvision raises an error for masks and boxes, too. kinds: the kinds of the samples' parts after the image."""
        found = next((kind for kind in kinds if kind in (MASK, BOXES, POINTS, *PICTURES)), None)
        mixing = next((type(step).__name__ for step in T.with_parts(self._steps) if isinstance(step, T.Mixing)), None)
        if found is not None and mixing is not None:
            raise InvalidArgumentError(
                f"{mixing} mixes the image and the label, and samples have a part of the kind {found}, which would not be mixed: leave it out of fields=, or "
                "give batch_transforms a function of (images, labels)"
            )

    def __call__(self, batch: Any, seeds: Sequence[int]) -> Any:
        """Returns the transformed batch. seeds: the numbers from which the draws are seeded."""
        draws = random.Random(mix(*seeds))
        fields = batch._asdict()
        name = _label_of(fields)
        image, label = fields["image"], fields[name]
        for step in self._steps:
            image, label = self._apply(step, image, label, draws)
        return batch._replace(**{"image": image, name: label})

    def _apply(self, step: T.Transform, image: Any, label: Any, draws: random.Random) -> tuple[Any, Any]:
        if isinstance(step, T.RandomChoice):
            return self._apply(draws.choices(step.transforms, step.p)[0], image, label, draws)
        if isinstance(step, T.RandomApply) and draws.random() >= step.p:
            return image, label
        if isinstance(step, T.Group):
            for part in step.transforms:
                image, label = self._apply(part, image, label, draws)
            return image, label
        if isinstance(step, T.Lambda):
            function: Any = step.lambd
            made = function(image, label)
            if not isinstance(made, (tuple, list)) or len(made) != 2:
                raise InvalidArgumentError(
                    f"batch_transforms: {getattr(function, '__name__', function)} gets and returns (images, labels); it returned {type(made).__name__}"
                )
            return made[0], made[1]
        assert isinstance(step, T.Mixing)
        return self._mixed(step, image, label, draws)

    def _mixed(self, step: T.Mixing, image: torch.Tensor, label: torch.Tensor, draws: random.Random) -> tuple[Any, Any]:
        import torch

        name = type(step).__name__
        if not isinstance(image, torch.Tensor) or not isinstance(label, torch.Tensor) or label.ndim not in (1, 2):
            raise InvalidArgumentError(f"{name} mixes one image a sample, and labels that are numbers or vectors")
        share = draws.betavariate(step.alpha, step.alpha)
        rolled = image.roll(1, 0)
        if isinstance(step, T.CutMix):
            box, share = _window(image.shape[-1], image.shape[-2], share, draws)
            mixed = image.clone()
            mixed[..., box[1] : box[3], box[0] : box[2]] = rolled[..., box[1] : box[3], box[0] : box[2]]
        elif not image.is_floating_point():
            raise InvalidArgumentError(f"MixUp mixes floats: leave dtype={image.dtype} out, or take CutMix")
        else:
            mixed = image.mul(share).add_(rolled.mul_(1.0 - share))
        return _like(mixed, image), _like(self._soft(step, label, share), label)

    def _soft(self, step: T.Mixing, label: torch.Tensor, share: float) -> torch.Tensor:
        name = type(step).__name__
        if label.ndim == 1 or (label.shape[1:] == (1,) and not label.is_floating_point()):
            label = label.reshape(-1)
            classes = step.num_classes or self._classes()
            if label.is_floating_point():
                raise InvalidArgumentError(
                    f"{name}: the labels are floats, one for each sample, and it mixes whole numbers, which are classes, or vectors of shares"
                )
            if not classes:
                raise InvalidArgumentError(f"{name}: num_classes is needed for labels that are numbers: {name}(num_classes=10)")
            label = _one_hot(name, label, classes)
        elif step.num_classes not in (None, label.shape[1]):
            raise InvalidArgumentError(
                f"{name}: num_classes is {step.num_classes}, and the labels are vectors of {label.shape[1]} numbers: leave num_classes out"
            )
        soft = label if label.is_floating_point() else label.float()
        return soft.roll(1, 0).mul_(1.0 - share).add_(soft.mul(share))


def _one_hot(name: str, label: torch.Tensor, classes: int) -> torch.Tensor:
    """Returns a vector for each label, with a one at the label. Raises InvalidArgumentError for labels that are not below `classes`; on a GPU, torch reports
    these. name: the transform's name in the message."""
    from torch.nn.functional import one_hot

    try:
        return one_hot(label.long(), classes)
    except RuntimeError:
        if label.device.type != "cpu":
            raise
        raise InvalidArgumentError(
            f"{name}: there are {classes} classes, and the labels of this batch go from {int(label.min())} to {int(label.max())}: classes are numbered from 0, "
            "and num_classes is their number"
        ) from None


def _check(step: T.Transform) -> None:
    if not isinstance(step, (T.Group, T.Mixing, T.Lambda)):
        raise InvalidArgumentError(
            f"batch_transforms: {step!r} changes one sample: give it to transforms. MixUp, CutMix, RandomChoice and RandomApply of them, and functions "
            "of (images, labels) change a batch"
        )


def _label_of(fields: dict[str, Any]) -> str:
    others = [name for name in fields if name not in ("image", "path", "index", "valid")]
    if "image" not in fields or ("label" not in others and len(others) != 1):
        raise InvalidArgumentError(f"batch_transforms mix the fields image and label; this batch has {', '.join(fields)}")
    return "label" if "label" in others else others[0]


def _window(width: int, height: int, share: float, draws: random.Random) -> tuple[tuple[int, int, int, int], float]:
    """Draws CutMix's window. Returns (left, top, right, bottom), and the share of the image outside of it. share: the wanted share outside; the returned
    one differs if the image's edge cuts the window, or by rounding to pixels."""
    x, y = draws.randrange(width), draws.randrange(height)
    r = 0.5 * math.sqrt(1.0 - share)
    across, down = int(r * width), int(r * height)
    left, top, right, bottom = max(x - across, 0), max(y - down, 0), min(x + across, width), min(y + down, height)
    return (left, top, right, bottom), 1.0 - (right - left) * (bottom - top) / (width * height)


def _like(made: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
    """Returns `made` in pinned memory if the batch's tensor `given` is in pinned memory, else `made` itself."""
    return made.pin_memory() if given.device.type == "cpu" and given.is_pinned() else made
