# SPDX-License-Identifier: Apache-2.0
"""A map-style Dataset as a source: its Python runs on threads and hands over bytes (or arrays), which are decoded and transformed in C.

The order of samples is made here, by the same rule as for files: rank r of R takes at step k the positions (kR + r)B .. (kR + r + 1)B - 1 of the epoch's
sequence, so that all ranks have the same number of steps.
"""

from __future__ import annotations

import os
import random
from array import array
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from stoker import fn
from stoker.data_node import DataNode
from stoker.errors import InvalidArgumentError
from stoker.loader._lower import Image
from stoker.loader._sources import Source
from stoker.loader._spec import Spec

_AHEAD = 2  # batches that are asked for before they are needed


class DatasetSource(Source):
    """Samples of dataset[i]: an image, or (image, target, ...); the image is a path, bytes, or a uint8 array HWC."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self.size = len(dataset)
        if self.size == 0:
            raise InvalidArgumentError("the dataset is empty")
        self.pool: ThreadPoolExecutor | None = None
        self.epoch = 0
        self.start = 0  # position where this run begins
        self._waiting: deque[tuple[int, int, list[Future[Any]]]] = deque()
        self._probe: tuple[int, Any] | None = None
        self._order: tuple[int, Callable[[int], int], int] | None = None

    def begin(self, epoch: int, consumed: int) -> None:
        """Where the run begins."""
        self.epoch, self.start = epoch, consumed

    # ---- order ----

    def _sequence(self, epoch: int, spec: Spec, indices: array[int] | None) -> tuple[Callable[[int], int], int]:
        """Position -> sample, and the number of positions of an epoch."""
        if self._order is None or self._order[0] != epoch:
            if indices is not None:
                bad = next((i for i in indices if not 0 <= i < self.size), None)
                if bad is not None:
                    raise InvalidArgumentError(f"sampler: it gave the sample {bad}; the dataset has 0 to {self.size - 1}")
                self._order = (epoch, indices.__getitem__, len(indices))
            elif spec.shuffle:
                ids = array("q", range(self.size))
                random.Random(f"stoker order {spec.seed} {epoch}").shuffle(ids)
                self._order = (epoch, ids.__getitem__, self.size)
            else:
                self._order = (epoch, int, self.size)
        return self._order[1], self._order[2]

    def batch(self, epoch: int, step: int, spec: Spec, indices: array[int] | None, per_rank: bool) -> list[tuple[int, bool]]:
        """Samples of a batch of this rank, and whether each only fills it up; empty behind the end."""
        sample, total = self._sequence(epoch, spec, indices)
        rank, world = (0, 1) if per_rank else spec.shard
        first = (self.start if epoch == self.epoch else 0) + (step * world + rank) * spec.batch
        together = first - rank * spec.batch + world * spec.batch  # end of the step of all ranks
        if first - rank * spec.batch >= total or (spec.last_batch == "drop" and together > total):
            return []
        places = range(first, first + spec.batch)
        if spec.last_batch == "pad":
            return [(sample(min(p, total - 1)), p >= total) for p in places]
        return [(sample(p), False) for p in places if p < total]

    # ---- samples ----

    def _load(self, index: int) -> tuple[Any, ...]:
        """On a thread of the pool."""
        try:
            item = self.dataset[index]
            parts = tuple(item) if isinstance(item, (tuple, list)) else (item,)
            return (_image(parts[0]), *(_target(p) for p in parts[1:]))
        except Exception as e:
            e.add_note(f"in dataset[{index}]")
            raise

    def _submit(self, index: int) -> Future[Any]:
        if self._probe is not None and self._probe[0] == index:
            done: Future[Any] = Future()
            done.set_result(self._probe[1])
            self._probe = None
            return done
        assert self.pool is not None
        return self.pool.submit(self._load, index)

    def _take(self, spec: Spec, indices: array[int] | None, per_rank: bool, epoch: int, step: int) -> list[tuple[Any, ...]]:
        """The samples of one batch; those of the next ones are asked for meanwhile."""
        if self._waiting and self._waiting[0][:2] != (epoch, step):
            self._waiting.clear()
        ask = self._waiting[-1][1] + 1 if self._waiting else step
        while ask <= step + _AHEAD:
            ids = self.batch(epoch, ask, spec, indices, per_rank)
            if not ids:
                break
            self._waiting.append((epoch, ask, [self._submit(i) for i, _ in ids]))
            ask += 1
        if not self._waiting:
            raise StopIteration
        return [f.result() for f in self._waiting.popleft()[2]]

    # ---- graph ----

    def nodes(self, spec: Spec, indices: array[int] | None, per_rank: bool) -> list[DataNode]:
        if spec.last_batch == "keep" and spec.shard.world > 1 and not per_rank:
            raise InvalidArgumentError(
                "last_batch='keep' with a Dataset and several ranks: a rank could be left without samples; use 'pad' or 'drop'"
            )
        if self.pool is None:
            self.pool = ThreadPoolExecutor(max_workers=min(16, 2 * (os.cpu_count() or 1) + 2), thread_name_prefix="stoker-dataset")
        first = self.batch(self.epoch, 0, spec, indices, per_rank)
        if not first:
            raise InvalidArgumentError(
                f"the dataset has {self.size} samples: not one batch of {spec.batch} for each of {spec.shard.world} ranks"
            )
        # One sample tells what the dataset gives; it is the first that is needed anyway.
        self._probe = (first[0][0], self._load(first[0][0]))
        example = self._probe[1]
        self.targets = len(example) - 1

        def source(info: Any) -> Any:
            rows = self._take(spec, indices, per_rank, self.epoch + info.epoch_idx, info.iteration)
            counts = {len(r) for r in rows}
            if counts != {len(example)}:
                raise ValueError(f"the dataset gave samples of {sorted(counts)} parts; the first one had {len(example)}")
            return tuple(list(column) for column in zip(*rows, strict=True))

        nodes = fn.external_source(
            source,
            num_outputs=len(example),
            batch_info=True,
            layout=["HWC" if _is_array(example[0]) else None, *[None] * self.targets],
            name="Dataset",
        )
        image = spec.upload(nodes[0]) if _is_array(example[0]) else spec.decode(nodes[0])
        return [spec.recipe.apply(Image(image, None)), *(spec.upload(n) for n in nodes[1:])]

    def close(self) -> None:
        if self.pool is not None:
            self.pool.shutdown(wait=False, cancel_futures=True)
            self.pool = None
        self._waiting.clear()

    def __repr__(self) -> str:
        return f"{type(self.dataset).__name__} of {self.size}"


def _is_array(image: Any) -> bool:
    return not isinstance(image, (bytes, bytearray, memoryview)) and image.ndim == 3


def _image(value: Any) -> Any:
    """A path as the file's bytes; bytes and arrays as they are."""
    if isinstance(value, (str, os.PathLike)):
        with open(value, "rb") as f:
            return f.read()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return value
    if hasattr(value, "ndim") and hasattr(value, "dtype"):
        if str(value.dtype).removeprefix("torch.") != "uint8" or value.ndim not in (1, 3):
            raise TypeError(
                f"the dataset gave an image of type {value.dtype} with {value.ndim} dimensions: it is uint8, HWC (or the bytes of a file)"
            )
        return value
    if type(value).__module__.startswith("PIL."):
        raise TypeError(
            "the dataset gave a PIL image: return the path or the file's bytes instead, and leave decoding and transforms to Loader"
        )
    raise TypeError(f"the dataset gave {type(value).__name__} as an image: it is a path, bytes or a uint8 array")


def _target(value: Any) -> Any:
    """Numbers as arrays; whole ones are int64, as torch's default_collate makes them."""
    import numpy as np

    if isinstance(value, (bool, int)):
        return np.asarray(value, np.int64)
    if isinstance(value, float):
        return np.asarray(value, np.float32)
    return value
