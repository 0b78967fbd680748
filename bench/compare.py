#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares decode + RandomResizedCrop(224) + flip + normalise to float CHW with one peer, in alternating slices.

usage: compare.py dali|torchvision|simplejpeg DIR [--threads N] [--batch N] [--images N] [--rounds N]
DIR holds JPEG, PNG or WebP files, in folders or not. The pixel statistics of both sides have to agree, and the full batches of an epoch
of stoker must not have a file twice.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import measure
import peers
from peers import Take


class Statistics:
    """Accumulates mean and standard deviation of the pixels in a loader's batches, in units of the normalised output."""

    def __init__(self) -> None:
        self.n, self.sum, self.squares = 0, 0.0, 0.0

    def add(self, pixels: Any) -> None:
        import torch

        x = torch.as_tensor(pixels)
        if x.dtype == torch.uint8:  # only the side with simplejpeg returns uint8, since it leaves normalising to the GPU
            mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (peers.MEAN255, peers.STD255))
            x = (x.float() - mean) / std
        self.n += x.numel()
        self.sum += float(x.double().sum())
        self.squares += float(x.double().square().sum())

    @property
    def mean(self) -> float:
        return self.sum / self.n

    @property
    def std(self) -> float:
        return (self.squares / self.n - self.mean**2) ** 0.5


def check_statistics(ours: Iterator[Any], theirs: Iterator[Any], batches: int) -> dict:
    sides = Statistics(), Statistics()
    for side, source in zip(sides, (ours, theirs), strict=True):
        for _ in range(batches):
            side.add(next(source))
    a, b = sides
    if abs(a.mean - b.mean) > 0.05 or abs(a.std - b.std) > 0.05:
        raise SystemExit(f"the two sides do not make the same: mean {a.mean:.3f} and {b.mean:.3f}, std {a.std:.3f} and {b.std:.3f}")
    return {"mean": [round(a.mean, 3), round(b.mean, 3)], "std": [round(a.std, 3), round(b.std, 3)]}


def check_epoch(files: list[Path], batch: int, threads: int) -> None:
    """Checks that no file occurs twice in the full batches of an epoch, in which the labels are the files' indices. Ends the program if one does."""
    import stoker

    pipeline = peers.dali_pipeline(stoker, files, batch, threads)
    seen: Counter[int] = Counter()
    while sum(seen.values()) + batch <= len(files):
        labels = pipeline.run()[1]
        seen.update(int(labels.at(i)[0]) for i in range(len(labels)))
    if max(seen.values()) > 1:
        raise SystemExit("an epoch of stoker delivered a file twice")


def dali(files: list[Path], batch: int, threads: int) -> tuple[Iterator[Any], Iterator[Any]]:
    """Returns endless iterators over the same pipeline in Stoker and in DALI. Each yields its library's batches, on the CPU."""
    from types import SimpleNamespace

    import stoker
    from nvidia import dali as theirs

    namespace = SimpleNamespace(fn=theirs.fn, types=theirs.types, pipeline_def=theirs.pipeline_def)
    peer = peers.run_endless(peers.dali_pipeline(namespace, files, batch, threads))
    return peers.run_endless(peers.dali_pipeline(stoker, files, batch, threads)), peer


def loader(files: list[Path], batch: int, threads: int) -> Iterator[Any]:
    from stoker import Loader
    from stoker import transforms as T

    names = sorted({f.parent.name for f in files})
    samples = [(str(f), names.index(f.parent.name)) for f in files]
    steps = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize(peers.MEAN, peers.STD)]
    made = Loader(samples, batch_size=batch, shuffle=True, seed=0, transforms=steps, num_threads=threads, last_batch="keep")
    return peers.endless(lambda: iter(made))


def with_torch(files: list[Path], batch: int, threads: int, load: Any) -> tuple[Iterator[Any], Iterator[Any]]:
    made = peers.torch_loader(files, load, batch, threads)
    theirs = peers.endless(lambda: iter(made))
    next(theirs)  # starts the workers by fork before stoker starts threads
    return loader(files, batch, threads), theirs


def sides(peer: str, files: list[Path], batch: int, threads: int) -> tuple[Iterator[Any], Iterator[Any]]:
    if peer == "dali":
        return dali(files, batch, threads)
    load = peers.load_with_torchvision() if peer == "torchvision" else peers.load_with_simplejpeg()
    return with_torch(files, batch, threads, load)


def pixels_of(batches: Iterator[Any]) -> Iterator[Any]:
    """Yields the first output of each batch, as a type that torch can convert."""
    for batch in batches:
        first = batch[0]
        yield first.as_array() if hasattr(first, "as_array") else first


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=["dali", "torchvision", "simplejpeg"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, default=measure.machine()["cores"])
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--images", type=int, default=1024, help="per slice")
    parser.add_argument("--rounds", type=int, default=7)
    a = parser.parse_args()
    files = peers.list_files(a.folder, (".jpg", ".jpeg", ".png", ".webp"))
    check_epoch(files, a.batch, a.threads)
    ours, theirs = sides(a.peer, files, a.batch, a.threads)
    statistics = check_statistics(pixels_of(ours), pixels_of(theirs), max(4, 1024 // a.batch))
    takes: list[Take] = [peers.taker(side, lambda batch: len(batch[0])) for side in (ours, theirs)]
    measure.wait_idle()
    result = measure.compare(a.peer, takes[0], takes[1], a.images, a.rounds).summary()
    measure.emit({"name": "compare", "threads": a.threads, "batch": a.batch, "output": statistics, **result})


if __name__ == "__main__":
    main()
