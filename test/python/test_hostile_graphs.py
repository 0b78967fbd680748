# SPDX-License-Identifier: Apache-2.0
"""Unusual graphs and tensors work, or an error names what is wrong. They never end the process or deliver bytes that no operator wrote."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from stoker import Pipeline, StokerError, fn, types

SEED = 20260911


def run(define: Callable[..., Any], samples: Sequence[np.ndarray], layout: str | None = None, **kwargs: Any) -> list[np.ndarray]:
    pipe = Pipeline(batch_size=len(samples), num_threads=1, device_id=None, seed=7, **kwargs)
    with pipe:
        pipe.set_outputs(define(fn.external_source(source=[list(samples)], layout=layout)))
    out = pipe.run()[0]
    return [np.array(out.at(i)) for i in range(len(samples))]


def images(shape: tuple[int, ...], dtype: str = "uint8") -> list[np.ndarray]:
    rng = np.random.default_rng(SEED)
    return [rng.integers(0, 255, shape).astype(dtype) for _ in range(3)]


IMAGE_OPERATORS: dict[str, Callable[..., Any]] = {
    "resize": lambda x: fn.resize(x, size=(5, 4)),
    "random_resized_crop": lambda x: fn.random_resized_crop(x, size=(5, 4)),
    "crop_mirror_normalize": lambda x: fn.crop_mirror_normalize(x, crop=(5, 4), mirror=1, mean=[100], std=[50]),
    "warp_affine": lambda x: fn.warp_affine(x, matrix=[0.5, 0.1, 1, -0.1, 0.5, 2]),
    "brightness": lambda x: fn.brightness(x, brightness=1.3),
    "contrast": lambda x: fn.contrast(x, contrast=1.3),
    "brightness_contrast": lambda x: fn.brightness_contrast(x, contrast=1.3, brightness=0.7),
    "flip": lambda x: fn.flip(x, vertical=1),
    "crop": lambda x: fn.crop(x, crop=(5, 4)),
    "crop and fill": lambda x: fn.crop(x, crop=(15, 14), out_of_bounds_policy="pad", fill_values=9),
    "pad": lambda x: fn.pad(x, axes=(0, 1), shape=(20, 20)),
    "slice": lambda x: fn.slice(x, start=(1, 2), shape=(4, 3), axes=(1, 0)),
    "random_crop": lambda x: fn.random_crop(x, size=5, padding=2),
    "cast": lambda x: fn.cast(fn.flip(x), dtype=types.FLOAT),
}
COLOUR_OPERATORS: dict[str, Callable[..., Any]] = {
    "hsv": lambda x: fn.hsv(x, hue=30, saturation=0.5),
    "hue": lambda x: fn.hue(x, hue=30),
    "saturation": lambda x: fn.saturation(x, saturation=0.5),
    "color_twist": lambda x: fn.color_twist(x, hue=30, contrast=1.2),
    "color_space_conversion": lambda x: fn.color_space_conversion(x, image_type=types.RGB, output_type=types.GRAY),
}


@pytest.mark.parametrize("layout", ["HWC", "FHWC", "HW"])
@pytest.mark.parametrize("name", [*IMAGE_OPERATORS, *COLOUR_OPERATORS])
def test_a_tensor_without_layout_is_an_image(name: str, layout: str) -> None:
    define = {**IMAGE_OPERATORS, **COLOUR_OPERATORS}[name]
    if name == "slice" or name == "pad":
        layout = "HWC"  # these operators are called with axes that fit only this layout
    samples = images({"HWC": (9, 8, 3), "FHWC": (2, 9, 8, 3), "HW": (9, 8)}[layout])
    if layout == "HW" and name in COLOUR_OPERATORS:
        with pytest.raises(StokerError, match="takes tensors of layout HWC"):
            run(define, samples)
        return
    for a, b in zip(run(define, samples), run(define, samples, layout), strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("between", ["stack", "transpose"])
def test_an_image_behind_what_forgets_the_layout(between: str) -> None:
    forget = {"stack": lambda x: fn.stack(x, x), "transpose": lambda x: fn.transpose(x, perm=[1, 0, 2], transpose_layout=False)}[between]
    samples = images((9, 8, 3))
    turned = [np.stack([s, s]) if between == "stack" else s.transpose(1, 0, 2).copy() for s in samples]
    layout = "FHWC" if between == "stack" else "HWC"
    for name in ("resize", "brightness", "hsv"):
        define = {**IMAGE_OPERATORS, **COLOUR_OPERATORS}[name]
        got = run(lambda x, f=define: f(forget(x)), samples)
        for a, b in zip(got, run(define, turned, layout), strict=True):
            assert np.array_equal(a, b), name


@pytest.mark.parametrize("dims", [1, 6])
def test_objects_that_are_not_images_are_refused(dims: int) -> None:
    for define in (fn.brightness, IMAGE_OPERATORS["resize"], COLOUR_OPERATORS["hsv"]):
        with pytest.raises(StokerError, match=f"{dims} dims? (and no|without) layout"):
            run(define, images((3,) * dims))


@pytest.mark.parametrize("channels", [16, 17, 40])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("name", IMAGE_OPERATORS)
def test_any_number_of_channels(name: str, dtype: str, channels: int) -> None:
    """The result equals that of each channel separately. Random operators draw the same in each run."""
    define, samples = IMAGE_OPERATORS[name], images((9, 8, channels), dtype)
    whole = run(define, samples, "HWC")
    axis = 0 if name == "crop_mirror_normalize" else -1
    for c in range(channels):
        alone = run(define, [s[..., c : c + 1].copy() for s in samples], "HWC")
        for a, b in zip(whole, alone, strict=True):
            assert np.array_equal(np.take(a, [c], axis), b), f"channel {c}"


def test_values_for_each_of_many_channels() -> None:
    samples = images((9, 8, 33))
    mean, std = np.arange(33.0), np.arange(1.0, 34.0)
    got = run(lambda x: fn.crop_mirror_normalize(x, mean=list(mean), std=list(std), output_layout="HWC"), samples, "HWC")
    for a, b in zip(got, samples, strict=True):
        assert np.allclose(a, (b - mean) / std, atol=1e-4)
    with pytest.raises(StokerError, match="pad_output"):
        run(lambda x: fn.crop_mirror_normalize(x, pad_output=True), samples, "HWC")
    with pytest.raises(StokerError, match="fill_values has 2 values"):
        run(lambda x: fn.crop(x, crop=(20, 20), out_of_bounds_policy="pad", fill_values=[1, 2]), samples, "HWC")


@pytest.mark.parametrize("count", [12, 13, 40])
def test_any_number_of_steps(count: int) -> None:
    def define(x: Any) -> Any:
        for _ in range(count):
            x = fn.brightness(x, brightness=1.0, brightness_shift=1 / 255)
        return x

    for a, b in zip(run(define, images((5, 6, 3)), "HWC"), images((5, 6, 3)), strict=True):
        assert np.array_equal(a, np.minimum(b.astype(int) + count, 255))


NO_TYPE = [
    ("cast", {"dtype": -1}),
    ("normalize", {"dtype": -1}),
    ("one_hot", {"num_classes": 4, "dtype": -1}),
    ("crop_mirror_normalize", {"dtype": -1}),
    ("resize", {"size": [4, 4], "interp_type": -1}),
    ("color_space_conversion", {"image_type": 0, "output_type": -1}),
    ("decoders.image", {"output_type": -1}),
    ("decoders.image", {"dtype": -1}),
    ("cast", {"dtype": -(2**31)}),
    ("cast", {"dtype": 2**31}),
    ("cast", {"dtype": -(2**63)}),
]


@pytest.mark.parametrize(("name", "args"), NO_TYPE)
def test_no_type_is_no_type_to_convert_to(name: str, args: dict[str, Any]) -> None:
    import json

    graph = {
        "stoker_graph": 1,
        "operators": [
            {"op": "constant", "inputs": [], "args": {"idata": [1, 2, 3, 4], "shape": [4], "dtype": 0}},
            {"op": name, "inputs": [[0, 0]], "args": args},
        ],
        "outputs": [[1, 0]],
    }
    with pytest.raises(StokerError, match=re.compile("is not a valid|not a value of|must be from")):
        Pipeline.deserialize(json.dumps(graph), batch_size=1)


def test_no_type_is_the_default_where_there_is_one() -> None:
    for define in (lambda x: fn.brightness(x, dtype=types.NO_TYPE), lambda x: fn.crop(x, crop=(3, 3), dtype=types.NO_TYPE)):
        assert run(define, images((5, 6, 3)), "HWC")[0].dtype == np.uint8


HUGE = [
    lambda x: fn.crop(x, crop=(3, 2**31 - 1), out_of_bounds_policy="pad"),
    lambda x: fn.slice(x, start=(0, 0), shape=(2**32 + 4, 4), axes=(1, 0), out_of_bounds_policy="pad"),
    lambda x: fn.slice(x, start=(-(2**39), 0), shape=(4, 4), axes=(1, 0), out_of_bounds_policy="pad"),
    lambda x: fn.slice(x, start=(2**32 + 1, 0), shape=(4, 4), axes=(1, 0), out_of_bounds_policy="pad"),
    lambda x: fn.pad(x, axes=(1,), shape=(2**33,)),
    lambda x: fn.pad(x, axes=(0, 1), shape=(2**33, 2**33)),
    lambda x: fn.crop_mirror_normalize(x, crop=(2**31 - 1, 3), out_of_bounds_policy="pad"),
]


@pytest.mark.parametrize("rest", ["alone", "fused"])
@pytest.mark.parametrize("case", range(len(HUGE)))
def test_windows_beyond_32_bits(case: int, rest: str) -> None:
    """Pixels far outside of the image get the fill value, and an output that is too large for memory is an error. Large numbers must not wrap around to
    another window."""

    def define(x: Any) -> Any:
        x = HUGE[case](x)
        return fn.crop(fn.flip(x), crop=(2, 2), crop_pos_x=0, crop_pos_y=0) if rest == "fused" else x

    try:
        got = run(define, images((5, 6, 3)), "HWC")
    except StokerError as e:
        assert re.search("more than|over memory_limit|too large|out of memory", str(e)), e
        return
    assert all((g == 0).all() for g in got)


def filtered(row: np.ndarray, begin: float, end: float, out: int) -> np.ndarray:
    """Applies a triangle filter over [begin, end) in float64. Positions outside of the data have the value at its nearest edge."""
    scale = (end - begin) / out
    result = []
    for k in range(out):
        centre = begin + (k + 0.5) * scale
        pixels = np.arange(int(np.ceil(centre - scale - 0.5)), int(np.floor(centre + scale - 0.5)) + 1)
        weights = 1 - np.abs(pixels + 0.5 - centre) / scale
        result.append((row[np.clip(pixels, 0, len(row) - 1)] * weights).sum() / weights.sum())
    return np.array(result)


@pytest.mark.parametrize(("begin", "end"), [(0, 10), (-300, 310), (-2000, 3000), (9, 1e5), (-1e6, 1e6), (5, -1e4)])
def test_a_region_far_outside_an_image(begin: float, end: float) -> None:
    """The filter's result is right for any number of taps. Most of them are outside of the image, and their weights are summed."""
    image = images((4, 10, 1), "float32")[0]
    got = run(lambda x: fn.resize(x, size=(4, 3), roi_start=(0, begin), roi_end=(4, end)), [image], "HWC")[0]
    low, high = min(begin, end), max(begin, end)
    expected = np.stack([filtered(row[:, 0].astype(float), low, high, 3) for row in image])
    assert np.allclose(got[..., 0], expected if begin < end else expected[:, ::-1], atol=0.5 if high - low > 100 else 1e-3)


@pytest.mark.parametrize(
    "filter", ["INTERP_NN", "INTERP_LINEAR", "INTERP_CUBIC", "INTERP_LANCZOS3", "INTERP_TRIANGULAR", "INTERP_GAUSSIAN"]
)
@pytest.mark.parametrize("dtype", ["uint8", "float32", "int16"])
def test_a_region_of_a_thousand_million_pixels(filter: str, dtype: str) -> None:
    """Resizing a region that is far larger than the image takes no longer than resizing the image."""
    image = images((40, 50, 3), dtype)[0]
    define = lambda x: fn.resize(x, size=(3, 3), roi_start=(0, 0), roi_end=(1e9, 1e9), interp_type=getattr(types, filter))  # noqa: E731
    got = run(define, [image], "HWC")[0]
    if filter not in ("INTERP_CUBIC", "INTERP_LANCZOS3", "INTERP_GAUSSIAN", "INTERP_LINEAR", "INTERP_TRIANGULAR"):
        assert (got[1:, 1:] == image[-1, -1]).all()
    assert np.allclose(got[1, 1].astype(float), image[-1, -1], atol=2)


@pytest.mark.parametrize("end", [1e30, 2e9, float("inf"), float("nan")])
def test_a_region_beyond_all_numbers(end: float) -> None:
    with pytest.raises(StokerError, match="too far outside" if math.isfinite(end) else f'"roi_end" is {end} at index 0'):
        run(lambda x: fn.resize(x, size=(3, 3), roi_start=(0, 0), roi_end=(end, 5)), images((9, 8, 3)), "HWC")


@pytest.mark.parametrize("width", [1e-10, 1e-30, 0.4])
def test_a_width_below_one_pixel_is_one(width: float) -> None:
    """A width below one pixel becomes one pixel, but the scale does not change, as in DALI. For a tiny width the pixel is the mean of the two edges."""
    image = images((6, 8, 3), "float32")[0]
    got = run(lambda x: fn.resize(x, resize_x=width, resize_y=6), [image], "HWC")[0]
    assert got.shape == (6, 1, 3)
    if width < 0.1:
        assert np.allclose(got[:, 0], (image[:, 0] + image[:, -1]) / 2, atol=0.1)


@pytest.mark.parametrize("dtype", [types.FLOAT, types.FLOAT16])
@pytest.mark.parametrize("bounds", [(0.0, 1.0), (1.0, 1.0000002), (-3.0, 0.0), (-1.0000002, -1.0), (0.0, 1e-45), (5.0, 5.0)])
def test_the_end_of_a_range_is_not_drawn(bounds: tuple[float, float], dtype: types.DALIDataType) -> None:
    low, high = (float(np.float32(b)) for b in bounds)
    pipe = Pipeline(batch_size=1, num_threads=1, device_id=None, seed=3)
    with pipe:
        pipe.set_outputs(fn.random.uniform(range=(low, high), shape=(300000,), dtype=dtype))
    drawn = np.array(pipe.run()[0].at(0)).astype(np.float64)
    if low < high:
        assert (drawn < high).all(), f"{drawn.max()!r} of {high!r}"
    if dtype == types.FLOAT:
        assert (drawn >= low).all()


def test_a_range_without_end_is_refused() -> None:
    for bounds in ((0.0, float("inf")), (float("nan"), 1.0), (0.0, 1e308)):
        with (
            pytest.raises(StokerError, match=r'"range" is .* must be a finite float32'),
            Pipeline(batch_size=1, num_threads=1, device_id=None),
        ):
            fn.random.uniform(range=bounds)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e308, 3.4028234663852886e38, 1e-45, 0.1])
def test_serialised_graphs_keep_every_number(value: float) -> None:
    pipe = Pipeline(batch_size=1, num_threads=1, device_id=None, seed=3)
    with pipe:
        pipe.set_outputs(fn.constant(fdata=[1.0, value]), fn.pad(fn.constant(fdata=[1.0, 2.0]), shape=[5], fill_value=value))
    text = pipe.serialize()
    again = Pipeline.deserialize(text)
    assert again.serialize() == text
    for a, b in zip(pipe.run(), again.run(), strict=True):
        assert np.array_equal(np.array(a.at(0)), np.array(b.at(0)), equal_nan=True)
    assert np.array_equal(
        np.array(pipe.run()[0].at(0)), np.array([1.0, float("inf") if value > 4e38 else value], "float32"), equal_nan=True
    )


def fed(layout: str | None, declared: str | None = None, ndim: int | None = None) -> np.ndarray:
    pipe = Pipeline(batch_size=3, num_threads=1, device_id=None, seed=3)
    with pipe:
        pipe.set_outputs(fn.resize(fn.external_source(name="x", layout=declared, ndim=ndim), size=(5, 4)))
    pipe.feed_input("x", images((3, 9, 8)), layout=layout)
    out = pipe.run()[0]
    assert out.layout() == (layout or declared or "HWC")
    return np.stack([np.array(out.at(i)) for i in range(3)])


def test_the_layout_that_is_fed() -> None:
    planes = np.stack(run(lambda x: fn.resize(x, size=(5, 4)), images((3, 9, 8)), "CHW"))
    assert np.array_equal(fed("CHW"), planes)
    assert np.array_equal(fed("CHW", declared="CHW"), planes)
    assert np.array_equal(fed(None, declared="CHW"), planes)
    assert fed(None).shape == (3, 5, 4, 8)


@pytest.mark.parametrize(("layout", "declared", "ndim"), [("HWC", "CHW", None), ("HW", None, None), ("CHW", None, 3)])
def test_a_layout_that_does_not_fit_is_refused(layout: str, declared: str | None, ndim: int | None) -> None:
    with pytest.raises((StokerError, ValueError), match="layout"):
        fed(layout, declared, ndim)


def test_a_constant_that_no_memory_holds() -> None:
    with pytest.raises(StokerError, match="it may have up to"), Pipeline(batch_size=1, num_threads=1, device_id=None):
        fn.constant(fdata=1.0, shape=[2**24, 16, 11])
