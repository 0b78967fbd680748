# SPDX-License-Identifier: Apache-2.0
"""Operators on images whose kernels on the GPU work on tiles, words or whole pixels. Images of random channels, types, layouts and borders, some with
extents near those of a tile, give the same bytes as on the cores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both_sides import assert_sides_agree
from stoker import fn, types
from support import SEED

DTYPES = [np.uint8, np.uint8, np.float32, np.int16, np.uint16]


def images(rng: np.random.Generator, dtype: Any, channels: int, layout: str = "HWC", tall: int = 70, wide: int = 180) -> list[np.ndarray]:
    """Returns three images of random extents, or sequences of two frames for FHWC. The second is at most 5 pixels high, the third at most 5 wide."""
    made = []
    for i in range(3):
        h, w = int(rng.integers(1, 6 if i == 1 else tall)), int(rng.integers(1, 6 if i == 2 else wide))
        shape = {"HWC": (h, w, channels), "CHW": (channels, h, w), "HW": (h, w), "FHWC": (2, h, w, channels)}[layout]
        values = rng.uniform(-300, 600, shape) if np.dtype(dtype).kind == "f" else rng.integers(0, 256, shape)
        # no NaNs, and no values that become NaN, since the bits of a NaN are undefined
        if np.dtype(dtype).kind == "f" and rng.random() < 0.3:
            values.flat[int(rng.integers(values.size))] = [-0.0, 1e30, -1e-40][int(rng.integers(3))]
        made.append(values.astype(dtype))
    return made


def agree(rng: np.random.Generator, batch: list[np.ndarray], layout: str, make: Any, title: str) -> None:
    def define() -> Any:
        return make(fn.external_source(source=[batch], cycle=True, layout=layout).gpu())

    assert_sides_agree(define, 1, f"{title} of {batch[0].dtype} {[b.shape for b in batch]}:", batch_size=len(batch))


def odd(rng: np.random.Generator, most: int) -> int:
    return 2 * int(rng.integers(0, most // 2 + 1)) + 1


def pick(rng: np.random.Generator, values: Any) -> Any:
    return values[int(rng.integers(len(values)))]


def channels_of(rng: np.random.Generator) -> int:
    return int(pick(rng, [1, 2, 3, 3, 3, 4, 5, 7, 33]))


@pytest.mark.parametrize("number", range(12))
def test_sums_over_separable_windows(number: int) -> None:
    rng = np.random.default_rng([SEED, number, 1])
    layout = pick(rng, ["HWC", "HWC", "CHW", "HW", "FHWC"])
    batch = images(rng, pick(rng, DTYPES), channels_of(rng), layout)
    out = pick(rng, [None, types.FLOAT])
    if number % 2:
        sizes = [odd(rng, 29), odd(rng, 29)] if number % 3 else [pick(rng, [1, 3, 5, 7, 9, 61])] * 2
        agree(rng, batch, layout, lambda x: fn.gaussian_blur(x, window_size=sizes, sigma=1.7, dtype=out), f"gaussian_blur {sizes}")
    else:
        size, smooth = odd(rng, 11) + 2, odd(rng, 9)
        agree(
            rng, batch, layout, lambda x: fn.laplacian(x, window_size=size, smoothing_size=smooth, dtype=out), f"laplacian {size} {smooth}"
        )


@pytest.mark.parametrize("number", range(8))
def test_least_and_largest(number: int) -> None:
    rng = np.random.default_rng([SEED, number, 2])
    batch = images(rng, pick(rng, [np.uint8, np.float32, np.uint16]), int(pick(rng, [1, 3, 4])))
    op, size = pick(rng, ["dilate", "erode"]), [int(v) for v in rng.integers(1, 8, 2)]
    border = pick(rng, ["constant", "replicate", "reflect", "reflect_101", "wrap"])
    agree(
        rng,
        batch,
        "HWC",
        lambda x: getattr(fn.experimental, op)(x, mask_size=[3, 3] if number % 2 else size, border_mode=border, iterations=1 + number % 2),
        f"{op} {size} {border}",
    )


@pytest.mark.parametrize("number", range(10))
def test_dense_windows(number: int) -> None:
    rng = np.random.default_rng([SEED, number, 3])
    layout = pick(rng, ["HWC", "HWC", "CHW", "HW"])
    batch = images(rng, pick(rng, DTYPES), channels_of(rng), layout)
    size = pick(rng, [[3, 3], [7, 7], [5, 5], [int(v) for v in rng.integers(1, 12, 2)]])
    weights = rng.normal(size=size).astype(np.float32)
    border = pick(rng, ["reflect_101", "reflect_1001", "clamp", "wrap", "constant"])
    agree(rng, batch, layout, lambda x: fn.filter(x, types.Constant(weights, device="gpu"), border=border), f"filter {size} {border}")


@pytest.mark.parametrize("number", range(18))
def test_dense_windows_of_words(number: int) -> None:
    """fn.filter gives the cores' bytes for small windows over RGB images of bytes whose output rows are whole words. For these the GPU has a kernel in which
    each thread computes a column of words."""
    rng = np.random.default_rng([SEED, number, 12])
    size, valid = [3, 5, 7][number % 3], rng.random() < 0.3
    frames = [2] if rng.random() < 0.2 else []
    batch = []
    for tall, wide in ((80, 50), (9, 300), (3, 3)):
        h, w = int(rng.integers(1, tall)), 4 * int(rng.integers(1, max(wide // 4, 2)))
        more = size - 1 if valid else 0
        batch.append(rng.integers(0, 256, (*frames, h + more, w + more, 3), dtype=np.uint8))
    weights = rng.normal(size=(size, size)).astype(np.float32)
    border = pick(rng, ["reflect_101", "reflect_1001", "clamp", "wrap", "constant"])
    given = {"border": border, "mode": "valid" if valid else "same", "anchor": [int(v) for v in rng.integers(-1, size, 2)]}
    fill = [types.Constant(np.array(77, np.uint8), device="gpu")] if border == "constant" and not valid else []

    def define() -> Any:
        layout = "FHWC" if frames else "HWC"
        x = fn.external_source(source=[batch], cycle=True, layout=layout, dtype=types.UINT8).gpu()
        return fn.filter(x, types.Constant(weights, device="gpu"), *fill, **given)

    title = f"filter {size} {given} of {[b.shape for b in batch]}:"
    assert_sides_agree(define, 1, title, batch_size=len(batch))


@pytest.mark.parametrize("number", range(20))
def test_extremes_of_words(number: int) -> None:
    """Dilation and erosion give the cores' bytes for small windows over RGB images of bytes whose rows are whole words. For these the GPU has a kernel in which
    each thread computes a column of words."""
    rng = np.random.default_rng([SEED, number, 13])
    mask, times = [(3, 1), (5, 1), (7, 1), (3, 2), (3, 3)][number % 5]
    size, frames = (mask - 1) * times + 1, [2] if rng.random() < 0.2 else []
    batch = []
    for tall, wide in ((80, 50), (9, 300), (size, size + 2)):
        h, w = int(rng.integers(1, tall)), 4 * int(rng.integers(1, wide // 4 + 1))
        batch.append(rng.integers(0, 256, (*frames, h, w, 3), dtype=np.uint8))
    op, border = pick(rng, ["dilate", "erode"]), pick(rng, ["constant", "replicate", "reflect", "reflect_101", "wrap"])
    given = {"mask_size": mask, "anchor": [int(v) for v in rng.integers(-1, mask, 2)], "iterations": times, "border_mode": border}
    agree(rng, batch, "FHWC" if frames else "HWC", lambda x: getattr(fn.experimental, op)(x, **given), f"{op} {given}")


@pytest.mark.parametrize("number", range(8))
def test_medians_equal_those_of_the_cores(number: int) -> None:
    rng = np.random.default_rng([SEED, number, 4])
    batch = images(rng, pick(rng, [np.uint8, np.float32, np.uint16]), int(pick(rng, [1, 3, 4])), tall=40, wide=90)
    size = [[3, 3], [5, 5], [7, 3], [3, 3]][number % 4]
    agree(rng, batch, "HWC", lambda x: fn.experimental.median_blur(x, window_size=size), f"median_blur {size}")


def sample(rng: np.random.Generator, x: Any, kind: str, interp: Any, fill: float) -> Any:
    given = {"interp_type": interp, "fill_value": fill}
    if kind == "water":
        return fn.water(x, ampl_x=7.0, ampl_y=4.5, freq_x=0.1, freq_y=0.07, phase_x=0.3, phase_y=1.1, **given)
    if kind == "sphere":
        return fn.sphere(x, **given)
    if kind == "jitter":
        return fn.jitter(x, nDegree=5, **{k: v for k, v in given.items() if interp == types.INTERP_NN or k != "interp_type"})
    matrix = [1.0, 0.1, -2.0, 0.05, 0.9, 3.0, 0.001, 0.0005, 1.0]
    return fn.experimental.warp_perspective(x, matrix=matrix, interp_type=interp, border_mode="constant", fill_value=fill)


@pytest.mark.parametrize("kind", ["water", "sphere", "jitter", "warp_perspective"])
@pytest.mark.parametrize("number", range(4))
def test_sampled_images_equal_those_of_the_cores(kind: str, number: int) -> None:
    rng = np.random.default_rng([SEED, number, 5, len(kind)])
    layout = "HWC"
    batch = images(rng, pick(rng, [np.uint8, np.float32] if kind != "jitter" else [np.uint8]), int(pick(rng, [1, 3, 3, 4])), layout)
    interp, fill = pick(rng, [types.INTERP_NN, types.INTERP_LINEAR]), float(rng.integers(0, 200))
    agree(rng, batch, layout, lambda x: sample(rng, x, kind, interp, fill), f"{kind} {interp!r}")


@pytest.mark.parametrize("number", range(8))
def test_affine_warps(number: int) -> None:
    rng = np.random.default_rng([SEED, number, 6])
    batch = images(rng, pick(rng, [np.uint8, np.float32, np.int16]), int(pick(rng, [1, 3, 4, 6])))
    matrix = [float(v) for v in rng.uniform(-1, 1, 6) * [1.2, 1.2, 30, 1.2, 1.2, 30]]
    interp = pick(rng, [types.INTERP_NN, types.INTERP_LINEAR])
    fill = {} if number % 2 else {"fill_value": 9.0}
    agree(rng, batch, "HWC", lambda x: fn.warp_affine(x, matrix=matrix, interp_type=interp, **fill), f"warp_affine {interp!r} {fill}")
    agree(rng, batch, "HWC", lambda x: fn.rotate(x, angle=33.0, interp_type=interp, **fill), f"rotate {interp!r} {fill}")


@pytest.mark.parametrize("kind", ["water", "sphere", "jitter", "warp_perspective", "warp_affine", "rotate"])
@pytest.mark.parametrize("number", range(4))
def test_samples_of_narrow_and_wide_images(kind: str, number: int) -> None:
    """Warps give the cores' values for images of few and of many pixels per row. Rows begin at any alignment, and some images consist of border pixels, others
    have nearly none."""
    rng = np.random.default_rng([SEED, number, 13, len(kind)])
    channels, dtype = 1 + (number + len(kind)) % 4, [np.uint8, np.uint8, np.float32, np.uint8][int(rng.integers(4))]
    widths = [*rng.integers(1, 41, 8), *rng.integers(100, 240, 3)]
    batch = [(rng.random((int(rng.integers(1, 140)), w, channels)) * 255).astype(dtype) for w in widths]
    interp, fill = pick(rng, [types.INTERP_NN, types.INTERP_LINEAR]), pick(rng, [0.0, 17.0, 30.6])
    matrix = [float(v) for v in [1, 0, 0, 0, 1, 0] + rng.uniform(-1, 1, 6) * [0.2, 0.2, 9, 0.2, 0.2, 9]]

    def make(x: Any) -> Any:
        if kind == "warp_affine":
            return fn.warp_affine(x, matrix=matrix, interp_type=interp, fill_value=fill)
        if kind == "rotate":
            return fn.rotate(x, angle=matrix[2] * 3, interp_type=interp, fill_value=fill, keep_size=number % 2 == 0)
        return sample(rng, x, kind, interp, fill)

    agree(rng, batch, "HWC", make, f"{kind} {interp!r} {fill} {matrix}")


@pytest.mark.parametrize("number", range(4))
def test_affine_warps_far_outside_the_image(number: int) -> None:
    """Warps give the cores' values even if large parts of the output are outside of the image, in all directions."""
    rng = np.random.default_rng([SEED, number, 14])
    shapes = [(int(h), int(w), 3 - 2 * (number % 2)) for h, w in rng.integers(150, 420, (4, 2))]
    batch = [(rng.random(s) * 255).astype(np.float32 if number == 2 else np.uint8) for s in shapes]
    angle, fill, interp = float(rng.uniform(20, 340)), pick(rng, [0.0, 17.0, 30.6]), [types.INTERP_NN, types.INTERP_LINEAR][number // 2]
    shift = [1.0, 0.1, float(rng.uniform(-300, 300)), 0.1, 1.0, float(rng.uniform(-300, 300))]
    agree(rng, batch, "HWC", lambda x: fn.rotate(x, angle=angle, interp_type=interp, fill_value=fill), f"rotate {angle} {interp!r} {fill}")
    agree(rng, batch, "HWC", lambda x: fn.warp_affine(x, matrix=shift, interp_type=interp, fill_value=fill), f"{shift} {interp!r} {fill}")


@pytest.mark.parametrize("number", range(12))
def test_warps_that_repeat_the_sides(number: int) -> None:
    """Warps without a fill value give the cores' values. The images are rotated and moved so far that pixels of all sides and corners are repeated. Some images
    are only a few pixels wide."""
    rng = np.random.default_rng([SEED, number, 16])
    channels, dtype = [1, 3, 3, 4][number % 4], np.float32 if number % 5 == 4 else np.uint8
    widths = [1, 2, 3, *rng.integers(4, 41, 3), *rng.integers(100, 240, 3)]
    batch = [(rng.random((int(rng.integers(1, 140)), int(w), channels)) * 255).astype(dtype) for w in widths]
    interp, angle = pick(rng, [types.INTERP_NN, types.INTERP_LINEAR, types.INTERP_LINEAR]), float(rng.uniform(-180, 180))
    affine = [float(v) for v in [1, 0, 0, 0, 1, 0] + rng.uniform(-1, 1, 6) * [0.5, 0.5, 90, 0.5, 0.5, 90]]
    perspective = [
        *affine,
        0.001,
        float(rng.uniform(-0.02, 0.02)),
        1.0,
    ]  # the horizon, at which positions are infinite, may be in the image
    agree(rng, batch, "HWC", lambda x: fn.rotate(x, angle=angle, interp_type=interp), f"rotate {angle} {interp!r}")
    agree(rng, batch, "HWC", lambda x: fn.warp_affine(x, matrix=affine, interp_type=interp), f"warp_affine {affine} {interp!r}")
    agree(
        rng,
        batch,
        "HWC",
        lambda x: fn.experimental.warp_perspective(x, matrix=perspective, interp_type=interp, border_mode="replicate"),
        f"warp_perspective {perspective} {interp!r}",
    )


@pytest.mark.parametrize("kind", ["water", "warp_perspective", "warp_affine"])
@pytest.mark.parametrize("interp", [types.INTERP_NN, types.INTERP_LINEAR])
def test_a_fill_of_negative_zero(kind: str, interp: Any) -> None:
    """A negative zero that is interpolated with itself loses its sign, so pixels outside of the image are not simply the fill value."""
    rng = np.random.default_rng([SEED, 15])
    batch = [rng.random((40, w, 1 + 2 * (w % 2)), np.float32) for w in (33, 130)]

    def make(x: Any) -> Any:
        if kind == "warp_affine":
            return fn.warp_affine(x, matrix=[1.0, 0.1, 90.0, 0.1, 1.0, 7.0], interp_type=interp, fill_value=-0.0)
        return sample(rng, x, kind, interp, -0.0)

    agree(rng, batch, "HWC", make, f"{kind} {interp!r}")


@pytest.mark.parametrize("number", range(8))
def test_resized_images_equal_those_of_the_cores(number: int) -> None:
    rng = np.random.default_rng([SEED, number, 7])
    batch = images(rng, pick(rng, [np.float32, np.float32, np.int16, np.uint8]), int(pick(rng, [1, 3, 4, 6])))
    size = [int(v) for v in rng.integers(1, 120, 2)]
    interp = pick(rng, [types.INTERP_LINEAR, types.INTERP_CUBIC, types.INTERP_LANCZOS3, types.INTERP_TRIANGULAR])
    agree(rng, batch, "HWC", lambda x: fn.resize(x, size=size, interp_type=interp, antialias=bool(number % 2)), f"resize {size} {interp!r}")


@pytest.mark.parametrize("number", range(8))
def test_colours_equal_those_of_the_cores(number: int) -> None:
    rng = np.random.default_rng([SEED, number, 8])
    batch = images(rng, pick(rng, [np.uint8, np.uint8, np.float32]), 3)
    out = pick(rng, [types.UINT8, types.FLOAT, types.INT16, types.FLOAT16])
    for make in (
        lambda x: fn.brightness_contrast(x, brightness=1.4, contrast=0.7, dtype=out),
        lambda x: fn.hsv(x, hue=40.0, saturation=1.3, dtype=out),
        lambda x: fn.color_twist(fn.brightness(x, brightness=0.8), hue=-30.0, contrast=1.2, dtype=out),
        lambda x: fn.crop_mirror_normalize(x, mean=[120.0, 3.0, 4.0], std=[60.0, 5.0, 6.0], mirror=number % 2, output_layout="HWC"),
    ):
        agree(rng, batch, "HWC", make, f"colours to {out!r}")
    if batch[0].dtype == np.uint8:
        agree(rng, batch, "HWC", lambda x: fn.color_space_conversion(x, image_type=types.RGB, output_type=types.YCbCr), "to YCbCr")
        agree(rng, batch, "HWC", lambda x: fn.color_space_conversion(x, image_type=types.RGB, output_type=types.GRAY), "to gray")


@pytest.mark.parametrize("number", range(6))
def test_jpeg_distortion(number: int) -> None:
    rng = np.random.default_rng([SEED, number, 9])
    layout = pick(rng, ["HWC", "FHWC"])
    quality = int(rng.integers(1, 101))
    batch = images(rng, np.uint8, 3, layout)
    agree(rng, batch, layout, lambda x: fn.jpeg_compression_distortion(x, quality=quality), f"quality {quality}")


@pytest.mark.parametrize("number", range(6))
def test_noise_equals_that_of_the_cores(number: int) -> None:
    rng = np.random.default_rng([SEED, number, 10])
    layout = pick(rng, ["HWC", "CHW"])
    batch = images(rng, pick(rng, [np.uint8, np.uint8, np.float32, np.int16]), int(pick(rng, [1, 3, 4])), layout)
    batch = [np.abs(b) for b in batch]
    factor = float(pick(rng, [0.5, 20.0, 40.0]))
    for make in (
        lambda x: fn.noise.gaussian(x, mean=3.0, stddev=20.0),
        lambda x: fn.noise.shot(x, factor=factor),
        lambda x: fn.noise.salt_and_pepper(x, prob=0.3, per_channel=bool(number % 2)),
    ):
        agree(rng, batch, layout, make, "noise")


@pytest.mark.parametrize("number", range(4))
def test_debayered_images_equal_those_of_the_cores(number: int) -> None:
    rng = np.random.default_rng([SEED, number, 11])
    batch = [
        np.ascontiguousarray(i[: i.shape[0] // 2 * 2 or 1, : i.shape[1] // 2 * 2 or 1])
        for i in images(rng, [np.uint8, np.uint16][number % 2], 1, "HW")
    ]
    batch = [np.resize(i, [max(2, s // 2 * 2) for s in i.shape]) for i in batch]
    place = [int(v) for v in rng.integers(0, 2, 2)]
    agree(rng, batch, "HW", lambda x: fn.experimental.debayer(x, blue_position=place), f"blue at {place}")
