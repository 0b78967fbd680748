# SPDX-License-Identifier: Apache-2.0
"""Cases of resize, crop, slice, flip, crop_mirror_normalize of volumes, pad, warp_affine, and rotate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from harness import Batch, Case, T, rng_of
from samples import images, per_sample, smooth, tensors, uniform, values

FILTERS = (T.INTERP_NN, T.INTERP_LINEAR, T.INTERP_CUBIC, T.INTERP_LANCZOS3, T.INTERP_TRIANGULAR, T.INTERP_GAUSSIAN)


OVERFLOWS = "With dtype=FLOAT16, values that round to more than 65504 become infinite, as by cast; DALI's become 65504 here."
LARGE = Batch([np.array([[[65504], [65519], [65520]], [[70000], [-70000], [2**31 - 1]]], np.int32)] * 3, "HWC")
TRUNCATES = "With an integer dtype, values of float images are rounded, as everywhere; DALI truncates here."


def resize() -> Iterator[Case]:
    rng = rng_of("resize")

    def case(batch: Batch | None = None, **kwargs: Any) -> Case:
        return Case("resize", [batch or images(rng)], kwargs, share=0.9)

    def extent() -> int:
        return int(rng.integers(1, 140))

    for filter_ in FILTERS:
        for antialias in (True, False):
            yield case(size=[extent(), extent()], interp_type=filter_, antialias=antialias)
            yield case(images(rng, "float32"), size=[extent(), extent()], interp_type=filter_, antialias=antialias)
        yield case(size=[extent(), extent()], min_filter=filter_)
        yield case(size=[extent(), extent()], mag_filter=filter_)
        yield case(images(rng, low=30), size=[30, 30], roi_start=[3.25, 4.5], roi_end=[25.5, 28.75], interp_type=filter_)
    yield case(size=[33, 44], interp_type=T.INTERP_CUBIC, mag_filter=T.INTERP_NN)
    for dtype in ("uint8", "int16", "uint16", "float32"):
        for layout, channels in (("HWC", 1), ("HWC", 4), ("CHW", 3), ("HWC", 7)):
            yield case(images(rng, dtype, channels, layout), size=[extent(), extent()])
    yield case(dtype=T.FLOAT, resize_x=extent(), resize_y=extent())
    yield case(dtype=T.UINT8, resize_x=extent())
    video = [np.ascontiguousarray(np.stack([s] * 2 + [s[::-1]])) for s in images(rng).samples]
    yield case(Batch(video, "FHWC"), size=[20, 31])
    for mode in ("default", "stretch", "not_larger", "not_smaller"):
        for kwargs in (
            {"resize_x": 50},
            {"resize_y": 37},
            {"resize_x": 40, "resize_y": 61},
            {"size": 45},
            {"size": [0, 33]},
            {"size": [29, 0], "max_size": 40},
            {"size": [50, 70], "max_size": [45, 60]},
        ):
            yield case(**kwargs, mode=mode)
    for kwargs in (
        {"resize_shorter": 40},
        {"resize_longer": 40},
        {"resize_shorter": 60, "max_size": 80},
        {"resize_shorter": 60, "max_size": [70, 90]},
        {"resize_shorter": uniform(rng, 10, 70)},
        {"resize_longer": uniform(rng, 10, 70)},
        {"resize_x": uniform(rng, 5, 70), "resize_y": uniform(rng, 5, 70)},
        {"size": uniform(rng, 5, 70, (2,))},
        {"size": [-40, 30]},
        {"size": [40, -30]},
        {"resize_x": -25.5, "resize_y": 30.5},
        {"resize_shorter": 0.3},
        {"size": [0.5, 0.49]},
        {"resize_x": 30.5, "resize_y": 31.5},
        {"size": [224, 224]},
    ):
        for subpixel in (True, False):
            yield case(**kwargs, subpixel_scale=subpixel)
    for subpixel in (True, False):
        for start, end in (([2, 3], [20, 25]), ([20, 3], [2, 25]), ([-4, -6], [30, 40]), ([5.3, 1.7], [14.9, 22.1])):
            yield case(images(rng, low=30), size=[24, 31], roi_start=start, roi_end=end, subpixel_scale=subpixel)
            yield case(images(rng, low=30), resize_shorter=24.4, roi_start=start, roi_end=end, subpixel_scale=subpixel)
        yield case(size=[24, 31], roi_start=[0.1, 0.2], roi_end=[0.7, 0.9], roi_relative=True, subpixel_scale=subpixel)
        yield case(
            size=[24, 31],
            roi_start=uniform(rng, 0, 0.4, (2,)),
            roi_end=uniform(rng, 0.6, 1, (2,)),
            roi_relative=True,
            subpixel_scale=subpixel,
        )
    for bad in ({"size": [1, 2, 3]}, {"resize_shorter": 4, "resize_x": 4}, {"mode": "wrong", "size": 4}, {"resize_shorter": 4, "size": 3}):
        yield Case("resize", [images(rng)], bad, error=True)
    yield Case("resize", [images(rng)], {"size": 10, "dtype": T.INT32}, error=True)
    yield Case("resize", [images(rng)], {"size": 10, "roi_start": [1, 2]}, error=True)


def crop_of_frames(rng: np.random.Generator) -> Iterator[Case]:
    """Tests crops of sequences, whose depth is their number of frames."""

    def case(batch: Batch, **kwargs: Any) -> Case:
        return Case("crop", [batch], kwargs, exact=True)

    for layout, axes in (("FHWC", (0, 1, 2, 3)), ("FCHW", (0, 3, 1, 2)), ("CFHW", (3, 0, 1, 2))):

        def frames(dtype: str, axes: tuple[int, ...] = axes, layout: str = layout) -> Batch:
            made = [np.stack([np.roll(s, k, 1) for k in range(7)]).transpose(axes) for s in images(rng, dtype, low=40).samples]
            return Batch([np.ascontiguousarray(m) for m in made], layout)

        yield case(frames("uint8"), crop_d=3, crop_h=20, crop_w=21)
        yield case(frames("uint8"), crop=[4, 20, 21], crop_pos_z=uniform(rng, 0, 1), crop_pos_x=0.2)
        yield case(frames("int16"), crop_d=per_sample([2, 3, 7]), crop_h=20, crop_w=21, crop_pos_z=1.0)
        yield case(frames("float32"), crop=[9, 20, 50], out_of_bounds_policy="trim_to_shape")
        yield Case("crop", [frames("uint8")], {"crop": [9, 20, 21]}, error=True)

        def cut_twice(library: Any, node: Any) -> Any:
            cut = library.fn.crop(node, crop_d=5, crop_h=36, crop_w=30, crop_pos_z=0.9)
            kept = library.fn.crop_mirror_normalize(
                cut, crop=[2, 20, 21], crop_pos_z=0.3, mirror=1, dtype=library.types.FLOAT, output_layout="FCHW"
            )
            return cut, kept

        if layout != "CFHW":
            yield Case("crop", [frames("uint8")], build=cut_twice, title=f"frames of {layout} are cut twice, the second time normalised")


def crop() -> Iterator[Case]:
    rng = rng_of("crop")

    def case(batch: Batch | None = None, **kwargs: Any) -> Case:
        return Case("crop", [batch or images(rng, low=40)], kwargs, exact=True)

    yield case(crop=[30, 20])
    yield case(crop_w=21, crop_h=32)
    yield case(crop=[0, 0])
    yield case(crop=[1, 20, 21])  # the crop has a depth, the images have none
    yield case(crop_d=9, crop_h=20, crop_w=21)
    yield case(crop=[20.5, 21.5])
    for _ in range(6):
        x, y = (round(float(v), 3) for v in rng.uniform(0, 1, 2))
        for rounding in ("round", "truncate"):
            yield case(crop=[int(rng.integers(1, 40)), int(rng.integers(1, 40))], crop_pos_x=x, crop_pos_y=y, rounding=rounding)
    squares = [np.arange(15 * 15 * 3, dtype=np.int64).reshape(15, 15, 3).astype(np.uint8)] * 3
    for pos in (0.7, 0.1, 0.3, 0.5, 0.9):
        for rounding in ("round", "truncate"):
            yield case(Batch(squares, "HWC"), crop=[10, 10], crop_pos_x=pos, crop_pos_y=1 - pos, rounding=rounding)
    yield case(crop=[30, 20], crop_pos_x=uniform(rng, 0, 1), crop_pos_y=uniform(rng, 0, 1))
    yield case(crop=per_sample([[10, 11], [12, 13], [14, 40]]))
    yield case(crop_w=per_sample([10, 11, 12]), crop_h=per_sample([9, 8, 7]))
    for policy in ("pad", "trim_to_shape"):
        yield case(crop=[100, 50], out_of_bounds_policy=policy)
        yield case(crop=[50, 120], out_of_bounds_policy=policy, crop_pos_x=0.2, crop_pos_y=0.9)
    yield case(crop=[100, 120], out_of_bounds_policy="pad", fill_values=[7])
    yield case(crop=[100, 120], out_of_bounds_policy="pad", fill_values=[7, 8, 9])
    yield case(images(rng, "float32"), crop=[100, 120], out_of_bounds_policy="pad", fill_values=[0.25, 0.5, -1])
    for dtype in ("uint8", "int16", "uint16", "float32", "int32"):
        yield case(images(rng, dtype, 3, "CHW", low=40), crop=[20, 31])
        yield case(images(rng, dtype, 1, "HWC", low=40), crop=[20, 31])
        fills = {"out_of_bounds_policy": "pad", "fill_values": [7, 8, 9]}
        yield case(images(rng, dtype, 3, "CHW", low=40), crop=[100, 31], **fills)
        volumes = Batch([np.stack([s, s[::-1]]) for s in images(rng, dtype, low=40).samples], "DHWC")
        yield case(volumes, crop=[100, 31], **fills)
    yield from crop_of_frames(rng)
    yield case(dtype=T.FLOAT, crop=[20, 31])
    yield case(dtype=T.FLOAT16, crop=[20, 31])
    yield Case("crop", [images(rng, "float32", low=40)], {"dtype": T.UINT8, "crop": [20, 31]}, share=0, differs=TRUNCATES)
    yield Case("crop", [LARGE], {"dtype": T.FLOAT16, "crop": [2, 3]}, bound=np.inf, differs=OVERFLOWS)
    yield Case("crop", [images(rng, high=30)], {"crop": [100, 100]}, error=True)
    yield Case("crop", [images(rng)], {"crop": [2, 2], "crop_w": 3}, error=True)
    yield Case("crop", [images(rng)], {"crop": [2, 2], "out_of_bounds_policy": "wrong"}, error=True)
    yield Case("crop", [images(rng)], {"crop": [2, 2], "crop_pos_x": 1.5}, error=True)
    yield Case("crop", [images(rng)], {"crop": [2, 2], "rounding": "up"}, error=True)


def slice_() -> Iterator[Case]:
    rng = rng_of("slice")

    def case(batch: Batch | None = None, *more: Batch, **kwargs: Any) -> Case:
        return Case("slice", [batch or images(rng, low=40), *more], kwargs, exact=True)

    anchor, shape = per_sample([[0.1, 0.2], [0.3, 0.05], [0.5, 0.5]]), per_sample([[0.4, 0.5], [0.61, 0.7], [0.5, 0.25]])
    pixels, extents = per_sample([[1, 2], [10, 5], [3, 3]]), per_sample([[4, 5], [21, 7], [30, 20]])
    yield case(None, anchor, shape)
    yield case(None, pixels, extents, normalized_anchor=False, normalized_shape=False)
    yield case(None, pixels, shape, normalized_anchor=False, normalized_shape=True)
    yield case(None, anchor, extents, normalized_anchor=True, normalized_shape=False, out_of_bounds_policy="trim_to_shape")
    whole = per_sample([[1, 2], [10, 5], [3, 3]], "int32"), per_sample([[4, 5], [21, 7], [30, 20]], "int32")
    yield case(None, *whole)
    yield case(None, anchor, shape, axes=[0, 1])
    yield case(None, anchor, shape, axis_names="HW")
    yield case(None, per_sample([[0.1], [0.2], [0.3]]), per_sample([[0.5], [0.4], [0.3]]), axes=[1])
    for kwargs in (
        {"start": [3, 4], "end": [20, 30]},
        {"start": [3, 4], "shape": [20, 30]},
        {"rel_start": [0.1, 0.2], "rel_end": [0.8, 0.7]},
        {"rel_start": [0.1, 0.2], "rel_shape": [0.8, 0.7]},
        {"start": [3, 4], "rel_end": [0.8, 0.7]},
        {"start": [3, 4], "rel_shape": [0.5, 0.4]},
        {"rel_start": [0.1, 0.2], "shape": [12, 13]},
        {"start": [3, 4]},
        {"end": [13, 14]},
        {"rel_end": [0.5, 0.25]},
        {"shape": [13, 14]},
        {"rel_shape": [0.55, 0.45]},
    ):
        yield case(**kwargs)
        yield case(**kwargs, axes=[0, 1])
        yield case(**kwargs, axis_names="HW")
    yield case(start=per_sample([[1, 2], [3, 4], [5, 6]], "int32"), shape=per_sample([[7, 8], [9, 10], [11, 12]], "int32"))
    yield case(rel_start=uniform(rng, 0, 0.4, (2,)), rel_shape=uniform(rng, 0.1, 0.6, (2,)))
    yield case(start=[5], end=[20], axes=[0])
    yield case(start=[1], end=[2], axes=[2])
    yield case(start=[-1], end=[2], axes=[2], out_of_bounds_policy="pad", fill_values=[9])
    for policy in ("pad", "trim_to_shape"):
        yield case(start=[-5, -7], end=[130, 100], axes=[0, 1], out_of_bounds_policy=policy)
        yield case(rel_start=[-0.2, 0.3], rel_end=[1.2, 1.1], axes=[0, 1], out_of_bounds_policy=policy)
        yield case(None, per_sample([[-0.1, 0.2]] * 3), per_sample([[1.4, 1.5]] * 3), out_of_bounds_policy=policy)
    yield case(start=[-5, -7], end=[130, 100], axes=[0, 1], out_of_bounds_policy="pad", fill_values=[1, 2, 3])
    yield case(start=[-5, -7], end=[130, 100], axes=[0, 1], out_of_bounds_policy="pad", fill_values=[200])
    planar = images(rng, layout="CHW")
    yield case(planar, start=[-5, -7], end=[130, 100], axis_names="HW", out_of_bounds_policy="pad", fill_values=[1, 2, 3])
    for dtype in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float16"):
        yield case(tensors(rng, dtype, 4, low=3), start=[1, 0], end=[3, 2], axes=[3, 1])
        yield case(tensors(rng, dtype, 1, low=4), start=[1], shape=[2], axes=[0])
    yield case(dtype=T.FLOAT, start=[3, 4], end=[20, 30])
    kwargs = {"dtype": T.UINT8, "start": [3, 4], "end": [20, 30]}
    yield Case("slice", [images(rng, "float32", low=40)], kwargs, share=0, differs=TRUNCATES)
    yield Case("slice", [LARGE], {"dtype": T.FLOAT16, "start": [0, 0], "end": [2, 3], "axes": [0, 1]}, bound=np.inf, differs=OVERFLOWS)
    yield case(start=[3], end=[18], axes=[-2])
    yield case(start=[5], end=[5], axes=[0])
    yield case(start=[500], shape=[10], axes=[0], out_of_bounds_policy="trim_to_shape")
    yield case(start=[2], end=[8], axes=per_sample([[0]] * 3, "int32"))
    yield case(tensors(rng, "int16", 3, low=4), start=[1], shape=[2], axes=per_sample([[2], [1], [-3]], "int32"))
    for all_axes in ({"axes": []}, {"axis_names": ""}):
        yield case(start=[1, 2, 0], shape=[7, 8, 2], **all_axes)
        yield case(start=1, shape=2, **all_axes)
        yield case(None, per_sample([[0.1, 0.2, 0.4]] * 3), per_sample([[0.5, 0.6, 0.4]] * 3), **all_axes)
    some_axes = Batch([np.array(axes, np.int32) for axes in ([], [0, 2, 1], [])])
    yield case(tensors(rng, "int16", 3, low=4), start=per_sample([[1, 0, 2]] * 3, "int32"), shape=[2, 2, 2], axes=some_axes)
    for bad in (
        {"start": [-1, 0], "end": [4, 4]},
        {"start": [0, 0], "end": [400, 4]},
        {"start": [1, 2], "rel_start": [0.1, 0.1], "end": [5, 5]},
        {"end": [5, 5], "shape": [3, 3]},
        {"start": [1, 2], "end": [4, 4], "axes": [0, 7]},
        {"start": [1, 2, 3, 4, 5], "end": [4, 4]},
        {"start": [1, 2], "end": [4, 4], "axis_names": "HD"},
        {"start": [1, 2], "end": [4, 4], "out_of_bounds_policy": "wrong"},
        {"start": [1, 2], "end": [4, 4], "axes": [0, 1], "axis_names": "HW"},
        {"start": [1, 2], "end": [4, 4], "axes": [0, 1], "axis_names": ""},
    ):
        yield Case("slice", [images(rng, low=10)], bad, error=True)
    rows = Batch([np.arange(extent, dtype=np.int32) for extent in rng.integers(2, 150, 100)])
    shares = [
        per_sample(rng.integers(low, low + 50, (100, 1)) / np.float32(100)) for low in (0, 1, 50)
    ]  # some windows end halfway between two elements
    for window in (
        {"rel_shape": shares[1]},
        {"rel_end": shares[2]},
        {"rel_start": shares[0]},
        {"rel_start": shares[0], "rel_end": shares[2]},
    ):
        yield case(rows, axes=[0], **window)
    yield case(rows, axes=[0], rel_start=shares[0], rel_shape=shares[1])


def flip() -> Iterator[Case]:
    rng = rng_of("flip")
    for layout, dtype in (("HWC", "uint8"), ("CHW", "uint8"), ("HWC", "float32"), ("CHW", "int16"), ("HWC", "int64")):
        for kwargs in ({}, {"vertical": 1}, {"horizontal": 0}, {"horizontal": 0, "vertical": 1}):
            yield Case("flip", [images(rng, dtype, 3, layout)], kwargs, exact=True)
    yield Case(
        "flip", [images(rng)], {"horizontal": per_sample([0, 1, 1], "int32"), "vertical": per_sample([1, 0, 1], "int32")}, exact=True
    )
    video = [np.ascontiguousarray(np.stack([s] * 2 + [s[::-1]])) for s in images(rng).samples]
    yield Case("flip", [Batch(video, "FHWC")], {"vertical": 1}, exact=True)
    yield Case("flip", [images(rng)], {"depthwise": 1}, exact=True)
    deep = tensors(rng, "uint8", 5, low=2, high=5)
    yield Case("flip", [deep], {"depthwise": 1}, exact=True, title="5 dims without layout")


def volumes() -> Iterator[Case]:
    """Tests crop_mirror_normalize of volumes, of sequences of volumes, and of sequences in which the channels precede the frames."""
    rng = rng_of("normalised volumes")

    def of(layout: str, dtype: str = "uint8") -> Batch:
        return Batch([values(rng, tuple(3 if c == "C" else int(rng.integers(4, 9)) for c in layout), dtype) for _ in range(3)], layout)

    stats = {"mean": [1.0, 2.0, 3.0], "std": [2.0, 3.0, 4.0]}
    for layout, output in (
        ("DHWC", "CDHW"),
        ("DHWC", "DCHW"),
        ("DHWC", ""),
        ("CDHW", "DHWC"),
        ("FDHWC", "FDCHW"),
        ("CFHW", "FHWC"),
    ):
        yield Case("crop_mirror_normalize", [of(layout)], {"output_layout": output, **stats, "mirror": 1})
        window: dict[str, Any] = {"crop": [3, 4], "crop_pos_x": 0.2, "out_of_bounds_policy": "pad"}
        yield Case("crop_mirror_normalize", [of(layout, "float32")], {"output_layout": output, **stats, **window})
    for output in ("CDHW", "DHWC"):
        kwargs: dict[str, Any] = {"output_layout": output, **stats, "crop_pos_z": 0.8}
        yield Case("crop_mirror_normalize", [of("DHWC")], {**kwargs, "crop": [2, 3, 4], "pad_output": True})
        yield Case("crop_mirror_normalize", [of("DHWC")], {**kwargs, "crop": [9, 9, 9], "out_of_bounds_policy": "trim_to_shape"})
    yield Case("crop_mirror_normalize", [of("DHWC")], {"output_layout": "HWC"}, error=True)
    yield Case("crop_mirror_normalize", [of("DHWC")], {}, error=True)


def pad() -> Iterator[Case]:
    rng = rng_of("pad")

    def case(batch: Batch | None = None, **kwargs: Any) -> Case:
        return Case("pad", [batch or images(rng, high=40)], kwargs, exact=True)

    same = Batch([smooth(rng, (20, 33, 3)) for _ in range(3)], "HWC")
    yield case(axis_names="HW", shape=[50, 60])
    yield case(axis_names="W", shape=[50])
    yield case(axes=[1], shape=[12])
    yield case(axes=[1, 0], shape=[64, 41])
    yield case(shape=[50, 60, 4])
    yield case(shape=[50, 60, 4], fill_value=per_sample([1, 2, 3]))
    yield case(same, shape=[-1, 60, -1])
    yield case(same, axes=[0, 1], align=[16])
    yield case(same, axes=[0, 1], align=[16, 32])
    yield case(axes=[0, 1], align=[16, 32], shape=[50, 60])
    yield case(same, axes=[0, 1], align=[16], shape=[-1, -1])
    yield case(same, align=[8], fill_value=5)
    yield case(axes=[0, 1], shape=per_sample([[50, 60], [51, 61], [52, 62]], "int32"))
    yield case(same, axes=[0, 1], align=per_sample([[8, 16], [4, 32], [1, 64]], "int32"))
    for layout in ("HWC", "CHW", "HW"):
        of = images(rng, layout=layout, high=40)
        yield case(of)
        yield case(of, axis_names="W", fill_value=7)
        yield case(of, axis_names="HW", align=[16, 1])
        yield case(of, axis_names="WH", shape=[-1, 33])
        yield case(of, axis_names="HW", shape=[-1])
        yield case(of, axis_names="HW", shape=[0, 20], align=8)
        yield case(of, axis_names="HW", shape=per_sample([[-1, 60], [51, -1], [5, 5]], "int32"))
        yield case(of, axis_names="HW", align=per_sample([[8, 16], [4, 32], [1, 64]], "int32"))
    for dtype in ("uint8", "int64", "float32"):
        yield case(tensors(rng, dtype, 1), fill_value=3)
        yield case(tensors(rng, dtype, 4, low=2), axes=[-1, 1])
    yield case(images(rng, high=40), axes=[])
    wraps = "fill_value saturates in the type of the samples; DALI's -1.5 in uint8 becomes 255."
    yield Case("pad", [images(rng, high=40)], {"axes": [0], "fill_value": -1.5, "shape": [50]}, bound=255, differs=wraps)
    yield case(images(rng, "float32"), axes=[0], fill_value=-1.5, shape=[100])
    yield case(axes=[-3], shape=[100])
    for dtype in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float16", "bool"):
        yield case(tensors(rng, dtype, 3), fill_value=1, shape=[9, 10, 11])
        yield case(tensors(rng, dtype, 1), fill_value=0, shape=[20])
    yield case(tensors(rng, "int64", 1), fill_value=-1, axes=[0], shape=[20])
    yield Case("pad", [images(rng)], {"axes": per_sample([[0]] * 3, "int32"), "shape": [95]}, exact=True)
    yield Case("pad", [images(rng)], {"axes": per_sample([[-2, 0]] * 3, "int32")}, exact=True)
    for bad in ({"axes": [5]}, {"axes": [0], "align": [0]}, {"axis_names": "Z"}, {"axes": [0], "axis_names": "H"}):
        yield Case("pad", [images(rng)], bad, error=True)


def warp_affine() -> Iterator[Case]:
    rng = rng_of("warp_affine")

    def matrix() -> list[float]:
        angle, scale = rng.uniform(-1, 1), rng.uniform(0.5, 2)
        c, s = np.cos(angle) * scale, np.sin(angle) * scale
        return [round(float(v), 4) for v in (c, -s, rng.uniform(-20, 20), s, c, rng.uniform(-20, 20))]

    def case(batch: Batch | None = None, *more: Batch, **kwargs: Any) -> Case:
        batch = batch or images(rng, low=30)
        if kwargs.get("interp_type") == T.INTERP_NN:
            return Case("warp_affine", [batch, *more], kwargs, bound=np.inf, share=0.999)
        bound = {"float32": 1.2e-4, "int16": 4, "uint8": 255e-4 if "dtype" in kwargs else 1}[str(batch.samples[0].dtype)]
        return Case("warp_affine", [batch, *more], kwargs, bound=bound)

    for interp in (T.INTERP_NN, T.INTERP_LINEAR):
        for inverse in (True, False):
            yield case(matrix=matrix(), interp_type=interp, inverse_map=inverse)
            yield case(matrix=matrix(), interp_type=interp, inverse_map=inverse, fill_value=42)
            yield case(matrix=matrix(), interp_type=interp, inverse_map=inverse, fill_value=0, size=[40, 55])
            yield case(images(rng, "float32", low=30), matrix=matrix(), interp_type=interp, inverse_map=inverse, fill_value=0.5)
        yield case(images(rng, "int16", 3, low=30), matrix=matrix(), interp_type=interp, fill_value=3)
        yield case(matrix=matrix(), interp_type=interp, dtype=T.FLOAT, fill_value=300.5)
        yield case(images(rng, channels=1), matrix=matrix(), interp_type=interp)
        yield case(images(rng, channels=4), matrix=matrix(), interp_type=interp, fill_value=0)
        yield case(matrix=[1, 0, 0, 0, 1, 0], interp_type=interp)
        yield case(matrix=[1, 0, 0.5, 0, 1, 0.5], interp_type=interp, fill_value=0)
        rows = [np.array(matrix(), np.float32).reshape(2, 3) for _ in range(3)]
        yield case(matrix=Batch(rows), interp_type=interp)
        yield case(images(rng), Batch(rows), interp_type=interp, fill_value=0)
        yield case(images(rng), Batch(rows), interp_type=interp, inverse_map=False, size=per_sample([[20, 31], [40, 50], [61, 22]]))
    for bad in (
        {"matrix": [1, 0, 0]},
        {},
        {"matrix": [1, 0, 0, 0, 1, 0], "size": [0, 0, 5]},
        {"matrix": Batch([np.eye(3, 2, dtype=np.float32)] * 3)},
    ):
        yield Case("warp_affine", [images(rng)], bad, error=True)
    yield Case("warp_affine", [images(rng)], {"matrix": [1, 0, 0, 0, 1, 0], "interp_type": T.INTERP_CUBIC}, error=True)
    for shape in ((0, 8, 3), (8, 0, 3), (0, 0, 3)):
        empty = Batch([np.zeros(shape, np.uint8)] * 3, "HWC")
        yield case(empty, matrix=[1, 0, 2, 0, 1, 3])
        yield Case("rotate", [empty], {"angle": 30.0, "keep_size": True}, exact=True)
        yield Case("warp_affine", [empty], {"matrix": [1, 0, 2, 0, 1, 3], "size": [0, 5]}, error=True)


def all_cases() -> Iterator[Case]:
    for group in (resize, crop, slice_, flip, volumes, pad, warp_affine):
        yield from group()
