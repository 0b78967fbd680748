# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

import numpy as np

from stoker import types
from stoker.structured.inputs._sample_reader import SampleReader
from stoker.structured.inputs.callable_base import CallableBase
from stoker.structured.inputs.data_provider import DataProvider
from stoker.structured.pipeline.sample_data_group import SampleDataGroup


class ShuffledShardedInputCallable(CallableBase):
    """Reads a provider's samples in order, or shuffled in another order in each epoch.

    Each of num_shards shards takes an equal part of the epoch's order. Samples that remain after the division, or that do not fill a last batch, are not used
    in that epoch. All shards must have the same seed. A state that was saved in mid-epoch continues only with the same number of samples, num_shards, shuffle,
    seed and batch_size; others are refused. At the end of an epoch they may change.
    """

    def __init__(
        self, data_provider: DataProvider, batch_size: int, shard_id: int = 0, num_shards: int = 1, shuffle: bool = False, seed: int = 21
    ) -> None:
        if not 0 <= shard_id < num_shards:
            raise ValueError(f"shard_id is {shard_id}; with num_shards={num_shards} it is 0 to {num_shards - 1}")
        self.data_provider = data_provider
        self._reader = SampleReader()
        self.batch_size = batch_size
        self.shard_id, self.num_shards = shard_id, num_shards
        self.shuffle, self.seed = shuffle, seed
        self._samples = data_provider.get_number_of_samples()
        self._shard_size = self._samples // num_shards
        if self._shard_size < batch_size:
            raise ValueError(f"{self._samples} samples in {num_shards} shards do not fill a batch of {batch_size}")
        self._epoch = -1
        self._sequence: Any = None  # indices of all samples in the order of epoch self._epoch

    @property
    def used_sample_data_structure(self) -> SampleDataGroup:
        structure = self.data_provider.sample_data_structure.get_empty_like_self()  # a provider may return the same tree each time
        structure.set_apply_mapping(False)
        return structure

    def __call__(self, sample_info: types.SampleInfo) -> tuple[Any, ...]:
        if sample_info.idx_in_epoch >= self._shard_size:
            raise StopIteration
        if sample_info.epoch_idx != self._epoch:
            self._epoch = sample_info.epoch_idx
            self._sequence = np.arange(self._samples)
            if self.shuffle:
                self._sequence = np.random.default_rng(self.seed + self._epoch).permutation(self._samples)
        index = int(self._sequence[self.shard_id * self._shard_size + sample_info.idx_in_epoch])
        return self._reader.values(self.data_provider, index)

    def stoker_order_facts(self) -> dict[str, Any] | None:
        """Returns what a state of mid-epoch is compared with; None for a derived class with calls of its own."""
        if type(self).__call__ is not ShuffledShardedInputCallable.__call__:
            return None
        whole = {"samples": self._samples, "num_shards": self.num_shards, "batch_size": self.batch_size}
        whole["seed"] = self.seed if self.shuffle else 0
        return {**{name: int(value) for name, value in whole.items()}, "shuffle": bool(self.shuffle)}

    @property
    def length(self) -> int | None:
        """Returns the number of full batches in an epoch of this shard."""
        return self._shard_size // self.batch_size
