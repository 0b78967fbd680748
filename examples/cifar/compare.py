#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the accuracy of a network trained with Stoker and with torchvision's transforms in a DataLoader: three seeds each, on the same images.

    python examples/cifar/compare.py FOLDER [--epochs 10] [--seeds 3]

Exits with 1 if the two means differ by more than the accuracies of different seeds on one side. Smaller differences are expected: the two sides draw different
random numbers, as two seeds do. If torchvision is missing, this file's own version of the transforms is used.
"""

from __future__ import annotations

import statistics
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import train
from torch.nn.functional import pad


def written_out(image: np.ndarray) -> torch.Tensor:
    """Does RandomCrop(32, padding=4), RandomHorizontalFlip(), ToTensor() and Normalize(MEAN, STD), with random numbers from torch's generator."""
    y, x = torch.randint(0, 9, (2,)).tolist()
    padded = pad(torch.from_numpy(image), (4, 4, 4, 4))[:, y : y + 32, x : x + 32]
    return normalized((padded.flip(2) if torch.rand(()) < 0.5 else padded).numpy())


def normalized(image: np.ndarray) -> torch.Tensor:
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (train.MEAN, train.STD))
    return (torch.from_numpy(np.ascontiguousarray(image)).float() / 255 - mean) / std


def augmentation() -> tuple[str, Any]:
    """Returns a name for messages, and the transform from a uint8 array (3, 32, 32) to a tensor."""
    try:
        from torchvision.transforms import v2
    except (ImportError, RuntimeError):
        return "its transforms written out", written_out
    steps = v2.Compose(
        [
            v2.ToImage(),
            v2.RandomCrop(32, padding=4),
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(train.MEAN, train.STD),
        ]
    )
    return "torchvision", lambda image: steps(torch.from_numpy(image))


class Images(torch.utils.data.Dataset[Any]):
    """CIFAR's binary files as a Dataset."""

    def __init__(self, files: list[Path], transform: Any, count: int | None) -> None:
        data = np.concatenate([np.fromfile(f, np.uint8).reshape(-1, 3073) for f in files])[:count]
        self.labels, self.images, self.transform = data[:, 0].astype(np.int64), data[:, 1:].reshape(-1, 3, 32, 32).copy(), transform

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        return self.transform(self.images[i]), int(self.labels[i])


def with_torchvision(folder: Path, transform: Any, batch: int, seed: int, images: int | None) -> tuple[Any, Any]:
    order = torch.Generator().manual_seed(seed)
    batches = torch.utils.data.DataLoader(
        Images(sorted(folder.glob("data_batch_*.bin")), transform, images), batch, shuffle=True, drop_last=True, generator=order
    )
    test = Images([folder / "test_batch.bin"], normalized, None if images is None else images // 5)
    return batches, torch.utils.data.DataLoader(test, 500)


def main() -> int:
    parser = train.common_arguments(__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    name, transform = augmentation()
    steps = (args.images or 50_000) // args.batch_size
    found: dict[str, list[float]] = {"Stoker": [], name: []}
    for seed in range(args.seeds):
        ours = partial(train.with_stoker, args.folder, args.batch_size, args.device, seed, args.images)
        theirs = partial(with_torchvision, args.folder, transform, args.batch_size, seed, args.images)
        for who, loaders in (("Stoker", ours), (name, theirs)):
            share, seconds = train.train(loaders, args.epochs, steps, width=args.width, lr=args.lr, device=args.device, seed=seed)
            found[who].append(share)
            print(f"seed {seed}, {who}: {share:.2%} in {seconds:.1f} s", flush=True)
    means = [statistics.fmean(v) for v in found.values()]
    spread = max(max(v) - min(v) for v in found.values())
    equal = abs(means[0] - means[1]) <= spread
    for who, values in found.items():
        print(f"{who}: mean {statistics.fmean(values):.2%}, from {min(values):.2%} to {max(values):.2%}")
    print(f"the means differ by {abs(means[0] - means[1]):.2%}, the seeds by up to {spread:.2%}: {'equal' if equal else 'NOT EQUAL'}")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
