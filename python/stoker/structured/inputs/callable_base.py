# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from stoker import types
from stoker.structured.pipeline.sample_data_group import SampleDataGroup


class CallableBase(ABC):
    """An input that is called once for each sample. A call must not depend on earlier calls, because worker processes may make the calls. The input is
    then pickled, unless the pipeline has py_start_method="fork". An input for one batch size has an attribute `batch_size`; PipelineDefinition raises
    ValueError for a pipeline of another batch size."""

    @property
    @abstractmethod
    def used_sample_data_structure(self) -> SampleDataGroup:
        """Returns the format of the samples: a tree of fields with their types, without values."""

    @abstractmethod
    def __call__(self, sample_info: types.SampleInfo) -> tuple[Any, ...]:
        """Returns the values of the sample's data fields, in the order of SampleDataGroup.get_data. Raises StopIteration at the end of the epoch."""

    @property
    @abstractmethod
    def length(self) -> int | None:
        """Returns the number of batches in an epoch; None if it is not known."""
