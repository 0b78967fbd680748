#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A port of torchvision's gallery "How to use CutMix and MixUp": cutmix.py FOLDER [--size 224]. FOLDER contains class folders.

A Loader replaces the DataLoader and its collate function. CutMix and MixUp, which may be torchvision's own, are batch_transforms and run on the batch's device.
"""

from __future__ import annotations

import argparse

import torch
from stoker import Loader
from torch import nn
from torchvision.transforms import v2


def main(argv: list[str] | None = None) -> list[torch.Tensor]:
    """Computes the loss of each batch of one epoch, and returns the labels of all batches."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch-size", type=int, default=4)
    args = parser.parse_args(argv)
    preproc = v2.Compose([v2.PILToTensor(), v2.RandomResizedCrop(args.size, antialias=True), v2.ToDtype(torch.float32, scale=True)])
    dataloader = (
        Loader(  # was: DataLoader(dataset, batch_size=4, shuffle=True, collate_fn=lambda batch: cutmix_or_mixup(*default_collate(batch)))
            args.folder,
            args.batch_size,
            shuffle=True,
            transforms=preproc,
            batch_transforms=v2.RandomChoice([v2.CutMix(), v2.MixUp()]),
        )
    )
    layers = nn.Conv2d(3, 16, 7, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, len(dataloader.classes))
    model = nn.Sequential(*layers)
    seen = []
    for images, labels in dataloader:
        loss = nn.functional.cross_entropy(model(images), labels)
        seen.append(labels)
    print(f"{len(seen)} batches of {tuple(images.shape)} and {tuple(labels.shape)}, loss {loss:.3f}")
    return seen


if __name__ == "__main__":
    main()
