# SPDX-License-Identifier: Apache-2.0
"""Cases of box_encoder and segmentation.select_masks, and of random_bbox_crop, roi_random_crop and segmentation.random_* with inputs that leave nothing to
draw."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from harness import Batch, Case, rng_of
from samples import per_sample


def _boxes(rng: np.random.Generator, count: int, ndim: int = 2) -> np.ndarray:
    low = rng.uniform(0, 0.6, (count, ndim))
    return np.concatenate([low, low + rng.uniform(0.02, 0.4, low.shape)], 1).astype(np.float32)


def box_encoder() -> Iterator[Case]:
    rng = rng_of("box_encoder")
    grid = np.stack(np.meshgrid(np.arange(6), np.arange(6)), -1).reshape(-1, 2) / 6
    anchors = [float(v) for size in (0.15, 0.3) for cell in grid for v in (*cell, *(cell + size))]
    counts = (5, 0, 17)
    boxes = Batch([_boxes(rng, n) for n in counts])
    labels = Batch([rng.integers(1, 80, n).astype(np.int32) for n in counts])
    for criteria in (0.5, 0.2):
        yield Case("box_encoder", [boxes, labels], {"anchors": anchors, "criteria": criteria})
        normal = {"scale": 300.0, "means": [0.1, 0.2, 0.3, 0.4], "stds": [0.5, 0.6, 0.7, 0.8]}
        yield Case("box_encoder", [boxes, labels], {"anchors": anchors, "criteria": criteria, "offset": True}, bound=1e-4)
        yield Case("box_encoder", [boxes, labels], {"anchors": anchors, "criteria": criteria, "offset": True, **normal}, bound=1e-4)
    # Boxes and anchors on a coarse grid have equal IoUs often: with several anchors, and several boxes with one anchor. The last box touches no anchor.
    low = [rng.integers(0, 6, (n, 2)) for n in (6, 1, 40)]
    coarse = Batch([np.concatenate([np.hstack([l, l + rng.integers(1, 5, l.shape)]) / 8, [[5, 5, 6, 6]]]).astype(np.float32) for l in low])
    numbers = Batch([np.arange(1, len(b) + 1, dtype=np.int32) for b in coarse.samples])
    tiles = [v / 8 for y in range(6) for x in range(6) for size in (2, 4) for v in (x, y, x + size, y + size)]
    for criteria in (0.5, 0.25):
        title = f"box_encoder(boxes with equal IoUs, criteria={criteria})"
        yield Case("box_encoder", [coarse, numbers], {"anchors": tiles, "criteria": criteria}, title=title)
    columns = Batch([l[:, None] for l in labels.samples])
    yield Case("box_encoder", [boxes, columns], {"anchors": anchors})
    for bad in ({"anchors": anchors[:5]}, {"criteria": 2.0}, {"means": [0.0, 1]}, {"stds": [0.0, 1, 1, 1], "offset": True}):
        yield Case("box_encoder", [boxes, labels], {"anchors": anchors, **bad}, error=True)
    yield Case("box_encoder", [boxes, Batch([l.astype(np.int64) for l in labels.samples])], {"anchors": anchors}, error=True)


def select_masks() -> Iterator[Case]:
    rng = rng_of("select_masks")
    ids, polygons, vertices = [], [], []
    for _ in range(3):
        n = int(rng.integers(3, 9))
        ends = np.cumsum(rng.integers(3, 9, n))
        names = rng.permutation(n + 4)[:n]
        polygons.append(np.stack([names, np.concatenate([[0], ends[:-1]]), ends], 1).astype(np.int32))
        vertices.append(rng.uniform(0, 1, (ends[-1], 2)).astype(np.float32))
        ids.append(rng.permutation(names)[: int(rng.integers(0, n + 1))].astype(np.int32))
    masks, rows = Batch(ids), Batch(polygons)
    for reindex in (False, True):
        for dtype in ("float32", "int16", "uint8"):
            points = Batch([(v * 100).astype(dtype) for v in vertices])
            yield Case("segmentation.select_masks", [masks, rows, points], {"reindex_masks": reindex}, exact=True)
        solid = Batch([np.concatenate([v, v[:, :1]], 1) for v in vertices])
        yield Case("segmentation.select_masks", [masks, rows, solid], {"reindex_masks": reindex}, exact=True)
    points = Batch(vertices)
    for wrong in ([99], [int(polygons[0][0, 0])] * 2):
        chosen = Batch([np.array(wrong, np.int32)] * 3)
        yield Case("segmentation.select_masks", [chosen, rows, points], error=True)
    late = Batch([p + np.int32([0, 1, 1]) for p in polygons])
    yield Case("segmentation.select_masks", [Batch([p[-1:, 0] for p in polygons]), late, points], error=True)
    yield Case("segmentation.select_masks", [masks, Batch([p.astype(np.int64) for p in polygons]), points], error=True)


def nothing_to_draw() -> Iterator[Case]:
    rng = rng_of("nothing_to_draw")
    boxes = Batch([_boxes(rng, n) for n in (4, 0, 9)])
    labels = Batch([rng.integers(1, 80, n).astype(np.int32) for n in (4, 0, 9)])
    for kwargs in ({}, {"output_bbox_indices": True}, {"bbox_layout": "yXxY"}, {"allow_no_crop": False, "bbox_prune_threshold": 0.5}):
        batch = Batch([np.ascontiguousarray(b[:, [1, 2, 0, 3]]) for b in boxes.samples]) if "bbox_layout" in kwargs else boxes
        yield Case("random_bbox_crop", [batch], kwargs)
        yield Case("random_bbox_crop", [batch, labels], kwargs)
    extents = Batch([np.concatenate([b[:, :2], b[:, 2:] - b[:, :2]], 1) for b in boxes.samples])
    yield Case("random_bbox_crop", [extents], {"ltrb": False})
    yield Case("random_bbox_crop", [Batch([_boxes(rng, n, 3) for n in (4, 0, 9)])])
    whole: dict[str, Any] = {"crop_shape": [30, 40], "input_shape": [30, 40], "allow_no_crop": False}
    yield Case("random_bbox_crop", [boxes], whole)
    for bad in (
        {"bbox_layout": "xyXYz"},
        {"thresholds": [2.0]},
        {"thresholds": []},
        {"scaling": [0.9, 0.5]},
        {"scaling": [0.5]},
        {"aspect_ratio": [2.0, 1.0]},
        {"threshold_type": "area"},
        {"num_attempts": 0},
        {"total_num_attempts": 0},
        {"bbox_prune_threshold": 2.0},
        {"crop_shape": [3, 4], "allow_no_crop": False},
        {"shape_layout": "AB", "input_shape": [10, 10]},
        {**whole, "scaling": [0.5, 1.0]},
    ):
        yield Case("random_bbox_crop", [boxes], bad, error=True)
    yield Case("random_bbox_crop", [Batch([b * 2 for b in boxes.samples])], error=True)
    yield Case("random_bbox_crop", [boxes, Batch([l.astype(np.int64) for l in labels.samples])], error=True)
    yield from _windows(rng)
    yield from _objects(rng)


def _windows(rng: np.random.Generator) -> Iterator[Case]:
    image = Batch([rng.integers(0, 9, (20 + i, 30, 3)).astype(np.uint8) for i in range(3)], "HWC")
    fits = {"crop_shape": [5, 6], "roi_start": [2, 3], "roi_end": [7, 9]}
    yield Case("roi_random_crop", kwargs=fits, exact=True)
    yield Case("roi_random_crop", [image], fits, exact=True)
    yield Case("roi_random_crop", kwargs={**fits, "in_shape": [7, 9]}, exact=True)
    yield Case("roi_random_crop", kwargs={"crop_shape": 4, "roi_start": 2, "roi_shape": 4}, exact=True)
    rows = {"crop_shape": per_sample([[5, 6], [7, 8], [1, 1]], "int32"), "roi_start": per_sample([[0, 1], [2, 3], [4, 5]], "int32")}
    yield Case("roi_random_crop", kwargs={**rows, "roi_shape": rows["crop_shape"]}, exact=True)
    for bad in (
        {**fits, "roi_shape": [1, 1]},
        {"crop_shape": [1, 1], "roi_start": [0, 0]},
        {"crop_shape": [1, 1], "roi_start": [0, 0], "roi_end": [50, 1], "in_shape": [10, 10]},
        {"crop_shape": [20, 1], "roi_start": [0, 0], "roi_end": [5, 1], "in_shape": [10, 10]},
    ):
        yield Case("roi_random_crop", kwargs=bad, error=True)


def _objects(rng: np.random.Generator) -> Iterator[Case]:
    masks, labels = [], []
    for i in range(3):
        mask = np.zeros((9 + i, 12), np.int32)
        y, x = (int(v) for v in rng.integers(0, 5, 2))
        mask[y : y + 3, x : x + 4] = 3
        mask[y, x] = 0
        labels.append(mask)
        one = np.zeros((9 + i, 12, 2), np.float32)
        one[y, x, 1] = 5
        masks.append(one)
    for dtype in ("uint8", "int16", "uint32", "int64", "float32", "bool"):
        kwargs: dict[str, Any] = {"foreground": 1}
        yield Case("segmentation.random_mask_pixel", [Batch([m.astype(dtype) for m in masks])], kwargs, exact=True)
    batch = Batch([m.astype("uint8") for m in masks])
    yield Case("segmentation.random_mask_pixel", [batch], {"foreground": 1, "value": 5}, exact=True)
    yield Case("segmentation.random_mask_pixel", [batch], {"foreground": 1, "threshold": 4.5}, exact=True)
    yield Case("segmentation.random_mask_pixel", [batch], {"threshold": 4.5, "value": 5}, error=True)
    for dtype in ("uint8", "int8", "uint16", "int16", "uint32", "int32"):
        yield Case("segmentation.random_object_bbox", [Batch([m.astype(dtype) for m in labels])], exact=True)
    batch = Batch(labels)
    for kwargs in (
        {"format": "box"},
        {"format": "start_end", "output_class": True},
        {"ignore_class": True, "k_largest": 1},
        {"classes": [1, 3], "output_class": True},
        {"classes": [1], "output_class": True},
        {"classes": [0, 1], "foreground_prob": 0.0, "output_class": True},
        {"class_weights": [1.0, 0, 2], "output_class": True},
        {"threshold": [4, 1], "output_class": True},
        {"threshold": 3},
        {"background": 3, "k_largest": 1, "output_class": True, "threshold": [9, 12]},
    ):
        yield Case("segmentation.random_object_bbox", [batch], kwargs, exact=True)
    for bad in (
        {"ignore_class": True, "output_class": True},
        {"classes": [1, 2], "class_weights": [1.0]},
        {"classes": [1, 2], "background": 2},
        {"format": "corners"},
        {"k_largest": 0},
        {"threshold": [1, 2, 3]},
    ):
        yield Case("segmentation.random_object_bbox", [batch], bad, error=True)
    yield Case("segmentation.random_object_bbox", [Batch([m.astype("float32") for m in labels])], error=True)


def all_cases() -> Iterator[Case]:
    for group in (box_encoder, select_masks, nothing_to_draw):
        yield from group()
