# SPDX-License-Identifier: Apache-2.0
"""Batches for a network with memory: each slot of the batch walks through one scene after the other, sample by sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np


class Item(NamedTuple):
    sample: int  # its index; those of a scene follow each other, in time
    prev_exists: bool  # the slot's sample before this one is the moment before, in the same scene
    position: int  # among all samples of the run: what draws follow from


class StreamingSampler:
    """Lists of items, endless: those of this rank, from step `start` on.

    Slots belong to the batch of all ranks together, and a rank has the slots that lie side by side at its place. What a slot holds at a step is a
    function of the seed only, so that another number of ranks, or a restart, continues in the middle of the same scenes. In each round the scenes
    are shuffled and dealt to the slots; slots whose scenes are shorter begin their next round sooner.
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
        """Steps in which as many samples are seen as there are."""
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
