# SPDX-License-Identifier: Apache-2.0
"""Reads an IterableDataset in its own order. One thread iterates over it, ahead of the consumer."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from stoker._arrays import bytes_of
from stoker._where import notice
from stoker.errors import InvalidArgumentError, StateError
from stoker.loader._random import random_numbers
from stoker.loader._saved import Saved, other_ranks
from stoker.loader._spec import DatasetArguments, Spec
from stoker.loader.sources._dataset import MOST_PROBES, DatasetSource, forget_frames
from stoker.loader.sources._fetch import Fetched, converted
from stoker.loader.sources._hub import HubStream
from stoker.loader.sources._shared import owned

_END = object()


def _bytes(fetched: Fetched) -> int:
    return sum(map(bytes_of, fetched.parts or ()))


class StreamSource(DatasetSource):
    """Reads the samples of iter(dataset). Each epoch is one iteration, and the dataset itself divides the data among ranks. A run that is resumed in mid-epoch
    iterates over the earlier samples again and drops them."""

    per_rank = True
    restarts = False
    has_indices = False
    by_sample = False

    def __init__(self, dataset: Any, arguments: DatasetArguments, unchanging: bool = False) -> None:
        self.unchanging = unchanging
        self._iterator: Iterator[Any] | None = None
        self._at = (-1, 0)  # epoch and position of the next sample
        self._kept: deque[Fetched] = deque()  # samples that the iterator has given already, from the position in _at on
        self._spent = False  # whether an iteration over the dataset has begun before
        self._totals: dict[int, int] = {}  # epoch -> number of its samples, for epochs that have ended
        super().__init__(dataset, arguments)

    def _size_of(self, dataset: Any) -> int | None:
        try:
            return len(dataset)
        except TypeError:
            return None

    def by_batches(self, arguments: DatasetArguments) -> DatasetSource:
        raise InvalidArgumentError(
            "Loader: batch_sampler is for data sets that have indices, and an IterableDataset has an order of its own"
        )

    def check(self, spec: Spec, own_order: bool) -> None:
        if spec.shuffle or own_order:
            raise InvalidArgumentError(
                "Loader: an IterableDataset has an order of its own: shuffle and sampler are for data sets that have indices"
            )
        if spec.last_batch == "pad":
            raise InvalidArgumentError(
                "Loader: last_batch='pad' needs the length of the data, which an IterableDataset does not have: use 'keep' or 'drop'"
            )
        if self.arguments.python_workers:
            raise InvalidArgumentError("Loader: python_workers is for data sets that have indices; an IterableDataset runs on one thread")
        if spec.shard.world > 1:
            notice(
                f"an IterableDataset divides its samples among the {spec.shard.world} ranks itself, as with a DataLoader: each rank reads all that it gives"
            )

    # ---- state: without the size of the data set, which is not known ----

    def facts(self, spec: Spec) -> dict[str, Any]:
        return {"size": 0, "shuffle": False, "seed": spec.seed, "ranks": self._ranks(spec)}

    def restore(self, state: Saved, spec: Spec) -> None:
        if state.dataset is None or state.dataset.size:
            raise StateError("the state is not of a Loader over an IterableDataset")
        inside = state.pipeline is not None and state.pipeline["consumed"] > 0
        if inside and state.dataset.ranks not in (None, self._ranks(spec)):
            advice = (
                "or save after the loop over an epoch has ended: a state from inside the loop, even after the last batch, may not know yet that no sample "
                "follows (shard=None, in both runs, is for an IterableDataset that gives all ranks the same samples)"
            )
            raise other_ranks(state.dataset.ranks or 0, self._ranks(spec), advice)
        self._iterator, self._at = None, (-1, 0)

    def _ranks(self, spec: Spec) -> int:
        """Returns the number of ranks among which the samples are divided. A position in mid-epoch is valid only for this number. A stream that `datasets` has
        split by node stores it; for other datasets, it is the Loader's number of ranks."""
        split = getattr(self.dataset.source, "_distributed", None) if isinstance(self.dataset, HubStream) else None
        return spec.shard.world if split is None else int(split.world_size)

    def steps_left(self, epoch: int, consumed: int, spec: Spec, indices: array[int] | None, per_rank: bool) -> bool:
        total = self._totals.get(epoch)
        return total is None or spec.has_step(total, consumed, True)

    def samples(self, epoch: int, positions: Sequence[int], spec: Spec, indices: array[int] | None) -> list[tuple[int, bool]]:
        return [(p, False) for p in positions]

    def has_step(self, epoch: int, consumed: int, spec: Spec) -> bool:
        self.samples_of.settle(spec.orientation, spec.counts_channels)
        return self._look(spec, epoch, consumed, spec.batch if spec.last_batch == "drop" else 1)

    # ---- samples ----

    def _first(self, spec: Spec, indices: array[int] | None, per_rank: bool) -> tuple[Any, ...]:
        epoch, at, _ = self._start
        if not self._look(spec, epoch, at, 1):
            epoch, at = epoch + 1, 0
            if not self._look(spec, epoch, at, 1):
                raise InvalidArgumentError("the IterableDataset gave no sample")
        most = self.most_errors(spec)
        failed = self._find_example_from(spec, epoch, at, most)
        if failed and at > 0 and len(failed) <= most and self._iterator is not self.dataset:
            # Only bad samples are left in the epoch of a loaded state, so that an earlier one is the example. The next batch begins another iteration.
            failed = failed if self._find_example_from(spec, epoch, 0, most - len(failed)) else []
        if failed:
            raise failed[0]
        return self._example

    def _find_example_from(self, spec: Spec, epoch: int, position: int, most: int) -> list[Exception]:
        """Reads samples from a position on until one does not fail, and those that _read_on needs. Returns [], or the errors if all samples or more than `most`
        failed."""
        for count in range(1, most + 2):
            if not self._look(spec, epoch, position, count):
                break
            parts = self._kept[count - 1].parts
            if parts is not None:
                self._example = parts
                self._read_on(spec, epoch, position, count)
                for kept in self._kept:
                    forget_frames(kept.error)
                return []
        return [kept.error for kept in self._kept if kept.error is not None]

    def _read_on(self, spec: Spec, epoch: int, position: int, count: int) -> None:
        """Reads further samples until the types of all targets are known: a target without rows, such as an empty list of boxes, has no type. count: the number
        of samples that were already read from `position` on."""
        if self.samples_of.has_types():
            return
        while not self.samples_of.has_types() and count < MOST_PROBES and sum(map(_bytes, self._kept)) < self.most_bytes(spec):
            count += 1
            if not self._look(spec, epoch, position, count):
                break
        self.samples_of.settle_types(self._example)
        self._kept = deque(self._with_types(fetched) for fetched in self._kept)
        self._example = next((fetched.parts for fetched in self._kept if fetched.parts is not None), self._example)

    def _look(self, spec: Spec, epoch: int, position: int, count: int) -> bool:
        """Returns whether there are `count` samples from a position on. Stores the samples that it reads in self._kept."""
        rows: deque[Fetched] = deque()
        while len(rows) < count and (row := self._next(spec, epoch, position + len(rows))) is not None:
            rows.append(row)
        self._kept = rows + self._kept
        self._at = (epoch, position)
        return len(rows) == count

    def _take(self, spec: Spec, indices: array[int] | None, per_rank: bool, epoch: int, first: int) -> Any:
        rows: list[Fetched] = []
        while len(rows) < spec.batch:
            row = self._next(spec, epoch, first + len(rows))
            if row is None:
                break
            rows.append(row)
        if not rows or (len(rows) < spec.batch and spec.last_batch == "drop"):
            raise StopIteration
        return self._described(rows, spec)

    def _next(self, spec: Spec, epoch: int, position: int) -> Fetched | None:
        """Returns the sample at a position of an epoch; None after the last one."""
        if position >= self._totals.get(epoch, position + 1):
            return None
        if self._iterator is None or self._at != (epoch, position):
            self._begin(spec, epoch, position)
        if self._kept:
            row = self._kept.popleft()
        else:
            item = self._pull(spec, epoch, position)
            if item is _END:
                self._totals[epoch] = position
                return None
            row = converted(self.samples_of, item, None, f"sample {position} of the IterableDataset")
            del item
            parts, row.parts = row.parts, None
            if parts is not None:
                row.parts = owned(parts)
            elif not self._example:
                self.samples_of.forget_format()
        self._at = (epoch, position + 1)
        return row

    def _begin(self, spec: Spec, epoch: int, position: int) -> None:
        """Begins an iteration and skips the samples before the position. The dataset's code draws the same random numbers for a skipped sample as for one
        that is used, so that later samples are those of the saved run. Raises StateError if the dataset can be iterated only once and was iterated before."""
        self._kept.clear()
        if hasattr(self.dataset, "set_epoch"):
            self.dataset.set_epoch(epoch)
        iterator = iter(self.dataset)
        if iterator is self.dataset and self._spent:
            raise StateError(
                f"the Loader's {type(self.dataset).__name__} can be iterated once, for one epoch: give an object whose __iter__ begins again"
            )
        self._spent = True
        self._iterator, self._at = iterator, (-1, 0)
        for before in range(position):
            if self._pull(spec, epoch, before) is _END:
                break
        self._at = (epoch, position)

    def _pull(self, spec: Spec, epoch: int, position: int) -> Any:
        assert self._iterator is not None
        with random_numbers(self.place_of(position, epoch, spec, True)):
            try:
                return next(self._iterator, _END)
            except Exception as e:
                e.add_note(f"in sample {position} of the IterableDataset")
                raise
