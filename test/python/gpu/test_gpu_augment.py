# SPDX-License-Identifier: Apache-2.0
"""The operator augment on the GPU, where the operator that reads its output may compute that output in the same pass. The bytes equal those of the cores,
and those of separate passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from both_sides import MEAN, STD, batches, difference
from stoker import fn, types
from support import SEED

OPERATIONS = 16


def draw_magnitude(rng: np.random.Generator, operation: int) -> float:
    """Returns a random magnitude that augment accepts for the operation: a shear, pixels, degrees, a factor, bits, or a threshold."""
    low, high = [
        (0, 0),
        (-1, 1),
        (-1, 1),
        (-40, 40),
        (-40, 40),
        (-180, 180),
        (0, 2),
        (0, 2),
        (0, 2),
        (0, 2),
        (0, 8),
        (0, 256),
        (0, 0),
        (0, 0),
        (0, 0),
        (0, 255),
    ][operation]
    return float(np.float32(rng.uniform(low, high)))


def compare(define: Callable[[list[Any]], Any], images: list[np.ndarray], rng: np.random.Generator, layout: str = "HWC") -> float:
    """Asserts that `define`, over the images with every operation, gives the same bytes on the cores, on the GPU, and on the GPU without fusion. Returns the
    number of augmented images that the GPU made in the pass of the operator that reads them."""
    operations = [np.array([k], np.int32) for k in range(OPERATIONS)]
    magnitudes = [np.array([draw_magnitude(rng, k)], np.float32) for k in range(OPERATIONS)]

    def whole() -> Any:
        source: Any = fn.external_source(iter([images]), batch=True, layout=layout)
        image = source.gpu()
        operation = fn.external_source(iter([operations]), batch=True)
        magnitude = fn.external_source(iter([magnitudes]), batch=True)
        return define([image, fn.augment(image, operation=operation, magnitude=magnitude, fill_value=[9.0, 99.0, 199.0])])

    counters: dict[str, int] = {}
    (cores,) = batches(whole, None, 1, batch_size=OPERATIONS)
    (gpu,) = batches(whole, 0, 1, counters, batch_size=OPERATIONS)
    (apart,) = batches(whole, 0, 1, batch_size=OPERATIONS, fuse=False)
    for x, y, z in zip(cores, gpu, apart, strict=True):
        assert not difference(x, y)
        assert y.data == z.data
    return counters["images_in_passes"]


def draw_images(rng: np.random.Generator, width: int, height: int) -> list[np.ndarray]:
    """Returns smooth images with noise, whose histograms have gaps."""
    slopes = rng.uniform(0, 255, (OPERATIONS, 1, 1, 3)) * np.linspace(0, 1, width)[:, None] * np.linspace(0.2, 1, height)[:, None, None]
    return list((slopes + rng.uniform(0, 20, slopes.shape)).clip(0, 255).astype(np.uint8))


@pytest.mark.parametrize("layout", ["CHW", "HWC"])
@pytest.mark.parametrize("dtype", [types.FLOAT, types.FLOAT16])
def test_every_operation(layout: str, dtype: types.DALIDataType) -> None:
    """Each operation gives the cores' bytes when it runs in the pass of crop_mirror_normalize. The images fill one thread block, or several with an incomplete
    last one. The rectangle that cutout fills may cross the border between two blocks."""
    rng = np.random.default_rng(SEED)
    for width, height in [(4, 1), (4 * int(rng.integers(2, 40)), int(rng.integers(2, 60))), (224, 97)]:
        print(width, height)
        hole = [
            int(rng.integers(0, width)),
            int(rng.integers(0, height)),
            int(rng.integers(0, width)) + 1,
            int(rng.integers(0, height)) + 1,
        ]

        def define(images: list[Any], hole: list[int] = hole) -> Any:
            made = fn.crop_mirror_normalize(images[1], mean=MEAN, std=STD, dtype=dtype, output_layout=layout)
            anchor, shape = [hole[1], hole[0]], [hole[3], hole[2]]
            return fn.cutout(made, anchor=anchor, shape=shape, fill_value=[0.5, -1.0, 2.0])

        assert compare(define, draw_images(rng, width, height), rng) == OPERATIONS - 1  # identity is a view, so only the others make pixels


def test_images_that_must_be_stored() -> None:
    """The image is stored if another operator or an output also reads it, if it is mirrored or cropped, or if its rows are not whole groups of four pixels."""
    rng = np.random.default_rng(SEED + 1)

    def normalize(image: Any, **how: Any) -> Any:
        return fn.crop_mirror_normalize(image, mean=MEAN, std=STD, **how)

    defines: list[tuple[Callable[[list[Any]], Any], int]] = [
        (lambda images: (normalize(images[1]), images[1]), 60),
        (lambda images: (normalize(images[1]), fn.flip(images[1])), 60),
        (lambda images: normalize(images[1], mirror=1), 60),
        (lambda images: normalize(images[1], crop=(20, 40)), 60),
        (lambda images: normalize(images[1]), 61),
        (lambda images: fn.flip(images[1]), 60),
    ]
    for define, width in defines:
        assert compare(define, draw_images(rng, width, 31), rng) == 0
