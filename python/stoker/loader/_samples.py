# SPDX-License-Identifier: Apache-2.0
"""What a Dataset gives for a sample, as the pipeline takes it: bytes and arrays."""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Callable
from typing import Any

from stoker import _core
from stoker._where import notice
from stoker.errors import StokerError
from stoker.loader import _targets
from stoker.loader._kinds import BOXES, MASK, POINTS, Kind, kinds_of_sample


class Samples:
    """Takes samples apart: the image first, then the other parts in the order of the first sample's, then the image's extent if something follows it.

    given: kinds by the name of the field, as the user said. names: of the fields of tuples, in order; None: they have none yet.
    """

    def __init__(self, names: tuple[str, ...] | None, given: dict[str, Kind] | None, oriented: bool) -> None:
        self.names, self.given, self.oriented = names, given, oriented
        self.keys: tuple[str, ...] | None = None  # of a dict, that of the image first; None: samples are no dicts
        self.kinds: list[Kind] | None = None  # of the parts behind the image; None: no sample has been seen
        self.follow = False  # a part goes where the image's pixels go
        self._converters: list[tuple[int, Callable[[Any, int], Any]]] = []  # of the parts, with their numbers
        self.arrays = False  # images are arrays, and not the bytes of files

    def convert(self, item: Any) -> tuple[Any, ...]:
        """A sample of any type that a Dataset may give."""
        if (
            isinstance(item, tuple)
            and len(item) == 2
            and isinstance(item[1], dict)
            and not isinstance(item[0], dict)
            and "image" not in item[1]
        ):
            item = {"image": item[0], **item[1]}  # as detection data sets of torchvision give them
        parts = self._of_dict(item) if isinstance(item, dict) else tuple(item) if isinstance(item, (tuple, list)) else (item,)
        first = self.kinds is None
        if self.kinds is None:
            self._settle(self._kinds(parts[1:]))
        if len(parts) != 1 + len(self._converters):
            raise ValueError(f"the dataset gave a sample of {len(parts)} parts; the first one had {1 + len(self._converters)}")
        image = _image(parts[0])
        if first:
            self.arrays = is_array(image)
        elif is_array(image) != self.arrays:
            was, is_now = ("an array", "the bytes of a file") if self.arrays else ("the bytes of a file", "an array")
            raise TypeError(f"the dataset gave {is_now} as an image; the first sample's was {was}, and all have to be the same")
        rest = [convert(parts[k], k) for k, convert in self._converters]
        if not self.follow:
            return (image, *rest)
        import numpy as np

        height, width = extent = _extent(image, self.oriented) or (1, 1)  # what its decoder will refuse has no extent
        if extent != (1, 1):
            self._check_masks(rest, height, width)
        return (image, *rest, np.asarray(extent, np.int32))

    def names_of_parts(self) -> tuple[str, ...]:
        """Names of the parts behind the image, as far as they have some."""
        return self.keys[1:] if self.keys is not None else (self.names or ())

    def learned(self) -> tuple[Any, ...]:
        """What the first sample told, for a copy in another process to know."""
        return self.keys, self.kinds, self.arrays

    def know(self, learned: tuple[Any, ...]) -> None:
        self.keys, kinds, self.arrays = learned
        self._settle(kinds)

    def _settle(self, kinds: list[Kind]) -> None:
        self.kinds = kinds
        self.follow = any(kind.follows for kind in kinds)
        names = dict(enumerate(self.names_of_parts(), 1))
        self._converters = [
            (k, functools.partial(_mask, name=names.get(k)) if kind.name == MASK else _CONVERTERS.get(kind.name, _target))
            for k, kind in enumerate(kinds, 1)
        ]

    def _kinds(self, values: tuple[Any, ...]) -> list[Kind]:
        names = self.names_of_parts()
        padded = [*names[: len(values)], *[None] * (len(values) - len(names))]
        return kinds_of_sample(padded, values, self.given)

    def _of_dict(self, item: dict[str, Any]) -> tuple[Any, ...]:
        """The parts of a dict, in the order of the first sample's keys."""
        if self.keys is None:
            if "image" not in item:
                raise TypeError(f"the dataset gave a dict with the entries {', '.join(map(str, item))}: the image's is called 'image'")
            self.keys = ("image", *(k for k in item if k != "image"))
        if set(item) != set(self.keys):
            raise TypeError(
                f"the dataset gave a dict with the entries {', '.join(map(str, item))}; the first one had {', '.join(self.keys)}"
            )
        return tuple(item[k] for k in self.keys)

    def _check_masks(self, rest: list[Any], height: int, width: int) -> None:
        """A mask of another extent than its image would be cropped elsewhere."""
        for k, (part, kind) in enumerate(zip(rest, self.kinds or (), strict=True), 1):
            if kind.name == MASK and tuple(part.shape[:2]) != (height, width):
                raise ValueError(
                    f"the mask (target {k}) has {part.shape[1]} x {part.shape[0]} pixels and its image {width} x {height}: they have to be equal"
                )


def is_array(image: Any) -> bool:
    return not isinstance(image, (bytes, bytearray, memoryview)) and image.ndim == 3


def _extent(image: Any, oriented: bool) -> tuple[int, int] | None:
    """Height and width of an image, of a file from its header; None where it has none."""
    if is_array(image):
        return int(image.shape[0]), int(image.shape[1])
    import numpy as np

    try:
        header = _core.image_header(image if isinstance(image, (bytes, bytearray, memoryview)) else np.ascontiguousarray(image))
    except StokerError:
        return None
    turned = oriented and header["orientation"] > 4
    return (header["width"], header["height"]) if turned else (header["height"], header["width"])


def _coordinates(value: Any, _number: int) -> Any:
    """An array of the type that it has, float32 if it has none."""
    import numpy as np

    return np.asarray(value, None if getattr(value, "dtype", None) is not None else np.float32)


def _mask(value: Any, number: int, name: str | None = None) -> Any:
    """An array HW, or HWC of what was given as (masks, height, width), which is how torchvision's Mask lies. Of a palette image its indices."""
    import numpy as np

    what = f"the mask {name!r}" if name else f"the mask (target {number})"
    if isinstance(value, (str, os.PathLike, bytes, bytearray, memoryview)):
        value = _open(value if isinstance(value, (str, os.PathLike)) else io.BytesIO(value), what)
    if type(value).__module__.startswith("PIL.") and value.mode not in ("P", "L", "1", "I;16", "I"):
        raise TypeError(f"{what} is an image of the mode {value.mode}: it has one number a pixel, gray or a palette's index")
    mask = np.asarray(value)
    if mask.ndim not in (2, 3) or mask.dtype.kind not in "iub":
        raise TypeError(f"{what} is {mask.dtype} of the shape {mask.shape}: it is of whole numbers, (H, W) or (masks, H, W)")
    return mask if mask.ndim == 2 else np.ascontiguousarray(mask.transpose(1, 2, 0))


def _open(file: Any, what: str) -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise TypeError("masks in files are read with Pillow, which is not installed: give arrays of (H, W)") from None
    try:
        image = Image.open(file)
        image.load()
    except OSError as e:  # no such file, no permission, no image or a damaged one
        at = "" if isinstance(file, io.BytesIO) or str(file) in str(e) else f"{file}: "
        raise type(e)(f"{what}: {at}{e}") from e
    return image


def _image(value: Any) -> Any:
    """A path as the file's bytes; bytes and arrays as they are."""
    if isinstance(value, (str, os.PathLike)):
        with open(value, "rb") as f:
            return f.read()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return value
    if hasattr(value, "ndim") and hasattr(value, "dtype"):
        if str(value.dtype).removeprefix("torch.") != "uint8" or value.ndim not in (1, 3):
            raise TypeError(
                f"the dataset gave an image of type {value.dtype} with {value.ndim} dimensions: it is uint8, HWC (or the bytes of a file)"
            )
        if value.ndim == 3 and value.shape[0] in (1, 3) and value.shape[2] > 4:
            raise TypeError(
                f"the dataset gave an image of the shape {tuple(value.shape)}, which looks like CHW: it is HWC. Give the path or the file's bytes, "
                "or image.permute(1, 2, 0) of a tensor, image.transpose(1, 2, 0) of an array"
            )
        return value
    if type(value).__module__.startswith("PIL."):
        import numpy as np

        notice("the dataset gives PIL images, which Python decodes one by one: return the path or the file's bytes, and it is done in C")
        return np.asarray(value.convert("RGB"))
    raise TypeError(f"the dataset gave {type(value).__name__} as an image: it is a path, bytes, a uint8 array or a PIL image")


def _target(value: Any, number: int) -> Any:
    """Numbers as arrays; whole ones are int64, as torch's default_collate makes them."""
    import numpy as np

    if isinstance(value, (bool, int)):
        return _targets.whole(value, number)
    if isinstance(value, float):
        return np.asarray(value, np.float32)
    dtype = getattr(value, "dtype", None)
    numeric = not isinstance(dtype, np.dtype) or dtype.kind in "biuf" or isinstance(value, str)
    if value is None or isinstance(value, (dict, set)) or not numeric:
        raise TypeError(
            f"the dataset gave {type(value).__name__ if numeric else dtype} as target {number}: it is a number, a string, or an array or tensor of numbers"
        )
    if str(dtype).endswith("uint64") and tuple(value.shape) in ((), (1,)):
        return _targets.whole(int(value.reshape(())), number)
    return value


_CONVERTERS: dict[str, Callable[[Any, int], Any]] = {BOXES: _coordinates, POINTS: _coordinates}


def column(values: list[Any], number: int) -> list[Any]:
    """One part of all samples of a batch: strings as their bytes, all of them or none."""
    strings = [isinstance(v, str) for v in values]
    if not any(strings):
        return values
    if not all(strings):
        raise TypeError(f"the dataset gave strings and other things as target {number}: it is the same for all samples")
    return [_targets.text(v) for v in values]
