#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares stoker.imread with other decoders, as a Dataset's __getitem__ calls them: on one thread, and in a DataLoader with 0, 2, 4 and 8 workers.

usage: images.py DIR [--images N] [--rounds N] [--workers N,...]
DIR holds JPEG files, in folders or not. Images are read from the page cache and decoded to RGB, without transforms. Slices alternate. The table shows
images per second of CPU time (of the whole process tree) and of wall clock, and the ratios to the best other decoder. First, the program counts how many
files of a difficult set each decoder cannot read. It skips decoders that are not installed or do not load, and prints their names.
"""

from __future__ import annotations

import argparse
import io
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import measure
import numpy as np

Decode = Callable[[str], Any]


def stoker() -> Decode:
    from stoker import imread

    return imread


def simplejpeg() -> Decode:
    import simplejpeg

    def decode(path: str) -> Any:
        with open(path, "rb") as file:
            return simplejpeg.decode_jpeg(file.read(), colorspace="RGB")

    return decode


def torchvision() -> Decode:
    from torchvision.io import ImageReadMode, decode_jpeg, read_file

    return lambda path: decode_jpeg(read_file(path), mode=ImageReadMode.RGB)


def pillow() -> Decode:
    from PIL import Image

    def decode(path: str) -> Any:
        with Image.open(path) as image:
            return np.asarray(image.convert("RGB"))

    return decode


def opencv() -> Decode:
    import cv2

    def decode(path: str) -> Any:
        image = cv2.imread(path)
        assert image is not None, path
        return image[:, :, ::-1].copy()

    return decode


SIDES = {f.__name__: f for f in (stoker, simplejpeg, torchvision, opencv, pillow)}


class Images:
    """A Dataset that decodes an image and returns only its height, so that batches are small and nearly all of the time is spent on decoding."""

    def __init__(self, files: list[str], decode: Decode) -> None:
        self.files, self.decode = files, decode

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int) -> int:
        return int(self.decode(self.files[i]).shape[0])


def awkward(folder: Path) -> list[str]:
    """Writes files that occur in data sets and that some decoders refuse: CMYK, a PNG that is named .JPEG, gray, progressive, a file whose end is missing,
    and a file with bytes after its end. Returns their paths."""
    from PIL import Image

    rng = np.random.default_rng(3)
    image = Image.fromarray(rng.integers(0, 255, (20, 30, 3), dtype=np.uint8)).resize((300, 200))
    whole = io.BytesIO()
    image.save(whole, "JPEG")
    image.convert("CMYK").save(folder / "cmyk.jpg")
    image.save(folder / "png.JPEG", "PNG")
    image.convert("L").save(folder / "gray.jpg")
    image.save(folder / "progressive.jpg", progressive=True)
    (folder / "cut.jpg").write_bytes(whole.getvalue()[: len(whole.getvalue()) * 95 // 100])
    (folder / "behind.jpg").write_bytes(whole.getvalue() + bytes(100))
    return sorted(str(p) for p in folder.iterdir())


def loadable() -> dict[str, Decode]:
    found = {}
    for name, make in SIDES.items():
        try:
            found[name] = make()
        except (ImportError, RuntimeError) as e:
            print(f"{name} is left out: {str(e).splitlines()[0][:100]}")
    return found


def refused(decode: Decode, files: list[str]) -> list[str]:
    bad = []
    for path in files:
        try:
            if decode(path).ndim != 3:
                bad.append(path)
        except Exception:
            bad.append(path)
    return [Path(p).name for p in bad]


def slices(takers: dict[str, Callable[[], int]], rounds: int) -> dict[str, list[measure.Slice]]:
    """Measures the slices of all decoders in turns; each round begins with another decoder."""
    result: dict[str, list[measure.Slice]] = {name: [] for name in takers}
    names = list(takers)
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            wall, cpu = time.perf_counter(), measure.cpu_seconds()
            images = takers[name]()
            took = time.perf_counter() - wall
            result[name].append(measure.Slice(images, took, measure.cpu_seconds() - cpu))
    return result


def show(title: str, found: dict[str, list[measure.Slice]]) -> None:
    def ratio(rate: Callable[[measure.Slice], float]) -> float:
        others = [[rate(s) for s in v] for k, v in found.items() if k != "stoker"]
        return statistics.median(rate(s) / max(o[i] for o in others) for i, s in enumerate(found["stoker"]))

    cells = [
        f"{name} {statistics.median(1000 / s.cost for s in v):.0f}/{statistics.median(s.rate for s in v):.0f}" for name, v in found.items()
    ]
    print(
        f"{title:14} {'  '.join(cells)}   ratio {ratio(lambda s: 1000 / s.cost):.2f} by CPU, {ratio(lambda s: s.rate):.2f} by clock",
        flush=True,
    )


def loader_taker(files: list[str], decode: Decode, workers: int) -> Callable[[], int]:
    """Returns a function that runs one epoch over all files, with persistent workers."""
    import torch

    loader: Any = torch.utils.data.DataLoader(
        Images(files, decode),  # type: ignore[arg-type]
        batch_size=32,
        num_workers=workers,
        persistent_workers=workers > 0,
        multiprocessing_context="fork" if workers else None,
    )

    def take() -> int:
        return sum(len(batch) for batch in loader)

    take()
    return take


def main() -> None:
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path)
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", default="0,2,4,8")
    a = parser.parse_args()
    warnings.filterwarnings("ignore", module="torch")  # torch warns if there are fewer cores than workers
    files = sorted(str(p) for p in a.dir.rglob("*") if p.suffix.lower() in (".jpg", ".jpeg"))
    files = files[:: max(1, len(files) // a.images)][: a.images]
    decoders = loadable()
    with tempfile.TemporaryDirectory() as scratch:
        hard = awkward(Path(scratch))
        for name, decode in decoders.items():
            bad, lost = ", ".join(refused(decode, hard)) or "nothing", len(refused(decode, files))
            print(f"{name:12} cannot read {bad} of {len(hard)} awkward files, and {lost} of {len(files)} images")
    print(f"images per second of CPU/of the clock, {len(files)} files, {measure.describe([Path(f) for f in files])}")

    def straight(decode: Decode) -> Callable[[], int]:
        return lambda: sum(decode(f) is not None for f in files)

    show("one thread", slices({name: straight(d) for name, d in decoders.items()}, a.rounds))
    for workers in map(int, a.workers.split(",")):
        show(f"{workers} workers", slices({name: loader_taker(files, d, workers) for name, d in decoders.items()}, a.rounds))


if __name__ == "__main__":
    main()
