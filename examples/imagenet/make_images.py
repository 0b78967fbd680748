#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a folder of images, laid out like ImageNet, to try train.py with: make_images.py FOLDER [--classes 10] [--train 100] [--val 20] [--pixels 400x500].

Colour and stripes depend on the class, so that a network can learn it; size, position and noise vary between images.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image


def picture(rng: np.random.Generator, label: int, height: int, width: int) -> np.ndarray:
    """Draws an image (height, width, 3) of the class with this label."""
    look = np.random.default_rng(label)  # this generator draws the look of the class
    angle, wave = look.uniform(0, np.pi), look.uniform(0.05, 0.3)
    colour, other = look.uniform(30, 225, (2, 3))
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    stripes = 0.5 + 0.5 * np.sin(wave * (x * np.cos(angle) + y * np.sin(angle)) + rng.uniform(0, 6))
    image = stripes[..., None] * colour + (1 - stripes[..., None]) * other
    image += rng.normal(0, 12, image.shape) + rng.uniform(-25, 25)
    return np.clip(image, 0, 255).astype(np.uint8)


def write_class(folder: Path, label: int, count: int, seed: int, height: int, width: int) -> None:
    rng = np.random.default_rng([seed, label])
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(count):
        scale = rng.uniform(0.7, 1.3, 2)
        image = picture(rng, label, int(height * scale[0]), int(width * scale[1]))
        Image.fromarray(image).save(folder / f"{i:06d}.jpg", quality=int(rng.integers(85, 97)))


def make(root: Path, classes: int, train: int, val: int, height: int, width: int) -> None:
    """Writes root/train/CLASS/*.jpg and root/val/CLASS/*.jpg."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        jobs = [
            pool.submit(write_class, root / split / f"class{label:04d}", label, count, seed, height, width)
            for seed, (split, count) in enumerate((("train", train), ("val", val)))
            for label in range(classes)
        ]
        for job in jobs:
            job.result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--train", type=int, default=100, help="images of a class")
    parser.add_argument("--val", type=int, default=20, help="images of a class")
    parser.add_argument("--pixels", default="400x500", help="mean height x width")
    args = parser.parse_args()
    height, width = map(int, args.pixels.split("x"))
    make(args.folder, args.classes, args.train, args.val, height, width)
    print(f"{args.folder}: {args.classes} classes, {args.classes * args.train} images to train, {args.classes * args.val} to validate")


if __name__ == "__main__":
    main()
