# SPDX-License-Identifier: Apache-2.0
"""The Loader's argument bucket_by: each batch gets images of similar shapes, or sounds of similar lengths, so that padding is small."""

from __future__ import annotations

import bisect
import functools
import os
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from stoker import _core, _files
from stoker._progress import counted
from stoker.errors import InvalidArgumentError, StokerError
from stoker.loader._dataset import DatasetSource
from stoker.loader._order import Order
from stoker.loader._sources import FileSource
from stoker.loader._table import Table
from stoker.loader._table_source import TableSource
from stoker.loader._tars import TarSource

_HEAD = 64 << 10  # bytes read from the start of a file; nearly every image header fits in them
_RATIOS = tuple(2 ** (k / 3) for k in range(-3, 4))  # bounds of the groups of aspect ratios in torchvision's references
_POOL = 64  # number of steps whose samples are sorted together by size or duration
_ADVICE = "give bucket_by a list with one key for each sample, as [height // 64 for height in heights]"

Size = tuple[int, int]  # height, width


class BucketOrder(Order):
    """Orders samples so that a step, over all ranks, has samples of one bucket or of similar sizes. Depends only on the seed and the epoch, so that ranks agree
    and a run can be resumed. Samples that do not fill a step come last.

    keys: the bucket of each sample; buckets must be sortable. sorted_pool: the keys are sizes or durations, and neighbours in sorted order form a step.
    together: number of samples in a step, over all ranks.
    """

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


def size_of_file(path: Any, oriented: bool) -> Size:
    if _files.is_uri(path):
        raise InvalidArgumentError(f"bucket_by: the sizes of objects in a store are not read before the images: {_ADVICE}")
    try:
        with _files.open_binary(path) as f:
            data = f.read(_HEAD)
        header = _core.image_header(data)
    except (OSError, StokerError):  # the header may be longer; the next line raises an error if the file cannot be read or is not an image
        header = _core.image_header(_files.read_bytes(path))
    height, width = int(header["height"]), int(header["width"])
    return (width, height) if oriented and header["orientation"] > 4 else (height, width)


def _counted(sizes: Iterable[Size], total: int) -> list[Size]:
    return list(counted(sizes, "bucket_by: reading sizes", total))


def _sizes(source: Any, oriented: bool) -> list[Size]:
    """Returns (height, width) of each image, from the Dataset's get_height_and_width(i) or from headers of files. Raises an error without these."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(16) as pool:
        if isinstance(source, FileSource) and source.paths is not None:
            return _counted(pool.map(lambda path: size_of_file(path, oriented), source.paths), len(source.paths))
        dataset = getattr(source, "dataset", None) if isinstance(source, DatasetSource) else None
        measure = getattr(dataset, "get_height_and_width", None)
        if measure is not None and source.size is not None:
            return [(int(height), int(width)) for height, width in _counted(pool.map(measure, range(source.size)), source.size)]
        if isinstance(dataset, list) and (paths := [source.samples_of.path_of(item) for item in dataset]) and None not in paths:
            return _counted(pool.map(lambda path: size_of_file(path, oriented), paths), len(paths))
    if isinstance(source, FileSource):
        raise InvalidArgumentError(
            "bucket_by: of a folder give torchvision's ImageFolder(folder), or a list of (path, target), whose files are known"
        )
    raise InvalidArgumentError(
        f"bucket_by: the sizes of the images are not known before they are read: add get_height_and_width(i) to the Dataset, or {_ADVICE}"
    )


def _durations_of_rows(source: TableSource) -> list[float]:
    from stoker.loader import _table_sounds

    if source.asked.sound.audio.duration is not None:
        raise InvalidArgumentError(
            f"Loader: with duration={source.asked.sound.audio.duration:g} all sounds are equally long: leave bucket_by or duration out"
        )
    return _table_sounds.durations(source.table)


def make_buckets(bucket_by: Any, source: Any, oriented: bool, together: int, shuffle: bool, seed: int) -> BucketOrder:
    """Makes the order for the Loader's argument bucket_by: "aspect_ratio" or "size" of images, "duration" of sounds, or a list with a key for each sample.

    oriented: whether the EXIF orientation is applied, which may exchange height and width. together: number of samples in a step, over all ranks. Raises
    InvalidArgumentError for other values, and if sizes or lengths are not known.
    """
    durations = getattr(source, "durations", None)  # only a source of sounds has this method
    if durations is None and isinstance(source, TableSource) and isinstance(source.table, Table) and source.asked.sound is not None:
        durations = functools.partial(_durations_of_rows, source)
    names = "'duration'" if durations is not None else "'aspect_ratio', 'size'"
    if isinstance(bucket_by, str):
        if isinstance(source, TarSource) and source.images[0] == "wav":
            raise InvalidArgumentError(
                "bucket_by: the lengths of sounds in tars are not known: give it a list with one key for each sample"
            )
        if isinstance(source, DatasetSource) and source.asked.sound is not None and durations is None:
            raise InvalidArgumentError(
                f"bucket_by: the lengths of the sounds in {source} are not known before they are read: give a list with one key for each sample, such as its seconds"
            )
        if bucket_by == "duration" and durations is not None:
            return BucketOrder(durations(), True, together, shuffle, seed)
        keys_of: dict[str, Callable[[Size], Any]] = {
            "aspect_ratio": lambda size: bisect.bisect_right(_RATIOS, size[1] / size[0]),
            "size": lambda size: (max(size), size),
        }
        if bucket_by not in keys_of or durations is not None:
            raise InvalidArgumentError(f"bucket_by is {names}, or a list with a key for each sample, not {bucket_by!r}")
        keys = [keys_of[bucket_by](size) for size in _sizes(source, oriented)]
        return BucketOrder(keys, bucket_by == "size", together, shuffle, seed)
    values = bucket_by.tolist() if hasattr(bucket_by, "tolist") else bucket_by
    if not isinstance(values, (list, tuple)) or not values or isinstance(bucket_by, os.PathLike):
        raise InvalidArgumentError(f"bucket_by is {names}, or a list with a key for each sample, not {bucket_by!r:.100}")
    try:
        sorted(set(values))
    except TypeError as e:
        raise InvalidArgumentError(f"bucket_by: its keys are numbers, strings or tuples of these, which can be sorted ({e})") from None
    return BucketOrder(values, False, together, shuffle, seed)
