# SPDX-License-Identifier: Apache-2.0
"""Rule of RandomAffine and RandomRotation, which become one warp. The warp's matrix is torchvision's inverse matrix, computed from each sample's draws."""

from __future__ import annotations

import functools
import math as numbers
from typing import Any

from stoker import fn, math, types
from stoker import transforms as T
from stoker.data_node import DataNode
from stoker.loader.lower._follow import Field, as_size
from stoker.loader.lower._rules import Gate, Image, lowers


def _draw(pair: tuple[float, float], gate: Gate, unchanged: float = 0.0) -> Any:
    """Draws a number from the range `pair` for each sample; `unchanged` if the gate is 0. Returns a number, not a node, for an empty range without a gate."""
    if pair[0] == pair[1] and gate is None:
        return pair[0]
    value: Any = fn.random.uniform(range=list(pair)) if pair[0] < pair[1] else pair[0]
    return value if gate is None else value * gate + (1 - gate) * unchanged


def _of(name: str, angle: Any) -> Any:
    """Returns sin, cos or tan (`name`) of an angle in radians, a number or a node. For a number, the result is rounded to 15 decimals, as in Pillow, so that
    multiples of 90 degrees give exact results."""
    return getattr(math, name)(angle) if isinstance(angle, DataNode) else round(getattr(numbers, name)(angle), 15)


def as_node(value: Any) -> DataNode:
    """Converts a number, or a node with one number a sample, to a node of floats."""
    node = value if isinstance(value, DataNode) else fn.constant(fdata=[float(value)], shape=[], dtype=types.FLOAT)
    number: DataNode = fn.cast(node, dtype=types.FLOAT)
    return number


def _shift(share: float, extent: Any, gate: Gate) -> Any:
    """Draws a translation in whole pixels, of up to `share` times the extent. Rounds as torchvision does."""
    if not share:
        return 0.0
    most = extent * share
    return math.floor(_draw((-1.0, 1.0), gate) * most + 0.5)


def _expanded(values: list[Any], extent: tuple[Any, Any], centred: bool) -> tuple[list[Any], tuple[Any, Any]]:
    """Returns the matrix and the extent (rows, columns) of an output that shows the whole image, as Pillow's Image.rotate does. values: the matrix without
    `expand`. centred: the image turns about its middle, so that a multiple of 90 degrees only exchanges height and width."""
    a, b, x, c, d, y = values
    height, width = extent
    quarters = centred and not isinstance(a, DataNode) and {abs(a), abs(b)} == {0.0, 1.0}
    rows, columns = (
        ((height, width) if b == 0 else (width, height))
        if quarters
        else (_corner_distance(c, d, y, extent), _corner_distance(a, b, x, extent))
    )
    down, right = (rows - height) * 0.5, (columns - width) * 0.5
    return [a, b, x - a * right - b * down, c, d, y - c * right - d * down], (rows, columns)


def _corner_distance(p: Any, q: Any, to: Any, extent: tuple[Any, Any]) -> Any:
    """Returns the distance between the image's outermost corners along one axis of the output, in whole pixels. p, q, to: the matrix's row for that axis."""
    height, width = extent
    ends = [to, p * width + to, p * width + q * height + to, q * height + to]
    if not isinstance(ends[2], DataNode):
        return numbers.ceil(max(ends)) - numbers.floor(min(ends))
    distance: DataNode = fn.cast(
        math.ceil(functools.reduce(math.max, ends)) - math.floor(functools.reduce(math.min, ends)), dtype=types.INT32
    )
    return distance


def matrix_of(t: T.RandomAffine, extent: tuple[Any, Any], gate: Gate) -> tuple[DataNode, tuple[Any, Any]]:
    """Returns a node with each sample's matrix, row by row, from points of the output to points of the image, and the output's extent. extent: the image's
    height and width."""
    height, width = extent
    radians = numbers.pi / 180
    angle = _draw(t.degrees, gate) * radians
    across, down = _draw(t.shear[:2], gate) * radians, _draw(t.shear[2:], gate) * radians
    scale = _draw(t.scale, gate, 1.0)
    x, y = (width * 0.5, height * 0.5) if t.center is None else t.center
    from_x, from_y = x + _shift(t.translate[0], width, gate), y + _shift(t.translate[1], height, gate)
    skew, lean = _of("tan", across), angle - down
    a, b = _of("cos", lean) / _of("cos", down), -_of("cos", lean) * skew / _of("cos", down) - _of("sin", angle)
    c, d = _of("sin", lean) / _of("cos", down), -_of("sin", lean) * skew / _of("cos", down) + _of("cos", angle)
    rows = [(d / scale, -b / scale, x), (-c / scale, a / scale, y)]
    values = [v for p, q, to in rows for v in (p, q, to - p * from_x - q * from_y)]
    if t.expand:
        values, extent = _expanded(values, extent, t.center is None)
    matrix: DataNode = fn.stack(*(as_node(v) for v in values))
    return matrix, extent


def warp(node: DataNode, matrix: DataNode, interpolation: Any, fill: float, floats: bool, size: dict[str, Any]) -> DataNode:
    """Warps an image. Bytes are warped as by Pillow: with bilinear interpolation, the fill begins sharply at the image's edge. Floats are warped as by
    torchvision: at the edge, pixels are first mixed with zeros outside of the image, then with the fill, by the share of the pixel that is outside. size:
    {"size": extent} for fn.warp_affine, or {} if the output is as large as the image."""
    if interpolation == types.INTERP_NN:
        nearest: DataNode = fn.warp_affine(node, matrix=matrix, fill_value=fill, interp_type=types.INTERP_NN, **size)
        return nearest
    if floats:
        share = fn.warp_affine(fn.ones_like(node), matrix=matrix, fill_value=0.0, interp_type=types.INTERP_LINEAR, **size)
        moved = fn.warp_affine(node, matrix=matrix, fill_value=0.0, interp_type=types.INTERP_LINEAR, **size)
        of_floats: DataNode = share * (moved - fill) + fill
        return of_floats
    inside = fn.warp_affine(fn.ones_like(node), matrix=matrix, fill_value=0.0, interp_type=types.INTERP_NN, **size)
    warped = fn.cast(fn.warp_affine(node, matrix=matrix, interp_type=types.INTERP_LINEAR, **size), dtype=types.INT32)
    mixed: DataNode = fn.cast(inside * (warped - int(fill)) + int(fill), dtype=types.UINT8)
    return mixed


@lowers(
    T.RandomAffine,
    of_subclasses=True,
    in_groups=lambda t: not t.expand,
    takes_floats=True,
    takes_clips=True,
    draws_size=lambda t: t.expand and t.degrees[0] < t.degrees[1],
)
def _affine(image: Image, t: T.RandomAffine, gate: Gate) -> Image:
    matrix, extent = matrix_of(t, image.moving_size(), gate)
    size = {"size": as_size(extent)} if t.expand else {}

    def change(field: Field) -> DataNode:
        return warp(field.node, matrix, field.interpolation(t.interpolation), field.fill(t, image.byte_of_one)[0], field.in_floats, size)

    if image.followers is not None:
        image.followers.warp(matrix, change, extent if t.expand else None)
    warped = change(image.as_field())
    if not t.expand:
        return image.changed(warped)
    return image.moved(warped, None if any(isinstance(n, DataNode) for n in extent) else extent)
