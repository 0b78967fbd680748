#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A port of airbench94.py: airbench.py FOLDER [--device cuda]. FOLDER holds CIFAR-10's binary files (examples/cifar/make_cifar.py makes some).

A Loader over the files replaces CifarLoader, which keeps the images on the GPU as float16, pads them once and crops and mirrors whole batches there. On a GPU
one kernel makes a batch. Stoker mirrors at random for each image and epoch; airbench alternates between epochs, which Stoker cannot do.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from stoker import Loader
from stoker import transforms as T
from torch import nn

CIFAR_MEAN, CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def loaders(folder: str, batch_size: int, device: str) -> tuple[Loader, Loader]:
    half: dict[str, Any] = {
        "device": device,
        "dtype": torch.float16 if device == "cuda" else torch.float32,
        "memory_format": torch.channels_last,
    }
    # was: CifarLoader("cifar10", train=True, batch_size=batch_size, aug=dict(flip=True, translate=2))
    augmented = [T.RandomCrop(32, padding=2, padding_mode="reflect"), T.RandomHorizontalFlip(), T.Normalize(CIFAR_MEAN, CIFAR_STD)]
    test = Loader(folder, 2000, split="test", transforms=[T.Normalize(CIFAR_MEAN, CIFAR_STD)], **half)
    return Loader(folder, batch_size, shuffle=True, transforms=augmented, **half), test


def network(widths: tuple[int, int, int]) -> nn.Sequential:
    """Returns the whitening layer, a block for each of the widths, and the linear layer that classifies."""
    layers: list[nn.Module] = [nn.Conv2d(3, 24, 2), nn.GELU()]
    inside = 24
    for width in widths:
        layers += [nn.Conv2d(inside, width, 3, padding=1, bias=False), nn.MaxPool2d(2), nn.BatchNorm2d(width), nn.GELU()]
        inside = width
    return nn.Sequential(*layers, nn.MaxPool2d(3), nn.Flatten(), nn.Linear(inside, 10, bias=False))


def main(argv: list[str] | None = None) -> float:
    """Trains the network, and returns the accuracy on the test images."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--batch-size", type=int, default=1000)
    parser.add_argument("--epochs", type=float, default=9.9)
    parser.add_argument("--widths", type=int, nargs=3, default=(64, 256, 256))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args(argv)
    train_loader, test_loader = loaders(args.folder, args.batch_size, args.device)
    model = network(tuple(args.widths)).to(args.device, memory_format=torch.channels_last)
    model = model.half() if args.device == "cuda" else model
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.85, nesterov=True)
    total = max(1, int(args.epochs * len(train_loader)))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, 5 * step / total + 0.2) * (1 - step / total))
    step = 0
    while step < total:
        for inputs, labels in train_loader:
            loss = nn.functional.cross_entropy(model(inputs).float(), labels, label_smoothing=0.2)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            step += 1
            if step == total:
                break
    model.eval()
    right = count = 0
    with torch.inference_mode():
        for inputs, labels in test_loader:
            right += int((model(inputs).argmax(1) == labels).sum())
            count += len(labels)
    print(f"tta=0 accuracy {right / count:.4f} of {count} after {step} steps")
    return right / count


if __name__ == "__main__":
    main()
