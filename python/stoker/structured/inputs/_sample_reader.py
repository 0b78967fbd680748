# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

import numpy as np

from stoker.structured.inputs.data_provider import DataProvider
from stoker.structured.pipeline.sample_data_group import SampleDataGroup


class SampleReader:
    """Reads the values of samples from a provider, and checks that each sample has the format that the provider announces. Values are passed on by their
    position in that format, so the values of a sample of another format would go to the wrong fields."""

    def __init__(self) -> None:
        self._format: SampleDataGroup | None = None
        self._first = -1  # the index of the first sample that was read
        self._dims: list[int | None] = []  # for each data field, the number of dims in the samples so far; None: not known

    def values(self, provider: DataProvider, index: int) -> tuple[Any, ...]:
        """Returns the values of the data fields of sample `index`, in the order of SampleDataGroup.get_data. Raises TypeError or ValueError if the sample is not
        of the provider's format, or if a field has no value, a value of another type, or a value with another number of dims than in the samples before. Raises
        RuntimeError if get_data raises StopIteration."""
        origin = f"{type(provider).__name__}.get_data({index})"
        try:
            sample = provider.get_data(index)
        except StopIteration as e:  # the pipeline would take it for the end of the epoch, and the rest of the epoch would be left out
            raise RuntimeError(
                f"{origin} raised StopIteration, which would end the epoch: next(iterator, default) does not, and get_number_of_samples() says where it ends"
            ) from e
        if not isinstance(sample, SampleDataGroup):
            raise TypeError(f"{origin} returned {type(sample).__name__}: return a SampleDataGroup that was made from sample_data_structure")
        if self._format is None:
            self._format, self._first = provider.sample_data_structure.get_empty_like_self(), index
            self._dims = [None] * len(self._format.field_names_flat)
        if not self._format.type_matches(sample):
            wanted, given = self._format.first_difference(sample)
            raise ValueError(f"{origin} has {given} where sample_data_structure has {wanted}: both need the same fields in the same order")
        values: tuple[Any, ...] = sample.get_data()
        for k, (value, known) in enumerate(zip(values, self._dims, strict=True)):
            dims = getattr(value, "ndim", None)
            if dims != known or dims is None:
                self._check(k, value, dims, origin)
        return values

    def _check(self, k: int, value: Any, dims: int | None, origin: str) -> None:
        """Checks value k of a sample, and stores its number of dims if it was not known before."""
        assert self._format is not None
        name, wanted, known = self._format.field_names_flat[k], self._format.field_types_flat[k], self._dims[k]
        if value is None:
            raise ValueError(f"{origin} left field '{name}' without a value: every data field needs one, even if it is an empty array")
        if dims is not None and known is not None:
            raise ValueError(
                f"{origin} gives field '{name}' the shape {tuple(value.shape)}, and in sample {self._first} the field has {known} dims: all samples need the "
                "same number of dims. An empty list has the shape (0,); np.zeros((0, 4)) has the shape of an array of boxes without any box"
            )
        given = _type_name(value)
        if given != np.dtype(SampleDataGroup.get_numpy_type_for_dali_type(wanted)).name:
            raise ValueError(
                f"{origin} gives field '{name}' of {wanted} a {type(value).__name__} of {given}: fields convert only numbers, lists and NumPy arrays to their "
                "type, so convert the value, for example with np.asarray"
            )
        self._dims[k] = dims


def _type_name(value: Any) -> str:
    """Returns the name that NumPy gives to the type of a value's elements."""
    if isinstance(value, (bytes, bytearray)):
        return "uint8"
    dtype = value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype
    return getattr(dtype, "name", None) or str(dtype).removeprefix("torch.")
