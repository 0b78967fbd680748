# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

import numpy as np

from stoker.structured.inputs.sampler_base import SamplerBase


class SequenceSampler(SamplerBase):
    """Chooses batches in which sample i is the next one, in its sequence, after sample i of the previous batch. When a sequence ends, another one begins at
    the same index of the batch.

    sequence_lenghts: the number of samples of each sequence; the data set consists of these sequences, one after the other. A *slot* is an index in the
    batch. A cycle is one order of all sequences, shuffled if randomize is set; slot i takes the sequences i, i + total_batch_size, ... of that order.
    Slots begin their next cycle at different times, so there are no epochs. All slots use the same orders. While one slot is a cycle ahead of another, both may
    be in the same sequence.
    """

    def __init__(self, total_batch_size: int, sequence_lenghts: Sequence[int], seed: int, randomize: bool = True) -> None:
        if len(sequence_lenghts) < total_batch_size:
            raise AssertionError(
                f"The number of sequences must be at least the total batch size: there are {len(sequence_lenghts)} for {total_batch_size} slots"
            )
        if min(sequence_lenghts) < 1:
            raise AssertionError(f"sequence {int(np.argmin(sequence_lenghts))} has no samples")
        self.total_batch_size = total_batch_size
        self.sequence_lengths = [int(n) for n in sequence_lenghts]
        self.seed, self.randomize = seed, randomize
        self._slots: list[Iterator[int]] = []  # made when first needed: generators cannot be pickled

    def __getstate__(self) -> dict[str, object]:
        if self._slots:
            raise TypeError("the sampler has begun: pickle it before its first batch")
        return self.__dict__

    @property
    def length(self) -> None:
        """Returns None, because the sampler has no epochs."""
        return None

    @property
    def is_epoch_based(self) -> bool:
        return False

    def reset(self) -> NoReturn:
        """Raises RuntimeError, because there are no epochs."""
        raise RuntimeError("SequenceSampler is not epoch-based: reset() should not be called")

    def get_next_batch_indices(self) -> list[int]:
        """Returns the next sample of each slot."""
        if not self._slots:
            self._slots = [self._slot(i) for i in range(self.total_batch_size)]
        return [next(slot) for slot in self._slots]

    def _slot(self, slot: int) -> Iterator[int]:
        rng = np.random.default_rng(seed=self.seed)
        count = len(self.sequence_lengths)
        first = np.concatenate([[0], np.cumsum(self.sequence_lengths)])
        while True:
            order = rng.permutation(count) if self.randomize else np.arange(count)
            for sequence in order[slot :: self.total_batch_size]:
                yield from range(int(first[sequence]), int(first[sequence + 1]))
