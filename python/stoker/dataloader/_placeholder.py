# SPDX-License-Identifier: Apache-2.0
"""Placeholders in samples: each represents an image that Stoker decodes and transforms later."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from stoker._files import open_binary

# Endings of the files that Stoker decodes. Other files are left to Pillow, because Stoker has no decoder for them, or one whose pixels may differ from
# Pillow's.
DECODED = (".jpg", ".jpeg", ".png", ".JPG", ".JPEG", ".PNG", ".jpe", ".jfif")


class NeedsPython(Exception):
    """Raised if a placeholder cannot represent an image, so that the Dataset's own Python must make the sample."""


class Opaque:
    """An object whose content no code can read: nearly every operation on it raises NeedsPython, and the Dataset's own Python then makes the sample."""

    __slots__ = ()

    def _raise_needs_python(self, *_: Any, **__: Any) -> Any:
        raise NeedsPython

    __array__ = __array_ufunc__ = __array_function__ = __torch_function__ = __bool__ = __bytes__ = __call__ = __contains__ = __float__ = (
        __format__
    ) = _raise_needs_python
    __getitem__ = __int__ = __iter__ = __len__ = __reduce_ex__ = __repr__ = __str__ = _raise_needs_python
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _raise_needs_python
    __class__ = property(_raise_needs_python)  # isinstance() reads it if the type does not match


class Placeholder(Opaque):
    """The placeholder for one image. source: the file's path, or the image as an array (H, W, C) of uint8."""

    __slots__ = ("number", "source")

    def __init__(self, source: Any) -> None:
        self.source = source
        self.number = -1  # index among the images of the batch; -1 until the batch is complete

    def __getattr__(self, name: str) -> Any:
        raise NeedsPython


class LateTarget:
    """The target of a sample (image, target) whose target_transform has not been called yet. The function may have effects or draw random numbers, so it is
    called when the loop gets the batch, and not when the sample is read."""

    __slots__ = ("function", "value")

    def __init__(self, function: Any, value: Any) -> None:
        self.function, self.value = function, value


def with_target(sample: Any, functions: dict[Any, Any] | None = None) -> Any:
    """Returns the sample, in which the result of its target_transform replaces a LateTarget. functions: for target_transforms, the ones to call instead."""
    if type(sample) is tuple and len(sample) == 2 and type(sample[1]) is LateTarget:
        late = sample[1]
        return sample[0], (late.function if functions is None else functions.get(late.function, late.function))(late.value)
    return sample


class Reader:
    """Reads the samples of a Dataset. sample(index) returns dataset[index] with a Placeholder in place of each image, and a list of the placeholders. If the
    Dataset has a target_transform, the target is a LateTarget; target_transforms has these functions. transform: the transform of all images. files: whether
    sources are paths; otherwise they are arrays with `channels` channels. summary: a text about the data set, for explain()."""

    transform: Any
    target_transforms: Sequence[Any] = ()
    files = True
    channels = 3
    summary = ""
    python = ""  # description of the Python code that runs for each sample; "" if everything runs in C
    slow = False  # whether the code that `python` describes takes much CPU time

    def sample(self, index: Any) -> tuple[Any, list[Placeholder]]:
        raise NotImplementedError

    def forget(self) -> None:
        """Drops samples that were read before the epoch, because the loop may change the Dataset before it reaches them. The base class has none."""

    def keep_copies(self) -> None:
        """Copies the Dataset's lists, and the variables that a target_transform reads. Call this if the loader has workers: those of torch do not see what the
        loop changes. The base class has none."""

    def unchanged(self) -> bool:
        """Returns whether the Dataset's attributes are the same objects as when the reader was made. The base class has no Dataset, and returns True."""
        return True

    def entry(self, index: Any) -> tuple[Any, ...]:
        """Returns the indices in Subsets, and the object in the Dataset's list, from which sample(index) makes the sample, without the image. Has no such object
        if the Dataset has no list, or has an array or a tensor instead. These make a new object each time an element is read."""
        return ()


def readable(path: str) -> bool:
    """Returns whether Stoker decodes this file to the same pixels as Pillow. False for formats that are not in DECODED, for PNG files that cannot be read or
    lack the signature, and for those of 16 bits a channel: Pillow cuts these to 8 bits, and Stoker rounds."""
    if not path.endswith(DECODED):
        return False
    if not path.endswith((".png", ".PNG")):
        return True
    try:
        with open_binary(path) as f:
            head = f.read(25)
    except OSError:
        return False  # the Dataset's own Python raises the error
    return head[:4] == b"\x89PNG" and head[24:25] != b"\x10"


def replaced(sample: Any, image_of: Any) -> Any:
    """Returns a copy of the sample in which image_of(undone) replaces each Placeholder object."""
    if type(sample) is Placeholder:
        return image_of(sample)
    if isinstance(sample, tuple):
        parts = [replaced(part, image_of) for part in sample]
        return type(sample)(*parts) if hasattr(sample, "_fields") else type(sample)(parts)
    if isinstance(sample, list):
        return [replaced(part, image_of) for part in sample]
    if isinstance(sample, dict):
        made = copy.copy(sample)
        for key, part in sample.items():
            made[key] = replaced(part, image_of)
        return made
    return sample


def shallow_copy(value: Any) -> Any:
    """Returns a copy of a list or dict, and any other value unchanged."""
    return value.copy() if type(value) in (list, dict) else value


def same_objects(values: Sequence[Any], before: Sequence[Any]) -> bool:
    """Returns whether a list has the same objects as before. before: a copy of the earlier list."""
    return len(values) == len(before) and all(a is b for a, b in zip(values, before, strict=True))


def same_attributes(value: Any, before: dict[str, Any]) -> bool:
    """Returns whether an object's attributes are the same objects as before. before: a copy of its earlier vars()."""
    now = vars(value)
    return len(now) == len(before) and all(name in before and before[name] is value for name, value in now.items())
