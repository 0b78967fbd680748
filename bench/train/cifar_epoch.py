#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times an epoch of CIFAR on the device (50 000 images, padded, cropped, flipped, normalised, in batches of 1 000), and the same work written in torch.

usage: cifar_epoch.py [--rounds 7] [--epochs 40] [--batch 1000] [--device cuda] [--dtype float16] [--layout channels_last]

Both sides take whole epochs, every batch of images and labels, as a training loop does, and wait for the device at the end of each epoch. Sides take
turns, after a warm-up epoch of each; figures are medians over all epochs, and the ratio is a median over turns.

The torch side works like fast training scripts: the data set is on the device as uint8, and a whole epoch is augmented with a few dozen vectorised operations.
Required: at most 1 ms for an epoch on an H200. The memory traffic of an epoch takes at least 0.11 ms there in float16.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import pad

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import cifar
import measure

PAD = 4
IMAGES = 50_000


def stoker_epochs(folder: Path, a: argparse.Namespace) -> Callable[[], Iterator[Any]]:
    from stoker import Loader
    from stoker import transforms as T

    transforms = [T.RandomCrop(32, padding=PAD), T.RandomHorizontalFlip(), T.Normalize(cifar.MEAN, cifar.STD)]
    common: dict[str, Any] = {
        "shuffle": True,
        "device": a.device,
        "dtype": getattr(torch, a.dtype),
        "memory_format": getattr(torch, a.layout),
        "transforms": transforms,
    }
    seen = [i for b in Loader(folder, a.batch, fields=("image", "label", "index"), **common) for i in b.index.tolist()]
    if len(seen) != IMAGES // a.batch * a.batch or len(set(seen)) != len(seen):
        raise SystemExit("an epoch lacks images, or has some twice")
    loader = Loader(folder, a.batch, **common)
    if a.device != "cpu" and "lies on the GPU" not in loader.pipeline.explain():
        raise SystemExit("the data set does not lie on the GPU: " + loader.pipeline.explain())
    return lambda: iter(loader)


def shifted(images: Any, shift: Any, dim: int) -> Any:
    """Returns 32 rows (dim 2) or columns (dim 3) of each image i, from row or column shift[i] on."""
    shape = list(images.shape)
    shape[dim] = 32
    made = torch.empty(shape, dtype=images.dtype, device=images.device)
    for s in range(2 * PAD + 1):
        chosen = shift == s
        made[chosen] = images[chosen].narrow(dim, s, 32)
    return made


def torch_epochs(images: Any, labels: Any, a: argparse.Namespace) -> Callable[[], Iterator[Any]]:
    device, dtype = torch.device(a.device), getattr(torch, a.dtype)
    pixels, targets = torch.from_numpy(images).to(device), torch.from_numpy(labels).to(device, torch.int64)
    mean, std = (255 * torch.tensor(v, device=device, dtype=dtype).view(1, 3, 1, 1) for v in (cifar.MEAN, cifar.STD))
    count = len(pixels)

    def epoch() -> Iterator[Any]:
        padded = pad((pixels.to(dtype) - mean) / std, (PAD,) * 4)
        flip = torch.rand(count, 1, 1, 1, device=device) < 0.5
        padded = torch.where(flip, padded.flip(-1), padded)
        shift = torch.randint(0, 2 * PAD + 1, (count, 2), device=device)
        made = shifted(shifted(padded, shift[:, 0], 2), shift[:, 1], 3)
        order = torch.randperm(count, device=device)
        for at in range(0, count - a.batch + 1, a.batch):
            ids = order[at : at + a.batch]
            yield made[ids].contiguous(memory_format=getattr(torch, a.layout)), targets[ids]

    return epoch


def timed(epoch: Callable[[], Iterator[Any]], epochs: int, device: str) -> list[float]:
    """Returns the duration of each epoch in milliseconds, until the device has finished it."""
    took = []
    for _ in range(epochs):
        batches = 0
        begin = time.perf_counter()
        for images, _labels in epoch():
            batches += images is not None
        if device != "cpu":
            torch.cuda.synchronize()
        took.append(1e3 * (time.perf_counter() - begin))
        if not batches:
            raise SystemExit("no batches")
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--epochs", type=int, default=40, help="of a turn")
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", default="float16" if torch.cuda.is_available() else "float32")
    parser.add_argument("--layout", default="channels_last", choices=["channels_last", "contiguous_format"])
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        images, labels = cifar.write_files(Path(folder))
        sides = {"stoker": stoker_epochs(Path(folder), a), "torch": torch_epochs(images, labels, a)}
        found: dict[str, list[float]] = {name: [] for name in sides}
        ratios = []
        for turn in range(a.rounds):
            turns = {}
            for name in sorted(sides, reverse=bool(turn % 2)):
                timed(sides[name], 1, a.device)
                turns[name] = timed(sides[name], a.epochs, a.device)
                found[name] += turns[name]
            ratios.append(statistics.median(turns["torch"]) / statistics.median(turns["stoker"]))
    ms: dict[str, Any] = {}
    for name, times in found.items():
        tenths = statistics.quantiles(times, n=10)
        ms[name] = {"median": round(statistics.median(times), 3), "spread": [round(tenths[0], 3), round(tenths[-1], 3)]}
    rows = [[name, f"{m['median']}", f"{m['spread'][0]} - {m['spread'][1]}"] for name, m in ms.items()]
    print(measure.table([["50 000 images", "ms", "10% - 90%"], *rows]))
    measure.emit(
        {
            "name": "cifar_epoch",
            "device": a.device,
            "batch": a.batch,
            "dtype": a.dtype,
            "layout": a.layout,
            "ms": ms,
            "ratio": round(statistics.median(ratios), 3),
        }
    )


if __name__ == "__main__":
    main()
