# SPDX-License-Identifier: Apache-2.0
"""CallableBase: inputs that are called for one sample at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from stoker import types
from stoker.structured.pipeline.sample_data_group import SampleDataGroup


class CallableBase(ABC):
    """An input that gives sample after sample. It keeps no state between calls, so that calls may be made in worker processes; in that case it has to be
    picklable, or py_start_method="fork". One that counts in batches says of how many samples by an attribute `batch_size`: pipelines of another are refused."""

    @property
    @abstractmethod
    def used_sample_data_structure(self) -> SampleDataGroup:
        """The format of the samples, as a blueprint."""

    @abstractmethod
    def __call__(self, sample_info: types.SampleInfo) -> tuple[Any, ...]:
        """Returns the sample's flat values (SampleDataGroup.get_data). StopIteration ends the epoch."""

    @property
    @abstractmethod
    def length(self) -> int | None:
        """Number of samples in an epoch; None if it is not known."""
