# SPDX-License-Identifier: Apache-2.0
"""Rules of RandomPerspective, ElasticTransform, and the transforms whose output has a random extent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stoker import fn, math, types
from stoker import transforms as T
from stoker.data_node import DataNode
from stoker.loader.lower._affine import as_node
from stoker.loader.lower._follow import Extent, Field, as_size, resized
from stoker.loader.lower._moves import filters_of
from stoker.loader.lower._rules import Gate, Image, coin, lowers, where


def _draw_below(most: Any) -> DataNode:
    """Draws a whole number from 0 to most - 1, as a node of floats."""
    draw: DataNode = math.min(math.floor(fn.random.uniform(range=[0.0, 1.0]) * most), most - 1)
    return draw


# ---- perspective ----


def corners(t: T.RandomPerspective, extent: Extent, gate: Gate) -> DataNode:
    """Returns a node with the perspective matrix from points of the image to points of the output: the image's corners move inwards to random points, or stay
    if the gate is 0."""
    height, width = (as_node(n) for n in extent)

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
    matrix: DataNode = fn.stack(*(as_node(v) for a, b, c in columns for v in (a / right, b / bottom, c)))
    return matrix


def perspective(node: DataNode, matrix: DataNode, interpolation: Any, fill: float, floats: bool = False) -> DataNode:
    """Warps an image. matrix: a node with the map from points of the image to points of the output. Bilinear pixels of bytes equal Pillow's: the fill begins
    sharply at the image's edge. Floats are mixed with the fill at the edge, as in _affine.warp."""
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


@lowers(T.RandomPerspective, takes_floats=True, takes_clips=True)
def _perspective(image: Image, t: T.RandomPerspective, gate: Gate) -> Image:
    gate = gate if t.p == 1 else coin(t.p, gate)
    matrix = corners(t, image.moving_size(), gate)

    def change(field: Field) -> DataNode:
        interpolation, fill = field.interpolation(t.interpolation), field.fill(t, image.byte_of_one)[0]
        return where(gate, field.node, lambda n: perspective(n, matrix, interpolation, fill, field.in_floats))

    if image.followers is not None:
        image.followers.perspective(repr(t), matrix, change)
    return image.changed(change(image.as_field()))


# ---- elastic ----


def displacements(t: T.ElasticTransform, extent: Extent, gpu: bool) -> tuple[DataNode, DataNode]:
    """Draws by how many pixels each pixel of an image is displaced. Returns two nodes: along x, and along y. gpu: whether they shall be on the GPU."""
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
    """Moves the pixels of an image. moved: the result of displacements(). floats: the image has floats; else uint8.

    As in torchvision, a bilinear pixel p at the edge is computed with zeros outside of the image, then mixed with the fill: inside * p + (1 - inside) * fill.
    `inside` is the share of its weights that lies inside of the image.
    """

    def remap(source: DataNode, values: list[float]) -> DataNode:
        made: DataNode = fn.experimental.remap(source, *moved, relative=True, interp=interpolation, fill_value=values)
        return made

    if interpolation == types.INTERP_NN:
        return remap(node, fill)
    inside = remap(fn.cast(fn.ones_like(node), dtype=types.FLOAT), [0.0])
    outside = fn.constant(fdata=fill, shape=[len(fill)], dtype=types.FLOAT)
    mixed: DataNode = inside * (remap(node, [0.0]) - outside) + outside
    return mixed if floats else fn.cast(mixed, dtype=types.UINT8)


@lowers(T.ElasticTransform, takes_floats=True, takes_clips=True)
def _elastic(image: Image, t: T.ElasticTransform, gate: Gate) -> Image:
    extent, gpu = image.moving_size(), image.node.device == "gpu"
    # Without followers, `moved` makes the displacements, only for samples whose gate is 1.
    drawn = None if image.followers is None else displacements(t, extent, gpu)

    def change(field: Field) -> DataNode:
        def moved(node: DataNode) -> DataNode:
            by = displacements(t, extent, gpu) if drawn is None else drawn
            return elastic(node, by, field.interpolation(t.interpolation), field.fill(t, image.byte_of_one), field.in_floats)

        return where(gate, field.node, moved)

    if image.followers is not None:
        image.followers.displace(repr(t), change)
    return image.changed(change(image.as_field()))


# ---- extents ----


def _whole(value: DataNode) -> DataNode:
    extent: DataNode = fn.cast(math.max(math.floor(value), 1.0), dtype=types.INT32)
    return extent


def _doubles(extent: Extent) -> list[DataNode]:
    """Returns the extent as nodes of float64. Products are then truncated to the same whole numbers as torchvision's Python floats."""
    return [fn.cast(n if isinstance(n, DataNode) else types.Constant(n, dtype=types.INT32), dtype=types.FLOAT64) for n in extent]


# Attributes of the rules (see _rules.Rule) of transforms that resize to a drawn extent.
_RESIZED: dict[str, Any] = {"in_groups": False, "takes_floats": True, "knows_size": False}


def _to_extent(image: Image, t: Any, drawn: Callable[[Extent], Extent]) -> Image:
    """Resizes an image and its followers. drawn: a function from the image's extent to the new one."""
    followers, filters = image.moving(), filters_of(t)
    followers.resize_to(drawn(followers.extent), filters)
    return image.moved(fn.resize(image.node, size=as_size(followers.extent), **filters), None)


@lowers(T.ScaleJitter, **_RESIZED, draws_size=lambda t: t.scale_range[0] < t.scale_range[1])
def _scale_jitter(image: Image, t: T.ScaleJitter, gate: Gate) -> Image:
    def drawn(extent: Extent) -> Extent:
        height, width = _doubles(extent)
        scale = fn.random.uniform(range=list(t.scale_range))
        # The rest is computed in float32, because torchvision's scale is a float32 tensor.
        r = fn.cast(math.min(t.target_size[1] / height, t.target_size[0] / width), dtype=types.FLOAT) * scale
        return _whole(fn.cast(height, dtype=types.FLOAT) * r), _whole(fn.cast(width, dtype=types.FLOAT) * r)

    return _to_extent(image, t, drawn)


@lowers(T.RandomShortestSize, **_RESIZED, draws_size=lambda t: len(set(t.min_size)) > 1)
def _shortest_size(image: Image, t: T.RandomShortestSize, gate: Gate) -> Image:
    def drawn(extent: Extent) -> Extent:
        height, width = _doubles(extent)
        sizes = fn.constant(idata=t.min_size, shape=[len(t.min_size)], dtype=types.INT32)
        r = fn.cast(sizes[fn.random.choice(len(t.min_size))], dtype=types.FLOAT64) / math.min(height, width)
        if t.max_size is not None:
            r = math.min(r, t.max_size / math.max(height, width))
        return _whole(height * r), _whole(width * r)

    return _to_extent(image, t, drawn)


@lowers(T.RandomResize, **_RESIZED, draws_size=lambda t: t.max_size - t.min_size > 1)  # max_size itself is never drawn
def _random_resize(image: Image, t: T.RandomResize, gate: Gate) -> Image:
    def drawn(extent: Extent) -> Extent:
        return resized(extent, t.min_size + fn.cast(fn.random.choice(t.max_size - t.min_size), dtype=types.INT32), None)

    return _to_extent(image, t, drawn)


@lowers(
    T.RandomZoomOut,
    takes_floats=True,
    draws_size=lambda t: t.p > 0 and (t.p < 1 or t.side_range[0] < t.side_range[1]),
    knows_size=False,
)
def _zoom_out(image: Image, t: T.RandomZoomOut, gate: Gate) -> Image:
    """Pads the image. Samples that are not zoomed out get 0 pixels on each side."""
    followers = image.moving()
    scale = 1.0 + coin(t.p, gate) * (fn.random.uniform(range=list(t.side_range)) - 1.0)
    room = [fn.cast(math.floor(n * scale), dtype=types.INT32) - n for n in followers.extent]
    before = [fn.cast(math.floor(r * fn.random.uniform(range=[0.0, 1.0])), dtype=types.INT32) for r in room]
    top, left = before
    return image.moved(followers.pad(image.as_field(), t, image.byte_of_one, (top, left), (room[0] - top, room[1] - left)), None)
