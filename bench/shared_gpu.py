#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures processes that share GPU 0, each with a Loader of its own: one process, N processes in time slices, and N processes through NVIDIA's MPS.

usage: shared_gpu.py FOLDER [--processes 8] [--threads 2] [--batch 64] [--seconds 5] [--rounds 3]

FOLDER holds JPEG files. The processes take batches of 224x224 during the same seconds; figures are images per second of all of them. Each process also
compares its first batch, byte by byte, with the batch that the CPU makes of the same files. The single process has as many threads as the N together. The
program starts an MPS daemon in a folder of its own, and ends it. Without `nvidia-cuda-mps-control`, that row is left out.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import measure
import peers

CONTROL = "nvidia-cuda-mps-control"


def loader(a: argparse.Namespace, device: str) -> Any:
    from stoker import Loader
    from stoker import transforms as T

    steps = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize(peers.MEAN, peers.STD)]
    return Loader(a.folder, a.batch, transforms=steps, shuffle=True, seed=a.child, device=device, num_threads=a.threads)


def child(a: argparse.Namespace) -> None:
    """Prints "ready" after the first batch. Then reads the time to begin at from stdin, takes batches, and prints the number of images."""
    import torch

    image = next(iter(loader(a, "cpu"))).image
    made = loader(a, "cuda")
    batches = iter(made)
    if not torch.equal(next(batches).image.cpu(), image):
        raise SystemExit("the GPU's batch differs from that of the cores")
    print("ready", flush=True)
    for line in sys.stdin:
        begin, images = float(line), 0
        time.sleep(max(0, begin - time.time()))
        while time.time() < begin + a.seconds:
            batch = next(batches, None)
            if batch is None:
                batches = iter(made)
                continue
            images += len(batch.image)
        torch.cuda.synchronize()
        print(images, flush=True)


@contextmanager
def mps() -> Iterator[dict[str, str]]:
    """Runs an MPS daemon. Gives the variables that let a process use it."""
    with tempfile.TemporaryDirectory(prefix="mps") as folder:
        names = {"CUDA_MPS_PIPE_DIRECTORY": f"{folder}/pipe", "CUDA_MPS_LOG_DIRECTORY": f"{folder}/log"}
        for name in names.values():
            os.mkdir(name)
        environment = {**os.environ, **names}
        subprocess.run([CONTROL, "-d"], env=environment, check=True)
        try:
            yield names
        finally:
            subprocess.run([CONTROL], input="quit\n", text=True, env=environment, check=True, timeout=60)


def rate(a: argparse.Namespace, processes: int, threads: int, more: dict[str, str]) -> float:
    """Returns the images per second of all processes together."""
    command = [sys.executable, __file__, a.folder, "--threads", threads, "--batch", a.batch, "--seconds", a.seconds, "--child"]
    running = []
    for i in range(processes):
        words = [str(c) for c in [*command, i]]
        running.append(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **more}))
    images = 0
    try:
        for p in running:
            assert p.stdout
            if p.stdout.readline().strip() != "ready":
                raise SystemExit("a process ended before its first batch")
        begin = time.time() + 1
        for p in running:
            assert p.stdin
            p.stdin.write(f"{begin}\n")
            p.stdin.close()
        for p in running:
            assert p.stdout
            images += int(p.stdout.readline())
    finally:
        for p in running:
            p.wait(60)
    return images / a.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", type=int, default=-1, help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.child >= 0:
        child(a)
        return
    n = a.processes
    sides: dict[str, list[float]] = {"1 process": [], f"{n} processes": []}
    if shutil.which(CONTROL):
        sides[f"{n} processes, MPS"] = []
    for _ in range(a.rounds):
        for name, rates in sides.items():
            if name.startswith("1 "):
                rates.append(rate(a, 1, n * a.threads, {}))
            elif "MPS" in name:
                with mps() as names:
                    rates.append(rate(a, n, a.threads, names))
            else:
                rates.append(rate(a, n, a.threads, {}))
    one = sides["1 process"]
    rows = []
    for name, rates in sides.items():
        ratios = [r / o for r, o in zip(rates, one, strict=True)]
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} - {max(ratios):.2f})"
        rows.append([name, f"{statistics.median(rates):,.0f}", spread])
    print(measure.table([["", "images/s", "to 1 process"], *rows]))


if __name__ == "__main__":
    main()
