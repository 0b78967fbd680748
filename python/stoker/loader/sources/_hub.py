# SPDX-License-Identifier: Apache-2.0
"""Reads data sets of Hugging Face's `datasets`. Encoded images or sounds come from the table and are decoded in C; other columns become fields."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stoker.errors import InvalidArgumentError
from stoker.loader._kinds import MASK, PICTURES, Kind
from stoker.loader.sources._known import ids_of
from stoker.loader.sources._samples import AsDatasets
from stoker.loader.sources._table_features import check_mode, reading_sounds


def is_hub(source: Any) -> bool:
    return any(kind.__module__.startswith("datasets.") and kind.__name__ in ("Dataset", "IterableDataset") for kind in type(source).__mro__)


def turned(source: Any) -> bool:
    """Returns whether `datasets` itself would apply the EXIF orientation to this source's images, as it does from version 2.19 on."""
    streamed = is_hub(source) and is_stream_of_hub(source)
    if not (streamed or isinstance(source, HubTable)):
        return False  # a data set with its own transform returns decoded images
    return _turns()


def _turns() -> bool:
    """Returns whether `datasets` applies the EXIF orientation when it decodes an image."""
    version = str(getattr(sys.modules.get("datasets"), "__version__", ""))
    parts = version.split(".")
    return len(parts) < 2 or not all(p.isdigit() for p in parts[:2]) or (int(parts[0]), int(parts[1])) >= (2, 19)


class _Rows:
    """Reads rows of a data set: the encoded image or sound, and the other columns of the user's fields.

    sound: the name that the user gave the column of sounds, if rows have sounds instead of images; None: rows have images. main: the user's name of the field
    of images or sounds, which `names` and `kinds` call "image".
    """

    def __init__(
        self,
        source: Any,
        names: tuple[str, ...] | None,
        kinds: Mapping[str, Kind] | None,
        sound: str | None = None,
        main: str = "image",
    ) -> None:
        self._names = None if names is None else tuple(n for n in names if n != "image" or main == "image")
        self._kinds, self._sound, self._main = kinds or {}, sound, main
        self.rate: Any = None  # rate in Hz that `datasets` gives the sounds; None: no resampling. Stoker has another filter (Audio.rate).
        self._images: set[str] = set()
        self._types: dict[str, tuple[Any, ...]] = {}
        self._modes: dict[str, str | None] = {}  # the masks that `datasets` reads as images, and its modes of Pillow for them
        self._turned = _turns()
        self.sound: tuple[Any, Any] = (None, None)  # num_channels and stream_index of the feature of sounds
        self.raw = source
        if source.features is None and is_stream_of_hub(source):  # features are unknown, as after map()
            self.column = ""  # sample() finds the column in the first row
            self._modes = {name: None for name, kind in self._kinds.items() if kind.name == MASK}
            return
        self.column = _image_column(source, names, kinds or {}, main) if sound is None else _sound_column(source, sound)
        if sound is not None:
            feature = source.features[self.column]
            self.rate = getattr(feature, "sampling_rate", None)
            self.sound = (getattr(feature, "num_channels", None), getattr(feature, "stream_index", None))
        wanted = [c for c in _columns(source) if self._names is None or c in self._names or c == self.column]
        images = [c for c in wanted if _is_image(source.features[c]) or (_is_sound(source.features[c]) and sound is not None)]
        self._images = set(images)
        for c in images if sound is None else ():
            mode, kind = getattr(source.features[c], "mode", None), self._kinds.get(c, Kind()).name
            if kind == MASK:
                self._modes[c] = mode or None
            elif c == self.column or kind in PICTURES:
                check_mode(c, mode, "table")
        self._types = {c: t for c in wanted if (t := _array_type(source.features[c])) is not None}
        plain = source.with_format(None) if hasattr(source, "with_format") else source
        hidden = [c for c in source.features if c not in wanted]
        for c in images:
            plain = plain.cast_column(c, type(source.features[c])(decode=False))
        if hidden:  # without this, a stream would decode hidden images, and encode each row again
            plain = plain.select_columns(wanted) if hasattr(plain, "select_columns") else plain.remove_columns(hidden)
        self.raw = plain

    def sample(self, row: dict[str, Any]) -> dict[str, Any]:
        """Makes a sample from a row: a dict in which the image or the sound is named "image"."""
        if not self.column:
            self.column = self._found(row)
        shown = (name for name in row if self._names is None or name in self._names or name == self.column)
        values = {name: self._value(name, row[name]) for name in shown}
        return {"image": values.pop(self.column), **values}

    def _found(self, row: Mapping[str, Any]) -> str:
        """Finds the column of images or sounds in the first row of a stream whose features are unknown. Raises InvalidArgumentError if there is no such column,
        or more than one."""
        if self._sound is not None:
            if self._sound in row:
                return self._sound
            raise InvalidArgumentError(f"Loader: the first row of the stream has no {self._sound!r}; its columns are {', '.join(row)}")
        images = [name for name, value in row.items() if _is_picture(value) and self._kinds.get(name, Kind()).name != MASK]
        if self._main != "image" and {self._main, "image"} & {*images}:
            return self._main if self._main in images else "image"
        wanted = [name for name in images if self._names is None or name in self._names] if len(images) > 1 else images
        if len(wanted) == 1:
            return wanted[0]
        raise InvalidArgumentError(
            f"Loader: the first row of the stream has {'several columns of images: ' + ', '.join(images) if images else 'no image'}; its columns are "
            f"{', '.join(row)}: name the one that you want, as fields=('image', ...), or give the stream its features, as .cast_column(name, datasets.Image())"
        )

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, Mapping) and (name in self._images or _is_picture(value)):
            file = value["bytes"] if value["bytes"] is not None else value["path"]
            return AsDatasets(file, self._modes[name], self._turned) if name in self._modes else file
        return _as_array(value, *self._types[name]) if name in self._types else value


class _Hub:
    """A data set of `datasets` whose rows are read by a _Rows. The arguments are those of _Rows."""

    def __init__(
        self,
        source: Any,
        names: tuple[str, ...] | None = None,
        kinds: Mapping[str, Kind] | None = None,
        sound: str | None = None,
        main: str = "image",
    ) -> None:
        self.source = source
        self.rows = _Rows(source, names, kinds, sound, main)

    @property
    def column(self) -> str:
        """Returns the name of the column of images or sounds."""
        return self.rows.column

    @property
    def column_names(self) -> list[str]:
        """Returns the names of all columns of a row; [] if the features are unknown."""
        return [] if self.source.features is None else _columns(self.source)


class HubTable(_Hub):
    """A map-style Dataset over a Dataset of `datasets`, with the rows and columns that the user's select, filter and with_format have left."""

    def __init__(self, source: Any, *more: Any) -> None:
        super().__init__(source, *more)
        self.classes = _classes(source)

    def __len__(self) -> int:
        return len(self.source)

    def many(self, ids: Sequence[int]) -> list[dict[str, Any]]:
        """Returns the samples with these indices, as dicts, by one access to the table."""
        columns = self.rows.raw[list(ids)]
        return [self.rows.sample({name: values[k] for name, values in columns.items()}) for k in range(len(ids))]

    def __getitem__(self, i: int) -> dict[str, Any]:
        return self.rows.sample(self.rows.raw[i])


class HubStream(_Hub):
    """Iterates over an IterableDataset of the package `datasets`. Yields dicts in which the image or the sound is named "image"."""

    def set_epoch(self, epoch: int) -> None:
        if hasattr(self.rows.raw, "set_epoch"):
            self.rows.raw.set_epoch(epoch)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self.rows.sample, self.rows.raw)


def whole_of(source: Any) -> Any:
    """Converts a torch Subset of a Dataset of `datasets`, as random_split makes it, to a Dataset of `datasets` with the same rows. Returns other sources
    unchanged."""
    kind = type(source)
    if kind.__name__ == "Subset" and kind.__module__ == "torch.utils.data.dataset" and is_hub(source.dataset):
        return source.dataset.select(ids_of(source.indices))
    return source


def table_of(
    source: Any, names: tuple[str, ...] | None, kinds: Mapping[str, Kind] | None, sound: str | None = None, main: str = "image"
) -> Any:
    """Returns a HubTable over a Dataset of `datasets`; the Dataset itself if it has its own transform, so that it is read like any map-style Dataset. Raises
    InvalidArgumentError for formats other than python, numpy and torch, and for formats that convert values. names, kinds: the user's fields. sound, main: as in
    _Rows."""
    format = getattr(source, "format", None) or {}
    kind = format.get("type")
    if kind == "custom":
        return source
    if kind not in (None, "python", "numpy", "torch"):
        raise InvalidArgumentError(
            f"Loader: with_format({kind!r}) has no meaning here, where batches hold torch tensors: leave it out, or use with_format('torch')"
        )
    if format.get("format_kwargs"):
        given = ", ".join(f"{name}={value!r}" for name, value in format["format_kwargs"].items())
        raise InvalidArgumentError(
            f"Loader: with_format({kind!r}, {given}) converts values, which a Loader does not: leave that out, and give the Loader transforms such as ToDtype and "
            "its own device=, or convert the batches"
        )
    return HubTable(source, names, kinds, sound, main)


def is_stream_of_hub(source: Any) -> bool:
    return any(kind.__name__ == "IterableDataset" for kind in type(source).__mro__)


def _is_picture(value: Any) -> bool:
    """Returns whether a value is an image: a PIL image, or a dict with "bytes" and "path", as datasets.Image(decode=False) returns it."""
    return type(value).__module__.startswith("PIL.") or (isinstance(value, Mapping) and set(value) == {"bytes", "path"})


def _is_image(feature: Any) -> bool:
    return type(feature).__name__ == "Image"


def _is_sound(feature: Any) -> bool:
    return type(feature).__name__ == "Audio"


def _sound_column(source: Any, name: str) -> str:
    """Returns `name` if a column has this name, else the only column of sounds. Raises InvalidArgumentError if there are several such columns, or none."""
    columns = _columns(source)
    if name in columns:
        return name
    sounds = [c for c in columns if _is_sound(source.features[c])]
    if len(sounds) == 1:
        return sounds[0]
    raise InvalidArgumentError(
        f"Loader: the data set has {'several columns' if sounds else 'no column'} of sounds ({', '.join(sounds or columns)}): call the field of the "
        "Audio by the "
        "name of the column"
    )


def _image_column(source: Any, names: tuple[str, ...] | None, kinds: Mapping[str, Kind], main: str) -> str:
    features = source.features
    if features is None:
        raise InvalidArgumentError(
            "Loader: the data set has no features, which name the column of images: use .cast_column(name, datasets.Image())"
        )
    images = [name for name in _columns(source) if _is_image(features[name])]
    wanted = [name for name in images if kinds.get(name, Kind()).name != MASK and (names is None or name in names)]
    if main in images and (main != "image" or main in kinds):
        return main
    if len(images) == 1:
        return images[0]
    if len(wanted) == 1 and all(kinds.get(name, Kind()).name == MASK for name in images if name in (names or ()) and name != wanted[0]):
        return wanted[0]
    if images:
        raise InvalidArgumentError(
            f"Loader: the data set has columns of images: {', '.join(images)}: name the one that you want, and what masks there are, as "
            "fields={'image': 'Image', 'mask': 'Mask'}, or keep one, by .remove_columns"
        )
    sound = next((name for name in _columns(source) if _is_sound(features[name])), None)
    if sound is not None:
        raise InvalidArgumentError(
            f"Loader: the data set has no column of images, and sounds in the column '{sound}': {reading_sounds(_columns(source), sound)} reads them"
        )
    raise InvalidArgumentError(
        f"Loader: the data set has no column of images; its columns are {', '.join(features)}: .cast_column(name, datasets.Image()) makes one "
        "of paths or bytes; rows without images are read from Parquet files, as .to_parquet(path) writes them, or by stoker.DataLoader"
    )


def _columns(source: Any) -> list[str]:
    """Returns the columns of a row, which with_format may select; all columns by default."""
    format = getattr(source, "format", None) or {}
    shown = None if format.get("output_all_columns") else format.get("columns")
    return list(shown) if shown else list(source.features)


def _classes(source: Any) -> list[str]:
    """Returns the class names of the ClassLabel column; [] if there is not exactly one such column."""
    labels = [f for name, f in source.features.items() if type(f).__name__ == "ClassLabel" and name in _columns(source)]
    return list(labels[0].names) if len(labels) == 1 and labels[0].names else []


def _array_type(feature: Any) -> tuple[str, list[int], bool] | None:
    """Returns three things for a column of lists of numbers, and None for other columns: the type, which is that of with_format("torch"); the extents, with -1
    for those that vary; and whether the column has float64, and so numbers that the type cannot hold."""
    extents: list[int] = []
    while type(feature).__name__ in ("List", "LargeList", "Sequence"):
        extents.append(getattr(feature, "length", -1))
        feature = feature.feature
    extents += list(getattr(feature, "shape", ()))
    dtype = str(getattr(feature, "dtype", ""))
    numeric = {"f": "float32", "i": "int64", "u": "int64", "b": "bool"}.get(dtype[:1]) if dtype.rstrip("0123456789") in _NUMBERS else None
    return (numeric, [-1 if n is None else n for n in extents], dtype == "float64") if extents and numeric else None


_NUMBERS = ("float", "int", "uint", "bool")


def _as_array(value: Any, dtype: str, extents: list[int], wide: bool = False) -> Any:
    """Converts a row's value to an array. Empty values get the column's type and number of dimensions. Returns nulls, and values that cannot be an array,
    unchanged; a null among floats becomes NaN, as in `datasets`. dtype, extents, wide: the result of _array_type for the column."""
    import numpy as np

    if value is None or (not isinstance(value, np.ndarray) and len(value) == 0):
        return value if value is None else np.zeros([0, *(max(n, 0) for n in extents[1:])], dtype)
    try:
        if wide:
            given = np.asarray(value, "float64")
            with np.errstate(over="ignore"):
                made = given.astype(dtype)
            # The Loader refuses a list with a number that float32 cannot hold, as it refuses such a number.
            return made if np.array_equal(np.isinf(made), np.isinf(given)) else given.tolist()
        made = np.asarray(value, None if dtype == "bool" else dtype)
    except (TypeError, ValueError, OverflowError):  # lists of different lengths, a null, or a number above int64's; the Loader reports it
        return value
    return value if dtype == "bool" and made.dtype != np.bool_ else made  # np.asarray(value, bool) would silently turn a null into False
