# SPDX-License-Identifier: Apache-2.0
"""Trains a small classifier on a folder of images with stoker.Loader: imagenet_loader.py FOLDER [--epochs N] [--state FILE].

Runs in one process, or in several with torchrun. An interrupted run continues at the same position if started again with the same --state.
"""

import argparse
import json
import time
from pathlib import Path

import torch
from stoker import Loader
from stoker import transforms as T

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def small_network(classes: int) -> torch.nn.Module:
    """Returns a network that trains on a CPU in a minute."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 7, stride=4),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 5, stride=4),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(32, classes),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--state", type=Path)
    args = parser.parse_args()

    loader = Loader(
        args.folder,
        args.batch_size,
        shuffle=True,
        transforms=[T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize(MEAN, STD)],
        memory_format=torch.channels_last,
        on_error="skip",
    )
    if args.state and args.state.exists():
        loader.load_state_dict(json.loads(args.state.read_text()))
    print(loader)

    network = small_network(len(loader.classes)).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(network.parameters(), 0.05, momentum=0.9)
    for epoch in range(loader.epoch, args.epochs):
        start, seen, total = time.perf_counter(), 0, 0.0
        for images, labels in loader:
            loss = torch.nn.functional.cross_entropy(network(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen += len(labels)
            total += loss.item() * len(labels)
            if args.state:
                args.state.write_text(json.dumps(loader.state_dict()))
        print(f"epoch {epoch}: {seen} images, {seen / (time.perf_counter() - start):.0f} a second, loss {total / max(1, seen):.3f}")
    for bad in loader.pipeline.bad_samples():
        print("left out:", bad)


if __name__ == "__main__":
    main()
