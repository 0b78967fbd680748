# SPDX-License-Identifier: Apache-2.0
"""IterableBase: inputs that give batch after batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from stoker.structured.pipeline.sample_data_group import SampleDataGroup


class IterableBase(ABC):
    """An input that gives batch after batch, and may keep state between them."""

    @property
    @abstractmethod
    def used_sample_data_structure(self) -> SampleDataGroup:
        """The format of the samples, as a blueprint."""

    @abstractmethod
    def __iter__(self) -> IterableBase:
        """Returns an iterator at the start of an epoch, which may be the object itself."""

    @abstractmethod
    def __next__(self) -> Any:
        """Returns for each flat field, in order, a list with the batch's samples. StopIteration ends the epoch."""

    @property
    @abstractmethod
    def length(self) -> int | None:
        """Number of batches in an epoch; None if it is not known."""
