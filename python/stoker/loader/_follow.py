# SPDX-License-Identifier: Apache-2.0
"""Masks, boxes and points beside an image: masks make its moves in the graph, and what places the rest (windows, coins) comes out as numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stoker import fn, math, types
from stoker.data_node import DataNode
from stoker.loader._coordinates import CenterCrop, Column, Crop, Flip, Move, Pad, Resize

Extent = tuple[Any, Any]  # height and width: numbers, or nodes of one number a sample


class Followers:
    """What goes where the image goes.

    size: a node of its height and width. masks: nodes (HW or HWC). Each move of the image is made here with the same numbers.
    """

    def __init__(self, size: DataNode, masks: Sequence[DataNode]) -> None:
        self.extent: Extent = (size[0], size[1])
        self.masks = list(masks)
        self.moves: list[Move] = []
        self._columns: list[DataNode] = [size[0], size[1]]

    def numbers(self) -> DataNode:
        """Of each sample: its extent, then what its moves refer to by column."""
        node: DataNode = fn.stack(*(fn.cast(c, dtype=types.FLOAT) for c in self._columns))
        return node

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

    def random_crop(self, node: DataNode, size: tuple[int, int], padding: tuple[int, int, int, int], fill: Any) -> DataNode:
        left, top, right, bottom = padding
        height, width = self.extent
        if any(padding):
            around: dict[str, Any] = {"out_of_bounds_policy": "pad", "axes": [0, 1], "start": [-top, -left]}
            around["end"] = fn.stack(height + bottom, width + right) if isinstance(height, DataNode) else [height + bottom, width + right]
            node = fn.slice(node, fill_values=fill("Image"), **around)
            self._each(lambda mask: fn.slice(mask, fill_values=fill("Mask"), **around))
            height, width = height + top + bottom, width + left + right
        anchor = fn.stack(*(self._place(extent, wanted) for extent, wanted in zip((height, width), size, strict=True)))
        node = self._window(node, anchor, list(size))
        self.moves.append(Crop(self._column(anchor[0] - top), self._column(anchor[1] - left), *size))
        self.extent = size
        return node

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

    def resize(self, size: int | tuple[int, int]) -> None:
        """size: as Resize takes it."""
        to: dict[str, Any] = {"size": list(size)} if isinstance(size, tuple) else {"resize_shorter": size, "rounding": "truncate"}
        self._each(lambda mask: fn.resize(mask, interp_type=types.INTERP_NN, subpixel_scale=False, **to))
        self.moves.append(Resize(size))
        if isinstance(size, tuple):
            self.extent = size
        else:
            height, width = self.extent
            shorter = min(height, width) if isinstance(height, int) else math.min(height, width)
            self.extent = (height * size // shorter, width * size // shorter)

    def center_crop(self, size: tuple[int, int], **arguments: Any) -> None:
        self._each(lambda mask: fn.crop(mask, **arguments))
        self.moves.append(CenterCrop(*size))
        self.extent = size

    def pad(self, padding: tuple[int, int, int, int], fill: Any, window: dict[str, Any]) -> None:
        left, top, right, bottom = padding
        self._each(lambda mask: fn.slice(mask, fill_values=fill("Mask"), **window))
        self.moves.append(Pad(left, top, right, bottom))
        height, width = self.extent
        self.extent = (height + top + bottom, width + left + right)

    def flip(self, horizontal: Any, vertical: Any) -> None:
        self._each(lambda mask: fn.flip(mask, horizontal=horizontal, vertical=vertical))
        for coin, across in ((horizontal, True), (vertical, False)):
            if isinstance(coin, DataNode):
                self.moves.append(Flip(self._column(coin), across))
