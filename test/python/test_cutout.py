# SPDX-License-Identifier: Apache-2.0
"""cutout: one rectangle of an image, against NumPy."""

import numpy as np
import pytest
from stoker import Pipeline, fn
from stoker.errors import StokerError
from support import SEED

EXTENTS = {"H": 23, "W": 31, "C": 3, "F": 2}


def filled(image, layout, anchor, shape, value):
    """Fills the rectangle with NumPy. Its bounds are truncated to whole pixels. Values for images of integers are truncated, and saturate."""
    inside = np.ones((), bool)
    for axis, begin, end in zip("HW", anchor, anchor + shape, strict=True):
        at = np.arange(EXTENTS[axis])
        along = (at >= int(max(begin, 0))) & (at < int(max(end, 0)))
        inside = inside & along.reshape([-1 if d == axis else 1 for d in layout])
    if image.dtype != np.float32:
        value = np.clip(np.trunc(value), np.iinfo(image.dtype).min, np.iinfo(image.dtype).max)
    return np.where(inside, value.reshape([-1 if d == "C" else 1 for d in layout]), image).astype(image.dtype)


@pytest.mark.parametrize("layout", ["HWC", "CHW", "HW", "FHWC"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32])
def test_a_rectangle(layout, dtype):
    """cutout gives NumPy's result by itself, after a flip, and before and between flips; erase gives the same as cutout by itself."""
    rng = np.random.default_rng(SEED)
    images = [rng.integers(0, 120, [EXTENTS[d] for d in layout]).astype(dtype) for _ in range(24)]
    anchors = [rng.uniform(-6, 30, 2).astype(np.float32) for _ in images]
    shapes = [rng.uniform(0, 30, 2).astype(np.float32) * (rng.random() < 0.8) for _ in images]
    values = [rng.uniform(-20, 300, 3 if "C" in layout else 1).astype(np.float32) for _ in images]
    pipe = Pipeline(len(images), 2, None)
    with pipe:
        node = fn.external_source(lambda _: images, layout=layout)
        anchor, shape, value = (fn.external_source(lambda _, d=d: d) for d in (anchors, shapes, values))
        where = {"anchor": anchor, "shape": shape, "fill_value": value}
        single, erased = fn.cutout(node, **where), fn.erase(node, axis_names="HW", **where)
        after_flip = fn.cutout(fn.flip(node), **where)
        between = fn.flip(fn.cutout(fn.flip(fn.cutout(node, **where)), **where))
        pipe.set_outputs(single, erased, after_flip, between)
    got = [[np.asarray(t) for t in out] for out in pipe.run()]
    wide = layout.index("W")
    for k, image in enumerate(images):
        at = anchors[k], shapes[k], values[k]
        once = filled(image, layout, *at)
        twice = np.flip(filled(np.flip(once, wide), layout, *at), wide)
        for n, want in enumerate((once, once, filled(np.flip(image, wide), layout, *at), twice)):
            np.testing.assert_array_equal(got[n][k], want, f"output {n} of sample {k}, seed {SEED}")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"anchor": [0.0], "shape": [1.0, 1.0]}, "anchor has 1 values: give two"),
        ({"anchor": [0.0, 0.0], "shape": [1.0, 1.0], "fill_value": [1.0, 2.0]}, "fill_value"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(given, message):
    with pytest.raises(StokerError, match=message):
        fn.eager.cutout([np.zeros((4, 5, 3), np.uint8)], **given)
