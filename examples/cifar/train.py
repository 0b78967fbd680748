#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small, fast ResNet on CIFAR's binary files: train.py FOLDER [--epochs 10] [--device cuda].

    python examples/cifar/make_cifar.py /tmp/cifar        # or unpack cifar-10-binary.tar.gz
    python examples/cifar/train.py /tmp/cifar

The images stay decoded in memory, so one pass makes a batch: it gathers, crops, flips and normalises.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from stoker import Loader
from stoker import transforms as T
from torch import nn
from torch.nn.functional import cross_entropy

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
Batches = Iterable[Any]


def unit(inside: int, outside: int, pool: bool = False) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv2d(inside, outside, 3, padding=1, bias=False), nn.BatchNorm2d(outside), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.MaxPool2d(2)) if pool else nn.Sequential(*layers)


class Residual(nn.Module):
    """Computes x + body(x)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(unit(channels, channels), unit(channels, channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x)


def network(width: int) -> nn.Sequential:
    """Returns a network of nine layers. It halves the image's size three times; a residual block follows the first and the third halving."""
    w = width
    body = [unit(3, w), unit(w, 2 * w, True), Residual(2 * w), unit(2 * w, 4 * w, True), unit(4 * w, 8 * w, True), Residual(8 * w)]
    return nn.Sequential(*body, nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(8 * w, 10))


def with_stoker(folder: Path, batch: int, device: str, seed: int, images: int | None = None) -> tuple[Loader, Loader]:
    """Returns Loaders for training and testing. images: number of images to train on; a fifth of that number is for testing. None: all images."""
    common: dict[str, Any] = {"batch_size": batch, "device": device, "memory_format": torch.channels_last}
    augment = [T.RandomCrop(32, padding=4), T.RandomHorizontalFlip(), T.Normalize(MEAN, STD)]
    order: dict[str, Any] = {"shuffle": True}
    first: dict[str, Any] = {}
    if images is not None:  # the sampler, a function of the epoch, returns an order of the first `images` images only
        order = {"sampler": lambda epoch: random.Random(f"{seed} {epoch}").sample(range(images), images), "last_batch": "drop"}
        first = {"sampler": lambda epoch: range(images // 5)}
    train = Loader(folder, seed=seed, transforms=augment, **order, **common)
    return train, Loader(folder, split="test", transforms=[T.Normalize(MEAN, STD)], **first, **common)


@torch.no_grad()
def accuracy(model: nn.Module, batches: Batches, device: str) -> float:
    model.eval()
    right = count = 0
    for images, labels in batches:
        right += (model(images.to(device)).argmax(1) == labels.to(device)).sum()
        count += len(labels)
    return float(right) / count


def train(
    loaders: Callable[[], tuple[Batches, Batches]], epochs: int, steps: int, *, width: int, lr: float, device: str, seed: int
) -> tuple[float, float]:
    """Returns the accuracy on the test images, and the duration of training in seconds. steps: number of steps per epoch."""
    torch.manual_seed(seed)
    model = network(width).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=5e-4, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=epochs * steps, pct_start=0.3)
    batches, test = loaders()
    start = time.perf_counter()
    for _ in range(epochs):
        model.train()
        for images, labels in batches:
            with torch.autocast("cuda", torch.bfloat16, enabled=device.startswith("cuda")):
                loss = cross_entropy(model(images.to(device)), labels.to(device))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
    return accuracy(model, test, device), time.perf_counter() - start


def common_arguments(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--images", type=int, help="train on the first so many, and test on a fifth of that")
    parser.add_argument("--width", type=int, default=32, help="channels of the first layer")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser


def main() -> None:
    parser = common_arguments(__doc__)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    loaders = with_stoker(args.folder, args.batch_size, args.device, args.seed, args.images)
    print(loaders[0])
    steps = len(loaders[0])
    found, seconds = train(lambda: loaders, args.epochs, steps, width=args.width, lr=args.lr, device=args.device, seed=args.seed)
    print(f"{found:.2%} of the test images after {args.epochs} epochs in {seconds:.1f} s")


if __name__ == "__main__":
    main()
