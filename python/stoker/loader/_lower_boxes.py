# SPDX-License-Identifier: Apache-2.0
"""Compiles the transforms that look at boxes: RandomIoUCrop, FixedSizeCrop and SanitizeBoundingBoxes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stoker import fn, math, types
from stoker import transforms as T
from stoker._where import notice
from stoker.data_node import DataNode
from stoker.loader._coordinates import Move, follow
from stoker.loader._follow import Followers
from stoker.loader._lower_values import seeds
from stoker.loader._random import mix


def xyxy(boxes: Any, format: str) -> Any:
    """Returns the boxes of an array as (x1, y1, x2, y2)."""
    import numpy as np

    first, second = boxes[:, :2], boxes[:, 2:]
    if format == "XYXY":
        return boxes
    low = first if format == "XYWH" else first - second / 2
    return np.concatenate([low, low + second], 1)


def window_of(
    boxes: Any, height: int, width: int, t: T.RandomIoUCrop, option: Callable[[int], int], two: Callable[[], Any]
) -> tuple[int, int, int, int] | None:
    """Returns the window (top, left, height, width) of torchvision's RandomIoUCrop, or None for the whole image. Computes in float32, as torch does.

    boxes: (N, 4) as XYXY. option: draws a whole number below its argument. two: draws two float32 from 0 to 1.
    """
    import numpy as np

    least, span = np.float32(t.min_scale), np.float32(t.max_scale - t.min_scale)
    middle = np.float32(0.5) * (boxes[:, :2] + boxes[:, 2:])
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    while True:
        overlap = t.sampler_options[option(len(t.sampler_options))]
        if overlap >= 1.0:
            return None
        for _ in range(t.trials):
            scale = least + span * two()
            new = int(np.float32(width) * scale[0]), int(np.float32(height) * scale[1])
            if not new[1] or not t.min_aspect_ratio <= new[0] / new[1] <= t.max_aspect_ratio:
                continue
            place = two()
            left, top = int(np.float32(width - new[0]) * place[0]), int(np.float32(height - new[1]) * place[1])
            window = np.array([left, top, left + new[0], top + new[1]], boxes.dtype)
            inside = ((window[:2] < middle) & (middle < window[2:])).all(1)
            if not new[0] or not inside.any():
                continue
            shared = (np.minimum(boxes[:, 2:], window[2:]) - np.maximum(boxes[:, :2], window[:2])).clip(0).prod(1)
            ious = shared / (areas + new[0] * new[1] - shared)
            if ious[inside].max() >= overlap:
                return top, left, new[1], new[0]


class _Window:
    """Draws the window of a sample. moves, format: of its boxes, which have moved before."""

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
            lambda: draws.random(2, np.float32),
        )
        return whole if found is None else np.array([*found, 1], np.int32)


def iou_window(t: T.RandomIoUCrop, followers: Followers | None, gate: DataNode | None) -> DataNode | None:
    """Returns a node with top, left, height, width of the window, and whether it is not the whole image. None: there are no boxes, so the images stay whole."""
    if followers is None or followers.boxes is None:
        notice("RandomIoUCrop leaves the images whole: the samples have no boxes. fields={'boxes': 'BoundingBoxes', ...} declares them")
        return None
    boxes, format = followers.boxes
    height, width = followers.extent
    extent = fn.stack(height, width) if isinstance(height, DataNode) else types.Constant([height, width], dtype=types.INT32)
    more = () if gate is None else (gate,)
    window: DataNode = fn.python_function(
        boxes, followers.numbers(), extent, seeds(), *more, function=_Window(t, followers.moves, format), output_layouts=""
    )
    return window


def fixed_window(t: T.FixedSizeCrop, followers: Followers) -> tuple[tuple[Any, Any], tuple[Any, Any], Any]:
    """Returns the place (top, left) of a window, the part (height, width) of the image that it shows, and whether it cuts anything off."""
    draw = fn.random.uniform(range=[0.0, 1.0])

    extent: list[Any] = [n if isinstance(n, DataNode) else types.Constant(n, dtype=types.INT32) for n in followers.extent]
    over = [math.max(n - wanted, 0) for n, wanted in zip(extent, t.size, strict=True)]
    place = [fn.cast(math.floor(fn.cast(o, dtype=types.FLOAT) * draw), dtype=types.INT32) for o in over]
    part = [math.min(n, wanted) for n, wanted in zip(extent, t.size, strict=True)]
    cut = fn.cast(over[0] + over[1] > 0, dtype=types.INT32)
    return (place[0], place[1]), (part[0], part[1]), cut
