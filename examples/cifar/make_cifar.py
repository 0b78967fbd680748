#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a data set in the format of CIFAR-10's binary files, 50 000 and 10 000 images: make_cifar.py FOLDER [--distinct N].

The ten classes are textures that a small network needs several epochs to learn: noise is strong, positions are random, and one label in twenty is wrong.
The real files (cifar-10-binary.tar.gz) work as well.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

CLASSES, SIDE, PER_FILE = 10, 32, 10_000


def pictures(rng: np.random.Generator, labels: np.ndarray) -> np.ndarray:
    """Draws images (N, 3, 32, 32) of uint8, whose textures show the labels."""
    look = np.random.default_rng(7)  # this generator draws the textures of the classes
    angle, wave = look.uniform(0, np.pi, CLASSES), look.uniform(0.3, 1.2, CLASSES)
    colour = look.normal(0, 18, (CLASSES, 3))
    y, x = np.mgrid[0:SIDE, 0:SIDE]
    phase, lean = rng.uniform(0, 2 * np.pi, len(labels)), rng.normal(0, 0.1, len(labels))
    turned = (angle[labels] + lean)[:, None, None]
    stripes = np.sin(wave[labels][:, None, None] * (x * np.cos(turned) + y * np.sin(turned)) + phase[:, None, None])
    images = 120 + 35 * stripes[:, None] + colour[labels][:, :, None, None] + rng.normal(0, 75, (len(labels), 3, SIDE, SIDE))
    return np.clip(images, 0, 255).astype(np.uint8)


def records(seed: int, count: int, wrong: float = 0.05) -> np.ndarray:
    """Returns records as in the files, a label and 3072 bytes each. wrong: share of wrong labels."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % CLASSES
    images = pictures(rng, labels)
    stored = np.where(rng.random(count) < wrong, rng.integers(0, CLASSES, count), labels).astype(np.uint8)
    made: np.ndarray = np.concatenate([stored[:, None], images.reshape(count, -1)], axis=1)[rng.permutation(count)]
    return made


def make(folder: Path, distinct: int) -> None:
    """Writes five files for training and one for testing; each file repeats its own `distinct` images."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, name in enumerate([*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]):
        own = records(i, distinct)
        np.tile(own, (-(-PER_FILE // distinct), 1))[:PER_FILE].tofile(folder / name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--distinct", type=int, default=PER_FILE, help="images of each file that differ: fewer are made sooner")
    args = parser.parse_args()
    make(args.folder, args.distinct)
    print(f"{args.folder}: five files to train and one to test, with {args.distinct} distinct images each")


if __name__ == "__main__":
    main()
