# SPDX-License-Identifier: Apache-2.0
"""A network with StreamPETR's inputs and outputs, small enough to read.

StreamPETR: Wang et al., Exploring Object-Centric Temporal Modeling for Efficient Multi-View 3D Object Detection, ICCV 2023.

Six images go through one backbone. A position embedding, computed from lidar2img, describes where in space each cell of its features may be (PETR). Queries
with reference points in space attend to each other, to the memory of earlier frames, and to the features. A frame's best queries are the memory of later
frames: they are moved along with the car, and removed when a sequence begins. This network lacks the original's denoising queries, its 2-D box head (replaced
by a heatmap of the objects' centres), and pretrained weights.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from stoker.batching import RaggedBatch, detection_cost, draw_heatmap_batched, linear_sum_assignment, losses
from torch import Tensor, nn

sys.path.append(str(Path(__file__).resolve().parents[1] / "imagenet"))
import models

REACH = (61.2, 61.2, 10.0)  # the largest distance of reference points and cells from the lidar, in metres along x, y and z
CODE = (
    1.0,
    1.0,
    1.0,
    1.0,
    1.0,
    1.0,
    1.0,
    1.0,
    0.2,
    0.2,
)  # weights of a box's numbers in the loss: centre, log size, sine and cosine of yaw, velocity
NEAREST, FARTHEST = 1.0, 61.2  # in metres: the range of the points along a pixel's ray


@dataclass(frozen=True)
class Sizes:
    backbone: str = "resnet50"  # "resnet50", "resnet18" or "tiny"
    dim: int = 256
    heads: int = 8
    layers: int = 6
    queries: int = 900  # number of queries in a frame, `propagated` of which come from memory
    propagated: int = 256
    memory: int = 1024  # number of queries of earlier frames that are remembered
    depths: int = 64  # number of points along a pixel's ray
    classes: int = 10


@dataclass
class Memory:
    """The memory of the batch's B slots, each in the coordinate frame of its last sample. A slot reads one scene after another (streaming.py)."""

    features: Tensor  # (B, memory, dim)
    points: Tensor  # (B, memory, 3) metres
    velocities: Tensor  # (B, memory, 2)
    motion: Tensor  # (B, memory, 3, 4): maps the frame in which an entry was made to the last sample's frame
    age: Tensor  # (B, memory) in seconds
    pose: Tensor  # (B, 4, 4) float64: maps the last sample's frame to the global frame
    time: Tensor  # (B,) float64: time of the last sample in seconds

    @classmethod
    def empty(cls, batch: int, sizes: Sizes, device: torch.device) -> Memory:
        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(batch, *shape, dtype=dtype, device=device)

        n = sizes.memory
        pose = torch.eye(4, dtype=torch.float64, device=device).expand(batch, 4, 4).clone()
        return cls(zeros(n, sizes.dim), zeros(n, 3), zeros(n, 2), zeros(n, 3, 4), zeros(n), pose, zeros(dtype=torch.float64))

    def moved_to(self, pose_inv: Tensor, time: Tensor, prev_exists: Tensor) -> Memory:
        """Returns the memory for the next sample: points and motions in that sample's frame, ages at its time; empty for slots that begin a scene."""
        step = (pose_inv.double() @ self.pose).float()
        turn, offset = step[:, None, :3, :3], step[:, None, :3, 3]
        keep = prev_exists.float().reshape(-1, 1, 1)
        motion = turn @ self.motion + torch.nn.functional.pad(offset[..., None], (3, 0))
        return Memory(
            self.features * keep,
            ((turn @ self.points[..., None]).squeeze(-1) + offset) * keep,
            (turn[..., :2, :2] @ self.velocities[..., None]).squeeze(-1) * keep,
            motion * keep[..., None],
            (self.age + (time - self.time).float()[:, None]) * keep[..., 0],
            self.pose,
            self.time,
        )


def features_of(name: str) -> tuple[nn.Module, nn.Module, int, int]:
    """Returns a ResNet's stages up to 1/16 of the image's size (1/4 for `tiny`), its last stage, and the number of channels after each of these two parts."""
    layers = list(models.OWN[name]())[:-3]
    last = max(i for i, layer in enumerate(layers) if isinstance(layer, models.Residual) and not isinstance(layer.shortcut, nn.Identity))
    width = {"resnet50": (1024, 2048), "resnet18": (256, 512), "tiny": (8, 16)}[name]
    return nn.Sequential(*layers[:last]), nn.Sequential(*layers[last:]), *width


class Neck(nn.Module):
    """Runs the backbone, and joins the features of its last two stages to one map of `dim` channels."""

    def __init__(self, backbone: str, dim: int) -> None:
        super().__init__()
        self.fine, self.coarse, low, high = features_of(backbone)
        self.from_fine, self.from_coarse = nn.Conv2d(low, dim, 1), nn.Conv2d(high, dim, 1)
        self.smooth = nn.Conv2d(dim, dim, 3, padding=1)

    def forward(self, images: Tensor) -> Tensor:
        fine = self.fine(images)
        coarse = nn.functional.interpolate(self.from_coarse(self.coarse(fine)), size=fine.shape[-2:])
        return self.smooth(self.from_fine(fine) + coarse)


def mlp(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inside, outside in pairwise(widths):
        layers += [nn.Linear(inside, outside), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def logit(x: Tensor) -> Tensor:
    return torch.logit(x, eps=1e-5)


def waves(points: Tensor, dim: int) -> Tensor:
    """Returns sines and cosines of points with coordinates in 0..1; maps shape (.., 3) to (.., 3 * dim)."""
    steps = 2 * torch.pi * 10000 ** -torch.linspace(0, 1, dim // 2, device=points.device)
    angles = points[..., None] * steps
    return torch.cat([angles.sin(), angles.cos()], -1).flatten(-2)


class Layer(nn.Module):
    """A decoder layer: queries attend to queries and memory, then to the images."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.own = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.cross = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.feed = mlp(dim, 4 * dim, dim)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(3))

    def forward(self, x: Tensor, place: Tensor, past: Tensor, past_place: Tensor, cells: Tensor, cells_place: Tensor) -> Tensor:
        values = torch.cat([x, past], 1)
        keys = values + torch.cat([place, past_place], 1)
        x = self.norms[0](x + self.own(x + place, keys, values, need_weights=False)[0])
        x = self.norms[1](x + self.cross(x + place, cells + cells_place, cells, need_weights=False)[0])
        return self.norms[2](x + self.feed(x))


class StreamPETR(nn.Module):
    """A network like StreamPETR. forward(batch, memory) returns the predictions of all layers, and the memory for the next sample of each slot."""

    reach: Tensor
    along: Tensor

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        d = sizes.dim
        self.sizes = sizes
        self.neck = Neck(sizes.backbone, d)
        self.cell_place = mlp(3 * sizes.depths, 4 * d, d)
        self.points = nn.Parameter(torch.rand(sizes.queries - sizes.propagated, 3))
        # These replace the points of the propagated queries at the start of a scene.
        self.start_points = nn.Parameter(torch.rand(sizes.propagated, 3))
        self.query_place = mlp(3 * (d // 2), d, d)
        self.motion = mlp(15, d, 2 * d)  # computes a scale and an offset of memory entries from their age, velocity and motion
        self.still = nn.LayerNorm(d, elementwise_affine=False)
        self.layers = nn.ModuleList(Layer(d, sizes.heads) for _ in range(sizes.layers))
        self.classify = nn.ModuleList(mlp(d, d, sizes.classes) for _ in range(sizes.layers))
        self.regress = nn.ModuleList(mlp(d, d, len(CODE)) for _ in range(sizes.layers))
        self.center = nn.Conv2d(d, sizes.classes, 1)
        for head in (*(c[-1] for c in self.classify), self.center):
            nn.init.constant_(head.bias, -4.6)  # initial probability: 1 in 100
        self.register_buffer("reach", torch.tensor(REACH), persistent=False)
        steps = torch.arange(sizes.depths) / max(1, sizes.depths - 1)
        # The points are denser near the camera.
        self.register_buffer("along", NEAREST + (FARTHEST - NEAREST) * steps * (1 + steps) / 2, persistent=False)

    def into_unit(self, points: Tensor) -> Tensor:
        return points / (2 * self.reach) + 0.5

    def out_of_unit(self, points: Tensor) -> Tensor:
        return (points - 0.5) * (2 * self.reach)

    def cells(self, lidar2img: Tensor, hw: tuple[int, int], image_hw: tuple[int, int]) -> Tensor:
        """Returns the position embedding of the feature map's cells, (B, cameras * h * w, dim), from points on each cell's ray in the frame of the boxes."""
        (h, w), device = hw, lidar2img.device
        y = (torch.arange(h, device=device) + 0.5) * (image_hw[0] / h)
        x = (torch.arange(w, device=device) + 0.5) * (image_hw[1] / w)
        z = self.along
        y, x, z = torch.meshgrid(y, x, z, indexing="ij")
        pixels = torch.stack([x * z, y * z, z, torch.ones_like(z)], -1).reshape(1, 1, -1, 4)
        inverse = torch.linalg.inv_ex(lidar2img.float()).inverse  # inv() checks for errors, and waits for the device to do so
        points = pixels @ inverse.transpose(-1, -2)
        places = logit(self.into_unit(points[..., :3]).clamp(0, 1)).reshape(len(lidar2img), -1, 3 * self.sizes.depths)
        return self.cell_place(places)

    def place(self, points: Tensor) -> Tensor:
        return self.query_place(waves(points, self.sizes.dim // 2))

    def queries(self, memory: Memory, prev_exists: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns the reference points and features of this frame's queries, and the features and positions of the memory entries that are not queries."""
        n, batch = self.sizes.propagated, len(prev_exists)
        conditions = torch.cat([memory.age[..., None], memory.velocities, memory.motion.flatten(-2)], -1)
        scale, offset = self.motion(conditions).chunk(2, -1)
        past = self.still(memory.features) * (1 + scale) + offset
        points = self.into_unit(memory.points)
        past_place = self.place(points.clamp(0, 1))
        known = prev_exists.reshape(-1, 1, 1) > 0
        first = torch.where(known, points[:, :n], self.start_points)
        features = torch.where(known, past[:, :n], torch.zeros_like(past[:, :n]))
        fresh = self.points.expand(batch, -1, -1)
        x = torch.cat([fresh.new_zeros(batch, fresh.shape[1], self.sizes.dim), features], 1)
        return torch.cat([fresh, first], 1), x, past[:, n:], past_place[:, n:]

    def forward(self, batch: dict[str, Any], memory: Memory) -> tuple[dict[str, Tensor], Memory]:
        images, prev_exists = batch["img"], batch["prev_exists"]
        count, cameras = images.shape[:2]
        memory = memory.moved_to(batch["ego_pose_inv"], batch["timestamp"], prev_exists)
        features = self.neck(images.flatten(0, 1))
        heat = self.center(features)
        cells = features.flatten(2).transpose(1, 2).reshape(count, -1, self.sizes.dim)
        cells_place = self.cells(batch["lidar2img"], features.shape[-2:], images.shape[-2:])
        points, x, past, past_place = self.queries(memory, prev_exists)
        place = self.place(points.clamp(0, 1))
        logits, boxes = [], []
        for layer, classify, regress in zip(self.layers, self.classify, self.regress, strict=True):
            x = layer(x, place, past, past_place, cells, cells_place)
            code = regress(x).float()
            centers = self.out_of_unit((code[..., :3] + logit(points.clamp(0, 1))).sigmoid())
            logits.append(classify(x).float())
            boxes.append(torch.cat([centers, code[..., 3:]], -1))
        out = {"logits": torch.stack(logits), "boxes": torch.stack(boxes), "heat": heat.float().unflatten(0, (count, cameras))}
        return out, self.remember(memory, x, out, batch)

    @torch.no_grad()
    def remember(self, memory: Memory, x: Tensor, out: dict[str, Tensor], batch: dict[str, Any]) -> Memory:
        """Returns the new memory: this frame's best queries, then the old memory."""
        best = out["logits"][-1].amax(-1).topk(self.sizes.propagated, 1).indices[..., None]
        boxes = out["boxes"][-1].gather(1, best.expand(-1, -1, len(CODE)))
        still = torch.eye(3, 4, device=x.device).expand(*boxes.shape[:2], 3, 4)
        new = (
            x.detach().float().gather(1, best.expand(-1, -1, x.shape[-1])),
            boxes[..., :3],
            boxes[..., 8:10],
            still,
            boxes.new_zeros(boxes.shape[:2]),
        )
        old = (memory.features, memory.points, memory.velocities, memory.motion, memory.age)
        parts = [torch.cat([n, o], 1)[:, : self.sizes.memory] for n, o in zip(new, old, strict=True)]
        return Memory(*parts, batch["ego_pose"].double(), batch["timestamp"].double())


@cache
def constant(values: tuple[float, ...], device: torch.device) -> Tensor:
    """Returns a tensor of these values on the device. The results are cached, because each copy from unpinned host memory waits for the device."""
    return torch.tensor(values, device=device)


def encoded(boxes: Tensor) -> Tensor:
    """Converts boxes (.., 9) of centre, size, yaw and velocity to the network's encoding (.., 10), which has log sizes and the sine and cosine of yaw."""
    size, yaw = boxes[..., 3:6].clamp(min=1e-3).log(), boxes[..., 6:7]
    return torch.cat([boxes[..., :3], size, yaw.sin(), yaw.cos(), boxes[..., 7:9]], -1)


def heat_loss(heat: Tensor, batch: dict[str, Any]) -> Tensor:
    """Returns the loss for the heatmap of object centres in each camera, at the features' resolution."""
    h, w = heat.shape[-2:]
    scale = constant((w / batch["img"].shape[-1], h / batch["img"].shape[-2]), heat.device)
    last = constant((w - 1.0, h - 1.0), heat.device)
    drawn = heat.new_empty((heat.shape[1], len(heat), *heat.shape[2:]))
    for camera, (boxes, centers, labels) in enumerate(zip(batch["gt_bboxes"], batch["centers2d"], batch["gt_labels"], strict=True)):
        like = boxes.create_with_sample_sizes_like_self
        extent = (boxes.tensor[..., 2:] - boxes.tensor[..., :2]) * scale
        cells = like((centers.tensor * scale).minimum(last).long())
        draw_heatmap_batched(drawn[camera], cells, like((extent.amin(-1) / 3).long()), labels=labels, accumulate=False)
    return losses.gaussian_focal(heat.transpose(0, 1).flatten(0, 1), drawn.flatten(0, 1)).mean()


def loss(out: dict[str, Tensor], batch: dict[str, Any]) -> dict[str, Tensor]:
    """Matches the queries of all layers and samples with the boxes in one call. Returns a dict of the losses: of classes (focal), boxes (L1) and heatmaps."""
    targets: RaggedBatch = batch["gt_bboxes_3d"]
    targets = targets.create_with_sample_sizes_like_self(encoded(targets.tensor))
    labels = batch["gt_labels_3d"]
    weights = [0.25 * w for w in CODE]
    logits, boxes = out["logits"], out["boxes"]
    costs = detection_cost(logits=logits, boxes=boxes, target_labels=labels, target_boxes=targets, class_weight=2.0, l1_weight=weights)
    matches = linear_sum_assignment(costs)
    return {
        "class": 2.0 * losses.sigmoid_focal(logits, labels, matches).mean(1).sum(),
        "box": losses.l1(boxes, targets, matches, weight=constant(tuple(weights), boxes.device)).mean(1).sum(),
        "heat": heat_loss(out["heat"], batch),
    }


# Sizes of a network that a CPU trains in seconds.
TINY = Sizes(backbone="tiny", dim=32, heads=2, layers=2, queries=24, propagated=8, memory=16, depths=4)
