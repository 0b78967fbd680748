# SPDX-License-Identifier: Apache-2.0
"""DataProvider: base class of data sets whose samples are read by index."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stoker.structured.pipeline.sample_data_group import SampleDataGroup

if TYPE_CHECKING:
    from stoker.data_node import DataNode


class DataProvider(ABC):
    """Gives the samples of a data set by their index, each as a SampleDataGroup of one format. Users subclass it, one class for each data set and use."""

    @abstractmethod
    def get_data(self, sample_index: int) -> SampleDataGroup:
        """Returns the sample of this index."""

    @abstractmethod
    def get_number_of_samples(self) -> int:
        """Returns the number of samples."""

    @property
    @abstractmethod
    def sample_data_structure(self) -> SampleDataGroup:
        """Returns the format of the samples, as a blueprint."""

    def get_data_nodes(self, order: Any) -> Sequence[DataNode] | None:
        """Adds an operator that reads the samples to the graph that is being defined, and returns one node for each data field, in the order of
        SampleDataGroup.get_data. Only in Stoker. With such an operator, no Python runs for a sample. order: the input that the definition uses
        (a ShuffledShardedInputCallable, SamplerInputCallable or SamplerInputIterable); its settings determine the order of samples. Returns None if the
        provider has no operator for this order; get_data is then called for each sample."""
        return None
