# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from abc import ABC, abstractmethod


class SamplerBase(ABC):
    """Chooses the samples of each batch. A sampler's batch has the samples of all ranks; inputs divide it among the ranks."""

    @abstractmethod
    def get_next_batch_indices(self) -> list[int]:
        """Returns the indices of the next batch's samples. A sampler with epochs raises StopIteration at the end of an epoch."""

    @property
    @abstractmethod
    def is_epoch_based(self) -> bool:
        """Returns whether the sampler has epochs, so that get_next_batch_indices raises StopIteration and reset() may be called."""

    @abstractmethod
    def reset(self) -> None:
        """Begins the next epoch."""

    @property
    @abstractmethod
    def length(self) -> int | None:
        """Returns the number of batches in an epoch; None if the sampler has no epochs."""
