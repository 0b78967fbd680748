#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares stoker with a PyTorch DataLoader on the same photographs: decode, RandomResizedCrop(224), flip, normalise, two epochs.

usage: demo.py [--data DIR] [--images N] [--epochs N]
Without --data, photographs of scikit-image and scikit-learn are cut into JPEGs of ImageNet-like sizes, once.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import corpus
import measure
import peers

CACHE = Path(".demo")
IMAGES = 640
BATCH = 64
NEXT = """
to try next:
  build/cli/stoker inspect {folder}     # what is in it, and which files would fail
  build/cli/stoker bench {folder}       # how fast these files can be loaded on these cores
  make wheel && pip install --no-index --find-links dist stoker     # then change one import: from stoker import DataLoader"""


def photographs(wanted: Path | None) -> Path:
    if wanted:
        return wanted
    folder = CACHE / "images"
    if not (folder / "corpus.json").exists():
        print(f"cutting {IMAGES} JPEGs out of the photographs of scikit-image and scikit-learn, once ...")
        corpus.make(folder, IMAGES, [])
    return folder


def with_progress(batches: Iterable[Any], what: str, total: int) -> Iterator[Any]:
    """Yields the batches, and draws a progress bar if the output is a terminal."""
    terminal, done, start = sys.stderr, 0, time.perf_counter()
    shown = terminal.isatty()
    for batch in batches:
        yield batch
        done += len(batch[0])
        if shown:
            filled = min(30, 30 * done // max(total, 1))
            rate = done / (time.perf_counter() - start)
            print(f"\r\033[K{what:<12} [{'#' * filled}{'.' * (30 - filled)}] {rate:6.0f} images/s", end="", file=terminal, flush=True)
    if shown:
        print("\r\033[K", end="", file=terminal, flush=True)


def timed(what: str, loader: Any, epochs: int, images: int) -> measure.Slice:
    """Times epochs over a loader from the request of the first batch on. Call this after the workers of a DataLoader have started."""
    wall, cpu, done = time.perf_counter(), measure.cpu_seconds(), 0

    def batches() -> Iterator[Any]:
        # This loop does nothing but take batches, so it always waits, and Loader warns that the loop waits for data. Drops that warning.
        with contextlib.redirect_stderr(io.StringIO()):
            for _ in range(epochs):
                yield from loader

    for batch in with_progress(batches(), what, epochs * images):
        done += len(batch[0])
    return measure.Slice(done, time.perf_counter() - wall, measure.cpu_seconds() - cpu)


def stoker_loader(folder: Path, files: list[Path]) -> Any:
    from stoker import Loader
    from stoker import transforms as T

    steps = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize(peers.MEAN, peers.STD)]
    names = sorted({f.parent.name for f in files})
    source: Any = str(folder) if len(files) == len(peers.list_files(folder)) else [(str(f), names.index(f.parent.name)) for f in files]
    return Loader(source, batch_size=BATCH, shuffle=True, seed=0, transforms=steps, last_batch="keep")


def torch_loader(files: list[Path], threads: int) -> tuple[str, Any]:
    try:
        load, name = peers.load_with_torchvision(), "DataLoader, torchvision"
    except ImportError:
        load, name = peers.load_with_pil(), "DataLoader, Pillow"
    return name, peers.torch_loader(files, load, BATCH, threads)


def report(rows: list[tuple[str, measure.Slice]]) -> None:
    cells = [["", "images/s", "CPU-seconds per 1000 images"]]
    cells += [[name, f"{s.rate:.0f}", f"{s.cost:.2f}"] for name, s in rows]
    print(measure.table(cells))
    ours, theirs = rows[0][1], rows[1][1]
    print(
        f"\nstoker: {theirs.cost / ours.cost:.1f} times the images for the same CPU time, {ours.rate / theirs.rate:.1f} times the images a second"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--images", type=int, default=4096, help="of a large folder, use this many")
    parser.add_argument("--epochs", type=int, default=2)
    a = parser.parse_args()
    threads = measure.machine()["cores"]
    folder = photographs(a.data)
    files = peers.list_files(folder)
    files = files[:: -(-len(files) // a.images)]
    facts = measure.describe(files)
    print(
        f"{facts['files']} photographs in {folder}: {facts['mean_bytes'] / 1024:.0f} KiB, {facts['mean_pixels'] / 1e6:.2f} megapixels on average"
    )
    print(f"decode, RandomResizedCrop(224), flip, normalise; {a.epochs} epochs on {threads} cores\n")

    name, loader = torch_loader(files, threads)
    for _ in loader:  # the first epoch starts the workers, so that their imports are done before the timing begins
        break
    theirs = timed("DataLoader", loader, a.epochs, len(files))
    del loader
    ours_loader = stoker_loader(folder, files)
    ours = timed("stoker", ours_loader, a.epochs, len(files))
    report([("stoker", ours), (name, theirs)])

    import stoker

    images = next(iter(ours_loader))[0]
    sheet = Path("demo.png")
    stoker.view(images, columns=8, mean=peers.MEAN, std=peers.STD).save(sheet)
    print(f"a batch as the network sees it: {sheet}")
    print(NEXT.format(folder=folder))


if __name__ == "__main__":
    main()
