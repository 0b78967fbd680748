# SPDX-License-Identifier: Apache-2.0
"""Two special cases on the GPU: reductions of bytes by several thread blocks, and adjacent samples as one job. NumPy gives the expected values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from driver_consumer import Driver
from stoker import Pipeline, fn, types
from test_gpu_tensors import OnGpu

REDUCTIONS: dict[str, Callable[[np.ndarray, tuple[int, ...]], np.ndarray]] = {
    "sum": lambda x, axes: x.sum(axes, np.uint64),
    "mean": lambda x, axes: x.mean(axes),
    "mean_square": lambda x, axes: (x.astype(np.float64) ** 2).mean(axes),
    "rms": lambda x, axes: np.sqrt((x.astype(np.float64) ** 2).mean(axes)),
    "min": lambda x, axes: x.min(axes),
    "max": lambda x, axes: x.max(axes),
}


def run(samples: Any, define: Callable[[Any], Any], device: str, batches: int = 3) -> list[Any]:
    """Returns the outputs of the last batch. By then the library knows the usual shapes. With device "gpu" the samples may be a list or one array on the
    GPU."""
    pipe = Pipeline(batch_size=len(samples), num_threads=2, device_id=0 if device == "gpu" else None, prefetch_queue_depth=1)
    with pipe:
        pipe.set_outputs(*define(fn.external_source(source=lambda: samples, device=device, no_copy=True)))
    for _ in range(batches):
        outputs = pipe.run()
    return [[o.as_cpu().at(i) for i in range(len(samples))] for o in outputs]


def assert_sides_equal(samples: list[np.ndarray], define: Callable[[Any], Any]) -> list[Any]:
    gpu, cores = run(samples, define, "gpu"), run(samples, define, "cpu")
    for a, b in zip(gpu, cores, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)
    return gpu


# A thread block reads 98304 bytes in pieces of 16, and bytes before and after the pieces one by one.
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 6, 12, 13])
def test_bytes_reduced(channels: int) -> None:
    seed = 40 + channels
    rng = np.random.default_rng(seed)
    print("seed", seed)
    shapes = [(int(rng.integers(25, 60)), int(rng.integers(45, 90)), channels) for _ in range(3)] + [(211, 487 // channels + 1, channels)]
    samples = [rng.integers(0, rng.integers(2, 257), shape, dtype=np.uint8) for shape in shapes]
    samples[1][:] = 255
    for axes in ((0, 1), (2,), (0, 1, 2), (1, 2)):

        def define(x: Any, axes: tuple[int, ...] = axes) -> Any:
            return tuple(getattr(fn.reductions, name)(x, axes=list(axes)) for name in REDUCTIONS)

        for name, found in zip(REDUCTIONS, assert_sides_equal(samples, define), strict=True):
            for sample, got in zip(samples, found, strict=True):
                want = REDUCTIONS[name](sample, axes)
                if name in ("sum", "min", "max"):
                    np.testing.assert_array_equal(got, want, err_msg=f"{name} {axes} {sample.shape}")
                else:
                    np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-5, err_msg=f"{name} {axes} {sample.shape}")


@pytest.mark.parametrize("channels", [1, 3, 4, 5])
def test_bytes_normalised(channels: int) -> None:
    """normalize gives the same values on the cores and on the GPU, whether mean and deviation are computed, from sums of bytes and of their squares, or one or
    both are given."""
    seed = 50 + channels
    rng = np.random.default_rng(seed)
    print("seed", seed)
    samples = [rng.integers(0, 256, (int(rng.integers(30, 70)), int(rng.integers(45, 90)), channels), dtype=np.uint8) for _ in range(4)]
    samples[1][:] = 77  # all values are equal
    samples[2][:] = 200
    samples[2][3, 4] = 201  # all values but those of one pixel are equal
    shift, scale = 3.0, 20.0

    def define(x: Any) -> Any:
        return (
            fn.normalize(x, axes=[0, 1]),
            fn.normalize(x),
            fn.normalize(x, axes=[2]),
            fn.normalize(x, axes=[0, 1], shift=shift, scale=scale, ddof=1, dtype=types.UINT8),
            fn.normalize(x, mean=120.0, stddev=60.0),
            fn.normalize(x, mean=120.0, stddev=60.0, shift=shift, scale=scale, dtype=types.UINT8),
            fn.normalize(x, mean=120.0),
            fn.normalize(x, stddev=60.0, dtype=types.FLOAT16),
        )

    found = assert_sides_equal(samples, define)
    for sample, (i, got) in zip(samples, enumerate(found[0]), strict=True):
        x = sample.astype(np.float64)
        deviation = x.std((0, 1))
        want = np.divide(x - x.mean((0, 1)), deviation, out=np.zeros_like(x), where=deviation > 0)
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(found[4][i], (x - 120) / 60, rtol=1e-6, atol=1e-6)


def arithmetic(x: Any) -> Any:
    return (
        x * 2 + 1,
        x - np.float32(0.5),
        x / 3.0,
        x + x,
        fn.cast(x, dtype=types.FLOAT),
        fn.cast(x, dtype=types.INT16),
        fn.reshape(x, shape=[-1]),
        fn.cat(x, x, axis=0),
        fn.stack(x, x),
        fn.normalize(x, mean=7.0, stddev=3.0),
    )


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", "int32", "float16", "float32"])
def test_adjacent_samples_are_one_job(dtype: str) -> None:
    """Samples of one array are one job, even if their size in bytes is odd. In a list of samples of different shapes, each sample is a job."""
    rng, driver = np.random.default_rng(60), Driver()
    for shape in ((4, 33, 41, 3), (5, 3, 7), (3, 64, 129), (2, 1), (3, 5000)):
        whole = rng.integers(0, 100, shape).astype(dtype)
        parts = [rng.integers(0, 100, (int(rng.integers(1, 40)), 11)).astype(dtype) for _ in range(4)]
        for samples, given in ((list(whole), OnGpu(driver, whole)), (parts, [OnGpu(driver, p) for p in parts])):
            for got, want in zip(run(given, arithmetic, "gpu"), run(samples, arithmetic, "cpu"), strict=True):
                for a, b in zip(got, want, strict=True):
                    assert a.dtype == b.dtype
                    np.testing.assert_array_equal(a, b, err_msg=f"seed 60, {shape}")
