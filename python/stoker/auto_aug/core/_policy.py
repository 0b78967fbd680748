# SPDX-License-Identifier: Apache-2.0
"""Policies of AutoAugment."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from stoker.auto_aug.core._augmentation import Augmentation
from stoker.errors import ArgumentError, InvalidArgumentError

Step = tuple[Augmentation, float, int | None]


class Policy:
    """Sequences of augmentations, one of which is drawn for each sample, all with the same chance.

    A sequence holds tuples (augmentation, probability, magnitude bin), with None as the bin of an augmentation without a magnitude. Its augmentations
    are applied one after the other, each with its probability.
    """

    def __init__(self, name: str, num_magnitude_bins: int, sub_policies: Sequence[Sequence[Step]]) -> None:
        if isinstance(num_magnitude_bins, bool) or not isinstance(num_magnitude_bins, int) or num_magnitude_bins < 1:
            raise InvalidArgumentError(f"The `num_magnitude_bins` must be a positive integer, got {num_magnitude_bins}.")
        if not isinstance(sub_policies, (list, tuple)):
            raise ArgumentError(f"The `sub_policies` must be a list or tuple of sub policies, got {type(sub_policies)}.")
        self.name = name
        self.num_magnitude_bins = num_magnitude_bins
        for sub_policy in sub_policies:
            if not isinstance(sub_policy, (list, tuple)):
                raise ArgumentError(f"Each sub policy must be a list or tuple, got {sub_policy}.")
            for step in sub_policy:
                self._check(step)
        self.sub_policies = _with_names_of_their_own(sub_policies)

    def _check(self, step: Any) -> None:
        if not isinstance(step, (list, tuple)) or len(step) != 3:
            raise ArgumentError(
                f"Each operation in sub policy must be specified as a triple: (augmentation, probability, magnitude). Got {step}."
            )
        augmentation, probability, magnitude = step
        if not isinstance(augmentation, Augmentation):
            raise ArgumentError(
                f"Each augmentation in sub policies must be an instance of Augmentation. Got `{augmentation}`. Did you forget to use `@augmentation` decorator?"
            )
        name = augmentation.name
        if not isinstance(probability, (float, int)) or not 0 <= probability <= 1:
            raise InvalidArgumentError(
                f"Probability of applying the augmentation must be a number from `[0, 1]` range. Got `{probability}` for augmentation `{name}`."
            )
        if probability == 0:
            warnings.warn(
                f"The augmentation `{name}` in policy `{self.name}` is used with probability 0 in one of the sub-policies.", stacklevel=4
            )
        if magnitude is None:
            if augmentation.mag_range is not None:
                raise InvalidArgumentError(
                    f"The augmentation `{name}` has `mag_range` specified, so the magnitude bin is required. However, got `None` in the policy `{self.name}`."
                )
            return
        if augmentation.mag_range is None:
            warnings.warn(
                f"The magnitude bin `{magnitude}` for augmentation `{name}` in policy `{self.name}` will be ignored: it has no `mag_range`, and None "
                "says the same",
                stacklevel=4,
            )
        if isinstance(magnitude, bool) or not isinstance(magnitude, int) or not 0 <= magnitude < self.num_magnitude_bins:
            raise InvalidArgumentError(
                f"Magnitude of the augmentation must be an integer from `[0, {self.num_magnitude_bins - 1}]` range. Got `{magnitude}` for augmentation "
                f"`{name}`."
            )

    @property
    def augmentations(self) -> dict[str, Augmentation]:
        """Returns the augmentations that occur in the policy, by name."""
        found = {augmentation.name: augmentation for sub_policy in self.sub_policies for augmentation, _, _ in sub_policy}
        return dict(sorted(found.items()))

    def __repr__(self) -> str:
        sequences = "".join(f"\n\t{[(a.name, p, m) for a, p, m in sub_policy]!r}," for sub_policy in self.sub_policies)
        augmentations = "".join(f"\n\t{name!r}: {a!r}," for name, a in self.augmentations.items())
        return (
            f"Policy(name={self.name!r}, num_magnitude_bins={self.num_magnitude_bins!r}, sub_policies=[{sequences[:-1]}], "
            f"augmentations={{{augmentations[:-1]}}})"
        )


def _with_names_of_their_own(sub_policies: Sequence[Sequence[Step]]) -> tuple[tuple[Step, ...], ...]:
    """Returns the sequences as tuples. If different augmentations have the same name, puts a number before the name of each augmentation, so that a printed
    policy distinguishes them."""
    found = list(dict.fromkeys(augmentation for sub_policy in sub_policies for augmentation, _, _ in sub_policy))
    named = {a: a for a in found}
    if len({a.name for a in found}) < len(found):
        digits = len(str(len(found) - 1))
        named = {a: a.augmentation(name=f"{number:0{digits}d}__{a.name}") for number, a in enumerate(found)}
    return tuple(tuple((named[a], p, m) for a, p, m in sub_policy) for sub_policy in sub_policies)
