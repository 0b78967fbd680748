# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

from stoker import types
from stoker._sources import OfRank
from stoker.structured.inputs._sample_reader import SampleReader
from stoker.structured.inputs.callable_base import CallableBase
from stoker.structured.inputs.data_provider import DataProvider
from stoker.structured.inputs.sampler_base import SamplerBase
from stoker.structured.pipeline.sample_data_group import SampleDataGroup


class SamplerInputCallable(CallableBase):
    """Reads a provider's samples in a sampler's order. The constructor draws all batches in advance: max_num_iterations, and pre_fetch_queue_length more, which
    the pipeline may fetch early. Each of num_shards shards takes an equal part of each batch; `batch_size` is the size of that part."""

    def __init__(
        self,
        data_provider: DataProvider,
        sampler: SamplerBase,
        max_num_iterations: int,
        pre_fetch_queue_length: int,
        shard_id: int = 0,
        num_shards: int = 1,
    ) -> None:
        self.data_provider = data_provider
        self._reader = SampleReader()
        self.shard_id, self.num_shards = shard_id, num_shards
        self._asked = (max_num_iterations, pre_fetch_queue_length)
        # batches[epoch][batch] lists the indices of the batch's samples.
        self.batches: list[list[list[int]]] = _written_down(sampler, max_num_iterations + pre_fetch_queue_length)
        total = len(self.batches[0][0])
        self.batch_size = total // num_shards
        if self.batch_size * num_shards != total:
            raise AssertionError(f"Total batch size ({total}) not divisible by number of shards ({num_shards})")

    @property
    def used_sample_data_structure(self) -> SampleDataGroup:
        structure = self.data_provider.sample_data_structure.get_empty_like_self()  # a provider may return the same tree each time
        structure.set_apply_mapping(False)
        return structure

    def __call__(self, sample_info: types.SampleInfo) -> tuple[Any, ...]:
        if sample_info.epoch_idx >= len(self.batches):
            raise RuntimeError(
                f"epoch {sample_info.epoch_idx} is asked for, but the order was computed only for max_num_iterations={self._asked[0]} and "
                f"pre_fetch_queue_length={self._asked[1]} batches, {len(self.batches)} epochs in all: make max_num_iterations larger"
            )
        epoch = self.batches[sample_info.epoch_idx]
        step = sample_info.idx_in_epoch // self.batch_size
        if step >= len(epoch):
            raise StopIteration
        index = epoch[step][sample_info.idx_in_batch + self.shard_id * self.batch_size]
        return self._reader.values(self.data_provider, index)

    def source_of_rank(self) -> OfRank | None:
        """Returns a source for fn.external_source that a checkpoint can restore with any number of shards; None for a derived class with calls of its own."""
        plain = type(self).__call__ is SamplerInputCallable.__call__
        return OfRank(self, (self.shard_id, self.num_shards)) if plain else None

    @property
    def length(self) -> int | None:
        """Returns the number of batches in the first epoch; for a sampler without epochs, the number of all batches that were drawn."""
        return len(self.batches[0])


def _written_down(sampler: SamplerBase, count: int) -> list[list[list[int]]]:
    """Returns the sampler's next `count` batches as lists of indices, in one list for each epoch. Raises ValueError if an epoch is empty or if the batches
    differ in size."""
    epochs: list[list[list[int]]] = [[]]
    taken = 0
    while taken < count:
        try:
            batch = list(sampler.get_next_batch_indices())
            first = (epochs[0] or [batch])[0]
            if len(batch) != len(first):
                raise ValueError(
                    f"batch {taken} of the sampler has {len(batch)} samples, and its first batch has {len(first)}: all need the same number, so "
                    "leave out the short batch at the end of an epoch, or fill it"
                )
            epochs[-1].append(batch)
            taken += 1
        except StopIteration:
            if not epochs[-1]:
                raise ValueError("the sampler has no batches: its epoch ends before the first one") from None
            epochs.append([])
            sampler.reset()
    if not epochs[0]:
        raise ValueError("max_num_iterations is 0: give the number of batches to compute the order for")
    return epochs
