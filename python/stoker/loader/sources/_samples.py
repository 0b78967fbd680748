# SPDX-License-Identifier: Apache-2.0
"""Converts the samples of a Dataset to the bytes and arrays that the pipeline accepts."""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from stoker import _core, _files
from stoker._arrays import refuse_masked
from stoker.errors import InvalidArgumentError, StokerError
from stoker.loader import _fields, _not_images, _targets
from stoker.loader._kinds import BOXES, FLOATS, IMAGE, MASK, PICTURES, POINTS, Kind, kinds_of_sample
from stoker.loader._layout import Layout
from stoker.loader._pixels import is_array, kind_of_image, numbers_of, pixels
from stoker.loader._targets import Target

_ORIENTATION = 0x0112  # the tag of EXIF


@dataclass(frozen=True)
class AsDatasets:
    """A mask's file that is read as `datasets` reads it for the feature Image(mode=...)."""

    file: Any  # a path, or the bytes
    mode: str | None  # the mode of Pillow to which the mask is converted; None: it stays as it is
    turned: bool  # whether the EXIF orientation is applied, as it is to the image


class UnlikeError(TypeError):
    """Raised for an image whose form differs from the first sample's. This is a fault of the Dataset, so on_error="skip" does not skip the sample."""


def place_of(item: Any) -> Any:
    """Returns `where` of a sample that is a table's Row: its file, row group and number. Returns None for other samples; some, such as tensors, have an
    attribute `where` that means another thing."""
    return getattr(item, "where", None) if isinstance(item, dict) else None


class Samples:
    """Converts each sample to a tuple: the image, the other parts in the order of the first sample, the array of `_geometry` if a part follows the image's
    transforms, and further views. If the image is a list, its entries are views of one image, and the first view is used as the image.

    shown: the fields that the user named, or None. given: dict from fields to the kinds that the user gave. layout: the layout of images. oriented: whether the
    EXIF orientation is applied. main: the user's name for the image; `shown` and `given` call it "image". place: the image's index in samples that are tuples.
    sound: whether samples have a sound file instead of an image. plain: whether samples have no image; the first part is then converted like the others.
    made: fields that a sound makes, and that samples may not have. padded: fields that padding adds and the user names; samples may not have these either.
    """

    def __init__(
        self,
        shown: tuple[str, ...] | None,
        given: dict[str, Kind] | None,
        layout: Layout,
        oriented: bool,
        main: str = "image",
        place: int = 0,
        sound: bool = False,
        plain: bool = False,
        made: tuple[str, ...] = (),
        padded: tuple[str, ...] = (),
    ) -> None:
        self.main, self.place, self.sound, self.plain, self.made = main, place, sound, plain, made
        self.padded = padded
        self._first_target = Target(f"the column {main!r}", None)  # converts the first part if `plain`
        self.shown, self.given, self.layout, self.oriented = shown, given, layout, oriented
        self.names = _fields.targets_of(shown)  # names of the parts after the image, if samples are tuples; None: the user named none
        self.keys: tuple[str, ...] | None = None  # keys of a dict, "image" first; None: samples are not dicts
        self.kinds: list[Kind] | None = None  # kinds of the parts after the image; None before the first sample
        self.follow = False  # whether a part (further image, mask, map, boxes, points) must follow the image's transforms
        self.stacks: list[int] = []  # indices of the parts that hold one or several masks
        self.pictures: list[int] = []  # indices of the parts that are further images, or maps of floats
        self.floats = (given or {}).get("image", Kind()).name == FLOATS  # whether the image is a map of floats
        self._converters: list[Callable[[Any], Any]] = []  # one converter for each part after the image
        self.arrays = False  # whether images are arrays; otherwise they are the bytes of files
        self.image_kind = "PIL"  # the type of the Dataset's images: "Image" of tv_tensors, "Tensor", "array"; "PIL": PIL images or files
        self.channels = 0  # number of channels of the first image, if it is an array
        self.several = False  # whether samples hold a list of views instead of one image
        self.views = 0  # number of views after the first one
        self.counted = False  # whether all images must have as many channels as the first one

    def settle(self, oriented: bool, counted: bool) -> None:
        """Sets whether the EXIF orientation is applied, and whether all images must have as many channels as the first one. Call before the first sample."""
        self.oriented, self.counted = oriented, counted

    @property
    def tensors(self) -> bool:
        """Returns whether the Dataset returns images as arrays or tensors, not as PIL images or files."""
        return self.image_kind != "PIL"

    def convert(self, item: Any) -> tuple[Any, ...]:
        """Returns the parts of a sample, the image first. The sample may have any type. The first sample decides which parts all must have; raises an error for
        a sample that differs."""
        item = self._by_name(item)
        parts = self._of_dict(item) if isinstance(item, dict) else tuple(item) if isinstance(item, (tuple, list)) else (item,)
        if self.place and not isinstance(item, dict) and self.place < len(parts):
            parts = (parts[self.place], *parts[: self.place], *parts[self.place + 1 :])
        if self.keys is None and self.names == ():  # the user wants none of the targets
            parts = parts[:1]
        first = self.kinds is None
        if self.kinds is None:
            self._expect(self._kinds(parts[1:]))
        if len(parts) != 1 + len(self._converters):
            gave = "None as a sample" if item is None else f"a sample of {len(parts)} part{'s' * (len(parts) > 1)}"
            raise ValueError(f"the dataset gave {gave}; the first one had {1 + len(self._converters)}")
        if self.plain:
            return (self._first_target(parts[0]), *(convert(part) for convert, part in zip(self._converters, parts[1:], strict=True)))
        several = isinstance(parts[0], (list, tuple)) and not self.sound
        given = parts[0] if several and parts[0] else (parts[0],)
        try:
            image, *views = [self._whole(one) for one in given]
        except TypeError as e:
            if first and not self.sound and (advice := _not_images.advice(parts)):
                raise TypeError(f"{e}; {advice}") from e
            raise
        if first:
            self.arrays = is_array(image)
            self.image_kind = kind_of_image(given[0]) if self.arrays else "PIL"
            self.channels = self.layout.channels(image) if self.arrays else 0
            self._expect_views(several, len(views))
        if several != self.several or len(views) != self.views:
            raise UnlikeError(
                f"the dataset gave {len(given)} views of an image, and {1 + self.views} in its first sample: give as many for each"
            )
        if any(is_array(view) != is_array(image) for view in views):
            raise UnlikeError("the dataset gave views that are arrays and others that are the bytes of files: give all in one form")
        if is_array(image) != self.arrays:
            was, is_now = ("an array", "the bytes of a file") if self.arrays else ("the bytes of a file", "an array")
            raise UnlikeError(f"the dataset gave {is_now} as an image; the first sample's was {was}, and all have to be the same")
        elif self.arrays and self.counted and (channels := self.layout.channels(image)) != self.channels:
            raise UnlikeError(
                f"the dataset gave an image of {channels} channels; the first one had {self.channels}, and RGB, Grayscale and RandomGrayscale expect "
                "all images to have as many channels as the first: numpy.dstack([image] * 3) makes three channels of gray"
            )
        rest = [convert(part) for convert, part in zip(self._converters, parts[1:], strict=True)]
        if self.follow:
            rest.append(self._geometry(image, rest))
        return (image, *rest, *views)

    def _whole(self, value: Any) -> Any:
        if self.sound:
            return _sound(value)
        return pixels(numbers_of(value) if self.floats else value, self.layout, self.floats)

    def _expect_views(self, several: bool, others: int) -> None:
        if several and self.follow:
            raise InvalidArgumentError(
                "the dataset gives several views of an image, and masks, boxes or points, which could follow only one of them: apply the transforms in the "
                "Dataset and name the kinds None, as fields={'image': 'Image', 'boxes': None}"
            )
        self.several, self.views = several, others

    def path_of(self, item: Any) -> str | None:
        """Returns the path of the image's file, or the file and row of a table's row; None if the sample has neither."""
        if (row := place_of(item)) is not None:
            return str(row)
        if isinstance(item, Mapping):
            image = item.get(self.main, item.get("image"))
        elif isinstance(item, (tuple, list)):
            image = item[self.place] if len(item) > self.place else None
        else:
            image = getattr(item, self.main, item)
        image = getattr(image, "filename", image)  # a PIL image that was opened but not decoded yet
        return os.fsdecode(image) if isinstance(image, (str, os.PathLike)) and image else None

    def forget_format(self) -> None:
        """Resets the format that came from the first sample, if that sample could not be converted. The next sample then defines the format."""
        self.keys = self.kinds = None
        self._first_target = Target(f"the column {self.main!r}", None)
        self.follow, self.stacks, self.pictures, self._converters = False, [], [], []

    def _geometry(self, image: Any, rest: list[Any]) -> Any:
        """Returns an array with the image's height and width, then the number of masks in each stack. Replaces each empty stack in `rest` by one mask of zeros,
        since an output cannot be empty; its count of 0 says that the batch leaves this mask out. Raises ValueError if a mask or a further image differs in size
        from the image."""
        import numpy as np

        height, width = extent = height_and_width(image, self.layout, self.oriented) or (
            1,
            1,
        )  # an image that the decoder will refuse has no extent
        counts = []
        for k in self.stacks:
            counts.append(rest[k - 1].shape[2] if rest[k - 1].ndim == 3 else 1)
            if counts[-1] == 0:
                rest[k - 1] = np.zeros((*rest[k - 1].shape[:2], 1), rest[k - 1].dtype)
        if extent != (1, 1):
            self._check_masks(image, rest, height, width)
            self._check_pictures(rest, height, width)
        return np.asarray([*extent, *counts], np.int32)

    def _by_name(self, item: Any) -> Any:
        """Converts a sample with named parts to a dict in which the image has the name "image". Such a sample is a mapping, a dataclass, a named tuple with an
        image, or an image with a dict of targets. Returns other samples unchanged."""
        made = self._named(item)
        if self.main == "image" or not isinstance(made, dict) or self.main not in made:
            return made
        return {"image": made[self.main], **{name: value for name, value in made.items() if name not in (self.main, "image")}}

    def _named(self, item: Any) -> Any:
        if (
            isinstance(item, tuple)
            and len(item) == 2
            and isinstance(item[1], dict)
            and not isinstance(item[0], dict)
            and "image" not in item[1]
        ):
            return {"image": item[0], **item[1]}  # the form of torchvision's detection data sets
        fields = getattr(item, "_fields", ()) if isinstance(item, tuple) else ()
        if self.main in fields and {self.main if name == "image" else name for name in self.shown or ()} <= {*fields, *_fields.OF_DATASETS}:
            return item._asdict()
        if isinstance(item, Mapping):
            return dict(item)
        if hasattr(type(item), "__dataclass_fields__"):
            return {name: getattr(item, name) for name in item.__dataclass_fields__}
        return item

    def names_of_parts(self) -> tuple[str, ...]:
        """Returns the names of the parts after the image; () if they have none."""
        return self.keys[1:] if self.keys is not None else (self.names or ())

    def format(self) -> tuple[Any, ...]:
        """Returns the format that the first sample defined. `set_format` sets it in a copy of this object in another process."""
        form = (self.arrays, self.image_kind, self.channels, self.several, self.views)
        return self.keys, self.kinds, form, self.layout, self._converters, self._first_target

    def has_types(self) -> bool:
        """Returns whether the type of each target is known. A type is unknown as long as no sample had rows of the target, such as boxes."""
        return all(target.like for _, target in self._targets())

    def settle_types(self, parts: tuple[Any, ...]) -> None:
        """Takes the types that are still unknown from a sample whose targets have no rows. Call if no sample with rows was found. parts: the converted
        sample."""
        for k, target in self._targets():
            if not target.like:
                target.settle(parts[k])

    def with_types(self, parts: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns a converted sample in which targets without rows have the types that became known later. Raises TypeError if those are strings."""
        made = list(parts)
        for k, target in self._targets():
            if getattr(made[k], "shape", (1,))[:1] == (0,):
                made[k] = target.without_rows(made[k])
        return tuple(made)

    def _targets(self) -> list[tuple[int, Target]]:
        """Returns the converters of targets, with the indices of their parts."""
        every = enumerate([self._first_target if self.plain else None, *self._converters])
        return [(k, target) for k, target in every if isinstance(target, Target)]

    def set_format(self, learned: tuple[Any, ...]) -> None:
        self.keys, kinds, form, self.layout, converters, self._first_target = learned
        self.arrays, self.image_kind, self.channels, self.several, self.views = form
        self._expect(kinds)
        self._converters = converters

    def _expect(self, kinds: list[Kind]) -> None:
        self.kinds = kinds
        self.follow = any(kind.follows for kind in kinds)
        self.pictures = [k for k, kind in enumerate(kinds, 1) if kind.name in PICTURES]
        self.stacks = [k for k, kind in enumerate(kinds, 1) if kind.name == MASK]
        names = dict(enumerate(self.names_of_parts(), 1))
        self._converters = [_converter(kind, k, names.get(k), self.layout.given) for k, kind in enumerate(kinds, 1)]

    def _kinds(self, values: tuple[Any, ...]) -> list[Kind]:
        names = self.names_of_parts()
        padded = [*names[: len(values)], *[None] * (len(values) - len(names))]
        return kinds_of_sample(padded, values, self.given)

    def _of_dict(self, item: dict[str, Any]) -> tuple[Any, ...]:
        """Returns the parts of a dict in the order of the first sample's keys, or only the fields that the user named. Raises TypeError if a part is missing,
        or if the user named no fields and the dict has a further part."""
        if self.keys is None:
            self.keys = self._keys(item)
        if any(k not in item for k in self.keys) or (self.shown is None and len(item) > len(self.keys)):
            raise TypeError(
                f"the dataset gave a dict with the entries {', '.join(map(str, item))}; the first one had {', '.join(self.keys)}"
            )
        return tuple(item[k] for k in self.keys)

    def _keys(self, item: dict[str, Any]) -> tuple[str, ...]:
        """Returns the keys of the first sample's parts, "image" first. Raises TypeError without an image, and InvalidArgumentError for a missing field, for a
        key that cannot be a field's name, and for one that a field of the sound or of padding would replace."""
        _fields.refuse_double(self.made, item)
        _fields.refuse_padded(self.padded, item)
        entries = ", ".join(map(str, item))
        if "image" not in item:
            advice = "that is where the sound has to be" if self.sound else _not_images.advice_for_dict(item)
            raise TypeError(f"the dataset gave a dict with the entries {entries}, and none is called {self.main!r}: {advice}")
        for name in self.shown or ():
            if name not in item and name not in _fields.OF_DATASETS:
                keys = ", ".join(["image", *(str(k) for k in item if k != "image")])
                raise InvalidArgumentError(f"fields: the dataset's dicts have no '{name}'; they have {keys}")
        for key in item if self.shown is None else ():
            if not _fields.is_name(key):
                raise InvalidArgumentError(
                    f"the dataset's dicts have an entry {key!r}, which cannot be the name of a field: name the fields that you want, as fields=('image', ...)"
                )
        return ("image", *(k for k in item if k != "image" and (self.shown is None or k in self.shown)))

    def _check_masks(self, image: Any, rest: list[Any], height: int, width: int) -> None:
        for k, (part, kind) in enumerate(zip(rest, self.kinds or (), strict=True), 1):
            if kind.name == MASK and tuple(part.shape[:2]) != (height, width):
                turned = height_and_width(image, self.layout, False) != (height, width)
                why = (
                    ", which its EXIF orientation turned: give the mask turned likewise, or files without that orientation"
                    if turned
                    else ""
                )
                raise ValueError(
                    f"the mask (target {k}) has {part.shape[1]} x {part.shape[0]} pixels and its image {width} x {height}{why or ': they have to be equal'}"
                )

    def picture(self, k: int) -> Picture:
        """Returns the converter of a part that is a further image or a map of floats. k: index of the part."""
        made = self._converters[k - 1]
        assert isinstance(made, Picture)
        return made

    def _check_pictures(self, rest: list[Any], height: int, width: int) -> None:
        """Raises ValueError if a further image differs in size from the first image. Both get the same crops, which would cut out different parts."""
        for k in self.pictures:
            made = self.picture(k)
            extent = height_and_width(rest[k - 1], made.layout, self.oriented)
            if extent is not None and extent != (height, width):
                raise ValueError(
                    f"{made.what} has {extent[1]} x {extent[0]} pixels and the image {width} x {height}: they have to be equal, since both get the same crops "
                    "and flips; resize one of them in the Dataset, or leave out its kind (None) if it should stay as it is"
                )


class Picture:
    """Converts a further image, or a map of floats, to the bytes of a file or to an array in the layout that all samples share.

    floats: values are converted to float32 without scaling. flat: whether the array of the first sample had two dimensions.
    """

    def __init__(self, what: str, layout: str | None, floats: bool) -> None:
        self.what, self.layout, self.floats = what, Layout(layout), floats
        self.coded: bool | None = None  # whether samples hold the bytes of files; None: no sample has been seen
        self.flat = False

    def __call__(self, value: Any) -> Any:
        value = numbers_of(value) if self.floats else value
        try:
            made = pixels(value, self.layout, self.floats)
        except (TypeError, ValueError) as e:
            raise type(e)(f"{self.what}: {e}") from e
        if self.coded is None:
            self.coded, self.flat = not is_array(made), getattr(value, "ndim", 0) == 2
        elif self.coded == is_array(made):
            raise UnlikeError(
                f"{self.what} is {'an array' if self.coded else 'a file'}, and the first sample's was not: all have to be the same"
            )
        return made


def height_and_width(image: Any, layout: Layout, oriented: bool) -> tuple[int, int] | None:
    """Returns (height, width) of an array, or of an image file from its header; None if the header cannot be read. oriented: whether the EXIF orientation is
    applied, which may exchange the two."""
    if is_array(image):
        return layout.extent(image)
    import numpy as np

    try:
        header = _core.image_header(image if isinstance(image, (bytes, bytearray, memoryview)) else np.ascontiguousarray(image))
    except StokerError:
        return None
    turned = oriented and header["orientation"] > 4
    return (header["width"], header["height"]) if turned else (header["height"], header["width"])


def _sound(value: Any) -> Any:
    """Returns the bytes of a sound file. value: a path, the bytes (also as an array), or a dict with "bytes" and "path", the form of `datasets`. Raises
    ValueError for null, and TypeError for other values."""
    import numpy as np

    if isinstance(value, Mapping) and "bytes" in value:
        value = value["bytes"] if value["bytes"] is not None else value.get("path")
    if isinstance(value, (str, os.PathLike)):
        return _files.read_bytes(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return value
    if getattr(value, "ndim", 0) == 1 and str(getattr(value, "dtype", "")).rpartition(".")[2] == "uint8":
        return np.asarray(value)
    if value is None:
        raise ValueError("the sound is null")
    raise TypeError(
        f"the dataset gave {type(value).__name__} as a sound: it is a path or the bytes of a file, which Stoker decodes; samples that Python has "
        "decoded need no "
        "Audio: leave it out of fields, or return the file"
    )


def _mask(value: Any, what: str) -> Any:
    """Converts a mask to an array HW, or several masks from torchvision's order (masks, H, W) to (H, W, masks). value: a path, the bytes of a file, a PIL
    image, an AsDatasets, an array or a tensor. The mask of a palette image is its indices. what: the mask's name in messages. Raises TypeError for other values."""
    import numpy as np

    if isinstance(value, AsDatasets):
        image, mode = _mask_file(value.file, what), value.mode
        image = _upright(image) if value.turned else image
        value = image if mode in (None, image.mode) else image.convert(mode)
    if isinstance(value, (str, os.PathLike, bytes, bytearray, memoryview)):
        value = _mask_file(value, what)
    if type(value).__module__.startswith("PIL.") and value.mode not in ("P", "L", "1", "I;16", "I"):
        raise TypeError(f"{what} is an image of the mode {value.mode}: it has one number a pixel, gray or a palette's index")
    refuse_masked(value)
    mask = np.asarray(value)
    if mask.ndim == 3 and mask.shape[2] == 1 and mask.shape[1] > 1:  # (H, W, 1), the form of OpenCV and albumentations
        mask = mask[..., 0]
    if mask.ndim not in (2, 3) or mask.dtype.kind not in "iub":
        raise TypeError(f"{what} is {mask.dtype} of the shape {mask.shape}: it is of whole numbers, (H, W) or (masks, H, W)")
    return mask if mask.ndim == 2 else np.ascontiguousarray(mask.transpose(1, 2, 0))


def _upright(image: Any) -> Any:
    """Applies the EXIF orientation to a PIL image, if it has one."""
    from PIL import ImageOps

    return ImageOps.exif_transpose(image) if image.getexif().get(_ORIENTATION) is not None else image


def _mask_file(value: Any, what: str) -> Any:
    return _open(value if isinstance(value, (str, os.PathLike)) else io.BytesIO(value), what)


def _open(file: Any, what: str) -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise TypeError("masks in files are read with Pillow, which is not installed: give arrays of (H, W)") from None
    try:
        image = Image.open(file if isinstance(file, io.BytesIO) else io.BytesIO(_files.read_bytes(file)))
        image.load()
    except OSError as e:  # the file is missing, may not be read, is no image or is damaged
        at = "" if isinstance(file, io.BytesIO) or str(file) in str(e) else f"{file}: "
        raise type(e)(f"{what}: {at}{e}") from e
    return image


def _converter(kind: Kind, number: int, name: str | None, layout: str | None) -> Callable[[Any], Any]:
    if kind.name in (IMAGE, FLOATS):
        what = "image" if kind.name == IMAGE else "map"
        return Picture(f"the {what} {name!r}" if name else f"the {what} (target {number})", layout, kind.name == FLOATS)
    if kind.name == MASK:
        return functools.partial(_mask, what=f"the mask {name!r}" if name else f"the mask (target {number})")
    return Target(f"target {number}" + (f" ({name!r})" if name else ""), {BOXES: 4, POINTS: 2}.get(kind.name))


def column(values: list[Any], number: int, plain: bool = False) -> list[Any]:
    """Returns the values of one part of a batch, one for each sample. Encodes strings as bytes; gives empty lists the type of the other values. number: index
    of the part. plain: whether part 0 is no image; it is then converted like the others. Raises TypeError if only some values are strings."""
    strings = [isinstance(v, str) for v in values]
    if not any(strings):
        return _targets.of_one_type(values) if number or plain else values
    if not all(strings):
        raise TypeError(
            f"the dataset gave strings as target {number} of some samples, and other things of others: give one type for all samples"
        )
    return [_targets.text(v) for v in values]
