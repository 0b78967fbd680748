# SPDX-License-Identifier: Apache-2.0
"""Hugging Face's datasets: files as they lie in the table, so that they are decoded in C; the other columns are fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from stoker.errors import InvalidArgumentError


def is_hub(source: Any) -> bool:
    return any(kind.__module__.startswith("datasets.") and kind.__name__ in ("Dataset", "IterableDataset") for kind in type(source).__mro__)


class HubTable:
    """A Dataset of the package `datasets`. Its _indices (select, shuffle, filter) are its own, and so are columns that with_format names."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self.column = _image_column(source)
        self.classes = _classes(source)
        self._raw = _undecoded(source, self.column)

    def __len__(self) -> int:
        return len(self.source)

    def many(self, ids: Sequence[int]) -> list[dict[str, Any]]:
        """Samples as dicts, by one access to the table."""
        columns = self._raw[list(ids)]
        return [_sample(self.column, {name: values[k] for name, values in columns.items()}) for k in range(len(ids))]

    def __getitem__(self, i: int) -> dict[str, Any]:
        return _sample(self.column, self._raw[i])


class HubStream:
    """An IterableDataset of the package `datasets`."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self.column = _image_column(source)
        self._raw = _undecoded(source, self.column)

    def set_epoch(self, epoch: int) -> None:
        if hasattr(self._raw, "set_epoch"):
            self._raw.set_epoch(epoch)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (_sample(self.column, row) for row in self._raw)


def table_of(source: Any) -> Any:
    """What is read in place of a Dataset: itself where it has a transform of its own, whose results are samples as any Dataset's."""
    kind = (getattr(source, "format", None) or {}).get("type")
    if kind == "custom":
        return source
    if kind not in (None, "python", "numpy", "torch"):
        raise InvalidArgumentError(
            f"Loader: with_format({kind!r}) has no meaning here, where batches hold torch tensors: leave it out, or use with_format('torch')"
        )
    return HubTable(source)


def _image_column(source: Any) -> str:
    features = source.features
    if features is None:
        raise InvalidArgumentError("Loader: the data set does not tell its features: use .cast_column(name, datasets.Image())")
    names = [name for name in _columns(source) if type(features[name]).__name__ == "Image"]
    if len(names) != 1:
        found = f"columns of images: {', '.join(names)}" if names else f"no column of images; its columns are {', '.join(features)}"
        raise InvalidArgumentError(
            f"Loader: the data set has {found}: keep one, as by .remove_columns or .cast_column(name, datasets.Image())"
        )
    return names[0]


def _columns(source: Any) -> list[str]:
    """Those that with_format shows; all of them by default."""
    shown = (getattr(source, "format", None) or {}).get("columns")
    return list(shown) if shown else list(source.features)


def _classes(source: Any) -> list[str]:
    """Names of the one ClassLabel among the columns."""
    labels = [f for name, f in source.features.items() if type(f).__name__ == "ClassLabel" and name in _columns(source)]
    return list(labels[0].names) if len(labels) == 1 and labels[0].names else []


def _undecoded(source: Any, column: str) -> Any:
    """The same table, its images as {"bytes", "path"}."""
    kept = set(_columns(source))
    plain = source.with_format(None) if hasattr(source, "with_format") else source
    hidden = [name for name in source.features if name not in kept]
    plain = plain.remove_columns(hidden) if hidden else plain
    return plain.cast_column(column, type(source.features[column])(decode=False))


def _sample(column: str, row: dict[str, Any]) -> dict[str, Any]:
    """A row as a sample: the image is called so, whatever its column is called."""
    image = row[column]
    return {"image": image["bytes"] if image["bytes"] is not None else image["path"], **{k: v for k, v in row.items() if k != column}}
