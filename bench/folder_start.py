#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the time from a folder of very many files in classes to the first batch, and the memory of the process, for Stoker, DALI and torchvision in turns.

usage: folder_start.py [--files N] [--classes N] [--rounds N] [--batch N] [--threads N] [--sides NAME,...] [--at DIR | --tree DIR]

Makes the folder of hard links to 300 photographs, which need no space for their contents, and deletes it at the end. DIR has to lie on a file system with
hard links; 14 million files need about 1 GB there. Each measurement runs in its own process, and its clock starts after the imports. Sides: loader
(stoker.Loader), reader (fn.readers.file of Stoker), dali (the same pipeline in DALI), torchvision (ImageFolder in a DataLoader). Memory is the peak of the
process without worker processes.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import corpus
import measure
import peers

PHOTOGRAPHS = 300  # a file of ext4 has at most 65000 links
SIDES = ("loader", "reader", "dali", "torchvision")


def make_tree(at: Path, files: int, classes: int) -> Path:
    """Fills at/tree with hard links to photographs, which it puts into at/photographs."""
    corpus.make(at / "photographs", PHOTOGRAPHS, [])
    photographs = sorted((at / "photographs").rglob("*.jpg"))
    for k in range(classes):
        folder = at / "tree" / f"n{k:08d}"
        folder.mkdir(parents=True)
        handle = os.open(folder, os.O_RDONLY)
        for i in range(k, files, classes):
            os.link(photographs[i % PHOTOGRAPHS], f"{folder.name}_{i}.JPEG", dst_dir_fd=handle)
        os.close(handle)
    return at / "tree"


def pipeline(namespace: Any, folder: Path, batch: int, threads: int) -> Any:
    fn, types = namespace.fn, namespace.types

    @namespace.pipeline_def(batch_size=batch, num_threads=threads, device_id=None, seed=1)
    def program() -> Any:
        jpegs, labels = fn.readers.file(file_root=str(folder), random_shuffle=True, name="Reader")
        images = fn.resize(fn.decoders.image_random_crop(jpegs, device="cpu", output_type=types.RGB), size=(224, 224))
        mirror = fn.random.coin_flip()
        mean, std = peers.MEAN255, peers.STD255
        return fn.crop_mirror_normalize(images, mirror=mirror, mean=mean, std=std, dtype=types.FLOAT, output_layout="CHW"), labels

    made = program()
    made.build()
    return made


def torchvision_maker(folder: Path, batch: int, threads: int) -> Callable[[], Any]:
    import torch
    from torchvision import transforms
    from torchvision.datasets import ImageFolder

    steps = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
    transform = transforms.Compose([*steps, transforms.Normalize(peers.MEAN, peers.STD)])
    return lambda: torch.utils.data.DataLoader(ImageFolder(str(folder), transform), batch, shuffle=True, num_workers=threads)


def loader_maker(folder: Path, batch: int, threads: int) -> Callable[[], Any]:
    import torch  # noqa: F401  # a Loader of torch tensors imports it with its first batch
    from stoker import Loader
    from stoker import transforms as T

    steps = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize(peers.MEAN, peers.STD)]
    return lambda: Loader(folder, batch, shuffle=True, seed=1, transforms=steps, num_threads=threads)


def pipeline_maker(side: str, folder: Path, batch: int, threads: int) -> Callable[[], Any]:
    namespace = importlib.import_module("nvidia.dali" if side == "dali" else "stoker")
    return lambda: pipeline(namespace, folder, batch, threads)


def start(side: str, folder: Path, batch: int, threads: int) -> dict[str, float]:
    """Makes a loader and takes its first batch. Returns seconds, CPU-seconds and memory."""
    if side == "torchvision":
        peers.import_torchvision()
        make = torchvision_maker(folder, batch, threads)
    else:
        make = loader_maker(folder, batch, threads) if side == "loader" else pipeline_maker(side, folder, batch, threads)
    before, begin, cpu = measure.peak_memory(), time.perf_counter(), measure.cpu_seconds()
    made = make()
    listed = time.perf_counter()
    first = made.run()[0] if side in ("reader", "dali") else next(iter(made))[0]
    end = time.perf_counter()
    if len(first) != batch:
        raise SystemExit(f"{side}: a first batch of {len(first)} images")
    used = measure.cpu_seconds() - cpu
    return {"made_s": listed - begin, "batch_s": end - listed, "cpu_s": used, "peak_mb": (measure.peak_memory() - before) / 1e6}


def in_child(side: str, folder: Path, a: argparse.Namespace) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", side, "--at", str(folder), "--batch", str(a.batch), "--threads", str(a.threads)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found = measure.emitted(done.stdout)
    assert found is not None
    return found


def run(folder: Path, a: argparse.Namespace) -> None:
    sides = a.sides.split(",")
    slices: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for turn in range(a.rounds + 1):  # does not count the first round, which reads the folders from the disk
        for side in sides if turn % 2 else sides[::-1]:
            one = in_child(side, folder, a)
            print(f"... {side}: {one}", file=sys.stderr, flush=True)
            if turn:
                slices[side].append(one)

    def cell(values: list[float], digits: int = 2) -> str:
        low, high = min(values), max(values)
        return f"{statistics.median(values):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"

    rows = [[f"{a.files} files", "loader made, s", "first batch after it, s", "CPU-s", "MB added", "wall, times", "CPU, times"]]
    for side in sides:
        own, base = slices[side], slices[sides[0]]
        wall = [(o["made_s"] + o["batch_s"]) / (b["made_s"] + b["batch_s"]) for o, b in zip(own, base, strict=True)]
        cpu = [o["cpu_s"] / b["cpu_s"] for o, b in zip(own, base, strict=True)]
        columns = [cell([o[key] for o in own], 0 if key == "peak_mb" else 2) for key in ("made_s", "batch_s", "cpu_s", "peak_mb")]
        rows.append([side, *columns, cell(wall, 1), cell(cpu, 1)])
    print(measure.table(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--threads", type=int, default=measure.machine()["cores"])
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--at", type=Path, help="where to make the folder; default: the folder of temporary files")
    parser.add_argument("--tree", type=Path, help="a folder of an earlier run that is used as it is and kept")
    parser.add_argument("--child")
    a = parser.parse_args()
    if a.child:
        measure.emit(start(a.child, a.at, a.batch, a.threads))
        return
    if a.tree:
        run(a.tree, a)
        return
    with tempfile.TemporaryDirectory(prefix="stoker-folder-", dir=a.at) as scratch:
        print(f"... making {a.files} files", file=sys.stderr, flush=True)
        run(make_tree(Path(scratch), a.files, a.classes), a)


if __name__ == "__main__":
    main()
