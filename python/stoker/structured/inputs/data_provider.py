# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stoker.structured.pipeline.sample_data_group import SampleDataGroup

if TYPE_CHECKING:
    from stoker.data_node import DataNode


class DataProvider(ABC):
    """Returns the samples of a data set by index, as trees of one format. Users derive a class for each data set."""

    @abstractmethod
    def get_data(self, sample_index: int) -> SampleDataGroup:
        """Returns the sample of this index, from 0 to get_number_of_samples() - 1, as a tree of the format sample_data_structure."""

    @abstractmethod
    def get_number_of_samples(self) -> int:
        """Returns the number of samples."""

    @property
    @abstractmethod
    def sample_data_structure(self) -> SampleDataGroup:
        """Returns the format of the samples: a tree of fields with their types, without values."""

    def get_data_nodes(self, order: Any) -> Sequence[DataNode] | None:
        """Adds an operator that reads the samples to the graph that is being defined, so that no Python runs for a sample. order: the input of
        the definition (a ShuffledShardedInputCallable, SamplerInputCallable or SamplerInputIterable), which determines the order of samples. Returns one node
        for each data field, in the order of SampleDataGroup.get_data. Returns None if the provider has no operator for this order; get_data is then called for
        each sample."""
        return None
