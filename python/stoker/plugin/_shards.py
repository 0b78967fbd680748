# SPDX-License-Identifier: Apache-2.0
"""Computes the number of steps in an epoch of DALI's contiguous shards, where a batch may contain the end of one shard and the beginning of the next. All ranks
know the numbers that it depends on, so all ranks take the same number of steps."""

from __future__ import annotations

import bisect


class Shards:
    """Divides `total` samples into `shards` parts that follow each other. Each pipeline begins with a shard of its own, and in each epoch continues with the
    next shard, or, if `stick` is set, reads the same shard again. batch: the batch size. All methods are about the epoch `self.epoch`."""

    def __init__(self, total: int, shards: int, batch: int, stick: bool) -> None:
        self.total, self.shards, self.batch, self.stick = total, shards, batch, stick
        self.epoch = 0

    def size(self, first: int) -> int:
        """Returns the number of samples of the shard that a pipeline reads in this epoch. first: the shard that the pipeline began with."""
        return self._before(first, self.epoch + 1) - self._before(first, self.epoch)

    def _before(self, first: int, epoch: int) -> int:
        """Returns the number of samples that a pipeline reads before `epoch`. first: the shard that the pipeline began with."""
        if self.stick:
            return epoch * (self._begin(first + 1) - self._begin(first))
        return self._begin(first + epoch) - self._begin(first)

    def _begin(self, shard: int) -> int:
        """Returns the position of a shard's first sample. A shard number of self.shards or more means a later round through the samples."""
        rounds, shard = divmod(shard, self.shards)
        return rounds * self.total + self.total * shard // self.shards

    def steps_before(self, first: int, epoch: int) -> int:
        """Returns the number of batches whose first samples belong to epochs before `epoch`."""
        return -(-self._before(first, epoch) // self.batch)

    def _filled_before(self, epoch: int) -> int:
        """Returns the number of batches after which every pipeline has delivered its shards of all epochs before `epoch`."""
        return max(self.steps_before(first, epoch) for first in range(self.shards))

    def steps_filled(self) -> int:
        """Returns the number of batches of this epoch after which every pipeline has delivered its shard. The last batch of the previous epoch may have
        contained samples of this one."""
        return self._filled_before(self.epoch + 1) - self._filled_before(self.epoch)

    def steps_partial(self) -> int:
        """Returns the number of batches that the longest shard needs, if an epoch counts its samples from the current positions of the pipelines."""
        longest = -(-self.total // self.shards)
        return -(-longest // self.batch)

    def steps_full(self) -> int:
        """Returns the number of full batches of the shortest shard."""
        return self.total // self.shards // self.batch

    def drops_one(self) -> bool:
        """Returns whether a batch remains after the full ones and must be dropped; otherwise the next epoch begins with it."""
        return self.total // self.shards % self.batch > 0

    def next_epoch(self) -> None:
        """Moves to the next epoch after the pipelines have delivered steps_filled() batches. Skips epochs whose samples were all in earlier batches."""
        self.epoch += 1
        while self.steps_filled() == 0:
            self.epoch += 1

    def go_on_filled(self, steps: int) -> int:
        """Sets self.epoch to the epoch in which a restored run continues after `steps` batches, if its epochs have steps_filled() batches. Returns how many of
        these batches belong to that epoch."""
        beyond = steps * self.batch // (self.total // self.shards) + 2  # an epoch that begins after these batches
        self.epoch = bisect.bisect_right(range(beyond), steps, key=self._filled_before) - 1
        return steps - self._filled_before(self.epoch)

    def go_on(self, steps: int, each: int) -> int:
        """Sets the epoch of a run that continues after `steps` batches, if each epoch has `each` batches. Returns how many of these batches belong to that
        epoch."""
        self.epoch, given = divmod(steps, each)
        return given
