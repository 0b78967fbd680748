# SPDX-License-Identifier: Apache-2.0
"""Orders samples for a network with memory: each slot of the batch goes through one scene after another, sample by sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np


class Item(NamedTuple):
    sample: int  # index of the sample; a scene's samples have consecutive indices, in order of time
    prev_exists: bool  # whether the slot's previous sample is also the previous sample of the scene
    position: int  # step * batch + slot: a number that is unique to this use of the sample, and determines its random draws


class StreamingSampler:
    """Yields this rank's part of each batch as a list of items, from step `start` on, without end.

    Slots are numbered over the batch of all ranks, and each rank has a range of consecutive slots. The sample of a slot at a step depends only on the
    seed, so that another number of ranks, or a restart, continues in the middle of the same scenes. In each round the scenes
    are shuffled and distributed over the slots; slots whose scenes are shorter begin their next round sooner.
    """

    def __init__(self, lengths: Sequence[int], batch: int, seed: int = 0, *, start: int = 0, rank: int = 0, world: int = 1) -> None:
        if len(lengths) < batch:
            raise ValueError(f"{len(lengths)} scenes cannot fill a batch of {batch}: each slot needs a scene of its own")
        if batch % world:
            raise ValueError(f"a batch of {batch} cannot be divided among {world} ranks")
        self.lengths, self.batch, self.seed, self.start = list(lengths), batch, seed, start
        self.first = np.concatenate([[0], np.cumsum(lengths)]).tolist()
        self.slots = range(rank * batch // world, (rank + 1) * batch // world)

    @property
    def epoch_length(self) -> int:
        """Returns the number of steps after which all ranks together have used as many samples as the data set has."""
        return max(1, self.first[-1] // self.batch)

    def _slot(self, slot: int) -> Iterator[Item]:
        rng = np.random.default_rng(self.seed)
        step = 0
        while True:
            for scene in rng.permutation(len(self.lengths))[slot :: self.batch].tolist():
                length = self.lengths[scene]
                for frame in range(max(0, self.start - step), length):
                    yield Item(self.first[scene] + frame, frame > 0, (step + frame) * self.batch + slot)
                step += length

    def __iter__(self) -> Iterator[list[Item]]:
        walks = [self._slot(slot) for slot in self.slots]
        while True:
            yield [next(walk) for walk in walks]
