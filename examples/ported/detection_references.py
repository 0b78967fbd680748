#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A port of torchvision's references/detection: detection_references.py IMAGES ANNOTATIONS.json [--data-augmentation lsj].

The presets are lists of transforms of the same names. The Dataset names files and gives boxes; images are decoded, cut, resized and mirrored in C, with their
boxes and labels. Batches are grouped by aspect ratio, and hold lists of images and of targets, as torchvision's detectors take them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from stoker import Loader
from stoker import transforms as T
from torch import nn
from torch.nn import functional as F
from torch.utils.data import Dataset


def preset(data_augmentation: str, size: int) -> list[Any]:  # was: class DetectionPresetTrain, with tv_tensors and v2
    """Returns the transforms of a preset. size: 1024 for lsj and 800 for multiscale in the original."""
    flip = T.RandomHorizontalFlip(p=0.5)
    if data_augmentation == "hflip":
        return [flip]
    if data_augmentation == "lsj":
        return [T.ScaleJitter(target_size=(size, size)), T.FixedSizeCrop((size, size), fill=123), flip]
    if data_augmentation == "multiscale":
        return [T.RandomShortestSize(min_size=[size * k // 25 for k in range(15, 26)], max_size=size * 5 // 3), flip]
    crop = [T.RandomIoUCrop(), flip, T.SanitizeBoundingBoxes()]
    if data_augmentation == "ssd":
        return [T.RandomPhotometricDistort(), T.RandomZoomOut(fill=123), *crop]
    assert data_augmentation == "ssdlite"
    return crop


class Objects(Dataset[tuple[Path, dict[str, torch.Tensor]]]):
    """Images and boxes from a file in COCO's format. Leaves out images without boxes."""

    def __init__(self, images: str, annotations: str) -> None:
        given = json.loads(Path(annotations).read_text())
        self.folder = Path(images)
        self.boxes: dict[int, list[Any]] = {}
        for a in given["annotations"]:
            self.boxes.setdefault(a["image_id"], []).append(a)
        self.images = [image for image in given["images"] if image["id"] in self.boxes]

    def __len__(self) -> int:
        return len(self.images)

    def get_height_and_width(self, i: int) -> tuple[int, int]:
        return self.images[i]["height"], self.images[i]["width"]

    def __getitem__(self, i: int) -> tuple[Path, dict[str, torch.Tensor]]:
        found = self.boxes[self.images[i]["id"]]
        boxes = torch.tensor([a["bbox"] for a in found], dtype=torch.float32)
        labels = torch.tensor([a["category_id"] for a in found])
        return self.folder / self.images[i]["file_name"], {"boxes": boxes, "labels": labels}  # was: Image.open, ConvertCocoPolysToMask


def for_detectors(batch: Any) -> tuple[list[torch.Tensor], list[dict[str, torch.Tensor]]]:  # was: tuple(zip(*batch))
    """Converts boxes from (x, y, width, height), as COCO has them, to the corners that torchvision's models take."""
    corners = [torch.cat([b[:, :2], b[:, :2] + b[:, 2:]], 1) for b in batch.boxes]
    return batch.image, [{"boxes": b, "labels": k} for b, k in zip(corners, batch.labels, strict=True)]


class Detector(nn.Module):
    """Predicts, for each cell of 8 x 8 pixels, the class and the size of the box whose centre is in the cell."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, 4, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU())
        self.head = nn.Conv2d(32, classes + 1 + 2, 1)
        self.classes = classes

    def forward(self, images: list[torch.Tensor], targets: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
        height, width = (max(image.shape[k] for image in images) for k in (1, 2))
        padded = torch.stack([F.pad(image, (0, width - image.shape[2], 0, height - image.shape[1])) for image in images])
        made = self.head(self.body(padded))
        wanted = torch.zeros(made[:, 0].shape, dtype=torch.long)
        sizes = []
        for k, target in enumerate(targets):
            cells = ((target["boxes"][:, :2] + target["boxes"][:, 2:]) / 16).long()
            x, y = cells[:, 0].clamp(0, made.shape[3] - 1), cells[:, 1].clamp(0, made.shape[2] - 1)
            wanted[k, y, x] = target["labels"]
            extent = (target["boxes"][:, 2:] - target["boxes"][:, :2]).clamp(min=1).log()
            sizes.append((made[k, self.classes + 1 :, y, x].T - extent).abs().sum(1))
        return {
            "classes": F.cross_entropy(made[:, : self.classes + 1], wanted),
            "sizes": torch.cat(sizes).sum() / max(1, len(torch.cat(sizes))),
        }


def main(argv: list[str] | None = None) -> list[float]:
    """Trains the detector, and returns the loss of each step."""
    parser = argparse.ArgumentParser()
    parser.add_argument("images")
    parser.add_argument("annotations")
    parser.add_argument("--data-augmentation", default="hflip", choices=["hflip", "lsj", "multiscale", "ssd", "ssdlite"])
    parser.add_argument("--size", type=int, default=800)
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--classes", type=int, default=90)
    args = parser.parse_args(argv)
    # was: a sampler, GroupedBatchSampler over create_aspect_ratio_groups, and a DataLoader with batch_sampler= and collate_fn=
    loader = Loader(
        Objects(args.images, args.annotations),
        args.batch_size,
        shuffle=True,
        bucket_by="aspect_ratio",
        transforms=preset(args.data_augmentation, args.size),
        fields={"image": list, "boxes": ("BoundingBoxes", "XYWH"), "labels": list},
        collate_fn=for_detectors,
    )
    model = Detector(args.classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    losses = []
    for _ in range(args.epochs):
        for images, targets in loader:
            loss = sum(model(images, targets).values(), torch.zeros(()))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    print(f"{len(losses)} steps, the last loss {losses[-1]:.3f}")
    return losses


if __name__ == "__main__":
    main()
