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
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from stoker import fn
from stoker._sources import ByPosition
from stoker._where import notice
from stoker.data_node import DataNode
from stoker.errors import InvalidArgumentError, StateError
from stoker.loader import _fields, _targets
from stoker.loader._lower import Image
from stoker.loader._saved import Facts
from stoker.loader._sources import Source
from stoker.loader._spec import Spec

_AHEAD = 2  # batches that are asked for before they are needed


class DatasetSource(Source):
    """Samples of dataset[i]: an image, or (image, target, ...), or a dict with an entry "image"; the image is a path, bytes, a uint8 array HWC, or PIL's."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self.size = len(dataset)
        if self.size == 0:
            raise InvalidArgumentError("the dataset is empty")
        self.pool: ThreadPoolExecutor | None = None
        self.seed: int | None = None  # of the order, where a state brought its own
        self._waiting: deque[tuple[int, int, list[Future[Any]]]] = deque()
        self._probe: tuple[int, Any] | None = None
        self._orders: dict[int, tuple[Callable[[int], int], int]] = {}
        self._start = (0, 0, 0)
        self._keys: tuple[str, ...] | None = None  # of a dict, that of the image first; None: samples are no dicts

    def fields(self, names: tuple[str, ...] | None) -> dict[str, int | None]:
        return _fields.of_dataset(names, self.targets, self._keys)

    # ---- state ----

    def facts(self, spec: Spec) -> dict[str, Any]:
        """What a state keeps of the order, which is made here."""
        return {"size": self.size, "shuffle": spec.shuffle, "seed": self.order_seed(spec)}

    def restore(self, facts: Facts | None, spec: Spec) -> None:
        if facts is None:
            raise StateError("the state is not of a Loader over a Dataset")
        if facts.size != self.size:
            raise StateError(f"the state is of a dataset of {facts.size} samples; this one has {self.size}")
        if facts.shuffle != spec.shuffle:
            raise StateError(f"the state is of a {'shuffled' if facts.shuffle else 'sequential'} run; this Loader is not")
        self.seed = facts.seed
        self._orders = {}

    # ---- order ----

    def order_seed(self, spec: Spec) -> int:
        return spec.seed if self.seed is None else self.seed

    def _sequence(self, epoch: int, spec: Spec, indices: array[int] | None) -> tuple[Callable[[int], int], int]:
        """Position -> sample, and the number of positions of an epoch. Two are kept: the callback thread runs ahead into the next epoch."""
        found = self._orders.get(epoch)
        if found is None:
            found = self._make_sequence(epoch, spec, indices)
            self._orders = {**{e: o for e, o in self._orders.items() if abs(e - epoch) == 1}, epoch: found}
        return found

    def _make_sequence(self, epoch: int, spec: Spec, indices: array[int] | None) -> tuple[Callable[[int], int], int]:
        if indices is not None:
            bad = next((i for i in indices if not 0 <= i < self.size), None)
            if bad is not None:
                raise InvalidArgumentError(f"sampler: it gave the sample {bad}; the dataset has 0 to {self.size - 1}")
            return indices.__getitem__, len(indices)
        if not spec.shuffle:
            return int, self.size
        ids = array("q", range(self.size))
        random.Random(f"stoker order {self.order_seed(spec)} {epoch}").shuffle(ids)
        return ids.__getitem__, self.size

    def steps_left(self, epoch: int, consumed: int, spec: Spec, indices: array[int] | None, per_rank: bool) -> bool:
        """Whether the epoch has another step for the ranks, after so many samples of theirs."""
        total = self._sequence(epoch, spec, indices)[1]
        together = spec.batch * (1 if per_rank else spec.shard.world)
        return consumed + together <= total if spec.last_batch == "drop" else consumed < total

    def samples(self, epoch: int, positions: Sequence[int], spec: Spec, indices: array[int] | None) -> list[tuple[int, bool]]:
        """Ids at positions, and whether each only fills a batch up."""
        sample, total = self._sequence(epoch, spec, indices)
        return [(sample(min(p, total - 1)), p >= total) for p in positions]

    def batch(self, epoch: int, first: int, spec: Spec, indices: array[int] | None, per_rank: bool) -> list[int]:
        """Ids of the batch of this rank that begins at the position `first`; none behind the end."""
        rank = 0 if per_rank else spec.shard.rank
        if not self.steps_left(epoch, first - rank * spec.batch, spec, indices, per_rank):
            return []
        total = self._sequence(epoch, spec, indices)[1]
        end = first + spec.batch if spec.last_batch == "pad" else min(first + spec.batch, total)
        return [i for i, _ in self.samples(epoch, range(first, end), spec, indices)]

    # ---- samples ----

    def _load(self, index: int) -> tuple[Any, ...]:
        """On a thread of the pool."""
        try:
            item = self.dataset[index]
            parts = self._of_dict(item) if isinstance(item, dict) else tuple(item) if isinstance(item, (tuple, list)) else (item,)
            return (_image(parts[0]), *(_target(p, k) for k, p in enumerate(parts[1:], 1)))
        except StopIteration as e:  # to the source it would mean that the epoch is over
            raise RuntimeError(f"the dataset raised StopIteration in dataset[{index}]: its length says where it ends") from e
        except Exception as e:
            e.add_note(f"in dataset[{index}]")
            raise

    def _of_dict(self, item: dict[str, Any]) -> tuple[Any, ...]:
        """The parts of a dict, in the order of the first sample's keys."""
        if self._keys is None:
            if "image" not in item:
                raise TypeError(f"the dataset gave a dict with the entries {', '.join(map(str, item))}: the image's is called 'image'")
            self._keys = ("image", *(k for k in item if k != "image"))
        if set(item) != set(self._keys):
            raise TypeError(
                f"the dataset gave a dict with the entries {', '.join(map(str, item))}; the first one had {', '.join(self._keys)}"
            )
        return tuple(item[k] for k in self._keys)

    def _submit(self, index: int) -> Future[Any]:
        if self._probe is not None and self._probe[0] == index:
            done: Future[Any] = Future()
            done.set_result(self._probe[1])
            self._probe = None
            return done
        assert self.pool is not None
        return self.pool.submit(self._load, index)

    def _take(self, spec: Spec, indices: array[int] | None, per_rank: bool, epoch: int, first: int) -> list[tuple[Any, ...]]:
        """The samples of one batch; those of the next ones are asked for meanwhile."""
        stride = spec.batch * (1 if per_rank else spec.shard.world)
        if self._waiting and self._waiting[0][:2] != (epoch, first):
            self._waiting.clear()
        ask = self._waiting[-1][1] + stride if self._waiting else first
        while ask <= first + _AHEAD * stride:
            ids = self.batch(epoch, ask, spec, indices, per_rank)
            if not ids:
                break
            self._waiting.append((epoch, ask, [self._submit(i) for i in ids]))
            ask += stride
        if not self._waiting:
            raise StopIteration
        return [f.result() for f in self._waiting.popleft()[2]]

    # ---- graph ----

    def begin(self, epoch: int, consumed: int, base: int) -> None:
        """Where the run begins: the epoch, how much of it all ranks have had, and the epoch that the pipeline calls 0."""
        self._start = (epoch, consumed, base)

    def nodes(self, spec: Spec, indices: array[int] | None, per_rank: bool) -> list[DataNode]:
        if spec.last_batch == "keep" and spec.shard.world > 1 and not per_rank:
            raise InvalidArgumentError(
                "last_batch='keep' with a Dataset and several ranks: a rank could be left without samples; use 'pad' or 'drop'"
            )
        if spec.settings.get("on_error") == "replace":
            raise InvalidArgumentError(
                "Loader: on_error='replace' is for files that Stoker reads itself; with a Dataset use 'skip', or return another sample in its place"
            )
        if self.pool is None:
            self.pool = ThreadPoolExecutor(max_workers=min(16, 2 * (os.cpu_count() or 1) + 2), thread_name_prefix="stoker-dataset")
        epoch, consumed, base = self._start
        shard = (0, 1) if per_rank else (spec.shard.rank, spec.shard.world)
        first = self.batch(epoch, consumed + shard[0] * spec.batch, spec, indices, per_rank)
        if not first and indices is None:
            first = self.batch(epoch + 1, shard[0] * spec.batch, spec, indices, per_rank)  # the state is at the end of its epoch
        if not first:
            raise InvalidArgumentError(
                f"the dataset has {self.size} samples: not one batch of {spec.batch} for each of {spec.shard.world} ranks"
            )
        # One sample tells what the dataset gives; it is the first that is needed anyway.
        self._probe = (first[0], self._load(first[0]))
        example = self._probe[1]
        self.targets = len(example) - 1
        self._check_targets(spec, example)

        def source(epoch: int, position: int, _count: int) -> Any:
            if indices is not None and epoch > 0:
                raise StopIteration  # the user's order is of one epoch
            rows = self._take(spec, indices, per_rank, base + epoch, position)
            counts = {len(r) for r in rows}
            if counts != {len(example)}:
                raise ValueError(f"the dataset gave samples of {sorted(counts)} parts; the first one had {len(example)}")
            return tuple(_column(list(column), number) for number, column in enumerate(zip(*rows, strict=True)))

        nodes = fn.external_source(
            ByPosition(source, shard),
            num_outputs=len(example),
            layout=["HWC" if _is_array(example[0]) else None, *[None] * self.targets],
            name="Dataset",
            no_copy=True,  # as with a DataLoader, an item is given away until its batch is made
        )
        image = spec.upload(nodes[0]) if _is_array(example[0]) else spec.decode(nodes[0])
        targets = (node if k in self.finish else spec.upload(node) for k, node in enumerate(nodes[1:], 1))
        return [spec.recipe.apply(Image(image, None)), *targets]

    def _check_targets(self, spec: Spec, example: tuple[Any, ...]) -> None:
        """What one sample's targets say of all: strings travel as their bytes; what looks like an image would have to follow the image's geometry."""
        self.finish = {k: _targets.texts for k, target in enumerate(example) if isinstance(target, str)}
        for k, target in enumerate(example[1:], 1):
            shape = getattr(target, "shape", ())
            if spec.recipe.moves and len(shape) >= 2 and min(shape[:2]) > 4:
                raise InvalidArgumentError(
                    f"target {k} of the dataset has the shape {tuple(shape)}: if it is a mask, it would not follow the crops and flips of the image. "
                    "Masks that follow are not in Stoker's Loader yet: use pipeline_def with one seed for both, or do the geometry in the Dataset"
                )

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
        if value.ndim == 3 and value.shape[0] in (1, 3) and value.shape[2] > 4:
            raise TypeError(
                f"the dataset gave an image of the shape {tuple(value.shape)}, which looks like CHW: it is HWC. Give the path or the file's bytes, "
                "or image.permute(1, 2, 0) of a tensor, image.transpose(1, 2, 0) of an array"
            )
        return value
    if type(value).__module__.startswith("PIL."):
        import numpy as np

        notice("the dataset gives PIL images, which Python decodes one by one: return the path or the file's bytes, and it is done in C")
        return np.asarray(value.convert("RGB"))
    raise TypeError(f"the dataset gave {type(value).__name__} as an image: it is a path, bytes, a uint8 array or a PIL image")


def _target(value: Any, number: int) -> Any:
    """Numbers as arrays; whole ones are int64, as torch's default_collate makes them."""
    import numpy as np

    if isinstance(value, (bool, int)):
        return _targets.whole(value, number)
    if isinstance(value, float):
        return np.asarray(value, np.float32)
    dtype = getattr(value, "dtype", None)
    numeric = not isinstance(dtype, np.dtype) or dtype.kind in "biuf" or isinstance(value, str)
    if value is None or isinstance(value, (dict, set)) or not numeric:
        raise TypeError(
            f"the dataset gave {type(value).__name__ if numeric else dtype} as target {number}: it is a number, a string, or an array or tensor of numbers"
        )
    if str(dtype).endswith("uint64") and tuple(value.shape) in ((), (1,)):
        return _targets.whole(int(value.reshape(())), number)
    return value


def _column(values: list[Any], number: int) -> list[Any]:
    """One part of all samples of a batch: strings as their bytes, all of them or none."""
    strings = [isinstance(v, str) for v in values]
    if not any(strings):
        return values
    if not all(strings):
        raise TypeError(f"the dataset gave strings and other things as target {number}: it is the same for all samples")
    return [_targets.text(v) for v in values]
