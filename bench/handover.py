#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the time that a batch costs the thread of the training loop: taking a batch that is ready, and releasing it. Between batches the thread is busy, as
in a real loop.

usage: handover.py FOLDER [--device cpu|cuda] [--batch 256] [--steps 1000] [--pause MS]     (FOLDER: classes of images, or CIFAR's binary files)
"""

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

from stoker import Loader, Pipeline, fn
from stoker import transforms as T
from stoker.plugin.pytorch import DALIClassificationIterator


def again(make: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    while True:
        yield from make()


def loader(a: argparse.Namespace) -> Callable[[], Any]:
    made = Loader(a.folder, a.batch, shuffle=True, transforms=[T.RandomCrop(32, padding=4)], device=a.device)
    epochs = again(lambda: iter(made))
    return lambda: next(epochs)


def iterator(a: argparse.Namespace) -> Callable[[], Any]:
    pipe = Pipeline(a.batch, None, 0 if a.device == "cuda" else None, 1)
    with pipe:
        data, label = fn.readers.file(file_root=a.folder, random_shuffle=True, name="Reader")
        image = fn.resize(fn.decoders.image(data, device="mixed"), size=[32, 32])
        pipe.set_outputs(fn.crop_mirror_normalize(image), label.gpu())
    made = DALIClassificationIterator(pipe, reader_name="Reader", auto_reset=True)
    epochs = again(lambda: iter(made))
    return lambda: next(epochs)


def measure(name: str, take: Callable[[], Any], a: argparse.Namespace) -> None:
    times: list[tuple[int, int]] = []
    clock = time.perf_counter_ns
    for step in range(a.steps + 50):
        until = clock() + int(a.pause * 1e6)
        while clock() < until:
            pass
        begin = clock()
        batch = take()
        taken = clock()
        del batch
        if step >= 50:
            times.append((taken - begin, clock() - taken))
    for what, column in (("take", 0), ("drop", 1)):
        row = sorted(t[column] / 1000 for t in times)
        print(f"{name:28} {what}  median {row[len(row) // 2]:8.1f} us   p99 {row[len(row) * 99 // 100]:8.1f} us")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--pause", type=float, default=20, help="ms between batches; long enough that the next lies ready")
    a = parser.parse_args()
    for name, make in (("Loader", loader), ("DALIClassificationIterator", iterator)):
        try:
            measure(name, make(a), a)
        except Exception as e:  # for example, because CIFAR's files are not a folder of images
            print(f"{name}: {e}")


if __name__ == "__main__":
    main()
