# SPDX-License-Identifier: Apache-2.0
"""Operators over windows that DALI has only on a GPU, compared with SciPy: experimental.dilate, erode and median_blur."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import Batch, library, rng_of
from samples import images

ndimage = pytest.importorskip("scipy.ndimage")
pytestmark = pytest.mark.peer

BORDERS = {"replicate": "nearest", "reflect": "reflect", "reflect_101": "mirror", "wrap": "wrap"}


def run(op: str, batch: Batch, **kwargs: Any) -> list[np.ndarray]:
    lib = library("stoker")
    pipe = lib.Pipeline(batch_size=len(batch), num_threads=1, device_id=None)
    with pipe:
        pipe.set_outputs(lib.operator(f"experimental.{op}")(lib.resolve(batch), **kwargs))
    (out,) = pipe.run()
    return [np.array(out.at(i)) for i in range(len(batch))]


@pytest.mark.parametrize("op", ["dilate", "erode"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "float32"])
def test_dilate_and_erode_equal_scipy(op: str, dtype: str) -> None:
    rng = rng_of("morphology", dtype)
    extreme = ndimage.maximum_filter if op == "dilate" else ndimage.minimum_filter
    for border, mode in [*BORDERS.items(), ("constant", "constant")]:
        for (width, height), (x, y), times in (((3, 3), (-1, -1), 1), ((5, 2), (-1, -1), 1), ((4, 7), (0, 6), 1), ((3, 5), (-1, -1), 3)):
            batch = images(rng, dtype, low=12, high=40)
            got = run(op, batch, mask_size=[width, height], anchor=[x, y], border_mode=border, iterations=times)
            x, y = width // 2 if x < 0 else x, height // 2 if y < 0 else y
            for image, ours in zip(batch.samples, got, strict=True):
                wide = image.astype(np.float64)
                for _ in range(times):
                    edge = -np.inf if op == "dilate" else np.inf
                    origin = (y - height // 2, x - width // 2, 0)
                    wide = extreme(wide, (height, width, 1), mode=mode, cval=edge, origin=origin)
                assert (ours == wide.astype(dtype)).all(), f"{op} {dtype} {border} {width} x {height} at {x}, {y}, {times} times"


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "float32"])
def test_medians_equal_scipy(dtype: str) -> None:
    rng = rng_of("median", dtype)
    for layout in ("HWC", "HW"):
        for size in (1, 3, [5, 3], [3, 7], 11):
            width, height = (size, size) if isinstance(size, int) else size
            batch = images(rng, dtype, layout=layout, low=1, high=40)
            for image, ours in zip(batch.samples, run("median_blur", batch, window_size=size), strict=True):
                want = ndimage.median_filter(image, (height, width, *([1] * (image.ndim - 2))), mode="nearest")
                assert (ours == want).all(), f"{dtype} {layout} {size}"


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_nans_of_either_sign_are_the_largest_of_a_window(dtype: str) -> None:
    """median_blur treats NaNs as larger than all numbers, whatever their sign bit, which depends on the processor that made them."""
    rng = rng_of("nans", dtype)
    for image in images(rng, "float32", low=1, high=40).samples:
        nans = rng.random(image.shape) < 0.4
        given = np.where(nans, np.copysign(np.nan, rng.choice([-1, 1], image.shape)), image).astype(dtype)
        for size in (3, 5, 7):
            (ours,) = run("median_blur", Batch([given], "HWC"), window_size=size)
            want = ndimage.median_filter(np.where(nans, np.inf, image).astype(dtype).astype("float32"), (size, size, 1), mode="nearest")
            np.testing.assert_array_equal(ours, np.where(np.isinf(want), np.nan, want).astype(dtype), f"{dtype} {size}")


@pytest.mark.parametrize(
    ("op", "bad"),
    [
        ("median_blur", {"window_size": 4}),
        ("median_blur", {"window_size": [3, 3, 3]}),
        ("dilate", {"mask_size": [3, 3], "anchor": [3, 0]}),
        ("erode", {"mask_size": 0}),
        ("erode", {"border_mode": "none"}),
        ("erode", {"iterations": 0}),
    ],
)
def test_wrong_windows_are_refused(op: str, bad: dict[str, Any]) -> None:
    from stoker.errors import StokerError

    with pytest.raises((StokerError, ValueError)):
        run(op, images(rng_of("errors")), **bad)


@pytest.mark.parametrize("op", ["dilate", "erode", "median_blur"])
@pytest.mark.parametrize("layout", ["CWH", "WHC", "HCW"])
def test_columns_before_rows_are_refused(op: str, layout: str) -> None:
    from stoker.errors import StokerError

    batch = Batch([np.zeros((3, 5, 7), np.uint8)] * 2, layout)
    with pytest.raises(StokerError, match=f'"{layout}"'):
        run(op, batch)
