# SPDX-License-Identifier: Apache-2.0
"""Masks, boxes and points that follow an image. Masks make its moves in the graph. For boxes and points the graph delivers the moves' numbers
(windows, coins), and they follow when the batch is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stoker import fn, math, types
from stoker import transforms as T
from stoker.data_node import DataNode
from stoker.loader._coordinates import CenterCrop, Column, Crop, Flip, Move, Pad, Perspective, Resize, Warp

Extent = tuple[Any, Any]  # height and width: numbers, or nodes of one number a sample


def _pair(height: Any, width: Any) -> Any:
    """Two numbers, or a node of two."""
    return fn.stack(height, width) if isinstance(height, DataNode) or isinstance(width, DataNode) else [height, width]


def outside(t: T.Padded, kind: str) -> dict[str, Any]:
    """How fn.slice is told what lies outside of an image, or of a mask."""
    return {"fill_values": t.fill_of(kind)} if t.padding_mode == "constant" else {"border": t.padding_mode}


def as_size(extent: Extent) -> Any:
    """As the argument size of fn.resize."""
    pair = _pair(*extent)
    return fn.cast(pair, dtype=types.FLOAT) if isinstance(pair, DataNode) else pair


def _lack(extent: Any, wanted: int) -> Any:
    return math.max(wanted - extent, 0) if isinstance(extent, DataNode) else max(wanted - extent, 0)


def resized(extent: Extent, size: int, max_size: int | None) -> Extent:
    """The shorter edge to size; the longer one to max_size where it would be larger."""
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


class Followers:
    """What goes where the image goes.

    size: a node of its height and width. masks: nodes (HW or HWC). Each move of the image is made here with the same numbers.
    """

    def __init__(self, size: Any, masks: Sequence[DataNode] = ()) -> None:
        self.extent: Extent = (size[0], size[1])
        self.masks = list(masks)
        self.moves: list[Move] = []
        self._columns: list[DataNode] = [size[0], size[1]]
        self.masks_alone: str | None = None  # a move that boxes and points cannot make

    def numbers(self) -> DataNode:
        """For each sample: its extent, then the numbers that moves refer to by column."""
        node: DataNode = fn.stack(*(fn.cast(c, dtype=types.FLOAT) for c in self._columns))
        return node

    def beside(self, node: DataNode) -> int:
        """Another number of each sample, delivered beside those of moves: its column."""
        self._columns.append(node)
        return len(self._columns) - 1

    def _column(self, node: DataNode) -> Column:
        self._columns.append(node)
        return Column(len(self._columns) - 1)

    def _each(self, change: Callable[[DataNode], DataNode]) -> None:
        self.masks = [change(mask) for mask in self.masks]

    # ---- moves that are drawn: they give the image's node too ----

    def random_resized_crop(self, node: DataNode, size: tuple[int, int], filters: dict[str, Any], draws: dict[str, Any]) -> DataNode:
        """As torchvision: the window is cut out first, and then resized."""
        shape = self.extent
        known = types.Constant(list(shape), dtype=types.INT32) if isinstance(shape[0], int) else fn.stack(*shape)
        anchor, window = fn.random_crop_generator(known, **draws)
        node = self._window(node, anchor, window)
        self.moves.append(Crop(*(self._column(c) for c in (anchor[0], anchor[1], window[0], window[1]))))
        self.resize(size)
        resized: DataNode = fn.resize(node, size=list(size), **filters)
        return resized

    def random_crop(self, node: DataNode, t: T.RandomCrop) -> DataNode:
        """As torchvision: padding; then, with pad_if_needed, a smaller image gets on both sides as many pixels as it lacks."""
        left, top, right, bottom = t.padding
        height, width = self.extent
        y = _lack(height + top + bottom, t.size[0]) if t.pad_if_needed else 0
        x = _lack(width + left + right, t.size[1]) if t.pad_if_needed else 0
        before, after = (top + y, left + x), (height + bottom + y, width + right + x)
        if t.padding_mode != "constant" and t.pad_if_needed and any(t.padding):  # what goes on outside is then itself a continued image
            node = self._window_around(node, t, (top, left), (height + bottom, width + right))
            node = self._window_around(node, t, (y, x), (height + top + bottom + y, width + left + right + x))
        elif any(t.padding) or t.pad_if_needed:
            node = self._window_around(node, t, before, after)
        anchor = fn.stack(*(self._place(end + begin, wanted) for begin, end, wanted in zip(before, after, t.size, strict=True)))
        node = self._window(node, anchor, list(t.size))
        self.moves.append(Crop(self._column(anchor[0] - before[0]), self._column(anchor[1] - before[1]), *t.size))
        self.extent = t.size
        return node

    def _window_around(self, node: DataNode, t: T.Padded, before: Extent, end: Extent) -> DataNode:
        """From `before` pixels outside of the image to `end`."""
        window: dict[str, Any] = {"axes": [0, 1], "start": _pair(0 - before[0], 0 - before[1]), "end": _pair(*end)}
        if t.padding_mode != "constant":
            self.masks_alone = f"{type(t).__name__} with padding_mode={t.padding_mode!r}"

        def put(image: DataNode, kind: str) -> DataNode:
            made: DataNode = fn.slice(image, out_of_bounds_policy="pad", **outside(t, kind), **window)
            return made

        self._each(lambda mask: put(mask, "Mask"))
        return put(node, "Image")

    @staticmethod
    def _place(extent: Any, wanted: int) -> DataNode:
        """A random place for a window on an axis; each has the same chance. Where it does not fit the place is 0, and the crop fails."""
        last = math.max(extent - wanted, 0) if isinstance(extent, DataNode) else max(extent - wanted, 0)
        draw = fn.random.uniform(range=[0.0, 1.0])
        place: DataNode = fn.cast(math.min(math.floor(draw * (last + 1)), last), dtype=types.INT32)
        return place

    def _window(self, node: DataNode, anchor: DataNode, shape: Any) -> DataNode:
        def cut(image: DataNode) -> DataNode:
            window: DataNode = fn.slice(image, start=anchor, shape=shape, axes=[0, 1], out_of_bounds_policy="error")
            return window

        self._each(cut)
        return cut(node)

    # ---- moves that are not, or whose draw is given ----

    def resize(self, size: int | tuple[int, int], max_size: int | None = None) -> None:
        """size: as Resize takes it."""
        if isinstance(size, tuple):
            self.resize_to(size, size=list(size))
        elif max_size is None:
            self.resize_to(resized(self.extent, size, None), resize_shorter=size, rounding="truncate")
        else:
            self.resize_to(resized(self.extent, size, max_size))

    def resize_to(self, extent: Extent, **to: Any) -> None:
        """to: how a mask is told of it; by default by the extent."""
        self.extent = extent
        to = to or {"size": as_size(extent)}
        self.moves.append(Resize(*(self._column(n) if isinstance(n, DataNode) else n for n in extent)))
        self._each(lambda mask: fn.resize(mask, interp_type=types.INTERP_NN, subpixel_scale=False, **to))

    def center_crop(self, size: tuple[int, int], **arguments: Any) -> None:
        self._each(lambda mask: fn.crop(mask, **arguments))
        self.moves.append(CenterCrop(*size))
        self.extent = size

    def pad(self, node: DataNode, t: T.Padded, before: Extent, after: Extent) -> DataNode:
        """before: pixels at the top and on the left; after: at the bottom and on the right."""
        height, width = self.extent
        node = self._window_around(node, t, before, (height + after[0], width + after[1]))
        numbers = (before[1], before[0], after[1], after[0])
        self.moves.append(Pad(*(self._column(n) if isinstance(n, DataNode) else n for n in numbers)))
        self.extent = (height + before[0] + after[0], width + before[1] + after[1])
        return node

    def warp(self, matrix: DataNode, fill: float, extent: Extent | None) -> None:
        """matrix: from places in the output to those in the image. extent: of the output; None: it stays."""
        size = {} if extent is None else {"size": as_size(extent)}
        self._each(lambda mask: fn.warp_affine(mask, matrix=matrix, fill_value=fill, interp_type=types.INTERP_NN, **size))
        self.extent = self.extent if extent is None else extent
        to = () if extent is None else tuple(self._column(n) if isinstance(n, DataNode) else n for n in extent)
        self.moves.append(Warp(tuple(self._column(matrix[k]) for k in range(6)), to))

    def perspective(self, matrix: DataNode, change: Callable[[DataNode], DataNode]) -> None:
        """matrix: from places in the image to those in the output. change: of a mask."""
        self._each(change)
        self.moves.append(Perspective(tuple(self._column(matrix[k]) for k in range(9))))

    def displace(self, what: str, change: Callable[[DataNode], DataNode]) -> None:
        """Pixels move one by one, which boxes and points cannot follow."""
        self.masks_alone = what
        self._each(change)

    def flip(self, horizontal: Any, vertical: Any) -> None:
        self._each(lambda mask: fn.flip(mask, horizontal=horizontal, vertical=vertical))
        for coin, across in ((horizontal, True), (vertical, False)):
            if isinstance(coin, DataNode):
                self.moves.append(Flip(self._column(coin), across))
