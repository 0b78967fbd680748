# SPDX-License-Identifier: Apache-2.0
"""What a Loader tells of its data: names of classes, and the data set as other code asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Listing:
    """`loader.dataset` where there is no object of the user's: len() is the number of its samples."""

    def __init__(self, name: str, samples: Callable[[], int | None], classes: list[Any], class_to_idx: dict[Any, int]) -> None:
        self._name, self._samples = name, samples
        self.classes, self.class_to_idx = classes, class_to_idx

    def __len__(self) -> int:
        samples = self._samples()
        if samples is None:
            raise TypeError(f"{self._name} does not tell how many samples it has")
        return samples

    def __repr__(self) -> str:
        return self._name


def object_of(source: Any) -> Any:
    """The source as `loader.dataset`, if it is an object whose len() is the number of its samples; None: it is a name, or arrays side by side."""
    listed = isinstance(source, list) and all(isinstance(s, (list, tuple)) for s in source)
    return source if listed or (hasattr(source, "__getitem__") and not isinstance(source, (str, bytes, tuple, list))) else None


def _having(source: Any, name: str) -> Any:
    """The data set, or the first one that it is a part or a sum of, that has such an attribute; None: none has."""
    while not hasattr(source, name):
        whole = getattr(source, "dataset", None) or next(iter(getattr(source, "datasets", None) or ()), None)
        if whole is None:
            return None
        source = whole
    return source


def classes_of(source: Any) -> tuple[list[Any], dict[Any, int]]:
    """Names of classes that a data set has, and their labels."""
    names = getattr(_having(source, "classes"), "classes", None)
    if not isinstance(names, (list, tuple)) or not all(isinstance(n, (str, tuple)) for n in names):
        return [], {}
    labels = getattr(_having(source, "class_to_idx"), "class_to_idx", None)
    return list(names), dict(labels) if isinstance(labels, dict) else {name: label for label, name in enumerate(names)}
