# SPDX-License-Identifier: Apache-2.0
"""random_bbox_crop, roi_random_crop and the random operators of segmentation have DALI's distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import SEED, Library, libraries
from test_random import _note

stats = pytest.importorskip("scipy.stats")

BOXES = np.float32([[0.1, 0.2, 0.4, 0.5], [0.5, 0.5, 0.9, 0.7], [0.3, 0.6, 0.35, 0.9]])
LABELS = np.int32([3, 4, 5])


def drawn(
    lib: Library, op: str, inputs: list[np.ndarray], kwargs: dict[str, Any], batches: int = 4, batch: int = 500
) -> list[list[np.ndarray]]:
    """Runs an operator on batches in which all samples have the same inputs. Returns the outputs of each sample."""
    pipe = lib.Pipeline(batch_size=batch, num_threads=1, device_id=None, seed=SEED, prefetch_queue_depth=1)
    with pipe:
        nodes = [lib.fn.external_source(source=[[i] * batch], cycle=True) for i in inputs]
        out = lib.operator(op)(*nodes, **kwargs)
        pipe.set_outputs(*(out if isinstance(out, (list, tuple)) else [out]))
    made = []
    for _ in range(batches):
        run = pipe.run()
        made += [[np.array(o.at(i)) for o in run] for i in range(batch)]
    return made


CROPS: list[dict[str, Any]] = [
    {"scaling": [0.3, 0.9], "aspect_ratio": [0.5, 2.0], "allow_no_crop": False},
    {"scaling": [0.3, 1.0], "allow_no_crop": False},
    {"scaling": [0.3, 1.0], "aspect_ratio": [0.5, 2.0], "thresholds": [0.0, 0.1, 0.3, 0.5]},
    {"scaling": [0.3, 0.9], "aspect_ratio": [0.5, 2.0], "thresholds": [0.1, 0.4], "all_boxes_above_threshold": False, "num_attempts": 5},
    {"scaling": [0.5, 1.0], "aspect_ratio": [0.5, 2.0], "thresholds": [0.6, 0.9], "threshold_type": "overlap", "total_num_attempts": 3},
    {"scaling": [0.3, 0.9], "aspect_ratio": [0.5, 2.0], "input_shape": [300, 200], "bbox_prune_threshold": 0.3, "allow_no_crop": False},
    {"crop_shape": [60, 50], "input_shape": [200, 100], "allow_no_crop": False},
    {"crop_shape": [60, 50], "input_shape": [100, 200], "shape_layout": "HW", "allow_no_crop": False, "bbox_prune_threshold": 0.0},
]


@pytest.mark.parametrize("kwargs", CROPS, ids=range(len(CROPS)))
def test_windows_that_boxes_agree_with(kwargs: dict[str, Any]) -> None:
    kwargs = {**kwargs, "output_bbox_indices": True, "quiet": True}
    dali, ours = (drawn(lib, "random_bbox_crop", [BOXES, LABELS], kwargs) for lib in libraries())
    for what, of in (
        ("left", lambda s: s[0][0]),
        ("top", lambda s: s[0][1]),
        ("width", lambda s: s[1][0]),
        ("height", lambda s: s[1][1]),
        ("boxes", lambda s: len(s[2])),
        ("area of boxes", lambda s: float(np.prod(s[2][:, 2:] - s[2][:, :2], axis=1).sum())),
    ):
        a, b = (np.round([of(s) for s in side], 4) for side in (dali, ours))
        _note("random_bbox_crop", f"{kwargs}: {what}", stats.ks_2samp(a, b).pvalue)
    for anchor, shape, boxes, labels, kept in ours:
        assert (labels == LABELS[kept]).all() and boxes.min(initial=0) >= 0 and boxes.max(initial=1) <= 1
        unit = np.array([1, 1]) if "crop_shape" not in kwargs else np.array(kwargs["input_shape"])[:: -1 if "shape_layout" in kwargs else 1]
        low, size = anchor / unit, shape / unit
        if not (shape == 1).all():
            expected = np.clip((BOXES[kept].reshape(-1, 2, 2) - low) / size, 0, 1).reshape(-1, 4)
            np.testing.assert_allclose(boxes, expected, atol=1e-5)


@pytest.mark.parametrize(
    "kwargs",
    [
        {"crop_shape": [10, 20], "roi_start": [5, 5], "roi_end": [8, 50]},
        {"crop_shape": [10, 20], "roi_start": [5, 5], "roi_shape": [3, 45], "in_shape": [12, 60]},
    ],
)
def test_windows_around_a_region(kwargs: dict[str, Any]) -> None:
    dali, ours = (np.array([s[0] for s in drawn(lib, "roi_random_crop", [], kwargs)]) for lib in libraries())
    assert (ours.min(0) == dali.min(0)).all() and (ours.max(0) == dali.max(0)).all()
    for k in range(2):
        _note("roi_random_crop", f"{kwargs}: {k}", stats.ks_2samp(ours[:, k], dali[:, k]).pvalue)


def _mask() -> np.ndarray:
    mask = np.zeros((6, 8), np.uint8)
    mask[1, 2] = mask[2, 3] = mask[0, 7] = 1
    mask[4:6, 5:7] = 2
    return mask


def _counts(op: str, kwargs: dict[str, Any]) -> None:
    sides = [[tuple(np.concatenate([o.ravel() for o in s]).tolist()) for s in drawn(lib, op, [_mask()], kwargs)] for lib in libraries()]
    values = sorted(set(sides[0]) | set(sides[1]))
    if len(values) == 1:
        return
    table = np.array([[side.count(v) for v in values] for side in sides])
    _note(op, str(kwargs), stats.chi2_contingency(table).pvalue)


@pytest.mark.parametrize("kwargs", [{}, {"foreground": 1}, {"foreground": 1, "value": 2}, {"foreground": 1, "threshold": 0.5}], ids=str)
def test_pixels_of_masks(kwargs: dict[str, Any]) -> None:
    _counts("segmentation.random_mask_pixel", kwargs)


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"ignore_class": True},
        {"ignore_class": True, "k_largest": 2},
        {"class_weights": [1.0, 3.0], "output_class": True},
        {"foreground_prob": 0.3, "format": "box"},
        {"classes": [2, 1, 7], "class_weights": [1.0, 2, 4], "output_class": True},
        {"class_weights": [1.0, 3.0], "threshold": [1, 2]},
        {"background": 2, "output_class": True},
    ],
    ids=str,
)
def test_boxes_of_objects(kwargs: dict[str, Any]) -> None:
    _counts("segmentation.random_object_bbox", kwargs)
