#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures an epoch over files on a local disk that are not in the page cache, for Stoker, DALI's CPU pipeline and a DataLoader with torchvision in turns.

usage: cold.py DIR [--files N] [--batch N] [--threads N] [--rounds N] [--sides NAME,...] [--at DIR] [--warm]

Copies the JPEG files of DIR to N distinct files below the folder --at, which should lie on a local disk, and deletes the copies at the end. Before each epoch
it asks the kernel to drop the pages of each file (posix_fadvise DONTNEED), and reads nothing else from them. Each epoch runs in its own process, and its clock
starts after the imports, when the loader is made. --warm: leaves the files in the page cache.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import measure
import peers

SIDES = ("stoker", "dali", "dataloader")


def make_copies(source: Path, at: Path, count: int) -> None:
    files = peers.list_files(source)
    for i in range(count):
        folder = at / f"{i % 10}"
        folder.mkdir(exist_ok=True)
        shutil.copyfile(files[i % len(files)], folder / f"{i:06d}.jpg")
    os.sync()  # the kernel does not drop pages that still have to be written


def drop(files: list[Path]) -> float:
    """Drops the files from the page cache. Returns the share of files whose first byte is still cached."""
    left = len(files)
    for _ in range(5):  # the kernel keeps pages that a core has just used
        left = 0
        for file in files:
            handle = os.open(file, os.O_RDONLY)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            with contextlib.suppress(BlockingIOError):
                left += os.preadv(handle, [bytearray(1)], 0, os.RWF_NOWAIT) > 0
            os.close(handle)
        if not left:
            break
    return left / len(files)


def epoch(side: str, files: list[Path], a: argparse.Namespace) -> dict[str, float]:
    """Makes a loader and takes all its batches. Returns seconds and CPU-seconds."""
    if side == "stoker":
        import torch  # noqa: F401  # the Loader imports it with its first batch
        from stoker import Loader
        from stoker import transforms as T
    elif side == "dali":
        import nvidia.dali as namespace
    else:
        peers.import_torchvision()
    cpu, begin, taken = measure.cpu_seconds(), time.perf_counter(), 0
    if side == "stoker":
        steps = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize(peers.MEAN, peers.STD)]
        given = [(str(f), 0) for f in files]
        taken = sum(len(images) for images, _ in Loader(given, a.batch, shuffle=True, seed=1, transforms=steps, num_threads=a.threads))
    elif side == "dali":
        pipeline = peers.dali_pipeline(namespace, files, a.batch, a.threads)
        while taken < len(files):
            taken += len(pipeline.run()[0])
    else:
        loader = peers.torch_loader(files, peers.load_with_torchvision(), a.batch, a.threads)
        for images, _ in loader:
            taken += len(images)
    seconds, used = time.perf_counter() - begin, measure.cpu_seconds() - cpu
    if not len(files) <= taken < len(files) + a.batch:
        raise SystemExit(f"{side}: {taken} images of {len(files)} files")
    return {"rate": taken / seconds, "cpu_s": used}


def in_child(side: str, at: Path, a: argparse.Namespace) -> dict[str, float]:
    given = [sys.executable, __file__, str(at), "--batch", str(a.batch), "--threads", str(a.threads), "--child", side]
    found = measure.emitted(subprocess.run(given, check=True, stdout=subprocess.PIPE, text=True).stdout)
    assert found is not None
    return found


def run(at: Path, a: argparse.Namespace) -> None:
    sides = a.sides.split(",")
    files = peers.list_files(at)
    slices: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for turn in range(a.rounds):
        for side in sides if turn % 2 else sides[::-1]:
            left = 1.0 if a.warm else drop(files)
            slices[side].append(in_child(side, at, a))
            print(f"... {side}: {slices[side][-1]}, {left:.1%} of the files were in memory", file=sys.stderr, flush=True)

    def cell(values: list[float], digits: int) -> str:
        return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"

    rows = [[f"{len(files)} files, {'warm' if a.warm else 'cold'}", "images/s", "CPU-s", f"times of {sides[0]}'s time"]]
    for side in sides:
        times = [ours["rate"] / own["rate"] for ours, own in zip(slices[sides[0]], slices[side], strict=True)]
        rows.append([side, cell([one["rate"] for one in slices[side]], 0), cell([one["cpu_s"] for one in slices[side]], 1), cell(times, 2)])
    print(measure.table(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=4000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--at", type=Path, help="where to make the copies; default: the folder of temporary files")
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--child")
    a = parser.parse_args()
    if a.child:
        measure.emit(epoch(a.child, peers.list_files(a.folder), a))
        return
    with tempfile.TemporaryDirectory(prefix="stoker-cold-", dir=a.at) as scratch:
        make_copies(a.folder, Path(scratch), a.files)
        run(Path(scratch), a)


if __name__ == "__main__":
    main()
