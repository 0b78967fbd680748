# SPDX-License-Identifier: Apache-2.0
"""How many steps an epoch of DALI's contiguous shards has, where a reader flows on into its next shard: a pure function of numbers that all ranks
know, so that all take equally many steps."""

from __future__ import annotations

import bisect


class Shards:
    """`shards` parts of `total` samples, one after the other; each pipeline begins with one and moves on to the next one each epoch."""

    def __init__(self, total: int, shards: int, batch: int, stick: bool) -> None:
        self.total, self.shards, self.batch, self.stick = total, shards, batch, stick
        self.epoch = 0

    def size(self, first: int) -> int:
        """Samples of this epoch's shard, of the pipeline that began with the shard `first`."""
        return self._before(first, self.epoch + 1) - self._before(first, self.epoch)

    def _before(self, first: int, epoch: int) -> int:
        """Samples of the shards of all epochs before `epoch`."""
        if self.stick:
            return epoch * (self._begin(first + 1) - self._begin(first))
        return self._begin(first + epoch) - self._begin(first)

    def _begin(self, shard: int) -> int:
        """Returns where a shard begins. The shards follow each other in a circle: after the last one comes the first."""
        rounds, shard = divmod(shard, self.shards)
        return rounds * self.total + self.total * shard // self.shards

    def steps_before(self, first: int, epoch: int) -> int:
        """Batches of a pipeline that begin before `epoch`: one belongs to the epoch of its first sample."""
        return -(-self._before(first, epoch) // self.batch)

    def _filled_before(self, epoch: int) -> int:
        """Batches until every pipeline has given its shards of all epochs before `epoch`."""
        return max(self.steps_before(first, epoch) for first in range(self.shards))

    def steps_filled(self) -> int:
        """Batches until every pipeline has given its shard, of which the last epoch may have given some already."""
        return self._filled_before(self.epoch + 1) - self._filled_before(self.epoch)

    def steps_partial(self) -> int:
        """Batches of the longest shard; every epoch counts from where its pipelines stand."""
        longest = -(-self.total // self.shards)
        return -(-longest // self.batch)

    def steps_full(self) -> int:
        """Returns the number of full batches of the shortest shard."""
        return self.total // self.shards // self.batch

    def drops_one(self) -> bool:
        """Returns whether a batch remains after the full ones and must be dropped; otherwise the next epoch begins with it."""
        return self.total // self.shards % self.batch > 0

    def next_epoch(self) -> None:
        """Pipelines have taken steps_filled() batches. An epoch of which everything was given before is passed over."""
        self.epoch += 1
        while self.steps_filled() == 0:
            self.epoch += 1

    def go_on_filled(self, steps: int) -> int:
        """Continues after `steps` batches of a run of filled epochs. Returns how many of these belong to the epoch that it continues in."""
        beyond = steps * self.batch // (self.total // self.shards) + 2  # an epoch that begins later
        self.epoch = bisect.bisect_right(range(beyond), steps, key=self._filled_before) - 1
        return steps - self._filled_before(self.epoch)

    def go_on(self, steps: int, each: int) -> int:
        """Does the same for epochs of `each` batches."""
        self.epoch, given = divmod(steps, each)
        return given
