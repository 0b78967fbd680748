# SPDX-License-Identifier: Apache-2.0
"""The Loader's argument bucket_by: each batch gets images of similar shapes, or sounds of similar lengths, so that padding is small."""

from __future__ import annotations

import bisect
import os
from array import array
from collections.abc import Callable, Sequence
from typing import Any

from stoker.errors import InvalidArgumentError
from stoker.loader._order import Order
from stoker.loader._spec import Spec
from stoker.loader.sources._image_sizes import Size
from stoker.loader.sources._source import Source

_RATIOS = tuple(2 ** (k / 3) for k in range(-3, 4))  # bounds of the groups of aspect ratios, as in torchvision's reference scripts
_POOL = 64  # number of steps whose samples are sorted together by size or duration


class BucketOrder(Order):
    """Orders samples so that a step, over all ranks, has samples of one bucket or of similar sizes. Depends only on the seed and the epoch, so that ranks agree
    and a run can be resumed. Samples that do not fill a step come last.

    keys: the bucket of each sample; buckets must be sortable. sorted_pool: keys are sizes or durations, by which samples are sorted; neighbours form a step.
    together: number of samples in a step, over all ranks.
    """

    name = "bucket_by"
    repeated = "give the bucket_by, the batch size and the data of that run"

    def __init__(self, keys: Sequence[Any], sorted_pool: bool, together: int, shuffle: bool, seed: int) -> None:
        self.keys, self.sorted_pool, self.together, self.shuffle, self.seed = keys, sorted_pool, together, shuffle, seed

    def go_on_with(self, seed: int) -> None:
        self.seed = seed

    def length(self) -> int:
        return len(self.keys)

    def check(self, samples: int) -> None:
        if len(self.keys) != samples:
            raise InvalidArgumentError(
                f"bucket_by: there are {len(self.keys)} keys; the data set has {samples} samples, and each needs one"
            )

    def indices(self, epoch: int) -> array[int]:
        import random

        draw = random.Random(f"stoker buckets {self.seed} {epoch}")
        ids = list(range(len(self.keys)))
        if self.shuffle:
            draw.shuffle(ids)
        steps, rest = self._of_pools(ids) if self.sorted_pool else self._of_groups(ids)
        if self.shuffle:
            draw.shuffle(steps)
        return array("q", (i for step in [*steps, rest] for i in step))

    def _of_groups(self, ids: list[int]) -> tuple[list[list[int]], list[int]]:
        """Returns the steps, each with samples of one bucket in the order of `ids`, and the samples that do not fill a step, sorted by bucket."""
        waiting: dict[Any, list[int]] = {}
        steps = []
        for i in ids:
            group = waiting.setdefault(self.keys[i], [])
            group.append(i)
            if len(group) == self.together:
                steps.append(waiting.pop(self.keys[i]))
        return steps, [i for key in sorted(waiting) for i in waiting[key]]

    def _of_pools(self, ids: list[int]) -> tuple[list[list[int]], list[int]]:
        """Sorts samples by key, those of _POOL steps at a time. Returns the steps, and the last samples, which do not fill a step."""
        whole = len(ids) // self.together * self.together
        steps = []
        for at in range(0, whole, _POOL * self.together):
            pool = sorted(ids[at : min(at + _POOL * self.together, whole)], key=self.keys.__getitem__)
            steps += [pool[k : k + self.together] for k in range(0, len(pool), self.together)]
        return steps, ids[whole:]


def make_buckets(bucket_by: Any, source: Source, spec: Spec) -> BucketOrder:
    """Makes the order for the Loader's argument bucket_by: "aspect_ratio" or "size" of images, "duration" of sounds, or a list with a key for each sample.
    Raises InvalidArgumentError for other values, and if sizes or lengths are not known."""
    together, shuffle, seed = spec.batch * spec.shard.world, spec.shuffle, spec.seed
    durations = source.durations()
    names = "'duration'" if durations is not None else "'aspect_ratio', 'size'"
    if isinstance(bucket_by, str):
        source.check_bucket_by()
        if bucket_by == "duration" and durations is not None:
            return BucketOrder(durations(spec), True, together, shuffle, seed)
        keys_of: dict[str, Callable[[Size], Any]] = {
            "aspect_ratio": lambda size: bisect.bisect_right(_RATIOS, size[1] / size[0]),
            "size": lambda size: (max(size), size),
        }
        if bucket_by not in keys_of or durations is not None:
            raise InvalidArgumentError(f"bucket_by is {names}, or a list with a key for each sample, not {bucket_by!r}")
        keys = [keys_of[bucket_by](size) for size in source.image_sizes(spec.orientation, spec.bad_may_pass)]
        return BucketOrder(keys, bucket_by == "size", together, shuffle, seed)
    values = bucket_by.tolist() if hasattr(bucket_by, "tolist") else bucket_by
    if not isinstance(values, (list, tuple)) or not values or isinstance(bucket_by, os.PathLike):
        raise InvalidArgumentError(f"bucket_by is {names}, or a list with a key for each sample, not {bucket_by!r:.100}")
    try:
        sorted(set(values))
    except TypeError as e:
        raise InvalidArgumentError(f"bucket_by: its keys are numbers, strings or tuples of these, which can be sorted ({e})") from None
    return BucketOrder(values, False, together, shuffle, seed)
