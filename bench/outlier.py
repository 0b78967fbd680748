#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how long a training step waits for its batch if one file in 500 has 12 megapixels, for Stoker, DALI's CPU pipeline and a DataLoader.

usage: outlier.py DIR [--batch N] [--threads N] [--steps N] [--rounds N] [--load SHARE] [--sides NAME,...]

DIR holds at least 500 JPEG files, of which 500 are used in their order. Each measurement runs in its own process, all sides in turns. It first takes batches
without a pause, to measure the time that the loader needs for one. Then it takes `steps` batches and sleeps after each, in place of a training step on a GPU.
It sleeps so long that the loader is busy for SHARE of the time. The wait of a step is the duration of its call for the next batch. The DataLoader has
torchvision's transforms on PIL, and runs over one list of all epochs, so that no epoch begins with an empty queue.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import measure
import peers

COUNT, LARGE = 500, (4000, 3000)
SIDES = ("stoker", "dali", "dataloader")


def make_large(source: Path, at: Path) -> None:
    """Enlarges a photograph to 12 megapixels, with the noise of a sensor, as a phone would write it."""
    import numpy as np
    from PIL import Image

    with Image.open(source) as image:
        pixels = np.asarray(image.convert("RGB").resize(LARGE, Image.Resampling.BICUBIC), np.float32)
    pixels = pixels + np.random.default_rng(1).standard_normal((LARGE[1], LARGE[0], 1), dtype=np.float32) * 3
    Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(at, quality=92, subsampling=2)


def dataloader(files: list[Path], batch: int, threads: int) -> Iterator[Any]:
    import torch

    torch.set_num_threads(1)
    dataset: Any = peers.Files(files, peers.load_with_torchvision())
    order = list(range(len(files))) * 1000
    return iter(torch.utils.data.DataLoader(dataset, batch, sampler=order, num_workers=threads))


def dali(files: list[Path], batch: int, threads: int) -> Iterator[Any]:
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=batch, num_threads=threads, device_id=None, prefetch_queue_depth=2, seed=1)
    def program() -> Any:
        jpegs, labels = fn.readers.file(files=[str(f) for f in files], name="Reader")
        images = fn.resize(fn.decoders.image_random_crop(jpegs, device="cpu", output_type=types.RGB), size=(224, 224))
        mirror, mean, std = fn.random.coin_flip(), peers.MEAN255, peers.STD255
        return fn.crop_mirror_normalize(images, mirror=mirror, mean=mean, std=std, dtype=types.FLOAT, output_layout="CHW"), labels

    made = program()
    made.build()
    return peers.run_endless(made)


def stoker(files: list[Path], batch: int, threads: int) -> Iterator[Any]:
    from stoker import Loader
    from stoker import transforms as T

    steps = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize(peers.MEAN, peers.STD)]
    made = Loader([(str(f), 0) for f in files], batch, seed=0, transforms=steps, num_threads=threads, last_batch="drop")
    return peers.endless(lambda: iter(made))


def take(batches: Iterator[Any], steps: int, sleep: float = 0) -> list[float]:
    """Returns the seconds that each step waited for its batch."""
    waits = []
    for _ in range(steps):
        begin = time.perf_counter()
        next(batches)
        waits.append(time.perf_counter() - begin)
        time.sleep(sleep)
    return waits


def percentile(values: list[float], share: float) -> float:
    """Returns the first of the sorted values that has at least `share` of all values before it, or the last one if there is none."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def measure_one(side: str, large: Path | None, a: argparse.Namespace) -> dict[str, float]:
    """Measures one side. Returns milliseconds: the sleep, and percentiles of the waits."""
    files = peers.list_files(a.folder)[:COUNT]
    batches: Iterator[Any] = globals()[side](files[:-1] + [files[-1] if large is None else large], a.batch, a.threads)
    warm = COUNT // a.batch
    take(batches, warm)
    begin = time.perf_counter()
    take(batches, 2 * warm)
    sleep = (time.perf_counter() - begin) / (2 * warm) / a.load
    take(batches, warm, sleep)
    waits = [1e3 * wait for wait in take(batches, a.steps, sleep)]
    return {"sleep": 1e3 * sleep, "p50": percentile(waits, 0.5), "p99": percentile(waits, 0.99), "max": max(waits)}


def in_child(side: str, large: Path | None, a: argparse.Namespace) -> dict[str, float]:
    given = ["--batch", a.batch, "--threads", a.threads, "--steps", a.steps, "--load", a.load, "--child", side]
    given += ["--large", large] if large else []
    done = subprocess.run([sys.executable, __file__, str(a.folder), *map(str, given)], check=True, stdout=subprocess.PIPE, text=True)
    found = measure.emitted(done.stdout)
    assert found is not None
    return found


def run(large: Path, a: argparse.Namespace) -> None:
    sides = [(side, file) for side in a.sides.split(",") for file in (None, large)]
    slices: dict[tuple[str, Path | None], list[dict[str, float]]] = {side: [] for side in sides}
    for turn in range(a.rounds):
        for side in sides if turn % 2 else sides[::-1]:
            slices[side].append(in_child(*side, a))
            print(f"... {side[0]}, {'one of 12 MP' if side[1] else 'no large file'}: {slices[side][-1]}", file=sys.stderr, flush=True)

    def cell(values: list[float]) -> str:
        return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"

    rows = [["milliseconds", "a step sleeps", "wait, p50", "wait, p99", "longest wait", "p99 per step"]]
    for side in sides:
        found = slices[side]
        shares = [one["p99"] / one["sleep"] for one in found]
        cells = [cell([one[key] for one in found]) for key in ("sleep", "p50", "p99", "max")]
        rows.append([f"{side[0]}, {'one of 12 MP' if side[1] else 'no large file'}", *cells, cell(shares)])
    print(measure.table(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--load", type=float, default=0.8)
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--child")
    parser.add_argument("--large", type=Path)
    a = parser.parse_args()
    if a.child:
        measure.emit(measure_one(a.child, a.large, a))
        return
    small = peers.list_files(a.folder)
    if len(small) < COUNT:
        parser.error(f"{a.folder} holds {len(small)} JPEG files; {COUNT} are needed")
    with tempfile.TemporaryDirectory(prefix="stoker-outlier-") as scratch:
        large = Path(scratch) / "large.jpg"
        make_large(small[0], large)
        run(large, a)


if __name__ == "__main__":
    main()
