# SPDX-License-Identifier: Apache-2.0
"""Computes the number of steps in an epoch of DALI's contiguous shards, where a batch may contain the end of one shard and the beginning of the next. The
result is the same on all ranks."""

from __future__ import annotations

import bisect


class Shards:
    """Divides `total` samples into `shards` parts that follow each other. A pipeline begins with its own shard, and in each epoch continues with the next
    shard, or reads its own again if `stick` is set. batch: the batch size. In the methods, "this epoch" is the epoch with the number self.epoch."""

    def __init__(self, total: int, shards: int, batch: int, stick: bool) -> None:
        self.total, self.shards, self.batch, self.stick = total, shards, batch, stick
        self.epoch = 0

    def size(self, first: int) -> int:
        """Returns the number of samples in the shard that a pipeline reads in this epoch. first: the pipeline's own shard."""
        return self._before(first, self.epoch + 1) - self._before(first, self.epoch)

    def _before(self, first: int, epoch: int) -> int:
        """Returns the number of samples that a pipeline reads before `epoch`. first: the pipeline's own shard."""
        if self.stick:
            return epoch * (self._begin(first + 1) - self._begin(first))
        return self._begin(first + epoch) - self._begin(first)

    def _begin(self, shard: int) -> int:
        """Returns the position of a shard's first sample. Shard numbers from self.shards on are those of later rounds through the samples."""
        rounds, shard = divmod(shard, self.shards)
        return rounds * self.total + self.total * shard // self.shards

    def steps_before(self, first: int, epoch: int) -> int:
        """Returns the number of batches of a pipeline whose first sample is of an epoch before `epoch`. first: the pipeline's own shard."""
        return -(-self._before(first, epoch) // self.batch)

    def _filled_before(self, epoch: int) -> int:
        """Returns the number of batches after which every pipeline has delivered its shards of all epochs before `epoch`."""
        return max(self.steps_before(first, epoch) for first in range(self.shards))

    def steps_filled(self) -> int:
        """Returns the number of batches in this epoch after which each pipeline has delivered its shard. Samples of this epoch in the previous epoch's last
        batch count as delivered."""
        return self._filled_before(self.epoch + 1) - self._filled_before(self.epoch)

    def steps_partial(self) -> int:
        """Returns the number of batches that are needed for the samples of the longest shard, if the epoch begins with a new batch."""
        longest = -(-self.total // self.shards)
        return -(-longest // self.batch)

    def steps_full(self) -> int:
        """Returns the number of full batches of the shortest shard."""
        return self.total // self.shards // self.batch

    def drops_one(self) -> bool:
        """Returns whether the shortest shard ends with a batch that is not full, which must be dropped before the next epoch."""
        return self.total // self.shards % self.batch > 0

    def next_epoch(self) -> None:
        """Increases self.epoch after the pipelines have delivered steps_filled() batches. Skips epochs without batches of their own."""
        self.epoch += 1
        while self.steps_filled() == 0:
            self.epoch += 1

    def go_on_filled(self, steps: int) -> int:
        """Sets self.epoch for a restored run that continues after `steps` batches, in epochs of steps_filled() batches. Returns how many of the `steps` batches
        belong to that epoch."""
        beyond = steps * self.batch // (self.total // self.shards) + 2  # an epoch that begins after these batches
        self.epoch = bisect.bisect_right(range(beyond), steps, key=self._filled_before) - 1
        return steps - self._filled_before(self.epoch)

    def go_on(self, steps: int, each: int) -> int:
        """Sets self.epoch for a restored run that continues after `steps` batches, in epochs of `each` batches. Returns how many of the `steps` batches belong
        to that epoch."""
        self.epoch, given = divmod(steps, each)
        return given
