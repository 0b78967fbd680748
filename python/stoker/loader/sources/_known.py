# SPDX-License-Identifier: Apache-2.0
"""Finds the files or arrays of torchvision's data sets, and of Subsets and ConcatDatasets of these, so that no Python runs for each sample."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
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
    if _is(source, "torch.utils.data.dataset", "Subset"):
        whole = known(source.dataset)
        return whole and whole.part(ids_of(source.indices))
    if _is(source, "torch.utils.data.dataset", "ConcatDataset"):
        return _joined([known(part) for part in source.datasets])
    found = _of_torchvision(source)
    if found is not None and getattr(source, "target_transform", None) is not None:
        raise InvalidArgumentError("the dataset has a target_transform: apply it to the targets, and give Loader a list of (path, target)")
    return found


# Attributes from which `known` makes the files or arrays.
_READ = (
    *("transform", "transforms", "target_transform", "loader", "indices", "dataset", "datasets"),
    *("samples", "data", "targets", "labels", "_samples", "_image_files", "_images", "_labels"),
)


_OF_TRANSFORMS = ("stoker", "torch", "torchaudio", "torchvision")  # packages whose transforms do what their attributes say


class Taken:
    """Notices whether the user changes what `known` has read of a data set, which has no effect on the Loader. Keeps a copy of the list of samples, which takes
    eight bytes a sample."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self._read = [(name, value, _inside(name, value)) for name, value in _read_of(source)]

    def check(self) -> None:
        """Raises StateError if an attribute has another value, a list other elements, an array other numbers, or a transform other settings, than when the
        Loader was made."""
        for (name, value, inside), (_, now) in zip(self._read, _read_of(self._source), strict=False):
            if value is not now or not _is_still(inside, name, now):
                raise changed(f"{type(self._source).__name__}: its {name}", "or one data set for each")


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


def _read_of(source: Any) -> Iterator[tuple[str, Any]]:
    """Yields (name, value) of the attributes that `known` reads, also of the data sets inside of a Subset or ConcatDataset."""
    held = vars(source)
    for name in _READ:
        if name not in held or (name == "targets" and "samples" in held):  # the targets of an ImageFolder are those in `samples`
            continue
        value = held[name]
        yield name, value
        for part in value if name == "datasets" else [value] if name == "dataset" else ():
            yield from _read_of(part)


def _inside(name: str, value: Any) -> Any:
    """Returns what is inside of an attribute, for a comparison: the settings of the transforms that the Loader would compile, a copy of a list, or the checksum
    of an array."""
    if name == "transform":
        try:
            return _settings_of(flatten(value, pil=True))
        except Exception:  # the user has changed it to something that cannot be compiled
            return _Object(value)
    return list(value) if isinstance(value, list) else _checksum_of(value) if is_array(value) else None


def _is_still(inside: Any, name: str, value: Any) -> bool:
    """Returns whether _inside(name, value) would return `inside`. Compares a list of a million samples within a few milliseconds, because its elements are mostly
    the same objects."""
    try:
        return bool(inside == (value if isinstance(value, list) else _inside(name, value)))
    except Exception:  # an element was replaced by an array, whose comparison has no single result
        return False


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
_MOST_SUMMED = 1 << 28  # the most bytes of an array of which a checksum is compared, which takes 50 ms


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


def _checksum_of(array: Any) -> Any:
    """Returns a checksum of an array's bytes, with its type and shape. Arrays that are too large, or whose numbers are not in main memory, are compared only by
    identity."""
    import zlib

    from stoker.loader.sources._contents import is_plain_array, memory_of  # imported here, because it loads pickle

    if not is_plain_array(array) or array.nbytes > _MOST_SUMMED:
        return _Object(array)
    return [str(array.dtype), tuple(array.shape), zlib.crc32(memory_of(array))]


def ids_of(indices: Iterable[Any]) -> list[int]:
    """Returns a Subset's indices. Raises TypeError for floats and for bools: the bools of a mask would be read as the ids 0 and 1."""
    try:
        ids = list(indices)
        if any(isinstance(i, bool) or str(getattr(i, "dtype", "")) == "torch.bool" for i in ids):
            raise TypeError("they are bools")
        return [operator.index(i) for i in ids]
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
    for (module, name), read in _IN_MEMORY.items():
        if _is(source, f"torchvision.datasets.{module}", name):
            return read(source)
    for name, (module, samples) in _LISTING_FILES.items():
        if _is(source, f"torchvision.datasets.{module}", name) and _default_loader(getattr(source, "loader", None)):
            return _of_files(source, samples)
    return None


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


# For each class: its module, and a function that returns the pairs of path and target.
_LISTING_FILES: dict[str, tuple[str, Callable[[Any], Sequence[Any]]]] = {
    "DTD": ("dtd", _pairs),
    "FGVCAircraft": ("fgvc_aircraft", _pairs),
    "Flowers102": ("flowers102", _pairs),
    "Food101": ("food101", _pairs),
    "GTSRB": ("gtsrb", lambda s: s._samples),
    "Imagenette": ("imagenette", lambda s: s._samples),
    "OxfordIIITPet": ("oxford_iiit_pet", _pets),
    "RenderedSST2": ("rendered_sst2", lambda s: s._samples),
    "StanfordCars": ("stanford_cars", lambda s: s._samples),
    "SUN397": ("sun397", _pairs),
}

# (module, class) -> a function that makes Arrays of the images and targets in memory. SVHN and STL10 store images as CHW.
_IN_MEMORY: dict[tuple[str, str], Callable[[Any], Arrays]] = {
    ("cifar", "CIFAR10"): lambda s: Arrays.of(s.data, s.targets, s.transform, "HWC"),
    ("mnist", "MNIST"): lambda s: Arrays.of(s.data, s.targets, s.transform),
    ("usps", "USPS"): lambda s: Arrays.of(s.data, s.targets, s.transform),
    ("svhn", "SVHN"): lambda s: Arrays.of(s.data, s.labels, s.transform, "CHW"),
    ("stl10", "STL10"): lambda s: Arrays.of(s.data, s.labels, s.transform, "CHW"),
}
