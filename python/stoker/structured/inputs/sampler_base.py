# SPDX-License-Identifier: Apache-2.0
"""SamplerBase: which samples make a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod


class SamplerBase(ABC):
    """Says which samples make the next batch, of all ranks together."""

    @abstractmethod
    def get_next_batch_indices(self) -> list[int]:
        """Indices of the next batch. StopIteration ends the epoch of a sampler that has epochs."""

    @property
    @abstractmethod
    def is_epoch_based(self) -> bool:
        """Whether there are epochs."""

    @abstractmethod
    def reset(self) -> None:
        """Begins the next epoch."""

    @property
    @abstractmethod
    def length(self) -> int | None:
        """Length of an epoch; None if the sampler has no epochs."""
