# SPDX-License-Identifier: Apache-2.0
"""Finds the files or arrays of torchvision's data sets, and of Subsets and ConcatDatasets of these, so that no Python runs for each sample."""

from __future__ import annotations

import itertools
import math
import operator
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from stoker import _core
from stoker._transforms_base import Transform, is_array
from stoker._where import notice
from stoker.errors import InvalidArgumentError
from stoker.loader._refused import changed
from stoker.loader.sources._arrays import Arrays
from stoker.transforms import Lambda, flatten


@dataclass
class Listed:
    """Files with their targets. transform: applied to each image, or None."""

    samples: list[tuple[str, Any]]
    transform: Any = None

    def part(self, indices: Sequence[int]) -> Listed:
        return Listed([self.samples[i] for i in indices], self.transform)


_SUBSET, _CONCATENATED = ("torch.utils.data.dataset", "Subset"), ("torch.utils.data.dataset", "ConcatDataset")
_SAMPLES = ("__getitem__", "__getitems__", "__len__")


def _is(source: Any, module: str, name: str) -> bool:
    """Returns whether the source is of this class, or of a subclass that does not override _SAMPLES, the methods that define the samples."""
    for kind in type(source).__mro__:
        if kind.__name__ == name and kind.__module__ == module:
            return all(getattr(type(source), method, None) is getattr(kind, method, None) for method in _SAMPLES)
    return False


def is_stream(source: Any) -> bool:
    """Returns whether the source can only be iterated. torch's IterableDataset has a __getitem__ that raises, so the class's name is checked too."""
    return any(kind.__name__ == "IterableDataset" for kind in type(source).__mro__) or not hasattr(source, "__getitem__")


def known(source: Any) -> Listed | Arrays | None:
    """Returns the files or arrays of a torchvision data set, or of a Subset or ConcatDataset of these; None if the source's own Python must make the samples.
    Raises InvalidArgumentError if a torchvision data set has a target_transform."""
    if _is(source, *_SUBSET):
        whole = known(source.dataset)
        return whole and whole.part(ids_of(source.indices))
    if _is(source, *_CONCATENATED):
        return _joined([known(part) for part in source.datasets])
    found = _of_torchvision(source)
    if found is not None and getattr(source, "target_transform", None) is not None:
        raise InvalidArgumentError("the dataset has a target_transform: apply it to the targets, and give Loader a list of (path, target)")
    return found


_OF_TRANSFORMS = ("stoker", "torch", "torchaudio", "torchvision")  # packages whose transforms do what their attributes say


class Taken:
    """Notices whether the user changes what `known` has read of a data set, which has no effect on the Loader. Keeps a copy of the list of samples, which takes
    eight bytes a sample."""

    def __init__(self, source: Any) -> None:
        self._source = source
        parts: dict[int, _Part] = {}
        _find_parts(source, None, parts)
        self._read = [_Attribute(part.owner, name, part.rows()) for part in parts.values() for name in part.names]

    def check(self) -> None:
        """Raises StateError if an attribute has another value, a list other elements, an array other numbers, or a transform other settings, than when the
        Loader was made. Of many images, only some are compared."""
        for attribute in self._read:
            if not attribute.is_as_before():
                raise changed(f"{type(self._source).__name__}: its {attribute.name}", "or one data set for each")


class TakenTransforms:
    """Notices whether the user changes the transforms of an argument, which has no effect on the Loader, or only from the next pipeline on. argument: its name.
    read: returns the transforms that the Loader would compile if it was made now."""

    def __init__(self, argument: str, read: Callable[[], Any]) -> None:
        self._argument, self._now = argument, read
        self._read = _settings_of(read())

    def check(self) -> None:
        """Raises StateError if the list or a transform in it has other settings than when the Loader was made."""
        if _settings_of(self._now()) != self._read:
            raise changed(f"Loader: the argument {self._argument}", "or change images in a function, whose Python runs for each of them")


class _Part:
    """A data set of which `known` reads the attributes `names`: the whole one, or one inside of a Subset or ConcatDataset."""

    def __init__(self, owner: Any) -> None:
        self.owner, self.names = owner, _names_read(owner)
        self._rows: list[Any] | None = []

    def add(self, rows: Any) -> None:
        """Adds samples that are read. rows: an array of their ids, or None for all samples."""
        self._rows = None if rows is None or self._rows is None else [*self._rows, rows]

    def rows(self) -> Any:
        """Returns an array of the ids of the samples that are read, each id once, or None for all samples."""
        import numpy as np

        if self._rows is None:
            return None
        every = np.zeros(len(self.owner), bool)
        for rows in self._rows:
            every[rows] = True
        return None if every.all() else np.flatnonzero(every)


def _find_parts(source: Any, rows: Any, parts: dict[int, _Part]) -> None:
    """Adds a data set and those inside of it to `parts`, by their ids, so that what several Subsets share is compared only once. rows: as in _Part.add."""
    import numpy as np

    parts.setdefault(id(source), _Part(source)).add(rows)
    if _is(source, *_SUBSET):
        ids = np.asarray(ids_of(source.indices), np.int64)
        _find_parts(source.dataset, ids if rows is None else ids[rows], parts)
    elif _is(source, *_CONCATENATED):
        rows = None if rows is None else np.where(rows < 0, rows + len(source), rows)
        first = 0
        for part in source.datasets:
            inside = None if rows is None else rows[(rows >= first) & (rows < first + len(part))] - first
            _find_parts(part, inside, parts)
            first += len(part)


class _Attribute:
    """An attribute of a data set, and what is inside of it: the settings of the transforms that the Loader would compile, a copy of a list, or the checksum of an
    array. Of many images, only some are in the checksum. rows: the rows of an array to which the checksum is limited, or None."""

    def __init__(self, owner: Any, name: str, rows: Any) -> None:
        self.name = name
        self._owner = owner
        self._value = vars(owner).get(name)
        self._rows = _spread(self._value, rows) if is_array(self._value) else None
        self._inside = _copy_of(self._value) if isinstance(self._value, list) else self._read()

    def _read(self) -> Any:
        if self.name == "transform":
            try:
                return _settings_of(flatten(self._value, pil=True))
            except Exception:  # the user has changed it to something that cannot be compiled
                return _Object(self._value)
        return _checksum_of(self._value, self._rows) if is_array(self._value) else None

    def is_as_before(self) -> bool:
        """Compares a list of a million samples within a few milliseconds, because its elements are mostly the same objects."""
        if vars(self._owner).get(self.name) is not self._value:
            return False
        try:
            return bool(self._inside == (self._value if isinstance(self._value, list) else self._read()))
        except Exception:  # an element was replaced by an array, whose comparison has no single result
            return False


def _copy_of(values: list[Any] | tuple[Any, ...]) -> Any:
    """Copies a list, and the lists inside of it and of its tuples."""
    if not _holds_lists(values):
        return list(values) if isinstance(values, list) else values
    inside = [_copy_of(value) if type(value) in (list, tuple) else value for value in values]
    return inside if isinstance(values, list) else tuple(inside)


def _holds_lists(values: Iterable[Any]) -> bool:
    kinds = set(map(type, values))
    return list in kinds or (tuple in kinds and _holds_lists(itertools.chain.from_iterable(v for v in values if type(v) is tuple)))


class _Object:
    """Wraps an object, to compare it by identity: equals only a wrapper of the same object."""

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Object) and self._wrapped is other._wrapped

    __hash__ = None  # type: ignore[assignment]


class _Attributes(dict[str, Any]):
    """The settings of an object by their names. Names that only one of two sides has do not count: users may attach attributes of their own."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Attributes) and all(held == other[name] for name, held in self.items() if name in other)

    __hash__ = None


_MOST_COMPARED = 10000  # the most elements of an array whose values are compared
_MOST_SUMMED = (
    1 << 28
)  # the most bytes of an array of which a checksum is compared; images are compared only in part, because this takes 100 ms
_MOST_OF_IMAGES = 1 << 23  # of more bytes of images, a checksum of about as many is compared, of images that are spread over all
_BLOCK = 1 << 20  # about as many bytes of an array's rows are copied at once for a checksum


def _settings_of(value: Any, above: tuple[int, ...] = ()) -> Any:
    """Returns a value for a comparison: the result of a later call is equal unless the transform was changed in between. Contains copies of lists and numbers,
    and of the attributes of transforms of stoker, torch, torchaudio and torchvision. Other objects, such as those of users' classes, are compared only by
    identity, because their Python runs for each sample and follows changes. So are the functions of Lambdas, and objects that contain themselves. above:
    ids of the objects that contain this one."""
    if isinstance(value, Lambda):
        return [type(value), _Object(value.lambd), value.takes, value._classes]
    if id(value) in above:
        return _Object(value)
    above = (*above, id(value))
    if isinstance(value, (list, tuple)):
        return [type(value), *(_settings_of(held, above) for held in value)]
    if isinstance(value, dict):
        return [[key, _settings_of(held, above)] for key, held in value.items()]
    if value is None or isinstance(value, (bool, int, float, str, Enum)):
        return repr(value)  # NaN does not equal itself
    if is_array(value):
        return [str(value.dtype), repr(value.tolist())] if math.prod(value.shape) <= _MOST_COMPARED else _checksum_of(value)
    ours = isinstance(value, Transform) or (type(value).__module__.partition(".")[0] in _OF_TRANSFORMS and hasattr(value, "__dict__"))
    if isinstance(value, type) or not ours:
        return _Object(value)
    # torch's modules keep the modules inside of them in a private attribute, _modules. `training` is left out, because train() and eval() do not change
    # what torchvision's transforms do.
    names = (k for k in vars(value) if k in ("_modules", "_buffers", "_parameters") or not (k.startswith("_") or k == "training"))
    return [type(value), _Attributes((name, _settings_of(vars(value)[name], above)) for name in names)]


def _checksum_of(array: Any, rows: Any = None) -> Any:
    """Returns a checksum of an array's bytes, with its type and shape. Arrays that are too large, or whose numbers are not in main memory, are compared only by
    identity. rows: ids of the rows that are read; None: all of them."""
    import zlib

    import numpy as np

    from stoker.loader.sources._contents import is_plain_array, memory_of  # imported here, because it loads pickle

    if not is_plain_array(array):
        return _Object(array)
    size = array.nbytes if rows is None else array.nbytes // max(1, len(array)) * len(rows)
    if size > _MOST_SUMMED:
        return _Object(array)
    if rows is None:
        return [str(array.dtype), tuple(array.shape), zlib.crc32(memory_of(array))]
    checksum, step = 0, max(1, _BLOCK * len(rows) // max(1, size))
    held = array
    if size and (array.is_contiguous() if hasattr(array, "is_contiguous") else array.flags.c_contiguous):
        held = np.asarray(memory_of(array)).reshape(len(array), -1)  # because torch uses several threads for an index, which takes longer
    for start in range(0, len(rows), step):
        checksum = zlib.crc32(memory_of(held[rows[start : start + step]]), checksum)
    return [str(array.dtype), tuple(array.shape), checksum]


def _spread(array: Any, rows: Any) -> Any:
    """Returns the rows of an array that are compared: `rows`, or a random one of every n of them if they are too many images to compare all in each
    epoch. Every n-th row would miss changes at a regular distance, such as of each second row."""
    import numpy as np

    from stoker.loader.sources._contents import is_plain_array  # imported here, because it loads pickle

    if not is_plain_array(array) or array.ndim < 2:
        return rows
    count = len(array) if rows is None else len(rows)
    size = array.nbytes // max(1, len(array)) * count
    if not _MOST_OF_IMAGES < size <= _MOST_SUMMED:
        return rows
    step = -(-size // _MOST_OF_IMAGES)
    first = np.arange(0, count, step)
    chosen = np.minimum(first + np.random.default_rng(0).integers(0, step, len(first)), count - 1)
    return chosen if rows is None else rows[chosen]


def ids_of(indices: Any) -> list[int]:
    """Returns a Subset's indices. Raises TypeError for floats and for bools: the bools of a mask would be read as the ids 0 and 1."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if (
        numpy is not None
        and torch is not None
        and type(indices) is torch.Tensor
        and indices.ndim == 1
        and indices.dtype in (torch.int32, torch.int64)
    ):
        indices = indices.numpy(force=True)
    if numpy is not None and type(indices) is numpy.ndarray and indices.ndim == 1 and indices.dtype.kind in "iu":
        ids: list[int] = indices.tolist()
        return ids
    try:
        ids = list(indices)
        kinds = set(map(type, ids))
        if kinds <= {int}:
            return ids
        if bool in kinds or (torch is not None and any(getattr(i, "dtype", None) is torch.bool for i in ids)):
            raise TypeError("they are bools")
        return list(map(operator.index, ids))
    except TypeError as e:
        raise TypeError(f"the indices of a Subset are the ids of samples ({e}); numpy.flatnonzero(mask) makes ids of a mask") from None


def _same_transform(a: Any, b: Any) -> bool:
    """Returns whether two transforms certainly do the same: they are one object, or of one class of stoker, torch or torchvision with equal attributes. Objects
    of users' classes are never equal. repr() cannot be compared: two different Lambdas have the same repr()."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_same_transform, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same_transform(value, b[key]) for key, value in a.items())
    if isinstance(a, (bool, int, float, str, Enum, set)):
        return bool(a == b)
    if is_array(a):
        return _same_transform((str(a.dtype), a.tolist()), (str(b.dtype), b.tolist()))
    if isinstance(a, type) or type(a).__module__.partition(".")[0] not in _OF_TRANSFORMS:
        return False
    return hasattr(a, "__dict__") and _same_transform(vars(a), vars(b))


def _joined(parts: list[Listed | Arrays | None]) -> Listed | Arrays | None:
    """Concatenates the parts. Returns None if one of them is None, or if they differ in type or transform."""
    first = parts[0]
    if first is None or any(p is None or not _same_transform(p.transform, first.transform) for p in parts):
        return None
    if isinstance(first, Listed):
        lists = [p for p in parts if isinstance(p, Listed)]
        return Listed([s for p in lists for s in p.samples], first.transform) if len(lists) == len(parts) else None
    arrays = [p for p in parts if isinstance(p, Arrays)]
    return first.joined(arrays[1:]) if len(arrays) == len(parts) and all(first.joins(a) for a in arrays) else None


def _of_torchvision(source: Any) -> Listed | Arrays | None:
    if not any(kind.__module__.startswith("torchvision.datasets.") for kind in type(source).__mro__):
        return None
    joint = getattr(source, "transforms", None)
    if joint is not None and type(joint).__name__ != "StandardTransform":  # a transform that gets the image and the target together
        return None
    if _is(source, "torchvision.datasets.folder", "DatasetFolder"):
        return _of_folder(source)
    for (module, name), (targets, layout) in _IN_MEMORY.items():
        if _is(source, f"torchvision.datasets.{module}", name):
            return Arrays.of(source.data, getattr(source, targets), source.transform, layout)
    for name, (module, _, samples) in _LISTING_FILES.items():
        if _is(source, f"torchvision.datasets.{module}", name) and _default_loader(getattr(source, "loader", None)):
            return _of_files(source, samples)
    return None


def _names_read(source: Any) -> tuple[str, ...]:
    """Returns the names of the attributes that `known` reads of a source."""
    if _is(source, *_SUBSET):
        return "dataset", "indices"
    if _is(source, *_CONCATENATED):
        return ("datasets",)
    transforms = "transform", "transforms", "target_transform"
    if _is(source, "torchvision.datasets.folder", "DatasetFolder"):
        return (*transforms, "loader", "samples")
    for (module, name), (targets, _) in _IN_MEMORY.items():
        if _is(source, f"torchvision.datasets.{module}", name):
            return (*transforms, "data", targets)
    for name, (module, names, _) in _LISTING_FILES.items():
        if _is(source, f"torchvision.datasets.{module}", name):
            return (*transforms, "loader", *names)
    return ()


def _default_loader(loader: Any) -> bool:
    return loader is None or (
        getattr(loader, "__name__", "") in ("default_loader", "pil_loader") and loader.__module__ == "torchvision.datasets.folder"
    )


def _of_folder(source: Any) -> Listed | None:
    if not _default_loader(source.loader):
        notice(
            f"the dataset reads its files with {getattr(source.loader, '__name__', source.loader)!r}, which runs in Python: where it gives images, "
            "leave it out, "
            "and they are decoded in C"
        )
        return None
    return Listed([(path, target) for path, target in source.samples], source.transform)


def _of_files(source: Any, samples: Callable[[Any], Sequence[Any]]) -> Listed | None:
    """Returns the files of a data set. Returns None if the data set has no files, or if Stoker does not decode the first file: the data set's own Python then
    reads them. samples: a function that returns a data set's pairs of path and target."""
    pairs = [(str(path), target) for path, target in samples(source)]
    if not pairs or not _core.image_named(pairs[0][0]):
        return None
    return Listed(pairs, source.transform)


def _pairs(source: Any) -> Sequence[Any]:
    return list(zip(source._image_files, source._labels, strict=True))


def _pets(source: Any) -> Sequence[Any]:
    return list(zip(source._images, source._labels, strict=True)) if list(source._target_types) == ["category"] else []


# For each class: its module, the attributes that are read, and a function that returns the pairs of path and target.
_LISTING_FILES: dict[str, tuple[str, tuple[str, ...], Callable[[Any], Sequence[Any]]]] = {
    "DTD": ("dtd", ("_image_files", "_labels"), _pairs),
    "FGVCAircraft": ("fgvc_aircraft", ("_image_files", "_labels"), _pairs),
    "Flowers102": ("flowers102", ("_image_files", "_labels"), _pairs),
    "Food101": ("food101", ("_image_files", "_labels"), _pairs),
    "GTSRB": ("gtsrb", ("_samples",), lambda s: s._samples),
    "Imagenette": ("imagenette", ("_samples",), lambda s: s._samples),
    "OxfordIIITPet": ("oxford_iiit_pet", ("_images", "_labels", "_target_types"), _pets),
    "RenderedSST2": ("rendered_sst2", ("_samples",), lambda s: s._samples),
    "StanfordCars": ("stanford_cars", ("_samples",), lambda s: s._samples),
    "SUN397": ("sun397", ("_image_files", "_labels"), _pairs),
}

# (module, class) of data sets with their images in the attribute `data` -> the attribute with the targets, and the layout of the images.
_IN_MEMORY: dict[tuple[str, str], tuple[str, str | None]] = {
    ("cifar", "CIFAR10"): ("targets", "HWC"),
    ("mnist", "MNIST"): ("targets", None),
    ("usps", "USPS"): ("targets", None),
    ("svhn", "SVHN"): ("labels", "CHW"),
    ("stl10", "STL10"): ("labels", "CHW"),
}
