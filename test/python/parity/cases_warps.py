# SPDX-License-Identifier: Apache-2.0
"""Cases of experimental.warp_perspective, sphere, water, resize_crop_mirror, paste, bbox_paste, multi_paste."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from harness import Batch, Case, T, rng_of
from samples import images, per_sample, smooth, uniform


def warp_perspective() -> Iterator[Case]:
    """Yields cases whose bounds are the differences of the images' values over 1/32 of a pixel, because DALI rounds positions to that."""
    rng = rng_of("warp_perspective")

    def matrix() -> list[float]:
        angle, scale = rng.uniform(-0.5, 0.5), rng.uniform(0.7, 1.5)
        c, s = np.cos(angle) * scale, np.sin(angle) * scale
        values = (c, -s, rng.uniform(-9, 9), s, c, rng.uniform(-9, 9), rng.uniform(-2e-3, 2e-3), rng.uniform(-2e-3, 2e-3), 1)
        return [round(float(v), 5) for v in values]

    def case(batch: Batch | None = None, *more: Batch, **kwargs: Any) -> Case:
        batch = batch or images(rng, low=30)
        if kwargs.get("interp_type") == T.INTERP_NN:
            return Case("experimental.warp_perspective", [batch, *more], kwargs, bound=np.inf, share=0.99)
        bound = {"uint8": 16, "float32": 0.08, "int16": 5000, "uint16": 5000}[str(batch.samples[0].dtype)]
        return Case("experimental.warp_perspective", [batch, *more], kwargs, bound=bound)

    for interp in (T.INTERP_NN, T.INTERP_LINEAR, T.INTERP_CUBIC):
        for origin in ("corner", "center"):
            for inverse in (True, False):
                yield case(matrix=matrix(), interp_type=interp, pixel_origin=origin, inverse_map=inverse)
        for dtype in ("float32", "int16", "uint16"):
            yield case(images(rng, dtype, low=30), matrix=matrix(), interp_type=interp)
        for border in ("constant", "replicate", "reflect", "reflect_101", "wrap"):
            shrink = [2.0137, 0.1021, -30.017, 0.05012, 2.1013, -20.033, 0.0005, 0.0002, 1.0]
            yield case(matrix=shrink, interp_type=interp, border_mode=border, fill_value=[7.0])
        for layout in ("CHW", "HW"):
            yield case(images(rng, layout=layout, low=30), matrix=matrix(), interp_type=interp, border_mode="replicate")
    frames = [np.ascontiguousarray(np.stack([s, s[::-1]])) for s in images(rng).samples]
    yield case(Batch(frames, "FHWC"), matrix=matrix())
    for channels in (1, 2, 4):
        yield case(images(rng, channels=channels, low=30), matrix=matrix())
    yield case(matrix=matrix(), fill_value=[10, 200, 90], size=[40, 55.4])
    yield case(matrix=matrix(), size=[50])
    rows = Batch([np.array(matrix(), np.float32).reshape(3, 3) for _ in range(3)])
    yield case(matrix=rows, size=uniform(rng, 10, 60, (2,)))
    yield case(None, rows, inverse_map=False)
    for bad in (
        {},
        {"matrix": matrix()[:6]},
        {"matrix": matrix(), "interp_type": T.INTERP_LANCZOS3},
        {"matrix": matrix(), "border_mode": "mirror"},
        {"matrix": matrix(), "fill_value": [1.0, 2]},
        {"matrix": Batch([np.ones((1, 9), np.float32)] * 3)},
    ):
        yield Case("experimental.warp_perspective", [images(rng)], bad, error=True)
    yield Case("experimental.warp_perspective", [images(rng, "int32")], {"matrix": matrix()}, error=True)
    yield Case("experimental.warp_perspective", [images(rng), Batch([np.ones(9, np.float32)] * 3)], error=True)


def displaced() -> Iterator[Case]:
    rng = rng_of("displaced")
    waves = {"ampl_x": 2.3, "ampl_y": 1.7, "freq_x": 0.5, "freq_y": 0.7, "phase_x": 0.2, "phase_y": 0.9}
    for op, kwargs in (("sphere", {}), ("water", {}), ("water", waves)):
        for interp in (T.INTERP_NN, T.INTERP_LINEAR):
            for dtype in ("uint8", "float32"):
                exact: dict[str, Any] = {"bound": np.inf, "share": 0.98} if interp == T.INTERP_NN else {}
                if interp == T.INTERP_LINEAR and dtype == "float32":
                    exact = {"bound": 5e-4 if op == "sphere" else 5e-3}
                yield Case(op, [images(rng, dtype)], {**kwargs, "interp_type": interp, "fill_value": 3.0}, **exact)
        yield Case(op, [images(rng, channels=1)], kwargs, bound=np.inf, share=0.98)
        yield Case(op, [images(rng, "float32")], {**kwargs, "mask": per_sample([1, 1, 1], "int32")}, bound=np.inf, share=0.98)
        yield Case(op, [images(rng)], {**kwargs, "interp_type": T.INTERP_CUBIC}, error=True)
        yield Case(op, [images(rng, "int16")], kwargs, error=True)
        yield Case(op, [images(rng, layout="CHW")], kwargs, error=True)


def resize_crop_mirror() -> Iterator[Case]:
    rng = rng_of("resize_crop_mirror")

    def case(batch: Batch | None = None, **kwargs: Any) -> Case:
        nearest = kwargs.get("interp_type") == T.INTERP_NN
        return Case("resize_crop_mirror", [batch or images(rng, low=30)], kwargs, share=0.9, bound=np.inf if nearest else None)

    for mirror in (0, 1, 2, 3, per_sample([0, 1, 3], "int32")):
        yield case(size=[50, 60], crop=[30, 40], mirror=mirror)
    for interp in (T.INTERP_NN, T.INTERP_LINEAR, T.INTERP_CUBIC, T.INTERP_LANCZOS3, T.INTERP_TRIANGULAR, T.INTERP_GAUSSIAN):
        yield case(size=[50, 60], crop=[30, 40], interp_type=interp, mirror=1)
    for dtype in ("uint8", "int16", "uint16", "float32"):
        yield case(images(rng, dtype, low=30), resize_shorter=40, crop_w=20, crop_h=33, crop_pos_x=0.2, crop_pos_y=0.9, mirror=1)
    yield case(images(rng, layout="CHW", low=30), resize_longer=60.0, crop=[20, 25], crop_pos_x=uniform(rng, 0, 1), dtype=T.FLOAT)
    for rounding in ("round", "truncate"):
        yield case(size=[51, 64], crop=[30, 41], crop_pos_x=0.7, crop_pos_y=0.3, rounding=rounding)
    yield case(resize_x=44.0, mode="stretch", crop=[0, 20])
    yield case(size=[40, 50], roi_start=[2, 3], roi_end=[25, 28], crop=[20, 20], mirror=2)
    yield case(size=[40, 50], antialias=False)
    yield Case("resize_crop_mirror", [images(rng)], {"crop": [4, 2]}, error=True)


def paste() -> Iterator[Case]:
    rng = rng_of("paste")

    def case(channels: int = 3, **kwargs: Any) -> Case:
        return Case("paste", [images(rng, channels=channels)], kwargs, exact=True)

    yield case(fill_value=[69, 77, 98], ratio=2.0)
    yield case(fill_value=[69], ratio=1.37, paste_x=0.3, paste_y=0.9)
    yield case(fill_value=[69, 77, 98], ratio=uniform(rng, 1, 3), paste_x=uniform(rng, 0, 1), paste_y=uniform(rng, 0, 1))
    yield case(fill_value=[5], ratio=1.1, min_canvas_size=70.0)
    yield case(fill_value=[5], ratio=1.1, min_canvas_size=uniform(rng, 10, 90), paste_x=1.0, paste_y=0.0)
    yield case(1, fill_value=[5], n_channels=1, ratio=1.5)
    yield case(4, fill_value=[5, 6, 7, 8], n_channels=4, ratio=1.5)
    for bad in ({"ratio": 0.9}, {"ratio": 2.0, "paste_x": 1.5}, {}):
        yield Case("paste", [images(rng)], {"fill_value": [1], **bad}, error=True)
    yield Case("paste", [images(rng, "float32")], {"fill_value": [1], "ratio": 2.0}, error=True)
    yield Case("paste", [images(rng, layout="CHW")], {"fill_value": [1], "ratio": 2.0}, error=True)
    boxes = Batch([rng.uniform(0, 1, (int(rng.integers(0, 9)), 4)).astype(np.float32) for _ in range(3)])
    for ltrb in (False, True):
        yield Case("bbox_paste", [boxes], {"ratio": 2.0, "ltrb": ltrb})
        yield Case("bbox_paste", [boxes], {"ratio": uniform(rng, 1, 3), "paste_x": uniform(rng, 0, 1), "paste_y": 0.9, "ltrb": ltrb})
    yield Case("bbox_paste", [Batch([np.ones((2, 3), np.float32)] * 3)], {"ratio": 2.0}, error=True)
    yield Case("bbox_paste", [Batch([np.ones((2, 4), np.int32)] * 3)], {"ratio": 2.0}, error=True)


def multi_paste() -> Iterator[Case]:
    rng = rng_of("multi_paste")

    def uniform_images(dtype: str = "uint8", count: int = 3) -> Batch:
        return Batch([smooth(rng, (20, 31, 3), dtype) for _ in range(count)], "HWC")

    def pairs(rows: Any, dtype: str = "int32") -> Batch:
        return Batch([np.array(row, dtype).reshape(-1, 2) for row in rows])

    def case(*inputs: Batch, **kwargs: Any) -> Case:
        return Case("multi_paste", inputs or [images(rng, low=21, high=40)], kwargs, exact=True)

    ids = Batch([np.array(i, np.int32) for i in ([0, 1, 2], [2], [])])
    counts = [3, 1, 0]
    places = pairs([rng.integers(0, 12, (n, 2)) for n in counts])
    sizes = pairs([rng.integers(1, 20, (n, 2)) for n in counts])
    yield case(in_ids=ids, output_size=[32, 33], out_anchors=places, shapes=sizes)
    yield case(in_ids=ids, output_size=[60, 61], out_anchors=places, in_anchors=pairs([rng.integers(0, 9, (n, 2)) for n in counts]))
    shares = pairs([rng.uniform(0, 0.4, (n, 2)) for n in counts], "float32")
    yield case(in_ids=ids, output_size=[80, 81], in_anchors_rel=shares, out_anchors_rel=shares, shapes_rel=shares)
    yield case(uniform_images(), in_ids=[2])
    yield case(uniform_images(), in_ids=[0, 1], out_anchors=pairs([[[0, 0], [5, 7]]] * 3), shapes=pairs([[[9, 9], [15, 12]]] * 3))
    yield case(output_size=[44, 45])
    two = pairs([[[0, 0], [8, 3]]] * 3)
    yield case(uniform_images(), uniform_images(), output_size=per_sample([[40, 50], [28, 34], [30, 40]], "int32"), out_anchors=two)
    for dtype in ("uint8", "int16", "int32", "float32"):
        for out in (T.UINT8, T.INT16, T.INT32, T.FLOAT):
            tame = Batch([(s.astype("float32") % 100).astype(dtype) for s in uniform_images(dtype).samples], "HWC")
            yield case(tame, dtype=out)
    for bad in (
        {"output_size": [4, 5]},
        {"output_size": [44, 45], "shapes": pairs([[[60, 4]]] * 3)},
        {"output_size": [44, 45], "in_ids": [3]},
        {"output_size": [44, 45], "in_ids": [0, 1], "out_anchors": pairs([[[0, 0]]] * 3)},
        {"output_size": [44, 45], "out_anchors": pairs([[[0, 0]]] * 3), "out_anchors_rel": pairs([[[0, 0]]] * 3, "float32")},
        {"in_ids": [0]},
    ):
        yield Case("multi_paste", [images(rng, low=21, high=40)], bad, error=True)
    yield Case("multi_paste", [uniform_images(), uniform_images()], {"in_ids": [0]}, error=True)
    yield Case("multi_paste", [images(rng, layout="CHW")], {"output_size": [99, 99]}, error=True)
    yield Case("multi_paste", [images(rng, "uint16")], {"output_size": [99, 99]}, error=True)


def all_cases() -> Iterator[Case]:
    for group in (warp_perspective, displaced, resize_crop_mirror, paste, multi_paste):
        yield from group()
