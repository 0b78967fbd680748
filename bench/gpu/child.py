#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one side of a comparison in its own process. The parent (figures.py) sends commands, one per line.

usage: child.py SIDE ROW FOLDER --batch N --threads N [--load X] [--form F] [--cores N]
commands on stdin:   slice SECONDS    batches N    memory    quit
An answer is one line of JSON. A loader prepares batches ahead of need, so a slice ends when the process and the GPU are idle again: then it contains exactly
the work for its batches.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import measure


def synchronize() -> None:
    import torch

    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def gpu_memory() -> int:
    """Returns the number of bytes in use on GPU 0, by all processes."""
    query = ["nvidia-smi", "--id=0", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    try:
        words = subprocess.run(query, capture_output=True, text=True).stdout.split()
    except FileNotFoundError:
        words = []
    return int(words[0]) << 20 if words else 0


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def take_slice(take, seconds: float) -> dict:
    images, wall, used = 0, time.perf_counter(), cpu()
    while time.perf_counter() - wall < seconds:
        images += take()
    synchronize()
    ended = measure.wait_idle(10)
    return {"images": images, "wall": ended - wall, "cpu": cpu() - used}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("side")
    parser.add_argument("row")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--load", type=float, default=0.65)
    parser.add_argument("--form", default="")
    parser.add_argument("--cores", type=int, default=0, help="bind to so many")
    a = parser.parse_args()
    if a.cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: a.cores])
    before = gpu_memory()
    import sides

    take = sides.make(a.side, a.row, a.folder, a.batch, a.threads, a.load, a.form)
    for _ in range(20):
        take()
    synchronize()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "slice":
            answer = take_slice(take, float(rest[0]))
        elif word == "batches":
            for _ in range(int(rest[0])):
                take()
            synchronize()
            answer = {"resident": measure.resident_memory(), "gpu": gpu_memory()}
        elif word == "memory":
            answer = {"resident": measure.resident_memory(), "gpu": gpu_memory() - before}
        else:
            break
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
