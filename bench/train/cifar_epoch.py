#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An epoch of CIFAR on the device: 50 000 images, padded, cropped, flipped, normalised, in batches of 1 000; beside the same work written in torch.

usage: cifar_epoch.py [--rounds 5] [--epochs 20] [--batch 1000] [--device cuda]

The torch side is what fast training scripts do: the set lies on the device as uint8, and a whole epoch is augmented with a few dozen vectorised operations.
Bar: 1 ms an epoch on an H200; the traffic of memory alone takes 0.11 ms there.
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


def stoker_epochs(folder: Path, batch: int, device: torch.device, dtype: torch.dtype) -> Callable[[], Iterator[Any]]:
    from stoker import Loader
    from stoker import transforms as T

    transforms = [T.RandomCrop(32, padding=PAD), T.RandomHorizontalFlip(), T.Normalize(cifar.MEAN, cifar.STD)]
    common: dict[str, Any] = {
        "shuffle": True,
        "device": str(device),
        "dtype": dtype,
        "memory_format": torch.channels_last,
        "transforms": transforms,
    }
    seen = [i for b in Loader(folder, batch, fields=("image", "label", "index"), **common) for i in b.index.tolist()]
    if len(seen) != 50_000 // batch * batch or len(set(seen)) != len(seen):
        raise SystemExit("an epoch lacks images, or has some twice")
    loader = Loader(folder, batch, **common)
    return lambda: iter(loader)


def torch_epochs(images: Any, labels: Any, batch: int, device: torch.device, dtype: torch.dtype) -> Callable[[], Iterator[Any]]:
    pixels, targets = torch.from_numpy(images).to(device), torch.from_numpy(labels).to(device, torch.int64)
    mean, std = (255 * torch.tensor(v, device=device, dtype=dtype).view(1, 3, 1, 1) for v in (cifar.MEAN, cifar.STD))
    count = len(pixels)

    def epoch() -> Iterator[Any]:
        padded = pad((pixels.to(dtype) - mean) / std, (PAD,) * 4)
        flip = torch.rand(count, 1, 1, 1, device=device) < 0.5
        padded = torch.where(flip, padded.flip(-1), padded)
        shift = torch.randint(0, 2 * PAD + 1, (count, 2), device=device)
        made = torch.empty(count, 3, 32, 32, dtype=dtype, device=device)
        for y in range(2 * PAD + 1):
            for x in range(2 * PAD + 1):
                chosen = (shift[:, 0] == y) & (shift[:, 1] == x)
                made[chosen] = padded[chosen, :, y : y + 32, x : x + 32]
        order = torch.randperm(count, device=device)
        for at in range(0, count - batch + 1, batch):
            ids = order[at : at + batch]
            yield made[ids].contiguous(memory_format=torch.channels_last), targets[ids]

    return epoch


def timed(epoch: Callable[[], Iterator[Any]], epochs: int, device: torch.device) -> float:
    """Milliseconds of an epoch."""
    batches = 0
    begin = time.perf_counter()
    for _ in range(epochs):
        for images, _labels in epoch():
            batches += len(images) > 0
    if device.type == "cuda":
        torch.cuda.synchronize()
    took = 1e3 * (time.perf_counter() - begin) / epochs
    if not batches:
        raise SystemExit("no batches")
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=20, help="of a slice")
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    a = parser.parse_args()
    device = torch.device(a.device)
    dtype = torch.float16 if device.type == "cuda" else torch.float32
    with tempfile.TemporaryDirectory() as folder:
        images, labels = cifar.write_files(Path(folder))
        sides = {
            "stoker": stoker_epochs(Path(folder), a.batch, device, dtype),
            "torch": torch_epochs(images, labels, a.batch, device, dtype),
        }
        for side in sides.values():
            timed(side, 1, device)
        found: dict[str, list[float]] = {name: [] for name in sides}
        for turn in range(a.rounds):
            for name in sorted(sides, reverse=bool(turn % 2)):
                found[name].append(timed(sides[name], a.epochs, device))
    ratios = [t / o for o, t in zip(found["stoker"], found["torch"], strict=True)]
    ms: dict[str, Any] = {
        name: {"median": round(statistics.median(v), 3), "spread": [round(min(v), 3), round(max(v), 3)]} for name, v in found.items()
    }
    print(
        measure.table(
            [["50 000 images", "ms", "spread"], *([n, f"{m['median']}", f"{m['spread'][0]} - {m['spread'][1]}"] for n, m in ms.items())]
        )
    )
    measure.emit({"name": "cifar_epoch", "device": a.device, "batch": a.batch, "ms": ms, "ratio": round(statistics.median(ratios), 3)})


if __name__ == "__main__":
    main()
