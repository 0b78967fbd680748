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
from stoker.data_node import DataNode
from stoker.errors import InvalidArgumentError, StateError
from stoker.loader import _fields, _targets
from stoker.loader._coordinates import POINTS as PLACES
from stoker.loader._finish import Finish, Finishing, Lists, by_value, planes
from stoker.loader._follow import Followers
from stoker.loader._kinds import MASK, POINTS, Kind
from stoker.loader._lower import Image
from stoker.loader._samples import Samples, column, is_array
from stoker.loader._saved import Facts
from stoker.loader._sources import Source
from stoker.loader._spec import Spec

_AHEAD = 2  # batches that are asked for before they are needed


class DatasetSource(Source):
    """Samples of dataset[i]: an image, or (image, target, ...), or a dict with an entry "image"; the image is a path, bytes, a uint8 array HWC, or PIL's."""

    def __init__(self, dataset: Any, names: tuple[str, ...] | None, kinds: dict[str, Kind] | None, ragged: Sequence[str]) -> None:
        self.dataset, self.names, self.ragged = dataset, names, (ragged,) if isinstance(ragged, str) else tuple(ragged)
        self.samples_of = Samples(_fields.targets_of(names), kinds, False)
        self.size = len(dataset)
        if self.size == 0:
            raise InvalidArgumentError("the dataset is empty")
        self.pool: ThreadPoolExecutor | None = None
        self.seed: int | None = None  # of the order, where a state brought its own
        self._waiting: deque[tuple[int, int, list[Future[Any]]]] = deque()
        self._probe: tuple[int, Any] | None = None
        self._orders: dict[int, tuple[Callable[[int], int], int]] = {}
        self._start = (0, 0, 0)

    def fields(self, names: tuple[str, ...] | None) -> dict[str, int | None]:
        return _fields.of_dataset(names, self.targets, self.samples_of.keys)

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
            return self.samples_of.convert(self.dataset[index])
        except StopIteration as e:  # to the source it would mean that the epoch is over
            raise RuntimeError(f"the dataset raised StopIteration in dataset[{index}]: its length says where it ends") from e
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
        self.samples_of.oriented = spec.orientation
        self._probe = (first[0], self._load(first[0]))
        example = self._probe[1]
        kinds = self.samples_of.kinds or []
        self.targets = len(kinds)
        self._check_targets(spec, example)
        finish = self._finish(example, kinds)

        def source(epoch: int, position: int, _count: int) -> Any:
            if indices is not None and epoch > 0:
                raise StopIteration  # the user's order is of one epoch
            rows = self._take(spec, indices, per_rank, base + epoch, position)
            return tuple(column(list(parts), number) for number, parts in enumerate(zip(*rows, strict=True)))

        masks = [k for k, kind in enumerate(kinds, 1) if kind.name == MASK]
        layouts = {0: "HWC" if is_array(example[0]) else None, **{k: "HW" if example[k].ndim == 2 else "HWC" for k in masks}}
        nodes = fn.external_source(
            ByPosition(source, shard),
            num_outputs=len(example),
            layout=[layouts.get(k) for k in range(len(example))],
            name="Dataset",
            no_copy=True,  # as with a DataLoader, an item is given away until its batch is made
        )
        image = spec.upload(nodes[0]) if is_array(example[0]) else spec.decode(nodes[0])
        masks_there = [spec.upload(nodes[k]) for k in masks]
        followers = Followers(nodes[-1], masks_there) if self.samples_of.follow else None
        finished = spec.recipe.apply(Image(image, None, followers))
        moved = dict(zip(masks, followers.masks if followers else masks_there, strict=True))
        # What Python finishes stays on the cores until then.
        targets = [moved[k] if k in moved else nodes[k] if k in finish else spec.upload(nodes[k]) for k in range(1, 1 + self.targets)]
        self.finishing = Finishing(finish, uneven=False)
        if followers is None:
            return [finished, *targets]
        self._let_follow(followers)
        return [finished, *targets, followers.numbers()]

    def _finish(self, example: tuple[Any, ...], kinds: list[Kind]) -> dict[int, Finish]:
        """What is done to the parts, by their number."""
        shown = self.fields(self.names)
        for name in self.ragged:
            if not shown.get(name):
                raise InvalidArgumentError(f"ragged: there is no target {name!r}; the fields are {', '.join(shown)}")
        ragged = {shown[name] for name in self.ragged}
        finish: dict[int, Finish] = {}
        for k, (kind, part) in enumerate(zip(kinds, example[1:], strict=False), 1):
            if isinstance(part, str):
                finish[k] = by_value(_targets.texts)
            elif k in ragged or kind.is_list:
                finish[k] = Lists(k in ragged, format=PLACES if kind.name == POINTS else kind.format)
            elif kind.name == MASK and part.ndim == 3:
                finish[k] = planes
        return finish

    def _let_follow(self, followers: Followers) -> None:
        """Boxes and points move when their batch is made, all of its samples at once, by the numbers that stand behind the targets."""
        numbers = self.targets + 1
        for finish in self.finishing.finish.values():
            if isinstance(finish, Lists) and finish.format:
                finish.moves, finish.numbers = followers.moves, numbers
        self.finishing.needed = (numbers,)

    def _check_targets(self, spec: Spec, example: tuple[Any, ...]) -> None:
        """What has the shape of a mask or of boxes would have to follow the image: the user says what it is."""
        named = {k for k, name in enumerate(self.samples_of.names_of_parts(), 1) if name in (self.samples_of.given or {})}
        for k, (target, kind) in enumerate(zip(example[1:], self.samples_of.kinds or (), strict=False), 1):
            shape = getattr(target, "shape", ())
            if spec.recipe.moves and len(shape) >= 2 and not kind.follows and k not in named:
                raise InvalidArgumentError(
                    f"target {k} of the dataset has the shape {tuple(shape)}: a mask, boxes or points would have to follow the crops and flips of the image. "
                    "Say what it is, as in fields={'image': 'Image', 'target': 'Mask'} (or 'BoundingBoxes', 'KeyPoints'; None: it is taken as it is)"
                )

    def close(self) -> None:
        if self.pool is not None:
            self.pool.shutdown(wait=False, cancel_futures=True)
            self.pool = None
        self._waiting.clear()

    def __repr__(self) -> str:
        return f"{type(self.dataset).__name__} of {self.size}"
