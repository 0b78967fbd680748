#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cuts a corpus of distinct JPEGs of ImageNet-like sizes out of real photographs.

The photographs come from scikit-image and scikit-learn, or from the folders given with --source. Each cut has its own region, scale and mirroring,
and the sensor noise of real photographs, so that files have ImageNet's bytes per pixel: long side about 490 (log-normal),
aspect about 4:3, a quarter upright, mostly 4:2:0, one in a hundred gray, one in two hundred progressive
(of images from the web, one in five to ten is progressive: use --progressive). With --kind cameras the files are frames of a vehicle's cameras
instead: 1600x900, quality 82, 4:2:0. A run with the same arguments and packages gives the same files.

usage: corpus.py OUT COUNT [--kind imagenet|cameras] [--progressive SHARE] [--source DIR]... [--seed N] [--classes N] [--jobs N]
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import os
import sys
from pathlib import Path

import numpy as np
from PIL import Image

# Photographs of scikit-image (as names of its functions) and of scikit-learn, without its drawings and microscope images.
SKIMAGE = (
    "astronaut",
    "camera",
    "chelsea",
    "coffee",
    "hubble_deep_field",
    "retina",
    "rocket",
    "brick",
    "grass",
    "gravel",
    "motorcycle_left",
    "motorcycle_right",
)
SKLEARN = ("china.jpg", "flower.jpg")
ENDINGS = {".jpg", ".jpeg", ".png", ".webp"}
FRAME = (1600, 900)  # width and height of a camera frame
_photos: list[Image.Image] = []


def packaged_photos() -> list[Path]:
    """Returns paths of the photographs inside the installed packages. Downloads nothing."""
    import skimage
    import sklearn.datasets

    folder = Path(skimage.__file__).parent / "data"
    found = [p for name in SKIMAGE for p in sorted(folder.glob(f"{name}.*")) if p.suffix in ENDINGS]
    return found + [Path(sklearn.datasets.__file__).parent / "images" / name for name in SKLEARN]


def load_photos(paths: list[str]) -> None:
    Image.MAX_IMAGE_PIXELS = None
    for path in paths:
        image = Image.open(path).convert("RGB")
        image.thumbnail((4000, 4000))
        _photos.append(image)


def draw_size(rng: np.random.Generator) -> tuple[int, int]:
    long_side = int(np.clip(rng.lognormal(np.log(490), 0.22), 160, 1600))
    short_side = max(96, int(long_side / np.exp(abs(rng.normal(np.log(1.30), 0.14)))))
    return (short_side, long_side) if rng.random() < 0.28 else (long_side, short_side)


def draw_scene(rng: np.random.Generator, photo: Image.Image, width: int, height: int, grain: float) -> Image.Image:
    """Cuts a random region out of a photograph, changes its scale, mirroring and brightness, and adds a sensor's noise."""
    fit = min(photo.width / width, photo.height / height)
    zoom = fit if fit <= 1 else float(np.exp(rng.uniform(0, np.log(fit))))
    zoom *= float(rng.uniform(0.7, 1))
    w, h = max(1, int(width * zoom)), max(1, int(height * zoom))
    x, y = int(rng.integers(photo.width - w + 1)), int(rng.integers(photo.height - h + 1))
    image = photo.resize((width, height), Image.Resampling.BICUBIC, box=(x, y, x + w, y + h))
    pixels = np.asarray(image, dtype=np.float32)
    if rng.random() < 0.5:
        pixels = pixels[:, ::-1]
    pixels = pixels * rng.uniform(0.8, 1.2) + rng.standard_normal((height, width, 1), dtype=np.float32) * grain
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def cut(index: int, out: str, seed: int, classes: int, kind: str, progressive: float) -> tuple[int, int]:
    """Writes image `index`. Returns its size in bytes and its number of pixels."""
    rng = np.random.default_rng((seed, index))
    folder = Path(out) / f"class{index % classes:03d}"
    path = folder / f"{index:06d}.jpg"
    photo = _photos[int(rng.integers(len(_photos)))]
    if kind == "cameras":
        image = draw_scene(rng, photo, *FRAME, 1.2)
        image.save(path, quality=82, subsampling=2)
        return path.stat().st_size, image.width * image.height
    width, height = draw_size(rng)
    image = draw_scene(rng, photo, width, height, 3)
    gray = rng.random() < 0.01
    subsampling = 0 if gray or rng.random() < 0.1 else 2
    (image.convert("L") if gray else image).save(
        path, quality=int(rng.integers(92, 98)), subsampling=subsampling, progressive=bool(rng.random() < progressive)
    )
    return path.stat().st_size, width * height


def make(
    out: Path,
    count: int,
    sources: list[Path],
    seed: int = 7,
    classes: int = 16,
    jobs: int | None = None,
    kind: str = "imagenet",
    progressive: float = 0.005,
) -> dict:
    """Cuts `count` images. Returns a description of the corpus, which is also written to OUT/corpus.json."""
    paths = (
        [str(p) for s in sources for p in sorted(s.rglob("*")) if p.suffix.lower() in ENDINGS]
        if sources
        else [str(p) for p in packaged_photos()]
    )
    for c in range(classes):
        (out / f"class{c:03d}").mkdir(parents=True, exist_ok=True)
    total_bytes = total_pixels = 0
    jobs = jobs or len(os.sched_getaffinity(0))
    with multiprocessing.get_context("fork").Pool(jobs, load_photos, (paths,)) as pool:
        work = functools.partial(cut, out=str(out), seed=seed, classes=classes, kind=kind, progressive=progressive)
        for done, (size, pixels) in enumerate(pool.imap_unordered(work, range(count), chunksize=8), 1):
            total_bytes += size
            total_pixels += pixels
            if sys.stderr.isatty() and done % 16 == 0:
                print(f"\r\033[Kcutting photographs: {done} of {count}", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    facts = {
        "count": count,
        "photos": len(paths),
        "mean_bytes": round(total_bytes / count),
        "mean_pixels": round(total_pixels / count),
        "seed": seed,
    }
    (out / "corpus.json").write_text(json.dumps(facts) + "\n")
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("count", type=int)
    parser.add_argument("--kind", choices=["imagenet", "cameras"], default="imagenet")
    parser.add_argument("--progressive", type=float, default=0.005, metavar="SHARE")
    parser.add_argument("--source", type=Path, action="append", default=[])
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--classes", type=int, default=16)
    parser.add_argument("--jobs", type=int)
    a = parser.parse_args()
    print(json.dumps(make(a.out, a.count, a.source, a.seed, a.classes, a.jobs, a.kind, a.progressive)))


if __name__ == "__main__":
    main()
