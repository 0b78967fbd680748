#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a network reaches the same accuracy with stoker's augmentation as with torchvision's.

Trains a small network with RandAugment + RandomErasing + MixUp, with stoker's Loader and with torchvision on PIL images in a DataLoader, on scikit-learn's
handwritten digits, with several seeds each. Prints a table; exits with 1 if the means differ by more than the noise.

usage: augmented.py [--seeds 10] [--epochs 12] [--plain]      --plain: without these transforms, to see their effect

Noise is twice the standard error of the difference between the two means.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import peers

SIZE, BATCH, HELD = 32, 64, 797  # side of an image in pixels, images per batch, number of images that are used only for testing
Epochs = Callable[[], Iterable[Any]]


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Returns RGB images of 32 x 32 pixels, and their labels. The last HELD are for testing."""
    from PIL import Image
    from sklearn.datasets import load_digits

    data = load_digits()
    grays = [
        Image.fromarray((i * 15.9375).astype(np.uint8)).resize((SIZE, SIZE), Image.Resampling.BICUBIC).convert("RGB") for i in data.images
    ]
    return np.stack([np.asarray(i) for i in grays]), data.target.astype(np.int64)


def steps(module: Any, plain: bool) -> list[Any]:
    """Returns the list of transforms that `module` provides: torchvision's or stoker's."""
    augmentation, erasing = ([], []) if plain else ([module.RandAugment(2, 9)], [module.RandomErasing(0.25, value="random")])
    crop = module.RandomCrop(SIZE, padding=2)
    return [crop, *augmentation, module.ToTensor(), module.Normalize([0.3] * 3, [0.3] * 3), *erasing]


def by_stoker(x: np.ndarray, y: np.ndarray, seed: int, plain: bool) -> Epochs:
    from stoker import Loader
    from stoker import transforms as T

    mixing = None if plain else [T.MixUp(alpha=0.2, num_classes=10)]
    loader = Loader((x, y), BATCH, shuffle=True, seed=seed, transforms=steps(T, plain), batch_transforms=mixing, num_threads=1)
    if loader.pipeline.counters()["user_calls"]:
        raise SystemExit("a transform runs in Python")
    return lambda: loader


class Images(torch.utils.data.Dataset[Any]):
    """A Dataset that converts arrays to PIL images and transforms them."""

    def __init__(self, x: np.ndarray, y: np.ndarray, transform: Any) -> None:
        self.x, self.y, self.transform = x, y, transform

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, i: int) -> tuple[Any, int]:
        from PIL import Image

        return self.transform(Image.fromarray(self.x[i])), int(self.y[i])


def by_torchvision(x: np.ndarray, y: np.ndarray, seed: int, plain: bool) -> Epochs:
    transforms = peers.import_torchvision().transforms
    from torchvision.transforms import v2

    mixing = None if plain else v2.MixUp(alpha=0.2, num_classes=10)
    order = torch.Generator().manual_seed(seed)
    data = Images(x, y, transforms.Compose(steps(transforms, plain)))
    batches = torch.utils.data.DataLoader(data, BATCH, shuffle=True, drop_last=True, generator=order)
    return lambda: (mixing(*batch) if mixing else batch for batch in batches)


def network() -> nn.Sequential:
    def unit(inside: int, outside: int) -> list[nn.Module]:
        return [nn.Conv2d(inside, outside, 3, 2, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU()]

    return nn.Sequential(*unit(3, 16), *unit(16, 32), *unit(32, 64), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def train(epochs: Epochs, test: tuple[torch.Tensor, torch.Tensor], count: int, seed: int) -> float:
    """Trains for `count` epochs and returns the accuracy on the test images."""
    torch.manual_seed(seed)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, count)
    for _ in range(count):
        for images, labels in epochs():
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        schedule.step()
    model.eval()
    with torch.inference_mode():
        return float((model(test[0]).argmax(1) == test[1]).double().mean())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--plain", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    x, y = digits()
    pixels = (torch.from_numpy(x[-HELD:]).permute(0, 3, 1, 2).float() / 255 - 0.3) / 0.3
    test = pixels, torch.from_numpy(y[-HELD:])
    sides = {"stoker": by_stoker, "torchvision": by_torchvision}
    found: dict[str, list[float]] = {who: [] for who in sides}
    print("seed  " + "  ".join(sides))
    for seed in range(options.seeds):
        for who, make in sides.items():
            found[who].append(train(make(x[:-HELD], y[:-HELD], seed, options.plain), test, options.epochs, seed))
        print(f"{seed:4}  " + "  ".join(f"{values[-1]:{len(who)}.2%}" for who, values in found.items()), flush=True)
    means = [statistics.fmean(v) for v in found.values()]
    noise = 2 * sum(statistics.variance(v) / len(v) for v in found.values()) ** 0.5
    for who, values in found.items():
        print(f"{who}: {statistics.fmean(values):.2%} +- {statistics.stdev(values):.2%}, from {min(values):.2%} to {max(values):.2%}")
    equal = abs(means[0] - means[1]) <= noise
    print(f"the means differ by {abs(means[0] - means[1]):.2%}; noise is {noise:.2%}: {'equal' if equal else 'NOT EQUAL'}")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
