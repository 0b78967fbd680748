# SPDX-License-Identifier: Apache-2.0
"""Cases of decoders.image, image_crop, image_slice and peek_image_shape, over every kind of file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from files import batch_of, encoded, others
from harness import Case, T, rng_of
from samples import per_sample, uniform

TYPES = (T.RGB, T.BGR, T.GRAY, T.YCbCr)
ALPHA = ("png LA", "png RGBA", "png 16 bit, 4 channels")


def _case(op: str, *files: str, **kwargs: Any) -> Case:
    text = ", ".join(f"{k}={v!r}" for k, v in kwargs.items())
    kind = files[0] if len(files) == 1 else f"{len(files)} files"
    kind_of = kwargs.get("output_type")
    ties = (kind_of == T.YCbCr and not files[0].startswith("jpeg 4")) or (kind_of == T.GRAY and "16 bit" in files[0])
    rule = {"bound": 1, "share": 0.998} if ties else {"exact": True}
    return Case(op, [batch_of(*files)], kwargs, **rule, title=f"{kind}{', ' if text else ''}{text}")


def image() -> Iterator[Case]:
    for name in encoded():
        for kind in TYPES:
            yield _case("decoders.image", name, output_type=kind)
        for dtype in (T.FLOAT, T.UINT16, T.INT16, T.INT8):
            yield _case("decoders.image", name, dtype=dtype)
        if name not in ("png LA", "jpeg CMYK") and "gray" not in name:
            yield _case("decoders.image", name, output_type=T.ANY_DATA)
            yield _case("decoders.image", name, output_type=T.ANY_DATA, dtype=T.UINT16)
        if "orientation" in name:
            yield _case("decoders.image", name, adjust_orientation=False)
        yield _case("peek_image_shape", name)
        yield _case("peek_image_shape", name, adjust_orientation=False, dtype=T.INT32)
    yield _case("peek_image_shape", "jpeg 420", image_type=T.GRAY)
    yield _case("peek_image_shape", "png RGBA", image_type=T.ANY_DATA)
    yield _case("peek_image_shape", "jpeg 420", dtype=T.FLOAT)
    whole = batch_of("jpeg 420").samples[0]
    for cut in (len(whole) // 2, 30):
        yield Case("decoders.image", [type(batch_of())([whole[:cut]])], {}, title=f"truncated to {cut} bytes", error=True)
    yield Case("decoders.image", [type(batch_of())([whole])], {"dtype": T.INT64}, error=True)


def formats() -> Iterator[Case]:
    """Yields cases with files of all formats but JPEG and PNG in one batch."""
    names = list(others())
    for kwargs in ({}, {"output_type": T.YCbCr}, {"output_type": T.ANY_DATA, "dtype": T.UINT16}, {"dtype": T.FLOAT}):
        yield _case("decoders.image", *names, **kwargs)
    yield Case("decoders.image", [batch_of(*names)], {"output_type": T.GRAY}, bound=1, share=0.99, title="all other formats, GRAY")
    yield _case("decoders.image_crop", *names, crop=[12, 15], crop_pos_x=0.3, crop_pos_y=0.9)
    yield _case("peek_image_shape", *names, image_type=T.ANY_DATA)


WINDOWS = ("jpeg 444", "jpeg 420", "jpeg 411", "jpeg 420 progressive", "jpeg orientation 6", "jpeg gray", "png RGB", "png RGBA")


def windows() -> Iterator[Case]:
    rng = rng_of("decoders.windows")
    some = ("jpeg 420", "jpeg orientation 7", "png RGB")
    for name in WINDOWS:
        for kind in TYPES:
            yield _case("decoders.image_crop", name, crop=[12, 15], crop_pos_x=0.3, crop_pos_y=0.9, output_type=kind)
            yield _case("decoders.image_slice", name, start=[3, 2], end=[17, 18], output_type=kind)
    for kwargs in (
        {"crop_w": 11, "crop_h": 14},
        {"crop_w": 11, "crop_h": 14, "crop_pos_x": 0.0, "crop_pos_y": 1.0},
        {"crop": [13, 9], "rounding": "truncate", "crop_pos_x": 0.33, "crop_pos_y": 0.77},
        {"crop": [13, 9], "dtype": T.FLOAT},
        {"crop": [13, 9], "dtype": T.UINT16},
        {"crop": per_sample([[13, 9], [5, 6], [7, 20]])},
        {"crop": [13, 9], "crop_pos_x": uniform(rng, 0, 1), "crop_pos_y": uniform(rng, 0, 1)},
        {"crop": [13, 9], "adjust_orientation": False},
    ):
        yield _case("decoders.image_crop", *some, **kwargs)
    for kwargs in (
        {"start": [3, 4], "shape": [10, 12]},
        {"rel_start": [0.1, 0.2], "rel_end": [0.8, 0.7]},
        {"rel_start": [0.1, 0.2], "rel_shape": [0.5, 0.7]},
        {"start": [3, 4], "rel_end": [0.8, 0.7]},
        {"start": [3, 4], "rel_shape": [0.4, 0.5]},
        {"rel_start": [0.1, 0.2], "shape": [10, 11]},
        {"start": [5, 6]},
        {"end": [15, 16]},
        {"shape": [15, 16]},
        {"rel_shape": [0.5, 0.25]},
        {"start": [3, 4], "end": [12, 13], "axes": [0, 1]},
        {"start": [3, 4], "end": [12, 13], "axis_names": "HW"},
        {"start": [5], "end": [12], "axes": [0]},
        {"start": [5], "end": [12], "axis_names": "W", "dtype": T.FLOAT},
        {"start": per_sample([[1, 2], [3, 4], [5, 6]], "int32"), "shape": per_sample([[7, 8], [9, 10], [11, 12]], "int32")},
        {"rel_start": uniform(rng, 0, 0.4, (2,)), "rel_end": uniform(rng, 0.6, 1, (2,))},
        {"start": [3, 4], "end": [12, 13], "adjust_orientation": False},
    ):
        yield _case("decoders.image_slice", *some, **kwargs)
    anchor, shape = per_sample([[0.1, 0.2], [0.3, 0.05], [0.5, 0.5]]), per_sample([[0.4, 0.5], [0.61, 0.7], [0.5, 0.25]])
    pixels, extents = per_sample([[1, 2], [10, 5], [3, 3]]), per_sample([[4, 5], [7, 7], [9, 10]])
    whole = per_sample([[1, 2], [10, 5], [3, 3]], "int32"), per_sample([[4, 5], [7, 7], [9, 10]], "int32")
    for inputs, kwargs in (
        ((anchor, shape), {}),
        ((pixels, extents), {"normalized_anchor": False, "normalized_shape": False}),
        ((pixels, shape), {"normalized_anchor": False, "normalized_shape": True, "axes": [0, 1]}),
        ((anchor, extents), {"normalized_shape": False}),
        (whole, {}),
    ):
        title = f"by inputs of {inputs[0].samples[0].dtype}, {kwargs}"
        yield Case("decoders.image_slice", [batch_of(*some), *inputs], kwargs, exact=True, title=title)
    for bad in ({"crop": [500, 500]}, {"crop": [5, 5], "crop_pos_x": 2.0}):
        yield Case("decoders.image_crop", [batch_of(*some)], bad, error=True, title=str(bad))
    for bad in (
        {"start": [-3, 0], "end": [4, 4]},
        {"start": [0, 0], "end": [400, 4]},
        {"end": [4, 4], "shape": [3, 3]},
        {"end": [4], "axes": [0], "axis_names": "H"},
    ):
        yield Case("decoders.image_slice", [batch_of(*some)], bad, error=True, title=str(bad))


def all_cases() -> Iterator[Case]:
    yield from image()
    yield from formats()
    yield from windows()
