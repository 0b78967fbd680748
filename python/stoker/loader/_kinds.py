# SPDX-License-Identifier: Apache-2.0
"""The kinds of a Dataset's fields (image, mask, boxes, points, map of floats). Their names are those of torchvision.tv_tensors, which has no maps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from stoker.errors import InvalidArgumentError

IMAGE, MASK, FLOATS, BOXES, POINTS, OTHER, LIST = "Image", "Mask", "FloatMap", "BoundingBoxes", "KeyPoints", "others", "list"
PICTURES = (IMAGE, FLOATS)
VECTORS = "vectors"  # format of maps whose two channels are a vector along x and y, in pixels, as in optical flow
FORMATS = ("XYXY", "XYWH", "CXCYWH")


@dataclass(frozen=True)
class Kind:
    """The kind of a field."""

    name: str = OTHER  # one of the constants above
    # One of FORMATS for boxes; "list" for images, masks and maps that a batch holds as a list; "vectors" for maps of vectors; else "".
    format: str = ""

    @property
    def follows(self) -> bool:
        """Returns whether the field has coordinates or pixels that must move with the image."""
        return self.name in (IMAGE, MASK, FLOATS, BOXES, POINTS)

    @property
    def is_list(self) -> bool:
        """Returns whether a batch always has such a field as a list of tensors. Images, masks and maps are lists only if the user asks for it."""
        return self.name in (BOXES, POINTS, LIST)


def has_sound(fields: Any) -> bool:
    """Returns whether a field is an Audio. Does not import that class."""
    return isinstance(fields, dict) and any("stoker._audio" in (type(f).__module__, getattr(f, "__module__", "")) for f in fields.values())


def kind_of(field: str, given: Any) -> Kind:
    """Returns the Kind for what the user gave for a field: a name, a class of tv_tensors, ("BoundingBoxes", "XYWH"), ("FloatMap", "vectors"), (name, list) for
    an image, a mask or a map, list, or None for a field that does not change. Raises InvalidArgumentError for other values."""
    format = ""
    if isinstance(given, (tuple, list)) and len(given) == 2:
        given, format = given[0], LIST if given[1] is list else str(getattr(given[1], "value", given[1]))
    name = OTHER if given is None else getattr(given, "__name__", given)
    if name not in (IMAGE, MASK, FLOATS, BOXES, POINTS, OTHER, LIST):
        raise InvalidArgumentError(
            f"fields: {field!r} is {given!r}; a field is 'Image', 'Mask', 'BoundingBoxes', 'KeyPoints' (as in torchvision.tv_tensors), 'FloatMap', "
            "stoker.Audio(...), stoker.Video(...), list, or None"
        )
    if (name in (IMAGE, MASK, FLOATS) and format == LIST) or (name == FLOATS and format == VECTORS):
        return Kind(str(name), format)
    if format and name != BOXES:
        raise InvalidArgumentError(f"fields: {field!r} has the format {format}; only BoundingBoxes, and a FloatMap of 'vectors', have one")
    if name == BOXES and (format or "XYXY") not in FORMATS:
        raise InvalidArgumentError(f"fields: {field!r} has the format {format}; boxes are {', '.join(FORMATS)}")
    return Kind(str(name), (format or "XYXY") if name == BOXES else "")


def kinds_of(fields: Any) -> dict[str, Kind] | None:
    """Returns a dict from fields to kinds for the Loader's argument `fields`, as {"image": "Image", "mask": "Mask"}; None if `fields` is not a dict, or has an
    Audio. The kind of the field that main_of returns becomes Image, unless it is FloatMap. Raises InvalidArgumentError if the user gave that field a kind that
    follows the image."""
    if not isinstance(fields, dict) or has_sound(fields):
        return None
    kinds = {name: kind_of(name, given) for name, given in fields.items()}
    main = main_of(kinds)
    if main not in kinds:
        return kinds
    first = kinds[main]
    if first.name in (MASK, BOXES, POINTS):
        raise InvalidArgumentError(
            f"fields: {main!r} is a {first.name}, and a field of this name is always the image that the others follow: give the {first.name} another name "
            "in fields and in the data"
        )
    return {**kinds, main: Kind(FLOATS if first.name == FLOATS else IMAGE, LIST if LIST in (first.name, first.format) else "")}


def main_of(kinds: dict[str, Kind] | None) -> str:
    """Returns the name of the field that all others follow: "image" if there is one, else the first image, else the first map of floats, else "image"."""
    if kinds is None or "image" in kinds:
        return "image"
    return next((name for picture in PICTURES for name, kind in kinds.items() if kind.name == picture), "image")


def internal(kinds: dict[str, Kind] | None) -> dict[str, Kind] | None:
    """Returns the kinds with the main field renamed to "image"; None for None."""
    main = main_of(kinds)
    return kinds if kinds is None else {"image" if name == main else name: kind for name, kind in kinds.items()}


def several(kinds: dict[str, Kind] | None) -> bool:
    """Returns whether other fields than the image have coordinates or pixels that must move with it. kinds: by field; the image is called "image"."""
    return any(kind.follows for name, kind in (kinds or {}).items() if name != "image")


def lists_of(kinds: dict[str, Kind] | None) -> set[str]:
    """Returns the names of the images, masks and maps that batches hold as lists. If the field "image" is a list of images of different sizes, masks and maps
    are lists too."""
    if kinds is None:
        return set()
    images = "image" in kinds and kinds["image"].format == LIST
    return {name for name, kind in kinds.items() if kind.format == LIST or (images and kind.name in (MASK, FLOATS))}


def kind_of_value(value: Any) -> Kind | None:
    """Returns the kind of one of torchvision's tv_tensors: an image, a mask, boxes or points. Returns None for other values."""
    if not type(value).__module__.startswith("torchvision.tv_tensors"):
        return None
    name = type(value).__name__
    return kind_of(name, (name, value.format) if name == BOXES else name) if name in (IMAGE, MASK, BOXES, POINTS) else None


def kinds_of_sample(names: Iterable[str | None], values: Iterable[Any], given: dict[str, Kind] | None) -> list[Kind]:
    """Returns the kind of each part of a sample: the one that the user gave for its name, else that of its value's type, else OTHER."""
    known = given or {}
    return [known[name] if name in known else kind_of_value(value) or Kind() for name, value in zip(names, values, strict=True)]
