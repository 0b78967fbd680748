# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker import types
from stoker._sources import OfRank
from stoker.errors import StateError
from stoker.structured.inputs._sample_reader import SampleReader
from stoker.structured.inputs.data_provider import DataProvider
from stoker.structured.inputs.iterable_base import IterableBase
from stoker.structured.inputs.sampler_base import SamplerBase
from stoker.structured.pipeline.sample_data_group import SampleDataGroup


class SamplerInputIterable(IterableBase):
    """Reads batches of a provider's samples in a sampler's order. Each of num_shards shards takes an equal part of each batch."""

    def __init__(self, data_provider: DataProvider, sampler: SamplerBase, shard_id: int = 0, num_shards: int = 1) -> None:
        self.data_provider = data_provider
        self._reader = SampleReader()
        self.sampler = sampler
        self.shard_id, self.num_shards = shard_id, num_shards
        self._begun = False

    @property
    def used_sample_data_structure(self) -> SampleDataGroup:
        structure = self.data_provider.sample_data_structure.get_empty_like_self()  # a provider may return the same tree each time
        structure.set_apply_mapping(False)
        return structure

    def __iter__(self) -> SamplerInputIterable:
        if self._begun and self.sampler.is_epoch_based:
            self.sampler.reset()
        self._begun = True
        return self

    def __next__(self) -> list[list[Any]]:
        return self._batch_of(list(self.sampler.get_next_batch_indices()))

    def _batch_of(self, indices: Sequence[int]) -> list[list[Any]]:
        """Returns this shard's part of the batch with these indices, as a list of samples for each field."""
        local = len(indices) // self.num_shards
        if local * self.num_shards != len(indices):
            raise AssertionError(f"Total batch size ({len(indices)}) is not divisible by the number of used shards ({self.num_shards})")
        mine = indices[self.shard_id * local : (self.shard_id + 1) * local]
        samples = [self._reader.values(self.data_provider, index) for index in mine]
        return [list(field) for field in zip(*samples, strict=True)]

    def source_of_rank(self) -> OfRank | None:
        """Returns a source for fn.external_source that a checkpoint can restore after any batch, with any number of shards; None for a derived class with an
        iteration of its own."""
        plain = type(self).__iter__ is SamplerInputIterable.__iter__ and type(self).__next__ is SamplerInputIterable.__next__
        return OfRank(_InOrder(self), (self.shard_id, self.num_shards)) if plain else None

    @property
    def length(self) -> int | None:
        """Returns the number of batches in an epoch; None if the sampler has no epochs."""
        return self.sampler.length


class _InOrder:
    """Gives the batches of a SamplerInputIterable by epoch and number. The sampler gives its batches only in order, so a restored run draws the indices of all
    batches before the saved position again. Their samples are not read."""

    def __init__(self, batches: SamplerInputIterable) -> None:
        self._batches = batches
        self._epoch, self._next = -1, 0  # the sampler's epoch, and the number of its next batch in that epoch
        self._ended = True  # whether the sampler has ended its epoch
        self._last: Sequence[int] = ()  # the indices that the sampler returned last

    def __call__(self, info: types.BatchInfo) -> list[list[Any]]:
        if self._epoch < 0 and (info.epoch_idx or info.iteration) and self._batches._begun:
            raise StateError(
                "a state can be restored only with an input whose sampler has not begun: make a new sampler and a new SamplerInputIterable"
            )
        while self._epoch < info.epoch_idx:
            while not self._ended:
                self._draw(info)
            iter(self._batches)
            self._epoch, self._next, self._ended = self._epoch + 1, 0, False
        while self._next <= info.iteration and not self._ended:
            self._draw(info)
        if self._next <= info.iteration:
            raise StopIteration
        if (self._epoch, self._next) != (info.epoch_idx, info.iteration + 1):
            raise StateError(f"batch {info.iteration} of epoch {info.epoch_idx} is asked for again, and the sampler has gone on")
        return self._batches._batch_of(self._last)

    def _draw(self, info: types.BatchInfo) -> None:
        """Draws the indices of the next batch."""
        if self._epoch < info.epoch_idx and not self._batches.sampler.is_epoch_based:
            raise StateError(
                f"epoch {info.epoch_idx} is asked for, and {type(self._batches.sampler).__name__} has no epochs: the state is of another sampler"
            )
        try:
            self._last = list(self._batches.sampler.get_next_batch_indices())
            self._next += 1
        except StopIteration:
            self._ended = True
