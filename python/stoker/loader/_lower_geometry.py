# SPDX-License-Identifier: Apache-2.0
"""Compiles RandomPerspective, ElasticTransform, and transforms whose output has a random extent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stoker import fn, math, types
from stoker import transforms as T
from stoker.data_node import DataNode
from stoker.loader._follow import Extent, resized


def _node(value: Any) -> DataNode:
    node = value if isinstance(value, DataNode) else fn.constant(fdata=[float(value)], shape=[], dtype=types.FLOAT)
    number: DataNode = fn.cast(node, dtype=types.FLOAT)
    return number


def _draw_below(most: Any) -> DataNode:
    """Draws a whole number from 0 to most - 1, as a node of floats."""
    draw: DataNode = math.min(math.floor(fn.random.uniform(range=[0.0, 1.0]) * most), most - 1)
    return draw


# ---- perspective ----


def corners(t: T.RandomPerspective, extent: Extent, gate: DataNode | None) -> DataNode:
    """Returns a node with the perspective matrix from points of the image to points of the output: the image's corners move inwards to random points, or stay
    if the gate is 0."""
    height, width = (_node(n) for n in extent)

    def drawn(end: DataNode) -> DataNode:
        """Draws by how many pixels a corner moves inwards along one axis."""
        inside = _draw_below(math.floor(t.distortion_scale * math.floor(end * 0.5)) + 1.0)
        return inside if gate is None else inside * gate

    right, bottom = math.max(width - 1.0, 1.0), math.max(height - 1.0, 1.0)
    x0, y0 = drawn(width), drawn(height)
    x1, y1 = width - 1.0 - drawn(width), drawn(height)
    x2, y2 = width - 1.0 - drawn(width), height - 1.0 - drawn(height)
    x3, y3 = drawn(width), height - 1.0 - drawn(height)
    # The map from the unit square to four corners, from P. Heckbert, "Fundamentals of Texture Mapping and Image Warping", 1989.
    dx1, dx2, sx = x1 - x2, x3 - x2, x0 - x1 + x2 - x3
    dy1, dy2, sy = y1 - y2, y3 - y2, y0 - y1 + y2 - y3
    area = dx1 * dy2 - dx2 * dy1
    g, h = (sx * dy2 - dx2 * sy) / area, (dx1 * sy - sx * dy1) / area
    columns = [(x1 - x0 + g * x1, x3 - x0 + h * x3, x0), (y1 - y0 + g * y1, y3 - y0 + h * y3, y0), (g, h, 1.0)]
    matrix: DataNode = fn.stack(*(_node(v) for a, b, c in columns for v in (a / right, b / bottom, c)))
    return matrix


def perspective(node: DataNode, matrix: DataNode, interpolation: Any, fill: float, floats: bool = False) -> DataNode:
    """Warps an image. matrix: a node with the map from points of the image to points of the output. Bilinear pixels of bytes equal Pillow's: the fill begins
    sharply at the image's edge. Floats are mixed with the fill at the edge, as in _lower_affine.warp."""
    seen: dict[str, Any] = {"matrix": matrix, "inverse_map": False}
    if interpolation == types.INTERP_NN:
        nearest: DataNode = fn.experimental.warp_perspective(node, interp_type=types.INTERP_NN, fill_value=[fill], **seen)
        return nearest
    if floats:
        seen |= {"interp_type": types.INTERP_LINEAR, "fill_value": [0.0]}
        share = fn.experimental.warp_perspective(fn.ones_like(node), **seen)
        of_floats: DataNode = share * (fn.experimental.warp_perspective(node, **seen) - fill) + fill
        return of_floats
    inside = fn.experimental.warp_perspective(fn.ones_like(node), interp_type=types.INTERP_NN, **seen)
    warped = fn.experimental.warp_perspective(node, interp_type=types.INTERP_LINEAR, border_mode="replicate", **seen)
    mixed: DataNode = fn.cast(inside * (fn.cast(warped, dtype=types.INT32) - int(fill)) + int(fill), dtype=types.UINT8)
    return mixed


# ---- elastic ----


def displacements(t: T.ElasticTransform, extent: Extent, gpu: bool) -> tuple[DataNode, DataNode]:
    """Returns two nodes with the displacements of all pixels along x and y, in pixels. gpu: whether the nodes shall be on the GPU."""
    height, width = extent
    shape: Any = fn.stack(height, width) if isinstance(height, DataNode) else [height, width]

    def along(axis: int) -> DataNode:
        noise = fn.random.uniform(range=[-1.0, 1.0], shape=shape)
        noise = noise.gpu() if gpu else noise
        if t.sigma[axis] > 0:
            window = int(8 * t.sigma[axis] + 1) | 1
            noise = fn.gaussian_blur(noise, sigma=[max(s, 1e-6) for s in reversed(t.sigma)], window_size=window)
        moved: DataNode = noise * (0.5 * t.alpha[axis])
        return moved

    return along(0), along(1)


def elastic(node: DataNode, moved: tuple[DataNode, DataNode], interpolation: Any, fill: list[float], floats: bool = False) -> DataNode:
    """Moves the pixels of an image. As in torchvision, bilinear pixels at the edge are first mixed with zeros, then with the fill by the zeros' share. moved:
    the result of displacements(). floats: the image has floats; else uint8."""

    def remap(source: DataNode, values: list[float]) -> DataNode:
        made: DataNode = fn.experimental.remap(source, *moved, relative=True, interp=interpolation, fill_value=values)
        return made

    if interpolation == types.INTERP_NN:
        return remap(node, fill)
    inside = remap(fn.cast(fn.ones_like(node), dtype=types.FLOAT), [0.0])
    outside = fn.constant(fdata=fill, shape=[len(fill)], dtype=types.FLOAT)
    mixed: DataNode = inside * (remap(node, [0.0]) - outside) + outside
    return mixed if floats else fn.cast(mixed, dtype=types.UINT8)


# ---- extents ----


def _whole(value: DataNode) -> DataNode:
    extent: DataNode = fn.cast(math.max(math.floor(value), 1.0), dtype=types.INT32)
    return extent


def _doubles(extent: Extent) -> list[DataNode]:
    """Returns the extent as nodes of float64. Products are then truncated to the same whole numbers as torchvision's Python floats."""
    return [fn.cast(n if isinstance(n, DataNode) else types.Constant(n, dtype=types.INT32), dtype=types.FLOAT64) for n in extent]


def _jittered(t: T.ScaleJitter, extent: Extent) -> Extent:
    height, width = _doubles(extent)
    scale = fn.random.uniform(range=list(t.scale_range))
    # The rest is computed in float32, because torchvision's scale is a float32 tensor.
    r = fn.cast(math.min(t.target_size[1] / height, t.target_size[0] / width), dtype=types.FLOAT) * scale
    return _whole(fn.cast(height, dtype=types.FLOAT) * r), _whole(fn.cast(width, dtype=types.FLOAT) * r)


def _shortest(t: T.RandomShortestSize, extent: Extent) -> Extent:
    height, width = _doubles(extent)
    size = fn.cast(
        fn.constant(idata=t.min_size, shape=[len(t.min_size)], dtype=types.INT32)[fn.random.choice(len(t.min_size))], dtype=types.FLOAT64
    )
    r = size / math.min(height, width)
    if t.max_size is not None:
        r = math.min(r, t.max_size / math.max(height, width))
    return _whole(height * r), _whole(width * r)


def _resized(t: T.RandomResize, extent: Extent) -> Extent:
    size = t.min_size + fn.cast(fn.random.choice(t.max_size - t.min_size), dtype=types.INT32)
    return resized(extent, size, None)


EXTENTS: dict[type[T.Transform], Callable[[Any, Extent], Extent]] = {
    T.RandomResize: _resized,
    T.RandomShortestSize: _shortest,
    T.ScaleJitter: _jittered,
}


def zoomed_out(t: T.RandomZoomOut, extent: Extent, gate: DataNode | None) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Returns the numbers of pixels to add to the image: (top, left) and (bottom, right). They are 0 for samples that are not zoomed out."""
    coin = fn.random.coin_flip(probability=t.p)
    coin = coin if gate is None else coin * gate
    scale = 1.0 + coin * (fn.random.uniform(range=list(t.side_range)) - 1.0)
    room = [fn.cast(math.floor(n * scale), dtype=types.INT32) - n for n in extent]
    before = [fn.cast(math.floor(r * fn.random.uniform(range=[0.0, 1.0])), dtype=types.INT32) for r in room]
    return (before[0], before[1]), (room[0] - before[0], room[1] - before[1])
