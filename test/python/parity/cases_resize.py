# SPDX-License-Identifier: Apache-2.0
"""Cases of resize and resize_crop_mirror of volumes, resize with save_attrs, tensor_resize.

Gaussian filters along any dim but the last are not compared: in DALI they differ from those for images by up to 1.5% of the range.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from cases_geometry import FILTERS
from harness import Batch, Case, T, rng_of
from samples import images, per_sample, smooth, uniform, values


def volumes(rng: np.random.Generator, dtype: str = "uint8", layout: str = "DHWC", channels: int = 2) -> Batch:
    made = []
    for _ in range(3):
        depth, height, width = (int(v) for v in rng.integers(5, 18, 3))
        slices = [smooth(rng, (height, width, channels), dtype) for _ in range(depth)]
        volume = np.stack(slices)
        made.append(
            np.ascontiguousarray(volume.transpose(3, 0, 1, 2) if layout == "CDHW" else volume[None] if layout == "FDHWC" else volume)
        )
    return Batch(made, layout)


def resize() -> Iterator[Case]:
    rng = rng_of("resize of volumes")

    def case(batch: Batch | None = None, **kwargs: Any) -> Case:
        bound = {"float32": 1e-4, "int16": 2, "uint16": 2}.get(str((batch or volumes(rng)).samples[0].dtype))
        return Case("resize", [batch or volumes(rng)], kwargs, share=0.9 if bound is None else 0, bound=bound)

    for filter_ in FILTERS[:-1]:
        for antialias in (True, False):
            yield case(size=[7, 20, 9], interp_type=filter_, antialias=antialias)
        yield case(volumes(rng, "float32"), size=[20, 6, 11], interp_type=filter_)
    for dtype in ("int16", "uint16", "float32"):
        for layout in ("DHWC", "CDHW", "FDHWC"):
            yield case(volumes(rng, dtype, layout), size=[9, 8, 7])
    yield case(dtype=T.FLOAT, size=[9, 8, 7])
    for kwargs in (
        {"size": 8},
        {"size": [0, 9, 3], "mode": "not_larger"},
        {"size": [0, 9, 3], "mode": "not_smaller"},
        {"size": [8, 9, 3], "mode": "not_larger", "max_size": 5},
        {"size": [0, 9, 3], "mode": "stretch"},
        {"size": [0, 9, 3]},
        {"resize_shorter": 8, "max_size": [12, 12, 12]},
        {"resize_shorter": uniform(rng, 4, 12)},
        {"resize_longer": 8.5},
        {"resize_x": 12, "resize_y": 5},
        {"resize_z": -7},
        {"size": [-6, 4, 5]},
        {"size": uniform(rng, 3, 12, (3,))},
        {"size": [6, 7, 8], "roi_start": [1.5, 0.25, 2], "roi_end": [4.5, 4, 0.5]},
        {"size": [6.5, 7.3, 8.8], "roi_start": [0.1, 0.2, 0.3], "roi_end": [0.9, 0.8, 0.7], "roi_relative": True},
    ):
        for subpixel in (True, False):
            yield case(**kwargs, subpixel_scale=subpixel)
    yield case(size=[9, 8, 7], save_attrs=True)
    yield case(images(rng), size=[31, 27], save_attrs=True)
    yield case(images(rng, "float32", layout="CHW"), resize_shorter=27, save_attrs=True)
    for mode in ("default", "stretch", "not_larger", "not_smaller"):  # sizes that are all 0 keep the image's size
        yield case(images(rng), size=[0, 0], mode=mode, max_size=9)
        yield case(images(rng), resize_x=per_sample([0, 11, 0]), resize_y=per_sample([0, 0, 13]), mode=mode)
    yield case(images(rng), resize_shorter=per_sample([0, 9, 0]), roi_start=[1, 2], roi_end=[14, 13])
    for mode in ("default", "stretch", "not_larger", "not_smaller"):  # a mirrored region, and extents that follow from it
        for start, end in (([1, 12], [11, 2]), ([11, 2], [1, 12]), ([11, 12], [1, 2])):
            for size in ([0, 0], [9, 0], [0, 14], [-9, 0], [9, 14]):
                yield case(images(rng, "float32"), size=size, roi_start=start, roi_end=end, mode=mode)
            yield case(images(rng, "float32"), resize_x=14, roi_start=start, roi_end=end, mode=mode, max_size=9, subpixel_scale=False)
    yield case(volumes(rng, "float32"), resize_y=7, roi_start=[4, 0, 4], roi_end=[0, 4, 1])
    yield case(resize_longer=0)
    yield Case("resize", [images(rng)], {"size": [5, 5], "resize_x": 0}, error=True)
    frames = [np.ascontiguousarray(np.stack([s, s[::-1]]).transpose(3, 0, 1, 2)) for s in images(rng).samples]
    yield case(Batch(frames, "CFHW"), size=[31, 27])
    for shape in ((0, 8, 3), (8, 0, 3), (0, 0, 3)):  # an empty axis stays empty, and its requested size is ignored
        empty = Batch([np.zeros(shape, np.uint8)] * 3, "HWC")
        for kwargs in (
            {"size": [4, 5]},
            {"size": [0, 5]},
            {"size": [4, 5], "max_size": 3},
            {"size": [4, 5], "mode": "not_larger"},
            {"size": [4, 5], "mode": "not_smaller", "max_size": 3},
            {"size": [4, 5], "roi_start": [0.2, 0.2], "roi_end": [0.8, 0.8], "roi_relative": True},
            {"size": [4, 5], "interp_type": T.INTERP_NN, "dtype": T.FLOAT},
            {"size": [4, 5], "save_attrs": True},
            {"resize_x": 5},
            {"resize_y": 5, "mode": "stretch"},
            {"resize_x": 5, "max_size": 3},
            {"resize_shorter": 5},
            {"resize_longer": 5, "max_size": 3},
        ):
            yield case(empty, **kwargs)
    yield Case("resize", [volumes(rng)], {"size": [3, 4]}, error=True)
    yield Case("resize", [Batch([np.zeros((4, 5, 6, 1), np.int32)] * 3, "DHWC")], {"size": [3, 4, 5]}, error=True)


def tensor_resize() -> Iterator[Case]:
    rng = rng_of("tensor_resize")

    def case(batch: Batch | None = None, **kwargs: Any) -> Case:
        of = batch or volumes(rng)
        bound = {"float32": 1e-4, "int16": 2, "uint16": 2}.get(str(of.samples[0].dtype))
        if kwargs.get("interp_type") == T.INTERP_NN:
            return Case("tensor_resize", [of], kwargs, bound=np.inf, share=0.95)
        return Case("tensor_resize", [of], kwargs, share=0.85 if bound is None else 0, bound=bound)

    def tensors(*shape: int, dtype: str = "float32") -> Batch:
        return Batch([values(rng, tuple(s + i for s in shape), dtype) for i in range(3)])

    for kwargs in (
        {"sizes": [7, 9], "axes": [0, 2]},
        {"sizes": [7, 9], "axis_names": "DW"},
        {"sizes": 9, "axes": [-2]},
        {"sizes": [5], "axes": [3]},
        {"scales": [0.55, 1.31], "axes": [0, 1]},
        {"scales": 0.7, "axes": [2, 1]},
        {"scales": per_sample([[0.5, 0.7], [1.5, 0.3], [0.9, 2.1]]), "axes": [0, 1]},
        {"sizes": uniform(rng, 3, 12, (2,)), "axes": [1, 2]},
        {"scales": [0.55, 0.0], "axes": [0, 1], "mode": "stretch"},
        {"sizes": [19, 17], "axes": [1, 2], "max_size": [7, 8]},
        {"scales": [0.5], "axes": [0], "roi_start": [1], "roi_end": [4]},
        {"scales": [0.55], "axes": [1], "roi_start": [0.8], "roi_end": [0.1], "roi_relative": True, "alignment": 0.0},
    ):
        for rounding in ("round", "truncate", "ceil"):
            yield case(**kwargs, size_rounding=rounding)
    for sizes in ([0, 9], [7, 0], [0, 0]):
        yield case(tensors(7, 8), sizes=sizes, roi_start=[4, 6.5], roi_end=[0.5, 2])
    for alignment in (0.0, 0.3, 1.0):
        for subpixel in (True, False):
            yield case(volumes(rng, "float32"), scales=[0.55, -0.73], axes=[0, 1], alignment=alignment, subpixel_scale=subpixel)
    yield case(volumes(rng, "float32"), sizes=[5.5, 7.3], axes=[0, 1], alignment=[0.2, 0.9])
    for mode in ("default", "stretch", "not_larger", "not_smaller"):  # dims that are not listed count as if their extents were requested
        for kwargs in (
            {"sizes": [3.0], "axes": [0]},
            {"sizes": [14.5], "axes": [1], "alignment": 0.8},
            {"sizes": [4.8], "axes": [2], "size_rounding": "ceil"},
            {"sizes": [3.0, 0.0], "axes": [0, 1]},
            {"sizes": [0.0, 3.0], "axes": [2, 0], "max_size": 4},
            {"sizes": [0.0], "axes": [1], "max_size": 4},
            {"sizes": [9.0, 0.0], "axes": [0, 2], "roi_start": [5, 0.5], "roi_end": [1, 6.5]},
            {"sizes": [0.0, 9.0], "axes": [0, 2], "roi_start": [0.9, 0.1], "roi_end": [0.2, 0.7], "roi_relative": True},
        ):
            yield case(tensors(6, 7, 8), mode=mode, **kwargs)
    yield case(volumes(rng, "float32"), sizes=[0, 9, 0], axes=[0, 1, 2])
    for filter_ in FILTERS:
        yield case(tensors(30), sizes=[11], interp_type=filter_)
        if filter_ != T.INTERP_GAUSSIAN:
            yield case(tensors(5, 30, 4), sizes=[40], axes=[1], interp_type=filter_)
    for dtype in ("uint8", "int16", "uint16"):
        yield case(tensors(5, 30, 4, dtype=dtype), sizes=[4, 12], axes=[0, 1], dtype=T.FLOAT)
        yield case(tensors(5, 30, 4, dtype=dtype), sizes=[4, 12], axes=[0, 1], interp_type=T.INTERP_NN)
    for bad in (
        {},
        {"sizes": [3], "scales": [0.5], "axes": [0]},
        {"sizes": [3, 4]},
        {"sizes": [2, 3], "axes": [0, 0]},
        {"sizes": [2], "axes": [9]},
        {"sizes": [3, 4], "axes": [0, 1], "alignment": [0.1, 0.2, 0.3]},
        {"sizes": [9, 9, 9, 9]},
    ):
        yield Case("tensor_resize", [volumes(rng)], bad, error=True)
    for shape in ((0, 8), (8, 0), (0, 0)):
        empty = Batch([np.zeros(shape, np.uint8)] * 3)
        for kwargs in ({"sizes": [4, 5]}, {"scales": [2.0, 0.5]}, {"sizes": [4], "axes": [0]}):
            yield case(empty, **kwargs)
    yield Case("tensor_resize", [tensors(5, 6, dtype="int32")], {"sizes": [2, 3]}, error=True)


def resize_crop_mirror() -> Iterator[Case]:
    rng = rng_of("resize_crop_mirror of volumes")
    for layout in ("DHWC", "CDHW", "FDHWC"):
        for kwargs in (
            {"size": [9, 8, 7], "crop": [4, 5, 3], "crop_pos_x": 0.2, "mirror": 1},
            {"size": [9, 8, 17], "interp_type": T.INTERP_CUBIC, "crop_h": 5, "crop_w": 8, "crop_pos_z": 1.0, "mirror": 3},
            {"resize_shorter": 7, "crop": uniform(rng, 2, 6, (3,)), "mirror": per_sample([0, 1, 2], "int32")},
            {"resize_x": 9, "roi_start": [0.1, 0.2, 0.1], "roi_end": [0.8, 0.9, 1.0], "roi_relative": True, "crop": [1, 2, 4]},
        ):
            # If the layout begins with frames or channels, DALI mirrors other dims than it documents.
            given = kwargs if layout == "DHWC" else {k: v for k, v in kwargs.items() if k != "mirror"}
            yield Case("resize_crop_mirror", [volumes(rng, "float32", layout)], given, share=0, bound=1e-4)
    yield Case("resize_crop_mirror", [volumes(rng)], {"size": [9, 8, 7], "crop": [4, 5, 3], "mirror": 1}, share=0.9)
    for shape in ((0, 8, 3), (8, 0, 3), (0, 0, 3)):
        empty = Batch([np.zeros(shape, np.uint8)] * 3, "HWC")
        yield Case("resize_crop_mirror", [empty], {"size": [4, 5], "mirror": 1}, exact=True)
        yield Case("resize_crop_mirror", [empty], {"size": [4, 5], "crop": [2, 2]}, error=True)


def all_cases() -> Iterator[Case]:
    for group in (resize, resize_crop_mirror, tensor_resize):
        yield from group()
