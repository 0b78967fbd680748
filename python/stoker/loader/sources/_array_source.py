# SPDX-License-Identifier: Apache-2.0
"""The source of a Loader over arrays of images. It takes a whole batch out of the arrays in one call, and no Python runs for a sample."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

from stoker._same_data import digest_of_targets
from stoker.loader._layout import Layout
from stoker.loader._spec import DatasetArguments, Spec
from stoker.loader.sources._arrays import Arrays
from stoker.loader.sources._dataset import DatasetSource
from stoker.loader.sources._samples import column
from stoker.pipeline import Pipeline


class ArraySource(DatasetSource):
    unchanging = True
    by_sample = False  # no sample has to be fetched early: all images of an array have one size

    def __init__(self, arrays: Arrays, arguments: DatasetArguments, name: str, dataset: Any = None, in_memory: bool = False) -> None:
        super().__init__(arrays, arguments)
        self.arrays, self.name, self.in_memory, self.takes_layout = arrays, name, in_memory, in_memory
        self.samples_of.layout = Layout(arrays.layout)
        self.dataset = arrays if dataset is None else dataset

    def _make_digest(self) -> str:
        shape = sorted(self.arrays.images.shape[1:])  # sorted, so that it is equal for both layouts
        return digest_of_targets(self.arrays.targets, self.size, shape)

    @property
    def by_index(self) -> Any:
        return self.arrays

    def _first(self, spec: Spec, indices: array[int] | None, per_rank: bool) -> tuple[Any, ...]:
        return self.samples_of.convert(self.arrays[next(self._first_items(spec, indices, per_rank))[0]])

    def _take(self, spec: Spec, indices: array[int] | None, per_rank: bool, epoch: int, first: int) -> Any:
        ids = [i for i, _ in self.batch(epoch, first, spec, indices, per_rank)]
        if not ids:
            raise StopIteration
        parts = self.arrays.take(ids)[: 1 + self.targets]
        return tuple(part if hasattr(part, "dtype") else column(part, k) for k, part in enumerate(parts))

    def class_names(self, ready: Callable[[], Pipeline]) -> list[str]:
        return list(self.arrays.classes) or super().class_names(ready)

    def __repr__(self) -> str:
        return f"{self.name} of {self.size}"
