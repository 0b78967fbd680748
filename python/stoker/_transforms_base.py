# SPDX-License-Identifier: Apache-2.0
"""The base classes of all transforms."""

from __future__ import annotations

import functools
import importlib
import math
import numbers
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Any

from stoker._signatures import suggests


def _finite(value: Any) -> bool:
    """Returns whether a value contains neither NaN nor infinity, also inside lists, tuples and dicts."""
    if isinstance(value, (list, tuple)):
        return all(map(_finite, value))
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    return isinstance(value, numbers.Integral) or not isinstance(value, numbers.Real) or math.isfinite(value)


def is_array(value: Any) -> bool:
    """Returns whether a value is an array or a tensor. A class of arrays or tensors is not, although it has their attributes."""
    return not isinstance(value, type) and all(hasattr(value, name) for name in ("tolist", "shape", "dtype"))


def _typed(value: Any) -> str:
    """Returns a value as text for repr(), as it would be written in Python if possible."""
    if isinstance(value, Enum):
        name = type(value).__name__
        return f"types.{value.name}" if name.startswith("DALI") else f"{name}.{value.name}"
    if type(value) in (list, tuple):
        inner = ", ".join(map(_typed, value)) + ("," if isinstance(value, tuple) and len(value) == 1 else "")
        return f"({inner})" if isinstance(value, tuple) else f"[{inner}]"
    if type(value) is dict:
        return "{" + ", ".join(f"{_typed(k)}: {_typed(v)}" for k, v in value.items()) + "}"
    if is_array(value):
        return _typed(value.tolist())
    if callable(value) and hasattr(value, "__qualname__"):
        return str(value.__qualname__)
    return repr(value)


def _same(a: Any, b: Any) -> bool:
    """Returns whether two arguments are equal in type and value. Arrays and tensors are compared by their numbers."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if is_array(a):
        return bool(a.tolist() == b.tolist())
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    return bool(a == b)


class Transform:
    """One step that the Loader compiles. The constructor's arguments are attributes; setting one to NaN or infinity raises ValueError.

    repr() is the call that made the transform; after an attribute was set, a call with all attributes. Transforms of one class with equal attributes are equal.
    """

    # _given: the constructor's arguments, for repr(). Setting an attribute deletes _given, because the arguments may no longer be right. _given is a slot,
    # because the Loader takes all entries of __dict__ for attributes of the transform.
    __slots__ = ("__dict__", "__weakref__", "_given")

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "__init__" not in vars(cls):
            return
        init = vars(suggests(cls))["__init__"]

        @functools.wraps(init)
        def noting(self: Any, *args: Any, **kwargs: Any) -> None:
            init(self, *args, **kwargs)
            if type(self).__init__ is noting:  # else a subclass calls this from its own constructor
                object.__setattr__(self, "_given", (args, kwargs))

        cls.__init__ = noting  # type: ignore[method-assign]

    # Properties that the Loader and groups read. Subclasses override them with constants, or with properties that depend on their arguments.

    @property
    def _makes_floats(self) -> bool:
        """Returns whether images of bytes become floats."""
        return False

    @property
    def _mirrors(self) -> bool:
        """Returns whether the transform only mirrors the image, or does nothing."""
        return False

    @property
    def _commutes_with_mirroring(self) -> bool:
        """Returns whether the distribution of results is the same if the image is mirrored before the transform and if it is mirrored after it: the transform
        treats all pixels alike, or cuts out each window as likely as its mirror image."""
        return False

    @property
    def _is_never_grouped(self) -> bool:
        """Returns whether the transform cannot be compiled inside a group: it changes the size, the channels or the type of the image, or it draws noise."""
        return False

    _of_tensors: str | None = None  # if torchvision computes other pixels for tensors than for PIL images: advice for an error message

    # Settings with which torchvision computes other pixels for tensors, although Stoker gives those of PIL images; for a notice.
    _other_for_tensors = ""

    def __setattr__(self, name: str, value: Any) -> None:
        if not _finite(value):
            raise ValueError(f"{type(self).__name__}: {name} takes finite numbers, not {value!r}")
        object.__setattr__(self, name, value)
        if not name.startswith("_") and hasattr(self, "_given"):
            del self._given

    def __call__(self, image: Any) -> Any:
        """Applies the transform to one image: an array (height, width, channels), a tensor (channels, height, width) or a PIL image. Returns the same kind of
        object, with the pixels that a Loader would make. uint8 stays uint8, unless the transform makes floats (Normalize, ToTensor, ToDtype,
        ConvertImageDtype). Each call builds a pipeline, so use it to look at a transform, and a Loader to train."""
        # The Loader imports this file, so the module that uses the Loader is imported only in a call.
        return importlib.import_module("stoker.loader._one_image").apply(self, image)

    def __repr__(self) -> str:
        args, kwargs = getattr(self, "_given", ((), {k: v for k, v in vars(self).items() if not k.startswith("_")}))
        shown = ", ".join([*map(_typed, args), *(f"{name}={_typed(value)}" for name, value in kwargs.items())])
        return f"{type(self).__name__}({shown})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and _same(vars(self), vars(other))

    def __hash__(self) -> int:
        return hash(type(self))  # attributes may be lists, and may change


class Group(Transform):
    transforms: Sequence[Transform]

    @property
    def _makes_floats(self) -> bool:
        return any(t._makes_floats for t in self.transforms)

    @property
    def _mirrors(self) -> bool:
        return all(t._mirrors for t in self.transforms)

    @property
    def _commutes_with_mirroring(self) -> bool:
        return all(t._commutes_with_mirroring for t in self.transforms)

    @property
    def _is_never_grouped(self) -> bool:
        return any(t._is_never_grouped for t in self.transforms)


def with_parts(steps: Iterable[Transform]) -> Iterator[Transform]:
    """Yields the transforms, and after each group the transforms inside of it."""
    for step in steps:
        yield step
        if isinstance(step, Group):
            yield from with_parts(step.transforms)


class Filled(Transform):
    """A transform whose result may contain pixels from outside of the image. Such pixels get the color `fill`."""

    # One number, one number per channel, or a dict of these with the keys "Image", "Mask" and "others". The scale is that of the images: 0..255, or 0..1 after
    # ToTensor.
    fill: Any

    def fill_of(self, kind: str) -> list[float]:
        """Returns the fill for one kind of input as a list: one number, or one per channel. Raises ValueError for several numbers for a mask."""
        fill = self.fill.get(kind, self.fill.get("others", 0)) if isinstance(self.fill, dict) else self.fill
        values = [float(f) for f in fill] if isinstance(fill, Sequence) else [float(fill or 0)]
        if kind == "Mask" and len(values) > 1:
            raise ValueError(f'{type(self).__name__}: a mask has one fill, not {fill!r}: fill={{"Image": {fill!r}, "Mask": 0}}')
        return values
