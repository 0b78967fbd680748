# SPDX-License-Identifier: Apache-2.0
"""DataProvider: where samples come from."""

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
        """The format of the samples, as a blueprint."""

    def get_data_nodes(self, order: Any) -> Sequence[DataNode] | None:
        """Ours: the data fields of a sample as nodes of the graph that is being defined, in the order of get_data(), for a provider that has an operator to
        read them; then no Python runs for a sample. order: the input that asks (a ShuffledShardedInputCallable, SamplerInputCallable or SamplerInputIterable),
        whose settings say which samples come when. None: get_data is called for each sample."""
        return None
