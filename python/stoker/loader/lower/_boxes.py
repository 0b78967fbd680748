# SPDX-License-Identifier: Apache-2.0
"""Rules of the transforms whose window depends on boxes, or that remove boxes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stoker import fn, math, types
from stoker import transforms as T
from stoker._where import notice
from stoker.data_node import DataNode
from stoker.loader._coordinates import Move, follow
from stoker.loader._random import mix
from stoker.loader.lower._functions import seeds
from stoker.loader.lower._moves import SIZED
from stoker.loader.lower._rules import Gate, Image, lowers


def xyxy(boxes: Any, format: str) -> Any:
    """Converts an array of boxes to (x1, y1, x2, y2). format: "XYXY", "XYWH" or "CXCYWH". Returns the array itself for "XYXY"."""
    import numpy as np

    first, second = boxes[:, :2], boxes[:, 2:]
    if format == "XYXY":
        return boxes
    low = first if format == "XYWH" else first - second / 2
    return np.concatenate([low, low + second], 1)


def extents_of(scales: Any, height: int, width: int, t: T.RandomIoUCrop) -> tuple[Any, Any]:
    """Returns the extents of N windows, an array (N, 2) of widths and heights, and an array (N) that says which of them t allows. scales: random numbers, an
    array (N, 2); 0 stands for t.min_scale, 1 for t.max_scale."""
    import numpy as np

    least, span = np.float32(t.min_scale), np.float32(t.max_scale - t.min_scale)
    new = (np.array([width, height], np.float32) * (least + span * scales)).astype(np.int64)
    ratios = new[:, 0] / np.maximum(new[:, 1], 1)
    return new, (new > 0).all(1) & (ratios >= t.min_aspect_ratio) & (ratios <= t.max_aspect_ratio)


def window_of(
    boxes: Any, height: int, width: int, t: T.RandomIoUCrop, option: Callable[[int], int], trials: Callable[[int], tuple[Any, Any]]
) -> tuple[int, int, int, int] | None:
    """Returns the window (top, left, height, width) of torchvision's RandomIoUCrop, or None for the whole image. Computes in float32, as torch does, all
    trials of an option at once.

    boxes: (N, 4) as XYXY. option: draws a whole number below its argument. trials: draws scales and positions of n windows, each float32 (n, 2) from 0 to 1.
    """
    import numpy as np

    middle = np.float32(0.5) * (boxes[:, :2] + boxes[:, 2:])
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    while True:
        overlap = t.sampler_options[option(len(t.sampler_options))]
        if overlap >= 1.0:
            return None
        if not len(boxes):
            continue
        scales, positions = trials(t.trials)
        new, allowed = extents_of(scales, height, width, t)
        start = ((np.array([width, height]) - new).astype(np.float32) * positions).astype(np.int64)
        low, high = start[:, None].astype(boxes.dtype), (start + new)[:, None].astype(boxes.dtype)
        inside = ((low < middle) & (middle < high)).all(2)
        shared = (np.minimum(boxes[:, 2:], high) - np.maximum(boxes[:, :2], low)).clip(0).prod(2)
        ious = shared / np.maximum(areas + new.prod(1)[:, None].astype(boxes.dtype) - shared, np.float32(1e-12))
        best = np.where(inside, ious, -1).max(1)
        good = np.flatnonzero(allowed & inside.any(1) & (best >= overlap))
        if len(good):
            k = good[0]
            return int(start[k, 1]), int(start[k, 0]), int(new[k, 1]), int(new[k, 0])


class _Window:
    """A function for fn.python_function that draws the window of a sample. A call returns five numbers: top, left, height, width, and 0 if the window is the
    whole image, else 1. moves: the earlier moves of the image, which a call first applies to the boxes. format: the format of the boxes."""

    def __init__(self, t: T.RandomIoUCrop, moves: Sequence[Move], format: str) -> None:
        self.t, self.moves, self.format = t, tuple(moves), format

    def __call__(self, boxes: Any, numbers: Any, extent: Any, seeds: Any, gate: Any = 1) -> Any:
        import numpy as np
        import torch

        height, width = int(extent[0]), int(extent[1])
        whole = np.array([0, 0, height, width, 0], np.int32)
        if not int(gate):
            return whole
        moved = follow([boxes], torch.from_numpy(np.array(numbers))[None], self.moves, self.format)[0].numpy() if self.moves else boxes
        moved = moved if moved.dtype.kind == "f" else moved.astype(np.float32)
        draws = np.random.Generator(np.random.Philox(key=mix(int(seeds[0]), int(seeds[1]))))
        found = window_of(
            xyxy(moved.reshape(-1, 4), self.format),
            height,
            width,
            self.t,
            lambda n: int(draws.integers(n)),
            lambda n: (draws.random((n, 2), np.float32), draws.random((n, 2), np.float32)),
        )
        return whole if found is None else np.array([*found, 1], np.int32)


@lowers(T.RandomIoUCrop, takes_floats=True, draws_size=True, needs_boxes=True, knows_size=False)
def _iou_crop(image: Image, t: T.RandomIoUCrop, gate: Gate) -> Image:
    followers = image.followers
    if followers is None or followers.boxes is None:
        notice("RandomIoUCrop leaves the images whole: the samples have no boxes. fields={'boxes': 'BoundingBoxes', ...} declares them")
        return image
    boxes, format = followers.boxes
    height, width = followers.extent
    extent = fn.stack(height, width) if isinstance(height, DataNode) else types.Constant([height, width], dtype=types.INT32)
    more = () if gate is None else (gate,)
    window = fn.python_function(
        boxes, followers.numbers(), extent, seeds(), *more, function=_Window(t, followers.moves, format), output_layouts=""
    )
    return image.moved(followers.crop_of_boxes(image.node, window), None)


@lowers(T.FixedSizeCrop, **SIZED)
def _fixed_size_crop(image: Image, t: T.FixedSizeCrop, gate: Gate) -> Image:
    followers = image.moving()
    draw = fn.random.uniform(range=[0.0, 1.0])
    extent: list[Any] = [n if isinstance(n, DataNode) else types.Constant(n, dtype=types.INT32, device="cpu") for n in followers.extent]
    over = [math.max(n - wanted, 0) for n, wanted in zip(extent, t.size, strict=True)]
    top, left = (fn.cast(math.floor(fn.cast(o, dtype=types.FLOAT) * draw), dtype=types.INT32) for o in over)
    height, width = (math.min(n, wanted) for n, wanted in zip(extent, t.size, strict=True))
    cut = fn.cast(over[0] + over[1] > 0, dtype=types.INT32)
    return image.moved(followers.crop_and_pad(image.as_field(), t, image.byte_of_one, (top, left), (height, width), cut), t.size)


@lowers(T.SanitizeBoundingBoxes, in_groups=False, takes_floats=True)
def _sanitized(image: Image, t: T.SanitizeBoundingBoxes, gate: Gate) -> Image:
    if image.followers is not None and image.followers.boxes is not None:
        image.followers.sanitize(t)
    return image
