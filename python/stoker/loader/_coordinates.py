# SPDX-License-Identifier: Apache-2.0
"""Moves boxes and points with their images, for a whole batch in one call. The arithmetic is that of torchvision's v2, in the coordinates' own type and
format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

POINTS = "XY"  # the format of points; boxes have "XYXY", "XYWH" or "CXCYWH"


@dataclass(frozen=True)
class Column:
    """A number that differs between samples. at: its column in the table of numbers that the graph outputs."""

    at: int


class Coordinates:
    """The boxes or points of a batch, while the moves of their images are applied. A row is a box or a point.

    values: (rows, 4) for boxes or (rows, 2) for points, changed in place. numbers: (rows, columns): for each row, the numbers that the graph output for its
    sample. height, width: for each row, the current size of its image.
    """

    def __init__(self, values: torch.Tensor, format: str, numbers: torch.Tensor) -> None:
        self.values, self.format, self.numbers = values, format, numbers
        self.height, self.width = numbers[:, 0], numbers[:, 1]
        self.kept: torch.Tensor | None = None  # for each row, False if a move has removed it; None: no move has removed rows

    def keep(self, which: torch.Tensor) -> None:
        """Marks the rows for which `which` is False as removed."""
        self.kept = which if self.kept is None else self.kept & which

    def edges(self) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Returns [left, top] and [right, bottom] of the boxes."""
        return self._edges(self.values)

    def number(self, number: int | Column) -> torch.Tensor:
        """Returns a value for each row: the number itself, or the row's entry in the column of `numbers`."""
        if isinstance(number, Column):
            return self.numbers[:, number.at]
        return self.numbers.new_full((), number).expand(len(self.numbers))

    def _as_own(self, number: torch.Tensor) -> torch.Tensor:
        return number.to(self.values.dtype)

    def shift(self, left: torch.Tensor, top: torch.Tensor) -> None:
        for pair in (0, 2) if self.format == "XYXY" else (0,):
            self.values[:, pair] -= self._as_own(left)
            self.values[:, pair + 1] -= self._as_own(top)

    def scale(self, width: torch.Tensor, height: torch.Tensor) -> None:
        """Scales the coordinates as their image is resized to this width and height. Integer coordinates are truncated, as in torchvision."""
        for axis, new, old in ((0, width, self.width), (1, height, self.height)):
            ratio = (new.double() / old.double()).float().unsqueeze(1)
            self.values[:, axis::2] = (self.values[:, axis::2] * ratio).to(self.values.dtype)
        self.width, self.height = width, height

    def mirror(self, axis: int, which: torch.Tensor) -> None:
        """Mirrors the rows for which `which` is True. axis: 0 for x, 1 for y. A point at x moves to width - 1 - x, but a box's edge to width - x; y
        likewise."""
        end = self._as_own((self.width, self.height)[axis])
        v = self.values
        turned = v.clone()
        if self.format == "XYXY":
            turned[:, axis], turned[:, axis + 2] = end - v[:, axis + 2], end - v[:, axis]
        elif self.format == "XYWH":
            turned[:, axis] = end - (v[:, axis] + v[:, axis + 2])
        else:
            turned[:, axis] = end - (1 if self.format == POINTS else 0) - v[:, axis]
        v[which] = turned[which]

    def warp(self, matrix: list[torch.Tensor]) -> None:
        """Applies the inverse of an affine map. matrix: six numbers that map the output to the image. A box becomes the smallest box around its four moved
        corners, clipped to the image."""
        a, b, x, c, d, y = (number.double() for number in matrix)
        area = a * d - b * c

        def moved(px: torch.Tensor, py: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return (d * (px - x) - b * (py - y)) / area, (a * (py - y) - c * (px - x)) / area

        self._map(moved)

    def project(self, matrix: list[torch.Tensor]) -> None:
        """Applies a perspective map. matrix: nine numbers, row by row, that map the image to the output. A box becomes the smallest box around its four moved
        corners, clipped to the image."""
        m = [number.double() for number in matrix]

        def moved(px: torch.Tensor, py: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            x, y, scale = (m[k] * px + m[k + 1] * py + m[k + 2] for k in (0, 3, 6))
            return x / scale, y / scale

        self._map(moved)

    def _map(self, moved: Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]) -> None:
        v = self.values.double()
        if self.format == POINTS:
            v[:, 0], v[:, 1] = moved(v[:, 0], v[:, 1])
        else:
            low, high = self._edges(v)
            xs, ys = zip(*(moved(px, py) for px in (low[0], high[0]) for py in (low[1], high[1])), strict=True)
            for axis, corners in ((0, xs), (1, ys)):
                self._set_edges(v, axis, _least(corners), -_least([-p for p in corners]))
        self.values.copy_(v)
        self.clamp()

    def _edges(self, v: torch.Tensor) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        first, second = (v[:, 0].clone(), v[:, 1].clone()), (v[:, 2].clone(), v[:, 3].clone())
        low = [f - s / 2 for f, s in zip(first, second, strict=True)] if self.format == "CXCYWH" else list(first)
        high = list(second) if self.format == "XYXY" else [e + s for e, s in zip(low, second, strict=True)]
        return low, high

    def _set_edges(self, v: torch.Tensor, axis: int, low: torch.Tensor, high: torch.Tensor) -> None:
        v[:, axis] = (low + high) / 2 if self.format == "CXCYWH" else low
        v[:, axis + 2] = high if self.format == "XYXY" else high - low

    def clamp(self) -> None:
        """Clips boxes to the image. Does not change points, which may lie outside of it."""
        if self.format == POINTS:
            return
        v = self.values if self.values.is_floating_point() else self.values.float()
        zero = v.new_zeros(())
        for axis, (low, high, end) in enumerate(zip(*self._edges(v), (self.width, self.height), strict=True)):
            self._set_edges(v, axis, low.clamp(zero, end.to(v.dtype)), high.clamp(zero, end.to(v.dtype)))
        self.values.copy_(v)


def _least(values: Sequence[torch.Tensor]) -> torch.Tensor:
    least = values[0]
    for value in values[1:]:
        least = least.minimum(value)
    return least


class Move:
    """The effect of one transform on coordinates."""

    def apply(self, c: Coordinates) -> None:
        raise NotImplementedError


@dataclass(frozen=True)
class Crop(Move):
    top: Column
    left: Column
    height: int | Column
    width: int | Column

    def apply(self, c: Coordinates) -> None:
        c.shift(c.number(self.left), c.number(self.top))
        c.height, c.width = c.number(self.height), c.number(self.width)
        c.clamp()


@dataclass(frozen=True)
class CenterCrop(Move):
    """Cuts out the middle of the image, or pads it on all sides, to this height and width. If an odd number of pixels is removed, the left or top side loses
    half of it, rounded to an even number. If an odd number is added, the left or top side gets the smaller half."""

    height: int
    width: int

    def apply(self, c: Coordinates) -> None:
        def start(extent: torch.Tensor, wanted: int) -> torch.Tensor:
            over = extent - wanted
            return (over / 2).round().where(over >= 0, (over / 2).ceil())

        c.shift(start(c.width, self.width), start(c.height, self.height))
        c.height, c.width = c.number(self.height), c.number(self.width)
        c.clamp()


@dataclass(frozen=True)
class Pad(Move):
    left: int | Column
    top: int | Column
    right: int | Column
    bottom: int | Column

    def apply(self, c: Coordinates) -> None:
        left, top, right, bottom = (c.number(n) for n in (self.left, self.top, self.right, self.bottom))
        c.shift(-left, -top)
        c.height, c.width = c.height + (top + bottom), c.width + (left + right)
        c.clamp()


@dataclass(frozen=True)
class Resize(Move):
    height: int | Column
    width: int | Column

    def apply(self, c: Coordinates) -> None:
        c.scale(c.number(self.width), c.number(self.height))


@dataclass(frozen=True)
class Warp(Move):
    """Applies the inverse of an affine map. matrix: the map's six numbers, row by row; it maps points of the output to points of the image. extent: height and
    width of the output, if they change."""

    matrix: tuple[Column, ...]
    extent: tuple[int | Column, ...] = ()

    def apply(self, c: Coordinates) -> None:
        if self.extent:
            c.height, c.width = (c.number(n) for n in self.extent)
        c.warp([c.number(column) for column in self.matrix])


@dataclass(frozen=True)
class Perspective(Move):
    """Applies a perspective map. matrix: its nine numbers, row by row; it maps points of the image to points of the output."""

    matrix: tuple[Column, ...]

    def apply(self, c: Coordinates) -> None:
        c.project([c.number(column) for column in self.matrix])


@dataclass(frozen=True)
class Flip(Move):
    """Mirrors the samples whose column `coin` is not 0: exchanges left and right if `across`, else top and bottom."""

    coin: Column
    across: bool

    def apply(self, c: Coordinates) -> None:
        c.mirror(0 if self.across else 1, c.number(self.coin) != 0)


@dataclass(frozen=True)
class CropOfBoxes(Move):
    """Cuts out a window from the images of samples whose column `flag` is not 0. Boxes whose middle lies outside of the window become zeros."""

    top: Column
    left: Column
    height: Column
    width: Column
    flag: Column

    def apply(self, c: Coordinates) -> None:
        cut = c.number(self.flag) != 0
        top, left, height, width = (c.number(n) for n in (self.top, self.left, self.height, self.width))
        inside = cut
        if c.format != POINTS:
            low, high = c.edges()
            for axis, (start, size) in enumerate(((left, width), (top, height))):
                middle = 0.5 * (low[axis] + high[axis])
                inside = inside & (start < middle) & (middle < start + size)
        before = c.values.clone()
        c.shift(left, top)
        c.height, c.width = height, width
        c.clamp()
        if c.format != POINTS:
            c.values[~inside] = 0
        c.values[~cut] = before[~cut]


@dataclass(frozen=True)
class Remove(Move):
    """Removes boxes whose width or height is below min_size, whose area is below min_area, or that are not completely inside of the image. With outside=False,
    removes only boxes whose width or height is at most min_size. flag: a column that is 0 for samples that lose no boxes; None: boxes of all samples are
    removed."""

    min_size: float
    min_area: float
    outside: bool = True
    flag: Column | None = None

    def apply(self, c: Coordinates) -> None:
        if c.format == POINTS:
            return
        low, high = c.edges()
        width, height = high[0] - low[0], high[1] - low[1]
        if not self.outside:
            valid = (width > self.min_size) & (height > self.min_size)
        else:
            valid = (width >= self.min_size) & (height >= self.min_size) & (width * height >= self.min_area)
            for edges in (low, high):
                for edge, end in zip(edges, (c.width, c.height), strict=True):
                    valid = valid & (edge >= 0) & (edge <= end)
        c.keep(valid if self.flag is None else valid | (c.number(self.flag) == 0))


def _moved(samples: Sequence[Any], numbers: Any, moves: Sequence[Move], format: str) -> tuple[Coordinates, list[torch.Tensor], list[int]]:
    """Returns three things for a batch: the coordinates after all moves, the samples as tensors, and the number of rows of each sample. The arguments are those
    of `follow`."""
    import torch

    width = 2 if format == POINTS else 4
    parts = [torch.as_tensor(s, device="cpu") for s in samples]
    for part in parts:
        if part.shape[-1:] != (width,) and part.numel():
            what = "points have" if format == POINTS else "boxes have"
            raise ValueError(f"{what} {width} numbers each; a sample's are of the shape {tuple(part.shape)}")
    rows = [part.reshape(-1, width) for part in parts]
    counts = torch.tensor([len(r) for r in rows], dtype=torch.int64, device="cpu")
    moved = Coordinates(torch.cat(rows), format, numbers[torch.arange(len(rows), device="cpu").repeat_interleave(counts)])
    for move in moves:
        move.apply(moved)
    return moved, parts, counts.tolist()


def follow(samples: Sequence[Any], numbers: Any, moves: Sequence[Move], format: str) -> list[torch.Tensor]:
    """Returns the coordinates of each sample after the moves of its image, without removed rows. samples: the boxes or points of each sample, as arrays or
    tensors. numbers: a tensor (samples, columns) to which a Column refers. format: POINTS or the format of boxes."""
    moved, parts, counts = _moved(samples, numbers, moves, format)
    split = moved.values.split(counts)
    if moved.kept is None:
        return [part.reshape(like.shape) for part, like in zip(split, parts, strict=True)]
    return [part[kept] for part, kept in zip(split, moved.kept.split(counts), strict=True)]


def kept(samples: Sequence[Any], numbers: Any, moves: Sequence[Move], format: str) -> list[torch.Tensor]:
    """Returns a bool tensor for each sample, True for each box that no move has removed. The arguments are those of `follow`."""
    moved, _, counts = _moved(samples, numbers, moves, format)
    which = moved.values.new_ones(len(moved.values)).bool() if moved.kept is None else moved.kept
    return list(which.split(counts))
