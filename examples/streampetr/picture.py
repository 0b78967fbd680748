# SPDX-License-Identifier: Apache-2.0
"""Draws the six cameras' images as the network receives them, with 3-D boxes projected by lidar2img, to show whether matrices and images agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
from reference import MEAN, STD
from tables import corners

ROWS = ((2, 0, 1), (4, 3, 5))  # indices into CAMERAS: front left, front, front right; then the same three at the back
EDGES = [(a, b) for a in range(8) for b in range(a) if bin(a ^ b).count("1") == 1]
COLOURS = np.array(
    [[255, 158, 0], [255, 99, 71], [233, 150, 70], [255, 127, 80], [255, 140, 0], [112, 128, 144], [255, 61, 99], [220, 20, 60], [0, 0, 230],
     [47, 79, 79]]
)  # fmt: skip
NEAR = 0.5  # metres: parts of lines that are nearer to the camera are cut off


def box_corners(box: np.ndarray) -> np.ndarray:
    """Returns the corners (8, 3) of a box, which has centre, length, width, height, yaw, and further values."""
    c, s = np.cos(box[6]), np.sin(box[6])
    return corners(box[:3], box[3:6], np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]))


def draw_box(image: np.ndarray, points: np.ndarray, lidar2img: np.ndarray, colour: list[int]) -> None:
    space = np.c_[points, np.ones(len(points))] @ lidar2img[:3].T
    for i, j in EDGES:
        a, b = sorted((space[i], space[j]), key=lambda p: p[2])
        if b[2] <= NEAR:
            continue
        if a[2] < NEAR:
            a = a + (b - a) * ((NEAR - a[2]) / (b[2] - a[2]))
        ends = [np.clip(p[:2] / p[2], -1e4, 1e4).round().astype(int).tolist() for p in (a, b)]
        cv2.line(image, ends[0], ends[1], colour, 1, cv2.LINE_AA)


def draw(batch: dict[str, Any], path: Path, slot: int = 0) -> None:
    """Draws one sample of a batch to an image file: 3-D boxes in their class's colour, 2-D boxes in white."""
    images = batch["img"][slot].float().cpu().numpy().transpose(0, 2, 3, 1) * np.array(STD, np.float32) + np.array(MEAN, np.float32)
    images = np.ascontiguousarray(np.clip(images + 0.5, 0, 255).astype(np.uint8))
    matrices = batch["lidar2img"][slot].double().cpu().numpy()
    count = int(batch["gt_bboxes_3d"].sample_sizes[slot])
    boxes = batch["gt_bboxes_3d"].tensor[slot, :count].double().cpu().numpy()
    labels = batch["gt_labels_3d"].tensor[slot, :count].cpu().numpy()
    for camera, image in enumerate(images):
        image[:] = cv2.addWeighted(image, 0.85, np.zeros_like(image), 0.15, 0)
        seen = batch["gt_bboxes"][camera]
        for x0, y0, x1, y1 in seen.tensor[slot, : int(seen.sample_sizes[slot])].round().int().tolist():
            cv2.rectangle(image, (x0, y0), (x1, y1), (255, 255, 255), 1)
        for box, label in zip(boxes, labels, strict=True):
            draw_box(image, box_corners(box), matrices[camera], COLOURS[label].tolist())
    rows = [np.concatenate([images[camera] for camera in row if camera < len(images)], 1) for row in ROWS]
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), np.concatenate(rows)[..., ::-1])
    print(f"{path}: {count} boxes in space")
