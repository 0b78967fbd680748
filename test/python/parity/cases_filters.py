# SPDX-License-Identifier: Apache-2.0
"""Cases of operators that read windows of images (gaussian_blur, laplacian, filter), and of operators that replace values: erase, lookup_table, grid_mask,
equalize, clahe, jpeg_compression_distortion and debayer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from harness import Batch, Case, T, rng_of
from samples import images, per_sample, tensors, uniform

HALVES = "Values between the axes are float32, as DALI's documentation has it; DALI keeps them in float16 where the input is."


def shaped(rng: np.random.Generator, dtype: str, layout: str, *shapes: tuple[int, ...]) -> Batch:
    """Makes random values of the given shapes."""
    return Batch([values(rng, s, dtype) for s in shapes], layout)


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if np.dtype(dtype).kind == "f":
        return rng.uniform(-0.1, 1.1, shape).astype(dtype)
    top = min(int(np.iinfo(dtype).max), 1 << 20)
    return rng.integers(max(int(np.iinfo(dtype).min), -top), top, shape, dtype=dtype, endpoint=True)


def bound_of(dtype: str, scale: float = 1.0) -> dict[str, Any]:
    """Returns the arguments of a Case that state the allowed difference for a type, multiplied by `scale`. Integers of more than 16 bits may not fit float32
    exactly, so their sums differ in the last bits; float16 differs as documented. For other types the defaults hold, and the dict is empty."""
    if dtype == "float16":
        return {"bound": scale * 2e-3, "differs": HALVES}
    return {"bound": scale * 4} if np.dtype(dtype).itemsize > 2 and np.dtype(dtype).kind in "iu" else {}


def gaussian_blur() -> Iterator[Case]:
    rng = rng_of("gaussian_blur")

    def case(batch: Batch | None = None, **kwargs: Any) -> Case:
        dtype = str((batch or images(rng)).samples[0].dtype)
        return Case("gaussian_blur", [batch or images(rng)], kwargs, **bound_of(dtype))

    for dtype in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64"):
        yield case(shaped(rng, dtype, "HWC", (17, 90, 3), (1, 1, 3), (40, 1, 3)), sigma=1.3)
        yield case(shaped(rng, dtype, "HW", (17, 90), (1, 40), (5, 3)), window_size=7, dtype=T.FLOAT)
    for channels in (1, 2, 4, 5):
        yield case(images(rng, channels=channels), sigma=[0.4, 2.0])
        yield case(images(rng, channels=channels, layout="CHW"), sigma=[3.0, 0.6], window_size=[5, 9])
    yield case(window_size=1)
    yield case(sigma=9.5)
    yield case(sigma=[0.0, 1.0], window_size=[3, 0])
    yield case(sigma=2.0, window_size=[0, 21])
    yield case(sigma=uniform(rng, 0.3, 4))
    yield case(sigma=uniform(rng, 0.3, 4, (2,)))
    yield case(window_size=per_sample([3, 11, 5], "int32"), sigma=uniform(rng, 0.3, 4, (2,)))
    yield case(window_size=per_sample([[3, 1], [11, 5], [5, 7]], "int32"))
    for layout, shape in (("FHWC", (2, 9, 14, 3)), ("FCHW", (2, 3, 9, 14)), ("FHW", (3, 9, 14)), ("CFHW", (2, 3, 9, 14)), ("W", (30,))):
        yield case(shaped(rng, "uint8", layout, shape, shape, shape), sigma=1.2)
    for layout, shape in (("DHW", (5, 6, 7)), ("DHWC", (4, 9, 14, 2)), ("CDHW", (2, 4, 9, 14)), ("FDHWC", (2, 1, 4, 9, 2))):
        yield case(shaped(rng, "uint8", layout, shape, shape), sigma=[0.8, 1.2, 0.5])
        yield case(shaped(rng, "float32", layout, shape, shape), window_size=[3, 1, 5])
    yield case(tensors(rng, "uint8", 3, low=2), sigma=1.0)
    for bad in (
        {},
        {"window_size": 4},
        {"sigma": -1.0},
        {"sigma": [1.0, 2.0, 3.0]},
        {"sigma": [1.0, 0.0]},
        {"sigma": 1.0, "dtype": T.INT16},
    ):
        yield Case("gaussian_blur", [images(rng)], bad, error=True)
    yield Case("gaussian_blur", [shaped(rng, "uint8", "HCW", (9, 3, 9))], {"sigma": 1.0}, error=True)


def laplacian() -> Iterator[Case]:
    rng = rng_of("laplacian")

    def case(batch: Batch | None = None, **kwargs: Any) -> Case:
        batch = batch or images(rng)
        dtype = str(batch.samples[0].dtype)
        size = kwargs.get("window_size", 3)
        widest = 7 if isinstance(size, Batch) else int(np.max(size))
        return Case("laplacian", [batch], kwargs, **bound_of(dtype, 4.0**widest / 8))

    for dtype in ("uint8", "int8", "uint16", "int16", "int32", "float16", "float32"):
        yield case(shaped(rng, dtype, "HWC", (17, 60, 3), (1, 1, 3), (30, 2, 3)))
        yield case(shaped(rng, dtype, "HW", (17, 60), (1, 40), (5, 3)), dtype=T.FLOAT, window_size=5)
    for kwargs in (
        {"window_size": [3, 5]},
        {"window_size": 7, "normalized_kernel": True},
        {"window_size": 23, "normalized_kernel": True, "dtype": T.FLOAT},
        {"smoothing_size": 1},
        {"smoothing_size": [1, 3], "window_size": [5, 3], "normalized_kernel": True, "dtype": T.FLOAT},
        {"scale": 0.25},
        {"scale": [0.3, -1.5], "dtype": T.FLOAT},
    ):
        yield case(**kwargs)
        yield case(images(rng, "float32", layout="CHW"), **{k: v for k, v in kwargs.items() if k != "dtype"})
    yield case(window_size=per_sample([3, 5, 7], "int32"), scale=uniform(rng, 0.1, 1.0, (2,)))
    yield case(window_size=per_sample([[3, 5], [5, 7], [7, 3]], "int32"), smoothing_size=per_sample([1, 3, 5], "int32"), dtype=T.FLOAT)
    for layout, shape in (("DHW", (5, 6, 7)), ("DHWC", (4, 9, 14, 2)), ("CDHW", (2, 4, 9, 14)), ("FHWC", (2, 9, 14, 3)), ("W", (30,))):
        yield case(shaped(rng, "float32", layout, shape, shape))
        yield case(shaped(rng, "uint8", layout, shape, shape), normalized_kernel=True, dtype=T.FLOAT)
    yield case(shaped(rng, "float32", "DHW", (5, 6, 7)), window_size=[3, 5, 7], smoothing_size=[1, 3, 5], scale=[1.0, 0.1, 0.5])
    for bad in (
        {"window_size": 1},
        {"window_size": 4},
        {"smoothing_size": 0},
        {"window_size": [3, 3, 3]},
        {"scale": [1.0, 1.0, 1.0]},
        {"scale": 2.0, "normalized_kernel": True},
        {"dtype": T.INT16},
    ):
        yield Case("laplacian", [images(rng)], bad, error=True)


def filtering() -> Iterator[Case]:
    rng = rng_of("filter")

    def windows(*shapes: tuple[int, ...]) -> Batch:
        return Batch([rng.uniform(-0.3, 0.5, s).astype(np.float32) for s in shapes])

    def case(batch: Batch | None = None, window: Batch | None = None, **kwargs: Any) -> Case:
        return Case("filter", [batch or images(rng), window or windows((3, 3), (5, 2), (1, 4))], kwargs, share=0.98)

    borders = ("reflect_101", "reflect_1001", "wrap", "clamp", "constant")
    for border in borders:
        yield case(border=border)
        yield case(images(rng, "float32", layout="HW", low=3, high=20), windows((7, 9), (4, 4), (3, 12)), border=border)
        yield case(shaped(rng, "int16", "HWC", (1, 1, 3), (1, 9, 3), (4, 2, 3)), windows((3, 3), (9, 2), (7, 8)), border=border)
        yield case(border=border, anchor=[0, 1], dtype=T.FLOAT)
    for dtype in ("uint8", "uint16", "int16", "float32"):
        for mode in ("same", "valid"):
            yield case(images(rng, dtype), mode=mode)
            yield case(images(rng, dtype, layout="CHW"), mode=mode, anchor=per_sample([[0, 0], [4, 1], [0, 3]], "int32"), dtype=T.FLOAT)
        fill = Batch([np.array(v, dtype) for v in (1, 7, 100)])
        yield Case("filter", [images(rng, dtype), windows((3, 3), (4, 5), (1, 1)), fill], {"border": "constant"})
    clips = shaped(rng, "uint8", "FHWC", (2, 9, 14, 3), (1, 20, 5, 3))
    yield case(clips, windows((3, 3), (2, 5)))
    yield case(clips, windows((3, 3), (2, 5)), mode="valid")
    yield case(tensors(rng, "uint8", 2, low=8, high=20))
    for bad in ({"mode": "middle"}, {"border": "none"}, {"anchor": [3, 0]}, {"anchor": [-2, 0]}, {"anchor": [1, 1, 1]}, {"dtype": T.INT16}):
        yield Case("filter", [images(rng), windows((3, 3), (3, 3), (3, 3))], bad, error=True)
    for shape in ((3,), (3, 3, 3)):
        yield Case("filter", [images(rng), windows(shape, shape, shape)], {}, error=True)
    yield Case("filter", [images(rng), windows((100, 3), (3, 3), (3, 3))], {"mode": "valid"}, error=True)
    whole = Batch([np.ones((3, 3), np.int32)] * 3)
    yield Case("filter", [images(rng), whole], {}, error=True)


def erase() -> Iterator[Case]:
    rng = rng_of("erase")

    def case(batch: Batch | None = None, **kwargs: Any) -> Case:
        return Case("erase", [batch or images(rng)], kwargs, exact=True)

    two = {"anchor": [2.0, 3.0, 6.0, 1.0], "shape": [4.0, 5.0, 30.0, 3.0]}
    yield case()
    yield case(shape=[5.0, 4.0])
    for dtype in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32"):
        yield case(images(rng, dtype), **two, fill_value=[100.6, 2.5 if dtype.startswith("u") else -2.5, 7.0])
    for layout in ("HW", "CHW"):
        yield case(images(rng, layout=layout), **two, fill_value=9.0)
    yield case(images(rng, layout="CHW"), **two, fill_value=[1.0, 2.0, 3.0])
    yield case(anchor=[2.6, -3.4], shape=[4.0, 6.5])
    yield case(anchor=[100.0, 2.0], shape=[4.0, 6.0])
    yield case(anchor=[1.0, 2.0], shape=[-4.0, 6.0])
    yield case(anchor=[2.0, 3.0], shape=[4.0, 5.0], axes=[1, 0])
    yield case(anchor=[2.0, 6.0], shape=[2.0, 1.0], axis_names="W", fill_value=[1.0, 2.0, 3.0])
    yield case(anchor=[1.0], shape=[1.0], axis_names="C", fill_value=[5.0, 6.0, 7.0])
    for flags in ({"normalized": True}, {"normalized_anchor": True, "normalized_shape": True}):
        yield case(anchor=[0.15, 0.35], shape=[0.35, 0.2], **flags)
        yield case(anchor=[0.15, 0.35], shape=[0.35, 0.2], centered_anchor=True, **flags)
    yield case(anchor=[0.15, 0.35], shape=[3.0, 4.0], normalized_anchor=True)
    yield case(anchor=[2.0, 3.0], shape=[0.3, 0.9], normalized_shape=True, centered_anchor=True)
    yield case(anchor=uniform(rng, 0, 20, (4,)), shape=uniform(rng, 0, 20, (4,)), fill_value=uniform(rng, 0, 255, (3,)))
    yield case(Batch([tensors(rng, "uint8", 5, low=3).samples[0] for _ in range(3)], "FDHWC"), anchor=[1.0] * 4, shape=[2.0] * 4)
    for bad in (
        {"anchor": [1.0, 2.0]},
        {"anchor": [1.0, 2.0], "shape": [3.0]},
        {"anchor": [1.0], "shape": [3.0]},
        {"anchor": [1.0, 2.0], "shape": [3.0, 4.0], "fill_value": [1.0, 2.0]},
        {"anchor": [1.0, 2.0], "shape": [3.0, 4.0], "axis_names": "HZ"},
        {"anchor": [0.1, 0.2], "shape": [0.3, 0.4], "normalized": True, "normalized_shape": True},
    ):
        yield Case("erase", [images(rng)], bad, error=True)
    yield Case("erase", [images(rng, layout="HW")], {"shape": [1.0, 1.0], "fill_value": [1.0, 2.0, 3.0]}, error=True)


def lookup_table() -> Iterator[Case]:
    rng = rng_of("lookup_table")

    def case(batch: Batch | None = None, **kwargs: Any) -> Case:
        return Case("lookup_table", [batch or images(rng)], kwargs, exact=True)

    table = {"keys": [3, 0, 200, 3, 65535], "values": [1.5, -2.5, 300.5, 0.1, 70000.0], "default_value": -1.5}
    yield case()
    yield case(**table)
    for dtype in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"):
        few = Batch([rng.integers(0, 5, (7, 9)).astype(dtype), values(rng, (5, 10), dtype)])
        for out in (T.UINT8, T.INT16, T.FLOAT, T.FLOAT16, T.INT64):
            yield case(few, **table, dtype=out)
    yield case(keys=list(range(256)), values=[float(255 - v) for v in range(256)], dtype=T.UINT8)
    large = Batch([rng.integers(0, 256, shape).astype("uint8") for shape in ((131, 70, 3), (64, 128, 3), (91, 97, 3))])
    for out in (T.UINT8, T.INT16, T.FLOAT, T.INT64):
        for entries in (200, 256, 300):
            yield case(large, keys=list(range(entries)), values=[1.5 * v - 9 for v in range(entries)], default_value=7.0, dtype=out)
    yield Case("lookup_table", [images(rng, "float32")], table, error=True)
    for bad in ({"keys": [1]}, {"keys": [1, 2], "values": [1.0]}, {"keys": [-1], "values": [1.0]}, {"keys": [65536], "values": [1.0]}):
        yield Case("lookup_table", [images(rng)], bad, error=True)


def grid_mask() -> Iterator[Case]:
    rng = rng_of("grid_mask")

    def case(batch: Batch | None = None, **kwargs: Any) -> Case:
        # Pixels on the edge of a square may be masked by only one of the libraries.
        return Case("grid_mask", [batch or images(rng)], kwargs, share=0.999, bound=65536)

    for dtype in ("uint8", "int16", "int32", "float32"):
        yield case(images(rng, dtype), tile=10)
    for kwargs in (
        {"ratio": 0.3},
        {"ratio": 0.7, "shift_x": 3.0, "shift_y": -4.5},
        {"angle": 0.3, "ratio": 0.4},
        {"angle": -2.0, "shift_x": -30.0, "shift_y": 4.5, "ratio": 0.6},
        {"ratio": 0.0},
        {"ratio": 1.0},
        {
            "ratio": uniform(rng, 0, 1),
            "angle": uniform(rng, -3, 3),
            "shift_x": uniform(rng, -9, 9),
            "tile": per_sample([3, 10, 40], "int32"),
        },
    ):
        yield case(images(rng, channels=1), **{"tile": 10, **kwargs})
        yield case(images(rng, low=90, high=200), **{"tile": 30, **kwargs})
    yield case()
    for tile in (0, -3):
        yield Case("grid_mask", [images(rng)], {"tile": tile}, error=True)


def equalize() -> Iterator[Case]:
    rng = rng_of("equalize")

    def case(op: str, batch: Batch, **kwargs: Any) -> Case:
        return Case(op, [batch], kwargs, exact=True)

    flat = Batch([np.full((5, 7, 3), 9, np.uint8), np.zeros((1, 1, 3), np.uint8), np.full((2, 2, 3), 255, np.uint8)], "HWC")
    for layout, channels in (("HWC", 3), ("HWC", 1), ("HWC", 6), ("CHW", 3), ("HW", 1)):
        yield case("experimental.equalize", images(rng, channels=channels, layout=layout))
    yield case("equalize", flat)
    for layout, shape in (("FHWC", (2, 9, 14, 3)), ("FCHW", (2, 3, 9, 14)), ("FHW", (3, 9, 14))):
        yield case("equalize", shaped(rng, "uint8", layout, shape, shape))
    yield Case("equalize", [images(rng, "int16")], {}, error=True)


def clahe() -> Iterator[Case]:
    rng = rng_of("clahe")

    def case(batch: Batch, tiles: tuple[int, int], clip_limit: float, **kwargs: Any) -> Case:
        lab = batch.samples[0].shape[2] == 3 and kwargs.get("luma_only", True)
        sure = {"bound": 4, "share": 0.999} if lab else {"exact": True}
        return Case("clahe", [batch], {"tiles_x": tiles[0], "tiles_y": tiles[1], "clip_limit": clip_limit, **kwargs}, **sure)

    for tiles, clip_limit in (((2, 2), 2.0), ((8, 8), 2.0), ((4, 3), 3.5), ((1, 1), 1.0), ((5, 2), 40.0), ((3, 3), 0.0)):
        yield case(images(rng, channels=1), tiles, clip_limit)
        yield case(images(rng), tiles, clip_limit, luma_only=False)
        yield case(images(rng), tiles, clip_limit)
    yield case(shaped(rng, "uint8", "HWC", (1, 1, 3), (5, 3, 3), (64, 65, 3)), (4, 4), 2.0)
    yield case(shaped(rng, "uint8", "HWC", (64, 64, 1), (64, 61, 1), (60, 64, 1)), (4, 4), 2.0)
    tiles = {"tiles_x": 2, "tiles_y": 2, "clip_limit": 2.0}
    for bad in (images(rng, channels=2), images(rng, layout="HW"), images(rng, layout="CHW"), images(rng, "uint16")):
        yield Case("clahe", [bad], tiles, error=True)
    yield Case("clahe", [images(rng)], {"tiles_x": 2, "clip_limit": 2.0}, error=True)


def jpeg_compression_distortion() -> Iterator[Case]:
    rng = rng_of("jpeg_compression_distortion")

    def case(batch: Batch | None = None, **kwargs: Any) -> Case:
        return Case("jpeg_compression_distortion", [batch or images(rng)], kwargs, exact=True)

    for quality in (1, 30, 50, 75, 95, 100, 0, -5, 150):
        yield case(quality=quality)
        yield case(shaped(rng, "uint8", "HWC", (17, 33, 3), (16, 16, 3), (40, 8, 3)), quality=quality)
    yield case()
    yield case(shaped(rng, "uint8", "HWC", (1, 1, 3), (3, 4, 3), (5, 2, 3), (4, 5, 3), (9, 17, 3)))
    yield case(quality=per_sample([10, 60, 99], "int32"))
    yield case(shaped(rng, "uint8", "FHWC", (2, 9, 14, 3), (3, 20, 5, 3)), quality=20)
    for bad in (images(rng, channels=1), images(rng, layout="HW"), images(rng, layout="CHW"), images(rng, "int16")):
        yield Case("jpeg_compression_distortion", [bad], {}, error=True)


def debayer() -> Iterator[Case]:
    rng = rng_of("debayer")

    def case(batch: Batch, **kwargs: Any) -> Case:
        return Case("debayer", [batch], kwargs, exact=True)

    def raw(dtype: str = "uint8") -> Batch:
        return shaped(rng, dtype, "HW", *(tuple(2 * int(v) for v in rng.integers(1, 30, 2)) for _ in range(3)))

    for position in ([0, 0], [0, 1], [1, 0], [1, 1]):
        yield case(raw(), blue_position=position)
        yield Case("experimental.debayer", [raw("uint16")], {"blue_position": position}, exact=True)
        for algorithm in ("bilinear_ocv", "edgeaware_ocv", "gray_ocv"):
            yield case(raw("uint16"), blue_position=position, algorithm=algorithm)
    yield case(shaped(rng, "uint8", "HW", (2, 2), (4, 4), (2, 40), (4, 2)), blue_position=[0, 1])
    yield case(shaped(rng, "uint8", "HWC", (8, 6, 1), (2, 14, 1), (4, 4, 1)), blue_position=per_sample([[0, 1], [1, 0], [1, 1]], "int32"))
    yield case(shaped(rng, "uint16", "FHW", (2, 8, 14), (3, 20, 6)), blue_position=1)
    yield case(shaped(rng, "uint8", "FHWC", (2, 8, 14, 1), (3, 20, 6, 1)), blue_position=[0, 1])
    for bad in (shaped(rng, "uint8", "HWC", (8, 8, 3)), shaped(rng, "float32", "HW", (8, 8)), shaped(rng, "uint8", "HW", (7, 8))):
        yield Case("debayer", [bad], {"blue_position": [0, 0]}, error=True)
    for kwargs in ({"blue_position": [2, 0]}, {"blue_position": [0, 0, 0]}, {}, {"blue_position": [0, 0], "algorithm": "none"}):
        yield Case("debayer", [raw()], kwargs, error=True)


def all_cases() -> Iterator[Case]:
    for group in (
        gaussian_blur,
        laplacian,
        filtering,
        erase,
        lookup_table,
        grid_mask,
        equalize,
        clahe,
        jpeg_compression_distortion,
        debayer,
    ):
        yield from group()
