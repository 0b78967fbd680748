# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from stoker.structured.pipeline.sample_data_group import SampleDataGroup


class IterableBase(ABC):
    """An input that is an iterator over batches. Unlike a call of a CallableBase, a batch may depend on earlier batches."""

    @property
    @abstractmethod
    def used_sample_data_structure(self) -> SampleDataGroup:
        """Returns the format of the samples: a tree of fields with their types, without values."""

    @abstractmethod
    def __iter__(self) -> IterableBase:
        """Returns an iterator at the start of an epoch, which may be the object itself."""

    @abstractmethod
    def __next__(self) -> Any:
        """Returns the next batch: for each data field, in the order of SampleDataGroup.get_data, a list of the values of all samples. Raises StopIteration at
        the end of the epoch."""

    @property
    @abstractmethod
    def length(self) -> int | None:
        """Returns the number of batches in an epoch; None if it is not known."""
