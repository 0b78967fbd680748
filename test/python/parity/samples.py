# SPDX-License-Identifier: Apache-2.0
"""Inputs of the comparisons: images of random shapes, arrays of every type, arguments that vary by sample."""

from __future__ import annotations

import numpy as np
from harness import Batch

INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
COUNT = 3


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Returns random values over the whole range of the type; floats are from -0.1 to 1.1, to exceed the range 0..1 of images."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return rng.uniform(-0.1, 1.1, shape).astype(kind)
    if kind.kind == "b":
        return rng.integers(0, 2, shape).astype(kind)
    limits = np.iinfo(kind)
    return rng.integers(limits.min, limits.max, shape, dtype=kind, endpoint=True)


def smooth(rng: np.random.Generator, shape: tuple[int, ...], dtype: str = "uint8") -> np.ndarray:
    """Returns an image like a photograph: gradients, an edge, and noise."""
    height, width = shape[:2]
    y, x = np.mgrid[0:height, 0:width]
    base = (
        0.5 + 0.3 * np.sin(x * rng.uniform(0.05, 0.3)) * np.cos(y * rng.uniform(0.05, 0.3)) + 0.2 * ((x > width // 3) & (y > height // 2))
    )
    image = base.reshape(height, width, *([1] * (len(shape) - 2))) + rng.normal(0, 0.04, shape)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return image.astype(kind)
    limits = np.iinfo(kind)
    return np.clip(limits.min + image * (float(limits.max) - limits.min), limits.min, limits.max).astype(kind)


def images(
    rng: np.random.Generator, dtype: str = "uint8", channels: int = 3, layout: str = "HWC", low: int = 9, high: int = 90, count: int = COUNT
) -> Batch:
    """Returns photograph-like images of random sizes, in the layout HWC, CHW or HW."""
    made = []
    for _ in range(count):
        height, width = (int(v) for v in rng.integers(low, high, 2))
        image = smooth(rng, (height, width, channels), dtype)
        made.append(np.ascontiguousarray(image[..., 0] if layout == "HW" else image.transpose(2, 0, 1) if layout == "CHW" else image))
    return Batch(made, layout)


def tensors(
    rng: np.random.Generator, dtype: str, ndim: int, layout: str | None = None, low: int = 1, high: int = 9, count: int = COUNT
) -> Batch:
    return Batch([values(rng, tuple(int(v) for v in rng.integers(low, high, ndim)), dtype) for _ in range(count)], layout)


def per_sample(rows: object, dtype: str = "float32") -> Batch:
    """Returns an argument with one row for each sample."""
    return Batch([np.array(row, dtype) for row in rows])  # type: ignore[attr-defined]


def uniform(rng: np.random.Generator, low: float, high: float, shape: tuple[int, ...] = (), count: int = COUNT) -> Batch:
    return per_sample([rng.uniform(low, high, shape) for _ in range(count)])
