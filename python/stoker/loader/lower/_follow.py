# SPDX-License-Identifier: Apache-2.0
"""Moves further images, masks, maps of floats, boxes and points together with their image. The graph moves pixels. For boxes and points, the graph
outputs the numbers of each move, such as the window of a crop, and Python applies them when it makes the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from stoker import fn, math, types
from stoker import transforms as T
from stoker.data_node import DataNode
from stoker.errors import InvalidArgumentError, UnsupportedError
from stoker.loader._coordinates import CenterCrop, Column, Crop, CropOfBoxes, Flip, Move, Pad, Perspective, Remove, Resize, Warp
from stoker.loader._kinds import IMAGE, MASK
from stoker.loader._random import mix
from stoker.pipeline import Pipeline

Extent = tuple[Any, Any]  # height and width: numbers, or nodes with one number per sample


def _pair(height: Any, width: Any) -> Any:
    """Returns the two values as a list, or as one node if one of them is a node."""
    return fn.stack(height, width) if isinstance(height, DataNode) or isinstance(width, DataNode) else [height, width]


def in_bytes(t: T.Transform, name: str, values: Sequence[float], byte_of_one: float | None) -> list[float]:
    """Converts numbers of the transform t, its argument `name`, to the scale of bytes. byte_of_one: see Rule.byte_of_one. Raises InvalidArgumentError for a
    number that no byte stands for."""
    if byte_of_one is None:
        return list(values)
    most = 255.0 / byte_of_one
    beyond = next((v for v in values if not -1e-6 <= v <= most * (1 + 1e-6)), None)
    if beyond is not None:
        raise InvalidArgumentError(
            f"{t!r}: {name} is {beyond:g}, and at this place in the list, images have values from 0 to {most:g}: give a number from 0 to {most:g}. "
            "Others are not compiled; stoker.DataLoader calls torchvision's transform for them"
        )
    return [v * byte_of_one for v in values]


def as_size(extent: Extent) -> Any:
    """Returns an extent as the argument `size` of fn.resize."""
    pair = _pair(*extent)
    return fn.cast(pair, dtype=types.FLOAT) if isinstance(pair, DataNode) else pair


def _lack(extent: Any, wanted: int) -> Any:
    return math.max(wanted - extent, 0) if isinstance(extent, DataNode) else max(wanted - extent, 0)


def resized(extent: Extent, size: int, max_size: int | None) -> Extent:
    """Returns the extent of an image whose shorter edge becomes `size`. If the longer edge would exceed max_size, the longer edge becomes max_size. max_size:
    None means no limit."""
    height, width = extent
    nodes: bool = isinstance(height, DataNode)
    short = math.min(height, width) if nodes else min(height, width)
    if max_size is None:
        return height * size // short, width * size // short
    long: Any = (math.max(height, width) if nodes else max(height, width)) * size // short
    over: Any = fn.cast(long > max_size, dtype=types.INT32) if nodes else int(long > max_size)
    short, long = size + over * (max_size * size // long - size), long + over * (max_size - long)
    tall = fn.cast(width <= height, dtype=types.INT32) if nodes else int(width <= height)
    return tall * long + (1 - tall) * short, tall * short + (1 - tall) * long


@dataclass
class Field:
    """A field whose pixels move with the image. floats, gray and channels are as in _rules.Image."""

    node: DataNode  # HW or HWC for a mask, HWC for others
    kind: str  # IMAGE, MASK or FLOATS
    vectors: bool = False  # whether the field is a map of two channels, a vector along x and y in pixels
    floats: bool = False
    gray: bool = False
    channels: int | None = None

    @property
    def in_floats(self) -> bool:
        """Returns whether the values are floats."""
        return self.kind not in (IMAGE, MASK) or self.floats

    def fill(self, t: T.Filled, byte_of_one: float | None) -> list[float]:
        """Returns the fill of a transform for the field: one number, or one per channel. byte_of_one: see Rule.byte_of_one."""
        values = t.fill_of(self.kind)
        if byte_of_one is None or self.kind != IMAGE or self.floats:
            return values
        return [float(round(v)) for v in in_bytes(t, "fill", values, byte_of_one)]

    def outside(self, t: T.Padded, byte_of_one: float | None) -> dict[str, Any]:
        """Returns arguments of fn.slice that say how to fill pixels outside of the field."""
        return {"fill_values": self.fill(t, byte_of_one)} if t.padding_mode == "constant" else {"border": t.padding_mode}

    def interpolation(self, of_images: types.DALIInterpType) -> types.DALIInterpType:
        """Returns the interpolation with which the field is moved. of_images: the interpolation for images."""
        return types.INTERP_NN if self.kind == MASK else of_images if self.kind == IMAGE else types.INTERP_LINEAR


def _floats(values: Sequence[Any]) -> DataNode:
    """Returns a node with a vector of floats for each sample. values: numbers, or nodes with one number a sample."""
    parts = [v if isinstance(v, DataNode) else fn.constant(fdata=[float(v)], shape=[], dtype=types.FLOAT) for v in values]
    node: DataNode = fn.stack(*(fn.cast(part, dtype=types.FLOAT) for part in parts))
    return node


LINEAR: dict[str, Any] = {"interp_type": types.INTERP_LINEAR, "border": "drop", "subpixel_scale": False}


class Followers:
    """The further images, masks, maps, boxes and points of a sample. When the image is moved, they are moved with the same numbers.

    size: the image's height and width, as two numbers or as a node. boxes: a node with the sample's boxes, and their format; None if samples have no boxes.
    """

    def __init__(self, size: Any, fields: Sequence[Field] = (), boxes: tuple[DataNode, str] | None = None) -> None:
        self.boxes = boxes
        self.labels: list[str] = []  # fields that lose the rows of removed boxes; "default": the field of labels; "": no field
        self.extent: Extent = (size[0], size[1])
        self.fields = list(fields)
        self._shared = 0  # number of calls of same_draws so far; each call gets its own seeds
        self.moves: list[Move] = []
        self._columns: list[DataNode] = [size[0], size[1]]
        self.only_masks: str | None = None  # name of a transform that masks can follow, but boxes and points cannot

    def numbers(self) -> DataNode:
        """Returns a node with a vector for each sample: the original extent, then the numbers to which moves refer by their column."""
        node: DataNode = fn.stack(*(fn.cast(c, dtype=types.FLOAT) for c in self._columns))
        return node

    def column_of(self, node: DataNode) -> int:
        """Appends a node with one number a sample to the vector that `numbers` returns, and returns its column."""
        self._columns.append(node)
        return len(self._columns) - 1

    def _column(self, node: DataNode) -> Column:
        self._columns.append(node)
        return Column(len(self._columns) - 1)

    def _each(self, change: Callable[[Field], DataNode]) -> None:
        for field in self.fields:
            field.node = change(field)

    @property
    def images(self) -> list[Field]:
        return [field for field in self.fields if field.kind == IMAGE]

    @contextmanager
    def same_draws(self) -> Iterator[Callable[[], None]]:
        """Gives random operators that are added inside the context their own sequence of seeds. The function that the context returns restarts the sequence, so
        that operators which are added after it in the same order draw the same numbers."""
        pipe = Pipeline.current()
        assert pipe is not None and self.fields
        builder, number, drawn = self.fields[0].node._builder, self._shared, 0
        self._shared += 1

        def seed() -> int:
            nonlocal drawn
            drawn += 1
            return mix(pipe.seed, number, drawn)

        def again() -> None:
            nonlocal drawn
            drawn = 0

        builder.seeds = seed
        try:
            yield again
        finally:
            builder.seeds = None

    # ---- crops, which also cut the image and return its node; removal of boxes ----

    def random_resized_crop(self, node: DataNode, size: tuple[int, int], filters: dict[str, Any], draws: dict[str, Any]) -> DataNode:
        """Cuts out a window, then resizes it, as torchvision does. draws: arguments of fn.random_crop_generator. filters: arguments of fn.resize."""
        shape = self.extent
        known = types.Constant(list(shape), dtype=types.INT32) if isinstance(shape[0], int) else fn.stack(*shape)
        anchor, window = fn.random_crop_generator(known, **draws)
        node = self._window(node, anchor, window)
        self.moves.append(Crop(*(self._column(c) for c in (anchor[0], anchor[1], window[0], window[1]))))
        self.extent = (window[0], window[1])
        self.resize(size, filters)
        resized: DataNode = fn.resize(node, size=list(size), **filters)
        return resized

    def random_crop(self, image: Field, t: T.RandomCrop, byte_of_one: float | None) -> DataNode:
        """Pads by t.padding, then cuts out a window, as torchvision does, and returns the image's node. With pad_if_needed, an image that is then too small along
        an axis is padded by the number of missing pixels on both sides of that axis. byte_of_one: see Rule.byte_of_one."""
        left, top, right, bottom = t.padding
        height, width = self.extent
        y = _lack(height + top + bottom, t.size[0]) if t.pad_if_needed else 0
        x = _lack(width + left + right, t.size[1]) if t.pad_if_needed else 0
        before, after = (top + y, left + x), (height + bottom + y, width + right + x)
        if t.padding_mode != "constant" and t.pad_if_needed and any(t.padding):  # the second padding continues the padded image
            self._window_around(image, t, byte_of_one, (top, left), (height + bottom, width + right))
            self._window_around(image, t, byte_of_one, (y, x), (height + top + bottom + y, width + left + right + x))
        elif any(t.padding) or t.pad_if_needed:
            self._window_around(image, t, byte_of_one, before, after)
        anchor = fn.stack(*(self._draw_start(end + begin, wanted) for begin, end, wanted in zip(before, after, t.size, strict=True)))
        node = self._window(image.node, anchor, list(t.size))
        self.moves.append(Crop(self._column(anchor[0] - before[0]), self._column(anchor[1] - before[1]), *t.size))
        self.extent = t.size
        return node

    def crop_of_boxes(self, node: DataNode, window: DataNode) -> DataNode:
        """Cuts out a window. window: a node with five numbers a sample: top, left, height, width, and 0 if the window is the whole image, else 1."""
        anchor, shape = fn.stack(window[0], window[1]), fn.stack(window[2], window[3])
        node = self._window(node, anchor, shape)
        self.moves.append(CropOfBoxes(*(self._column(window[k]) for k in range(5))))
        self.extent = (window[2], window[3])
        return node

    def crop_and_pad(
        self, image: Field, t: T.FixedSizeCrop, byte_of_one: float | None, start: Extent, size: Extent, cut: DataNode
    ) -> DataNode:
        """Cuts out a window of t.size pixels, and returns the image's node. byte_of_one: see Rule.byte_of_one. start: the window's top and left in the image.
        size: height and width of the part that the image covers; the rest is filled. cut: a node that is not 0 if the window leaves out a part of the image."""
        (top, left), (height, width) = start, size
        self._window_around(image, t, byte_of_one, (0 - top, 0 - left), (top + t.size[0], left + t.size[1]))
        columns = [self._column(n) for n in (top, left, height, width)]
        self.moves.append(Crop(*columns))
        self.moves.append(Remove(0.0, 0.0, False, self._column(cut)))
        self.moves.append(Pad(0, 0, self._column(t.size[1] - width), self._column(t.size[0] - height)))
        self.labels.append("default")
        self.extent = t.size
        return image.node

    def sanitize(self, t: T.SanitizeBoundingBoxes) -> None:
        self.moves.append(Remove(t.min_size, t.min_area))
        self.labels += t.labels_getter if isinstance(t.labels_getter, list) else [t.labels_getter or ""]

    def _window_around(self, image: Field, t: T.Padded, byte_of_one: float | None, before: Extent, end: Extent) -> None:
        """Cuts the same window out of the image and the fields. t.padding_mode fills pixels outside of them. byte_of_one: see Rule.byte_of_one. before: by how
        many pixels the window begins above and to the left of the image; negative if it begins inside. end: first row and column of the image after the window."""
        window: dict[str, Any] = {"axes": [0, 1], "start": _pair(0 - before[0], 0 - before[1]), "end": _pair(*end)}
        if t.padding_mode != "constant":
            self.only_masks = f"{type(t).__name__} with padding_mode={t.padding_mode!r}"

        def put(field: Field) -> DataNode:
            made: DataNode = fn.slice(field.node, out_of_bounds_policy="pad", **field.outside(t, byte_of_one), **window)
            return made

        self._each(put)
        image.node = put(image)

    @staticmethod
    def _draw_start(extent: Any, wanted: int) -> DataNode:
        """Draws where a window begins along an axis, with equal probabilities. Returns 0 if the window does not fit; the crop then fails. extent, wanted:
        numbers of pixels of the image and of the window."""
        last = math.max(extent - wanted, 0) if isinstance(extent, DataNode) else max(extent - wanted, 0)
        draw = fn.random.uniform(range=[0.0, 1.0])
        index: DataNode = fn.cast(math.min(math.floor(draw * (last + 1)), last), dtype=types.INT32)
        return index

    def _window(self, node: DataNode, anchor: DataNode, shape: Any) -> DataNode:
        def cut(image: DataNode) -> DataNode:
            window: DataNode = fn.slice(image, start=anchor, shape=shape, axes=[0, 1], out_of_bounds_policy="error")
            return window

        self._each(lambda field: cut(field.node))
        return cut(node)

    # ---- other transforms: `pad` also pads the image; for the others, the caller transforms the image ----

    def resize(self, size: int | tuple[int, int], filters: dict[str, Any], max_size: int | None = None) -> None:
        """Resizes the fields. size, max_size: the arguments of transforms.Resize. filters: arguments of fn.resize for images."""
        if isinstance(size, tuple):
            self.resize_to(size, filters, size=list(size))
        elif max_size is None:
            self.resize_to(resized(self.extent, size, None), filters, resize_shorter=size, rounding="truncate")
        else:
            self.resize_to(resized(self.extent, size, max_size), filters)

    def resize_to(self, extent: Extent, filters: dict[str, Any], **to: Any) -> None:
        """Resizes the fields to an extent. filters: arguments of fn.resize for images. to: arguments of fn.resize that describe the same size; if there are
        none, the extent is used."""
        before, self.extent = self.extent, extent
        to = to or {"size": as_size(extent)}
        self.moves.append(Resize(*(self._column(n) if isinstance(n, DataNode) else n for n in extent)))
        linear = {**LINEAR, "antialias": filters.get("antialias", True)}

        def change(field: Field) -> DataNode:
            if field.kind == MASK:
                nearest: DataNode = fn.resize(field.node, interp_type=types.INTERP_NN, subpixel_scale=False, **to)
                return nearest
            made: DataNode = fn.resize(field.node, **(filters if field.kind == IMAGE else linear), **to)
            if field.vectors:
                (h, w), (height, width) = before, extent
                made = made * _floats([_share(width, w), _share(height, h)])
            return made

        self._each(change)

    def center_crop(self, size: tuple[int, int], **arguments: Any) -> None:
        self._each(lambda field: fn.crop(field.node, **arguments))
        self.moves.append(CenterCrop(*size))
        self.extent = size

    def pad(self, image: Field, t: T.Padded, byte_of_one: float | None, before: Extent, after: Extent) -> DataNode:
        """Pads the fields and the image, and returns the image's node. byte_of_one: see Rule.byte_of_one. before: the number of pixels to add at the top and on
        the left. after: the same for the bottom and the right."""
        height, width = self.extent
        self._window_around(image, t, byte_of_one, before, (height + after[0], width + after[1]))
        numbers = (before[1], before[0], after[1], after[0])
        self.moves.append(Pad(*(self._column(n) if isinstance(n, DataNode) else n for n in numbers)))
        self.extent = (height + before[0] + after[0], width + before[1] + after[1])
        return image.node

    def warp(self, matrix: DataNode, change: Callable[[Field], DataNode], extent: Extent | None) -> None:
        """Applies an affine map to the fields. matrix: a node with the map from points of the output to points of the image. change: a function that returns
        the warped node of a field. extent: the output's extent; None: the output is as large as the image."""

        def moved(field: Field) -> DataNode:
            made = change(field)
            if not field.vectors:
                return made
            a, b, c, d = matrix[0], matrix[1], matrix[3], matrix[4]
            area = a * d - b * c  # the vectors are multiplied by the inverse of the matrix's 2 x 2 part
            u, v = made[:, :, 0:1], made[:, :, 1:2]
            turned: DataNode = fn.cat((d * u - b * v) / area, (a * v - c * u) / area, axis=2)
            return turned

        self._each(moved)
        self.extent = self.extent if extent is None else extent
        to = () if extent is None else tuple(self._column(n) if isinstance(n, DataNode) else n for n in extent)
        self.moves.append(Warp(tuple(self._column(matrix[k]) for k in range(6)), to))

    def _refuse_vectors(self, what: str) -> None:
        if any(field.vectors for field in self.fields):
            raise UnsupportedError(
                f"{what}: a map of vectors cannot follow it, since vectors would change from pixel to pixel: do it in the Dataset, or "
                "declare the field as a plain 'FloatMap', which moves the pixels and keeps the numbers"
            )

    def perspective(self, what: str, matrix: DataNode, change: Callable[[Field], DataNode]) -> None:
        """Applies a perspective map to the fields. matrix: a node with the map from points of the image to points of the output. change: a function that
        returns the warped node of a field. what: the transform's name, for an error message."""
        self._refuse_vectors(what)
        self._each(change)
        self.moves.append(Perspective(tuple(self._column(matrix[k]) for k in range(9))))

    def displace(self, what: str, change: Callable[[Field], DataNode]) -> None:
        """Displaces each pixel of the fields. Boxes and points cannot follow. change: a function that returns the displaced node of a field. what: the
        transform's name, for an error message."""
        self._refuse_vectors(what)
        self.only_masks = what
        self._each(change)

    def flip(self, horizontal: Any, vertical: Any) -> None:
        def change(field: Field) -> DataNode:
            made: DataNode = fn.flip(field.node, horizontal=horizontal, vertical=vertical)
            return made * _floats([1.0 - 2.0 * horizontal, 1.0 - 2.0 * vertical]) if field.vectors else made

        self._each(change)
        for coin, across in ((horizontal, True), (vertical, False)):
            if isinstance(coin, DataNode):
                self.moves.append(Flip(self._column(coin), across))


def _share(new: Any, old: Any) -> Any:
    """Returns new / old: a number if both are numbers, else a node."""
    if not isinstance(new, DataNode) and not isinstance(old, DataNode):
        return new / old
    number: DataNode = fn.cast(new, dtype=types.FLOAT64) if isinstance(new, DataNode) else new * 1.0
    return number / (fn.cast(old, dtype=types.FLOAT64) if isinstance(old, DataNode) else old)
