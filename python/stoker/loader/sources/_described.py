# SPDX-License-Identifier: Apache-2.0
"""Makes `loader.dataset`, and finds the class names of a data set."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stoker.loader._options import ARGUMENTS
from stoker.loader._refused import read_once


class Listing:
    """The value of `loader.dataset` if the user gave no Dataset. len() is the number of samples. samples: a function that returns this number; None:
    unknown."""

    def __init__(self, name: str, samples: Callable[[], int | None], classes: list[Any], class_to_idx: dict[Any, int]) -> None:
        self._name, self._samples = name, samples
        self.classes, self.class_to_idx = classes, class_to_idx

    def __len__(self) -> int:
        samples = self._samples()
        if samples is None:
            raise TypeError(f"{self._name} does not say how many samples it has")
        return samples

    if not TYPE_CHECKING:  # type checkers would take any name for an attribute

        def __setattr__(self, name: str, value: Any) -> None:
            if name in ARGUMENTS:
                raise read_once("the Loader's dataset", name)
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return self._name

    def __reduce__(self) -> Any:
        """Lets copies and pickles keep the number of samples in place of the function, which belongs to the Loader."""
        return Listing, (self._name, functools.partial(_itself, self._samples()), self.classes, self.class_to_idx)


def _itself(value: Any) -> Any:
    return value


def object_of(source: Any) -> Any:
    """Returns the source if it can serve as `loader.dataset`: a list of tuples or lists, one per sample, or an object of another class with __getitem__.
    Returns None for any other source, such as a name, a list of paths, or a tuple of arrays, whose len() is not the number of samples."""
    listed = isinstance(source, list) and all(isinstance(s, (list, tuple)) for s in source)
    return source if listed or (hasattr(source, "__getitem__") and not isinstance(source, (str, bytes, tuple, list))) else None


def _having(source: Any, name: str) -> Any:
    """Returns the data set if it has the attribute. Otherwise searches the data set inside it (a Subset's `dataset`, or the first of a ConcatDataset's
    `datasets`), and so on. Returns None if none has the attribute."""
    while not hasattr(source, name):
        whole = getattr(source, "dataset", None) or next(iter(getattr(source, "datasets", None) or ()), None)
        if whole is None:
            return None
        source = whole
    return source


def classes_of(source: Any) -> tuple[list[Any], dict[Any, int]]:
    """Returns the class names of a data set, and a dict from names to labels. Both are empty if the data set has no class names."""
    names = getattr(_having(source, "classes"), "classes", None)
    if not isinstance(names, (list, tuple)) or not all(isinstance(n, (str, tuple)) for n in names):
        return [], {}
    labels = getattr(_having(source, "class_to_idx"), "class_to_idx", None)
    return list(names), dict(labels) if isinstance(labels, dict) else {name: label for label, name in enumerate(names)}
