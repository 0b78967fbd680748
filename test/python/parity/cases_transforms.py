# SPDX-License-Identifier: Apache-2.0
"""Cases of transforms.*, coord_transform, coord_flip, bb_flip, rotate, bbox_rotate and warp_affine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from harness import Batch, Case, T, rng_of
from samples import images, per_sample, uniform, values


def matrices(rng: np.random.Generator, ndim: int) -> Batch:
    return Batch([rng.uniform(-2, 2, (ndim, ndim + 1)).astype(np.float32) for _ in range(3)])


def transforms() -> Iterator[Case]:
    rng = rng_of("transforms")

    def case(op: str, *inputs: Batch, **kwargs: Any) -> Case:
        return Case(f"transforms.{op}", inputs, kwargs)

    calls: list[tuple[str, int, dict[str, Any]]] = [
        ("translation", 2, {"offset": [3.0, -4]}),
        ("translation", 3, {"offset": uniform(rng, -5, 5, (3,))}),
        ("translation", 1, {"offset": 2.5}),
        ("translation", 6, {"offset": [1.0, 2, 3, 4, 5, 6]}),
        ("scale", 2, {"scale": [3.0, 0.5]}),
        ("scale", 2, {"scale": [3.0, 0.5], "center": [1.0, 2]}),
        ("scale", 2, {"scale": uniform(rng, 0.5, 2, (2,)), "center": uniform(rng, -2, 2, (2,))}),
        ("scale", 4, {"scale": 3.0, "ndim": 4, "center": 2.0}),
        ("rotation", 2, {"angle": 30.0}),
        ("rotation", 2, {"angle": uniform(rng, -400, 400), "center": [20.0, 30]}),
        ("rotation", 3, {"angle": -70.0, "axis": [1.0, 2, 3], "center": [1.0, 2, 4]}),
        ("rotation", 3, {"angle": uniform(rng, -90, 90), "axis": uniform(rng, -1, 1, (3,))}),
        ("shear", 2, {"shear": [1.0, 2]}),
        ("shear", 3, {"shear": [1.0, 2, 3, 4, 5, 6], "center": [1.0, 2, 3]}),
        ("shear", 2, {"angles": [10.0, -20]}),
        ("shear", 3, {"angles": uniform(rng, -60, 60, (3, 2)), "center": 1.0}),
        ("crop", 2, {"from_start": [1.0, 2], "from_end": [3.0, 5], "to_start": [0.0, 1], "to_end": [10.0, 20]}),
        ("crop", 2, {"from_start": [1.0, 2], "from_end": [0.0, 4], "to_start": [5.0, 0], "to_end": [1.0, 3], "absolute": True}),
        ("crop", 2, {"from_start": [1.0, 2], "from_end": 3.0, "to_end": [10.0, 20]}),
        ("crop", 3, {"from_start": uniform(rng, 0, 1, (3,)), "from_end": uniform(rng, 2, 3, (3,)), "to_end": 7.0}),
    ]
    for op, ndim, kwargs in calls:
        yield case(op, **kwargs)
        for reverse in (False, True):
            yield case(op, matrices(rng, ndim), **kwargs, reverse_order=reverse)
    yield case("scale", scale=3.0)
    yield case("scale", matrices(rng, 3), scale=[3.0], ndim=2)
    yield case("crop")
    for n in (2, 3, 5):
        for reverse in (False, True):
            yield case("combine", *(matrices(rng, 3) for _ in range(n)), reverse_order=reverse)
    points = Batch([rng.uniform(0, 50, (6, 2)).astype(np.float32) for _ in range(3)])
    yield Case("coord_transform", [points], title="by a combined transform", build=_chain)
    for op, inputs, bad in (
        ("translation", [], {"offset": [1.0] * 7}),
        ("translation", [matrices(rng, 3)], {"offset": [1.0, 2]}),
        ("translation", [Batch([np.eye(3, dtype=np.float32)] * 3)], {"offset": [1.0, 2]}),
        ("translation", [Batch([np.zeros((2, 3), np.int32)] * 3)], {"offset": [1.0, 2]}),
        ("scale", [], {"scale": [1.0, 2], "center": [1.0, 2, 3]}),
        ("rotation", [], {"angle": 3.0, "axis": [1.0, 2]}),
        ("rotation", [matrices(rng, 3)], {"angle": 3.0}),
        ("shear", [], {}),
        ("shear", [], {"shear": [1.0, 2], "angles": [1.0, 2]}),
        ("shear", [], {"shear": [1.0]}),
        ("shear", [], {"shear": Batch([np.ones((2, 3), np.float32)] * 3)}),
        ("shear", [], {"angles": Batch([np.ones((1, 2), np.float32)] * 3)}),
        ("shear", [], {"angles": [-95.0, 2]}),
        ("crop", [], {"from_start": [1.0, 2], "from_end": [3.0, 4, 5]}),
        ("combine", [matrices(rng, 2), matrices(rng, 3)], {}),
        ("combine", [matrices(rng, 2)], {}),
    ):
        yield Case(f"transforms.{op}", inputs, bad, error=True)


def _chain(lib: Any, points: Any) -> Any:
    matrix = lib.fn.transforms.rotation(angle=30.0, center=[20.0, 15])
    matrix = lib.fn.transforms.translation(matrix, offset=[1.0, 2.5])
    matrix = lib.fn.transforms.combine(matrix, lib.fn.transforms.scale(scale=[1.5, 0.75]))
    return lib.fn.coord_transform(points, MT=matrix)


def coord_transform() -> Iterator[Case]:
    rng = rng_of("coord_transform")

    def points(n: int, dtype: str = "float32", lead: tuple[int, ...] = ()) -> Batch:
        shapes = [(*lead, int(rng.integers(1, 300)), n) for _ in range(3)]
        return Batch([(rng.uniform(-50 if dtype[0] != "u" else 0, 100, s)).astype(dtype) for s in shapes])

    def case(batch: Batch, **kwargs: Any) -> Case:
        return Case("coord_transform", [batch], kwargs)

    def row(n: int) -> list[float]:
        return [round(float(v), 3) for v in rng.uniform(-2, 2, n)]

    for n in (1, 2, 3, 4, 6):
        for m in (1, 2, 3, 4, 6):
            yield case(points(n), M=row(n * m) if n * m > 1 else 3.0, T=row(m))
    yield case(points(2))
    yield case(points(3), M=2.0)
    yield case(points(3), T=2.0)
    yield case(points(3), MT=2.0)
    yield case(points(2), MT=row(9))
    yield case(points(3, lead=(2, 3)), M=row(6), T=[1.0, -1])
    yield case(points(2), M=per_sample([rng.uniform(-1, 1, (2, 2)) for _ in range(3)]))
    yield case(points(2), MT=per_sample([rng.uniform(-1, 1, (4, 3)) for _ in range(3)]))
    yield case(points(2), T=uniform(rng, -2, 2, (2,)))
    yield case(points(2), M=uniform(rng, 1, 2), T=uniform(rng, 1, 2))
    for dtype in ("uint8", "uint16", "int16", "int32"):
        yield case(points(2, dtype), M=row(4))
        yield case(points(2, dtype), M=row(6), T=row(3), dtype=getattr(T, dtype.upper()))
    colours = Batch([values(rng, (20, 31, 3), "uint8") for _ in range(3)], "HWC")
    yield Case("coord_transform", [colours], {"M": [0.25, 0.5, 0.25], "dtype": T.UINT8})
    for bad in (
        {"M": [1.0, 2, 3]},
        {"T": [1.0, 2, 3]},
        {"M": [1.0, 2, 3, 4], "MT": [1.0, 2, 3, 4, 5, 6]},
        {"MT": [1.0, 2]},
        {"M": [1.0, 2, 3, 4, 5, 6], "T": [1.0, 2]},
        {"dtype": T.INT32},
        {"M": [1.0] * 14},
    ):
        yield Case("coord_transform", [points(2)], bad, error=True)
    for key, shape in (("M", (1, 4)), ("M", (4, 1)), ("M", (1, 1)), ("M", (1, 2, 2)), ("MT", (3, 2)), ("MT", (1, 6))):
        yield Case("coord_transform", [points(2)], {key: Batch([np.ones(shape, np.float32)] * 3)}, error=True)
    yield Case("coord_transform", [points(2, "int64")], {}, error=True)
    yield Case("coord_transform", [points(7)], {}, error=True)
    yield Case("coord_transform", [Batch([np.ones(4, np.float32)] * 3)], {}, error=True)


def flips() -> Iterator[Case]:
    rng = rng_of("coord_flip")

    def points(n: int) -> Batch:
        return Batch([rng.uniform(0, 1, (int(rng.integers(0, 40)), n)).astype(np.float32) for _ in range(3)])

    for n in (1, 2, 3):
        yield Case("coord_flip", [points(n)])
        yield Case("coord_flip", [points(n)], {"flip_x": 0, "flip_y": 1, "flip_z": 1, "center_y": 3.0, "center_z": 2.0})
    yield Case("coord_flip", [points(2)], {"layout": "yx"})
    yield Case("coord_flip", [points(3)], {"layout": "zxy", "flip_z": per_sample([0, 1, 1], "int32"), "center_x": uniform(rng, 0, 9)})
    boxes = points(4)
    for ltrb in (False, True):
        for horizontal, vertical in ((1, 0), (0, 1), (1, 1), (0, 0), (per_sample([0, 1, 1], "int32"), per_sample([1, 0, 1], "int32"))):
            yield Case("bb_flip", [boxes], {"ltrb": ltrb, "horizontal": horizontal, "vertical": vertical})
    yield Case("bb_flip", [Batch([b.ravel() for b in boxes.samples])])
    yield Case("coord_flip", [points(4)], error=True)
    yield Case("coord_flip", [points(2)], {"layout": "xx"}, error=True)
    yield Case("coord_flip", [Batch([np.ones((2, 2), np.int32)] * 3)], error=True)
    yield Case("bb_flip", [Batch([np.ones((2, 4), np.int32)] * 3)], error=True)


def volumes(rng: np.random.Generator, dtype: str, channels: int = 2) -> Batch:
    return Batch([values(rng, (*(int(v) for v in rng.integers(3, 14, 3)), channels), dtype) for _ in range(3)], "DHWC")


def _warp(op: str, batch: Batch, **kwargs: Any) -> Case:
    """Makes a case of a warp. Its bound allows positions that differ in the last bit (see `tolerance` in the operator's table, stoker._catalog)."""
    if kwargs.get("interp_type") == T.INTERP_NN:
        return Case(op, [batch], kwargs, bound=np.inf, share=0.99)
    dtype = str(batch.samples[0].dtype)
    bound = {"float32": 1.2e-4, "int16": 8, "int32": 2**19, "uint8": 255e-4 if "dtype" in kwargs else 1}[dtype]
    return Case(op, [batch], kwargs, bound=bound)


def rotate() -> Iterator[Case]:
    rng = rng_of("rotate")
    for interp in (T.INTERP_NN, T.INTERP_LINEAR):
        for angle in (0, 30, 45.5, 90, 135, 180, 270, -10.25, 400):
            yield _warp("rotate", images(rng), angle=float(angle), interp_type=interp, fill_value=0.0)
        yield _warp("rotate", images(rng), angle=uniform(rng, -180, 180), interp_type=interp)
        yield _warp("rotate", images(rng), angle=uniform(rng, -180, 180), keep_size=True, interp_type=interp, fill_value=42)
        yield _warp("rotate", images(rng), angle=33.0, size=[40.4, 55.5], interp_type=interp, fill_value=0)
        yield _warp("rotate", images(rng), angle=33.0, size=per_sample([[10, 60], [31, 20], [44, 45]]), keep_size=True, interp_type=interp)
        for dtype in ("float32", "int16", "int32"):
            yield _warp("rotate", images(rng, dtype), angle=33.0, interp_type=interp, fill_value=0.5 if dtype == "float32" else 3)
        yield _warp("rotate", images(rng), angle=33.0, interp_type=interp, dtype=T.FLOAT)
        frames = [np.ascontiguousarray(np.stack([s, s[::-1]])) for s in images(rng).samples]
        yield _warp("rotate", Batch(frames, "FHWC"), angle=20.0, interp_type=interp)
        for dtype in ("uint8", "float32", "int32"):
            yield _warp("rotate", volumes(rng, dtype), angle=25.0, axis=[0.3, 1.0, 2.0], interp_type=interp, fill_value=0)
        yield _warp("rotate", volumes(rng, "uint8"), angle=uniform(rng, -180, 180), axis=uniform(rng, -1, 1, (3,)), interp_type=interp)
        yield _warp("rotate", volumes(rng, "uint8"), angle=25.0, axis=[1.0, 0, 0], interp_type=interp, keep_size=True)
        matrix = [0.9131, 0.1072, 0.2017, -1.0123, -0.2089, 1.1031, 0.1213, 2.0417, 0.0101, 0.3019, 0.8153, 1.5077]
        for dtype in ("uint8", "int16", "int32", "float32"):
            yield _warp("warp_affine", volumes(rng, dtype), matrix=matrix, interp_type=interp, fill_value=7, size=[4, 12.0, 9.6])
        yield _warp("warp_affine", volumes(rng, "uint8"), matrix=matrix, inverse_map=False, interp_type=interp)
        frames = [np.ascontiguousarray(np.stack([s, s[::-1]])) for s in volumes(rng, "uint8").samples]
        yield _warp("warp_affine", Batch(frames, "FDHWC"), matrix=matrix, interp_type=interp)
        plane = [0.9131, 0.1072, 2.0123, -0.2017, 1.1031, -3.0417]
        yield _warp("warp_affine", images(rng, "int32"), matrix=plane, interp_type=interp, fill_value=3)
        yield _warp("warp_affine", images(rng, "int32"), matrix=plane, interp_type=interp, dtype=T.FLOAT)
        for dtype in (T.UINT8, T.INT16, T.INT32):
            batch = Batch([s * 300 for s in images(rng, "float32").samples], "HWC")
            yield Case("warp_affine", [batch], {"matrix": plane, "interp_type": interp, "dtype": dtype}, bound=np.inf, share=0.97)
    yield Case("rotate", [volumes(rng, "uint8")], {"angle": 10.0}, error=True)
    yield Case("rotate", [images(rng)], {"angle": 10.0, "size": [4]}, error=True)
    yield Case("rotate", [images(rng)], {"angle": 10.0, "interp_type": T.INTERP_CUBIC}, error=True)
    yield Case("rotate", [images(rng)], {}, error=True)
    yield Case("warp_affine", [volumes(rng, "uint8")], {"matrix": plane}, error=True)
    yield Case("warp_affine", [images(rng)], {"matrix": plane, "dtype": T.INT16}, error=True)


def bbox_rotate() -> Iterator[Case]:
    rng = rng_of("bbox_rotate")

    def boxes(layout: str, extent: tuple[float, float] = (1, 1)) -> Batch:
        made = []
        for _ in range(3):
            low = rng.uniform(0, 0.7, (int(rng.integers(1, 12)), 2))
            size = rng.uniform(0.02, 0.3, low.shape)
            box = np.concatenate([low, size if layout == "xyWH" else low + size], 1)
            made.append((box * np.array([*extent, *extent])).astype(np.float32))
        return Batch(made)

    shape: dict[str, Any] = {"input_shape": [100, 200]}
    for layout in ("xyXY", "xyWH"):
        for mode in ("expand", "fixed", "halfway"):
            yield Case("bbox_rotate", [boxes(layout)], {"angle": uniform(rng, -180, 180), "mode": mode, "bbox_layout": layout, **shape})
            kwargs = {"angle": 30.0, "mode": mode, "bbox_layout": layout, "keep_size": True, **shape}
            yield Case("bbox_rotate", [boxes(layout)], kwargs)
            yield Case("bbox_rotate", [boxes(layout, (200, 100))], {**kwargs, "bbox_normalized": False})
        kwargs = {"angle": uniform(rng, -180, 180), "bbox_layout": layout, "keep_size": True, "remove_threshold": 0.8}
        where = per_sample([[90, 120, 3], [200, 61, 3], [33, 34, 3]], "int32")
        batch = boxes(layout)
        labels = [np.arange(len(b), dtype=np.int32) for b in batch.samples]
        yield Case("bbox_rotate", [batch, Batch(labels)], {**kwargs, "input_shape": where})
        yield Case("bbox_rotate", [batch, Batch([l[:, None] for l in labels])], {**kwargs, "input_shape": where, "shape_layout": "HWC"})
        yield Case("bbox_rotate", [batch], {"angle": 40.0, "size": [60.0, 70], "remove_threshold": 0.0, "bbox_layout": layout, **shape})
        yield Case(
            "bbox_rotate", [batch], {"angle": 40.0, "size": per_sample([[60, 70], [81, 90], [99, 50]]), "bbox_layout": layout, **shape}
        )
    yield Case("bbox_rotate", [boxes("xyXY")], {"angle": 40.0, "input_shape": [200, 100], "shape_layout": "WH"})
    flat = Batch([np.array([[0.5, 0.5, 0.5, 0.5], [0.3, 0.3, 0.6, 0.7], [0.4, 0.2, 0.4, 0.6], [0.2, 0.4, 0.5, 0.4]], np.float32)] * 3)
    for mode in ("expand", "fixed", "halfway"):
        for threshold in (0.0, 0.1):
            yield Case("bbox_rotate", [flat], {"angle": uniform(rng, 5, 80), "mode": mode, "remove_threshold": threshold, **shape})
    batch = boxes("xyXY")
    for bad in ({"mode": "grow"}, {"bbox_layout": "XYxy"}, {"remove_threshold": 2.0}):
        yield Case("bbox_rotate", [batch], {"angle": 4.0, **shape, **bad}, error=True)
    yield Case("bbox_rotate", [Batch([b.astype(np.int32) for b in batch.samples])], {"angle": 4.0, **shape}, error=True)
    yield Case("bbox_rotate", [batch, Batch([np.zeros(len(b) + 1, np.int32) for b in batch.samples])], {"angle": 4.0, **shape}, error=True)


def all_cases() -> Iterator[Case]:
    for group in (transforms, coord_transform, flips, rotate, bbox_rotate):
        yield from group()
