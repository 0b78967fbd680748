#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads CIFAR-10's binary files: pad 4 + random crop 32 + flip + normalise, batch 512. Compares with a DataLoader or a vectorised NumPy loader.

usage: cifar.py numpy|dataloader [--rounds N]
The program makes the files in CIFAR-10's binary format (5 x 10 000 records); the values in them do not affect the time.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import measure
import numpy as np
import peers

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
BATCH = 512


def write_files(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (50_000, 3, 32, 32), dtype=np.uint8)
    labels = rng.integers(0, 10, 50_000, dtype=np.uint8)
    records = np.concatenate([labels[:, None], images.reshape(50_000, -1)], axis=1)
    for i in range(5):
        records[i * 10_000 : (i + 1) * 10_000].tofile(folder / f"data_batch_{i + 1}.bin")
    records[:10_000].tofile(folder / "test_batch.bin")
    return images, labels


def numpy_loader(images: np.ndarray, labels: np.ndarray) -> Iterator[Any]:
    """Yields batches whose crops are cut with one gather, from images that were padded once."""
    rng = np.random.default_rng(1)
    padded = np.pad(images, ((0, 0), (0, 0), (4, 4), (4, 4)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (32, 32), axis=(2, 3))
    mean, std = (255 * np.array(v, np.float32).reshape(1, 3, 1, 1) for v in (MEAN, STD))
    scale = (1 / std).astype(np.float32)
    while True:
        order = rng.permutation(len(images))
        for at in range(0, len(order) - BATCH + 1, BATCH):
            chosen = order[at : at + BATCH]
            y, x = rng.integers(0, 9, (2, BATCH))
            batch = windows[chosen, :, y, x]
            flip = rng.random(BATCH) < 0.5
            batch[flip] = batch[flip, :, :, ::-1]
            yield (batch.astype(np.float32) - mean) * scale, labels[chosen]


def dataloader(images: np.ndarray, labels: np.ndarray, threads: int) -> Iterator[Any]:
    import torch
    from PIL import Image

    transforms = peers.import_torchvision().transforms
    steps = transforms.Compose(
        [
            transforms.RandomCrop(32, padding=4),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize(MEAN, STD),
        ]
    )
    pictures = np.ascontiguousarray(images.transpose(0, 2, 3, 1))

    class Dataset(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return len(pictures)

        def __getitem__(self, i: int) -> tuple[Any, int]:
            return steps(Image.fromarray(pictures[i])), int(labels[i])

    torch.set_num_threads(1)
    made = torch.utils.data.DataLoader(
        Dataset(), batch_size=BATCH, shuffle=True, num_workers=threads, persistent_workers=True, drop_last=True
    )
    return peers.endless(lambda: iter(made))


def stoker_loader(folder: Path, threads: int) -> Iterator[Any]:
    from stoker import Loader
    from stoker import transforms as T

    steps = [T.RandomCrop(32, padding=4), T.RandomHorizontalFlip(), T.Normalize(MEAN, STD)]
    made = Loader(str(folder), batch_size=BATCH, shuffle=True, seed=0, transforms=steps, num_threads=threads)
    return peers.endless(lambda: iter(made))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=["numpy", "dataloader"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=measure.machine()["cores"])
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        images, labels = write_files(Path(scratch))
        theirs = numpy_loader(images, labels) if a.peer == "numpy" else dataloader(images, labels, a.threads)
        next(theirs)
        ours = stoker_loader(Path(scratch), a.threads)
        sums = [float(np.asarray(next(side)[0]).std()) for side in (ours, theirs)]
        if abs(sums[0] - sums[1]) > 0.05:
            raise SystemExit(f"the two sides do not make the same: standard deviations {sums}")
        takes = [peers.taker(side, lambda batch: len(batch[0])) for side in (ours, theirs)]
        measure.wait_idle()
        # Stoker's slices contain more images, so that they last long enough to be timed.
        factor = 20 if a.peer == "dataloader" else 4
        result = measure.Comparison(a.peer, [], [])
        for _ in range(a.rounds):
            result.theirs.append(measure.measure(takes[1], 20 * BATCH))
            result.ours.append(measure.measure(takes[0], factor * 20 * BATCH))
        measure.emit({"name": "cifar", "threads": a.threads, "batch": BATCH, **result.summary()})


if __name__ == "__main__":
    main()
