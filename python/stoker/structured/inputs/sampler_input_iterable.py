# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

from stoker.structured.inputs.data_provider import DataProvider
from stoker.structured.inputs.iterable_base import IterableBase
from stoker.structured.inputs.sampler_base import SamplerBase
from stoker.structured.pipeline.sample_data_group import SampleDataGroup


class SamplerInputIterable(IterableBase):
    """Reads batches of a provider's samples in a sampler's order. Each of num_shards shards takes an equal part of each batch."""

    def __init__(self, data_provider: DataProvider, sampler: SamplerBase, shard_id: int = 0, num_shards: int = 1) -> None:
        self.data_provider = data_provider
        self.sampler = sampler
        self.shard_id, self.num_shards = shard_id, num_shards
        self._begun = False

    @property
    def used_sample_data_structure(self) -> SampleDataGroup:
        structure = self.data_provider.sample_data_structure
        structure.set_apply_mapping(False)
        return structure

    def __iter__(self) -> SamplerInputIterable:
        if self._begun and self.sampler.is_epoch_based:
            self.sampler.reset()
        self._begun = True
        return self

    def __next__(self) -> list[list[Any]]:
        batch = self.sampler.get_next_batch_indices()
        local = len(batch) // self.num_shards
        if local * self.num_shards != len(batch):
            raise AssertionError(f"Total batch size ({len(batch)}) is not divisible by the number of used shards ({self.num_shards})")
        mine = batch[self.shard_id * local : (self.shard_id + 1) * local]
        samples = [self.data_provider.get_data(index).get_data() for index in mine]
        return [list(field) for field in zip(*samples, strict=True)]

    @property
    def length(self) -> int | None:
        """Returns the number of batches in an epoch; None if the sampler has no epochs."""
        return self.sampler.length
