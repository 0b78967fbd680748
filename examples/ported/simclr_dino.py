#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the augmented views of each image that SimCLR and DINO train on: simclr_dino.py FOLDER [--size 224]. FOLDER contains class folders.

`views` replaces ContrastiveLearningViewGenerator and DataAugmentationDINO, which call their transforms several times on one image: each image is decoded once,
and its views are made in C.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from stoker import Loader
from stoker import transforms as T
from torch import nn

NORMALIZE = T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def simclr(size: int) -> list[tuple[int, list[Any]]]:
    jitter = T.RandomApply([T.ColorJitter(0.8, 0.8, 0.8, 0.2)], p=0.8)
    return [(2, [T.RandomResizedCrop(size), T.RandomHorizontalFlip(), jitter, T.RandomGrayscale(0.2), T.GaussianBlur(size // 10 | 1)])]


def dino(size: int, local_crops_number: int = 6) -> list[tuple[int, list[Any]]]:
    flip_and_color = [T.RandomHorizontalFlip(), T.RandomApply([T.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8), T.RandomGrayscale(0.2)]

    def crop(pixels: int, scale: tuple[float, float], blur: float, *more: Any) -> list[Any]:
        blurred = T.RandomApply([T.GaussianBlur(9, (0.1, 2.0))], p=blur)
        return [T.RandomResizedCrop(pixels, scale, interpolation="bicubic"), *flip_and_color, blurred, *more, NORMALIZE]

    small = size * 3 // 7
    return [
        (1, crop(size, (0.4, 1.0), 1.0)),
        (1, crop(size, (0.4, 1.0), 0.1, T.RandomSolarize(128, 0.2))),
        (local_crops_number, crop(small, (0.05, 0.4), 0.5)),
    ]


def nt_xent(first: torch.Tensor, second: torch.Tensor, temperature: float = 0.07) -> torch.Tensor:
    """Returns SimCLR's loss, in which the positive of each view is the other view of the same image."""
    z = nn.functional.normalize(torch.cat([first, second]), dim=1)
    similarity = (z @ z.T / temperature).fill_diagonal_(float("-inf"))
    n = len(first)
    return nn.functional.cross_entropy(similarity, torch.arange(2 * n).roll(n))


def main(argv: list[str] | None = None) -> tuple[list[float], list[int]]:
    """Returns the losses of SimCLR, and the sizes of DINO's crops."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch-size", type=int, default=256)
    args = parser.parse_args(argv)
    model = nn.Sequential(nn.Conv2d(3, 16, 7, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 32))
    optimizer = torch.optim.Adam(model.parameters())
    losses = []
    for (first, second), _ in Loader(args.folder, args.batch_size, shuffle=True, drop_last=True, views=simclr(args.size)):
        loss = nt_xent(model(first), model(second))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    print(f"SimCLR: loss {losses[-1]:.3f}")
    (crops, _) = next(iter(Loader(args.folder, args.batch_size, shuffle=True, views=dino(args.size))))
    outputs = [model(torch.cat(list(part))) for part in (crops[:2], crops[2:])]
    print(f"DINO: {len(crops)} crops of {len(crops[0])} images, outputs {[tuple(o.shape) for o in outputs]}")
    return losses, [crop.shape[-1] for crop in crops]


if __name__ == "__main__":
    main()
