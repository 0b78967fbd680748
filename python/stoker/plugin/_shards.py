# SPDX-License-Identifier: Apache-2.0
"""How many steps an epoch of DALI's contiguous shards has, where a reader flows on into its next shard: a pure function of numbers that all ranks
know, so that all take equally many steps."""

from __future__ import annotations


class Shards:
    """`shards` parts of `total` samples, one after the other; each pipeline begins with one and moves on to the next one each epoch."""

    def __init__(self, total: int, shards: int, batch: int, stick: bool) -> None:
        self.total, self.shards, self.batch, self.stick = total, shards, batch, stick
        self.epoch = 0
        self.ahead = [
            0
        ] * shards  # FILL: samples of this epoch's shard that were given in the last epoch, by the shard a pipeline began with

    def size(self, first: int) -> int:
        """Samples of this epoch's shard, of the pipeline that began with the shard `first`."""
        shard = first if self.stick else (first + self.epoch) % self.shards
        return self.total * (shard + 1) // self.shards - self.total * shard // self.shards

    def steps_filled(self) -> int:
        """Batches until every pipeline has given its shard, what it gave before of it included."""
        left = max(self.size(i) - self.ahead[i] for i in range(self.shards))
        return max(0, -(-left // self.batch))

    def steps_partial(self) -> int:
        """Batches of the longest shard; every epoch counts from where its pipelines stand."""
        longest = -(-self.total // self.shards)
        return -(-longest // self.batch)

    def steps_full(self) -> int:
        """Full batches of the shortest shard."""
        return self.total // self.shards // self.batch

    def drops_one(self) -> bool:
        """Whether a batch behind the full ones is left over that must be dropped; else the next epoch begins with it."""
        return self.total // self.shards % self.batch > 0

    def next_epoch(self) -> None:
        """Pipelines have taken steps_filled() batches. An epoch of which everything was given before is passed over."""
        given = self.steps_filled() * self.batch
        self.ahead = [self.ahead[i] + given - self.size(i) for i in range(self.shards)]
        self.epoch += 1
        if self.steps_filled() == 0:
            self.next_epoch()
