# SPDX-License-Identifier: Apache-2.0
"""The input pipeline of StreamPETR, written by hand with NumPy, OpenCV and torch. pipeline.py replaces it, and tests compare the two.

The functions draw no random numbers. Callers pass `Draws`, so that both pipelines can use the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import cv2
import numpy as np
import torch
from streaming import Item, StreamingSampler
from tables import CAMERAS, Boxes2d, Sample, Tables
from torch.utils.data import DataLoader, Dataset

MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
Arrays = dict[str, Any]


@dataclass(frozen=True)
class Config:
    """The settings of both pipelines."""

    hw: tuple[int, int] = (256, 704)  # height and width of the crop; 372x1024 in the benchmark
    tile: int = 32  # height and width of images are padded to multiples of this number
    flip: float = 0.5  # probability of mirroring the images
    scale: tuple[float, float] = (0.86, 1.25)  # range of the random zoom; with 1 the image just covers the crop
    least_box: float = 2.0  # in pixels: the smallest width and height of a 2-D box
    reach: float = 51.2  # in metres: the largest distance of a 3-D box along x and along y
    rotation: tuple[float, float] = (-0.3925, 0.3925)  # range of the rotation about z in radians
    bev_scale: tuple[float, float] = (0.95, 1.05)
    translation: tuple[float, float, float] = (0.5, 0.5, 0.2)  # largest translation along x, y and z in metres

    @property
    def padded(self) -> tuple[int, int]:
        h, w = (-(-side // self.tile) * self.tile for side in self.hw)
        return h, w


@dataclass
class Draws:
    """The random numbers of a sample, which all its cameras share."""

    flip: bool = False
    scale: float = 1.0
    shift: float = 0.5  # from 0 to 1: position of the frame along x in an image that is wider than the frame
    rotation: float = 0.0
    bev_scale: float = 1.0
    translation: np.ndarray = field(default_factory=lambda: np.zeros(3))

    @classmethod
    def make(cls, config: Config, key: Sequence[int]) -> Draws:
        """Makes draws that depend only on the key, for example the seed and the sample's position."""
        rng = np.random.default_rng(key)
        most = np.array(config.translation)
        return cls(
            bool(rng.random() < config.flip), rng.uniform(*config.scale), rng.random(), rng.uniform(*config.rotation),
            rng.uniform(*config.bev_scale), rng.uniform(-most, most),
        )  # fmt: skip


def moved(x: float, y: float) -> np.ndarray:
    return np.array([[1.0, 0, x], [0, 1, y], [0, 0, 1]])


def scaled(x: float, y: float, center: tuple[float, float] = (0, 0)) -> np.ndarray:
    return moved(*center) @ np.diag([x, y, 1.0]) @ moved(-center[0], -center[1])


def image_transform(draws: Draws, config: Config, width: float, height: float) -> np.ndarray:
    """Returns the matrix (3, 3) from pixels of a file to pixels of the crop.

    Flips, scales, shifts along x and aligns the lower borders, then scales the result so that it fills the output.
    """
    middle = (width / 2, height / 2)
    made = scaled(draws.scale, draws.scale, middle) @ scaled(-1.0 if draws.flip else 1.0, 1.0, middle)
    wider = max(0.0, draws.scale - 1) * width
    made = moved((draws.shift - 0.5) * wider, (1 - draws.scale) / 2 * height) @ made
    fill = max(config.hw[0] / height, config.hw[1] / width)
    return moved(config.hw[1] - fill * width, config.hw[0] - fill * height) @ scaled(fill, fill) @ made


def bev_transform(draws: Draws) -> np.ndarray:
    """Returns the matrix (4, 4) that rotates points about z, scales and moves them."""
    c, s = np.cos(draws.rotation), np.sin(draws.rotation)
    made = np.eye(4)
    made[:3, :3] = draws.bev_scale * np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    made[:3, 3] = draws.translation
    return made


def visible(boxes: np.ndarray, depths: np.ndarray, hw: tuple[int, int], least: float) -> np.ndarray:
    """Returns a mask of the boxes that nearer boxes do not cover, and that have at least `least` pixels in the image along both axes. boxes: (n, 4), the x and
    y of two opposite corners. hw: height and width of the image."""
    canvas = np.full(hw, -1)
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    for i in np.argsort(-depths):
        x0, y0 = np.maximum(np.floor(low[i]), 0).astype(int)
        x1, y1 = np.maximum(np.ceil(high[i]), 0).astype(int)
        canvas[y0:y1, x0:x1] = i
    size = np.array([hw[1], hw[0]])
    large = np.all(np.clip(high, 0, size) - np.clip(low, 0, size) >= least, axis=1)
    return np.isin(np.arange(len(boxes)), canvas) & large


def camera_boxes(seen: Boxes2d, transform: np.ndarray, config: Config) -> Arrays:
    """Returns the 2-D boxes that are visible in the crop and contain a lidar or radar point, in pixels of the crop, with their centres, depths and labels."""

    def points(given: np.ndarray) -> np.ndarray:
        return given @ transform[:2, :2].T + transform[:2, 2]

    size = np.array([config.hw[1], config.hw[0]])
    ends = points(seen.boxes.reshape(-1, 2)).reshape(-1, 4)
    keep = visible(ends, seen.depths, config.hw, config.least_box) & ((seen.lidar_points >= 1) | (seen.radar_points >= 1))
    ends = np.clip(ends[keep].reshape(-1, 2, 2), 0, size)
    return {
        "gt_bboxes": np.concatenate([ends.min(1), ends.max(1)], 1).astype(np.float32),
        "centers2d": np.clip(points(seen.centers[keep]), 0, size).astype(np.float32),
        "depths": seen.depths[keep].astype(np.float32),
        "gt_labels": seen.labels[keep],
    }


def space_boxes(sample: Sample, bev: np.ndarray, draws: Draws, config: Config) -> Arrays:
    """Returns the 3-D boxes within config.reach that contain a lidar or radar point, transformed by `bev`, and their labels. A box has nine numbers: centre,
    size, yaw, and velocity along x and y."""
    near = np.all(np.abs(sample.centers[:, :2]) <= config.reach, axis=1)
    keep = near & ((sample.lidar_points >= 1) | (sample.radar_points >= 1))
    centers = sample.centers[keep] @ bev[:3, :3].T + bev[:3, 3]
    velocities = sample.velocities[keep] @ bev[:3, :3].T
    yaws = (sample.yaws[keep] + draws.rotation + np.pi) % (2 * np.pi) - np.pi
    boxes = np.concatenate([centers, sample.sizes[keep] * draws.bev_scale, yaws[:, None], velocities[:, :2]], 1)
    return {"gt_bboxes_3d": boxes.astype(np.float32), "gt_labels_3d": sample.labels[keep]}


def image(file: Path, transform: np.ndarray, config: Config) -> np.ndarray:
    """Returns the transformed, padded and normalised image: (3, H, W) float32."""
    pixels = cv2.imread(str(file), cv2.IMREAD_COLOR_RGB)
    if pixels is None:
        raise ValueError(f"{file} is not an image that OpenCV can read")
    half = (
        moved(-0.5, -0.5) @ transform @ moved(0.5, 0.5)
    )  # OpenCV counts pixel coordinates from the centre of the first pixel, `transform` from its corner
    h, w = config.hw
    pixels = cv2.warpAffine(pixels, half[:2], (w, h), flags=cv2.INTER_LINEAR)
    below, beside = config.padded[0] - h, config.padded[1] - w
    if below or beside:
        pixels = cv2.copyMakeBorder(pixels, 0, below, 0, beside, cv2.BORDER_CONSTANT)
    normal = (pixels.astype(np.float32) - np.array(MEAN, np.float32)) * (1 / np.array(STD, np.float32))
    return normal.transpose(2, 0, 1)


def make_sample(sample: Sample, draws: Draws, config: Config) -> Arrays:
    """Runs the whole pipeline for one sample."""
    transform, bev = image_transform(draws, config, *sample.cameras[0].size), bev_transform(draws)
    image4 = np.eye(4)
    image4[:3, :3] = transform
    back = np.linalg.inv(bev)
    seen = [camera_boxes(c.seen, transform, config) for c in sample.cameras]
    return {
        "img": np.stack([image(c.file, transform, config) for c in sample.cameras]),
        "lidar2img": np.stack([image4 @ c.lidar2img @ back for c in sample.cameras]).astype(np.float32),
        "intrinsics": np.stack([image4 @ c.intrinsics for c in sample.cameras]).astype(np.float32),
        "extrinsics": np.stack([c.extrinsics @ back for c in sample.cameras]).astype(np.float32),
        "img_timestamp": np.array([c.timestamp for c in sample.cameras]),
        "timestamp": np.float64(sample.timestamp),
        "ego_pose": sample.ego_pose @ back,
        "ego_pose_inv": bev @ np.linalg.inv(sample.ego_pose),
        **space_boxes(sample, bev, draws, config),
        **{name: [camera[name] for camera in seen] for name in seen[0]},
    }


class StreamPETRDataset(Dataset):
    """A Dataset for a DataLoader. An Item names the sample, and the position that determines its draws."""

    def __init__(self, root: Path, version: str, config: Config, seed: int = 0, cameras: tuple[str, ...] = CAMERAS) -> None:
        self.tables, self.config, self.seed = Tables(root, version, cameras), config, seed

    def __getitem__(self, item: Item) -> Arrays:
        made = make_sample(self.tables.sample(item.sample), Draws.make(self.config, (self.seed, item.position)), self.config)
        return {**made, "prev_exists": np.float32(item.prev_exists)}


def collate(samples: list[Arrays]) -> dict[str, Any]:
    """Makes a batch from samples. A field whose size varies becomes a RaggedBatch; a field of 2-D boxes becomes a list with one RaggedBatch per camera."""
    from stoker.batching import combine_data

    batch: dict[str, Any] = {}
    for name, first in samples[0].items():
        if isinstance(first, list):
            batch[name] = [combine_data([torch.from_numpy(s[name][camera]) for s in samples]) for camera in range(len(first))]
        elif name in ("gt_bboxes_3d", "gt_labels_3d"):
            batch[name] = combine_data([torch.from_numpy(s[name]) for s in samples])
        else:
            batch[name] = torch.from_numpy(np.stack([s[name] for s in samples]))
    return batch


class Loader:
    """Endless batches of this rank, from a PyTorch DataLoader. batch: total number of samples in a batch of all ranks. state: the result of state() from the
    run that this one continues."""

    def __init__(
        self, root: Path, version: str, config: Config, batch: int, seed: int = 0, *, workers: int = 2, state: str | None = None,
        rank: int = 0, world: int = 1,
    ) -> None:  # fmt: skip
        self.step = int(state or 0)
        data = StreamPETRDataset(root, version, config, seed)
        sampler = StreamingSampler(data.tables.lengths, batch, seed, start=self.step, rank=rank, world=world)
        self.epoch_length = sampler.epoch_length
        self._batches = DataLoader(
            data, batch_sampler=cast(Any, sampler), num_workers=workers, collate_fn=collate, pin_memory=torch.cuda.is_available(),
            worker_init_fn=_one_thread if workers else None,
        )  # fmt: skip

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self._batches:
            self.step += 1
            yield batch

    def state(self) -> str:
        """Returns the number of batches taken so far, as a string."""
        return str(self.step)


def _one_thread(worker: int) -> None:
    cv2.setNumThreads(1)
