#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how much of a training loop's speed remains with a loader: compares steps with new batches and steps with one batch that is already on the device.

usage: iteration.py FOLDER [--seconds 10] [--rounds 5] [-- arguments of examples/streampetr/train.py]
       torchrun --nproc-per-node=2 iteration.py FOLDER -- --batch-size 16
Two cores a GPU: taskset -c 0-3 torchrun --nproc-per-node=2 iteration.py ...

The network and the loop are those of examples/streampetr/train.py. Slices of both kinds alternate. The share that is printed is the median, over pairs of
slices, of the ratio of their speeds.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "streampetr"))
import measure
import torch
import torch.distributed as dist

train: Any = importlib.import_module("train")  # the example's module; bench/ has a folder of the same name


def rate(trainer: Any, batches: Iterator[Any], steps: int) -> float:
    """Returns steps per second, measured until the device has finished all steps."""
    start = time.perf_counter()
    for _ in range(steps):
        trainer.train_step(train.onto(next(batches), trainer.place.device))
    if trainer.place.device.type == "cuda":
        torch.cuda.synchronize()
    return steps / (time.perf_counter() - start)


def endless(batch: Any) -> Iterator[Any]:
    while True:
        yield batch


def main() -> None:
    own, more = sys.argv[1:], []
    if "--" in own:
        own, more = own[: own.index("--")], own[own.index("--") + 1 :]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--seconds", type=float, default=10, help="of a slice")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args(own)
    given = train.parse([args.folder, *more])
    place = train.join(given.device)
    with contextlib.ExitStack() as stack:
        if place.world > 1:
            stack.callback(dist.destroy_process_group)
        trainer = train.Trainer(given, place)
        synthetic = endless(train.onto(next(trainer.batches), place.device))
        rate(trainer, trainer.batches, 3)  # warm-up: torch chooses kernels and allocates memory
        steps = torch.tensor(max(2.0, args.seconds * rate(trainer, synthetic, 3)), device=place.device)
        if place.world > 1:
            dist.broadcast(steps, 0)
        shares = []
        for turn in range(args.rounds):
            sides = {
                name: rate(trainer, side, int(steps))
                for name, side in sorted((("loader", trainer.batches), ("synthetic", synthetic)), reverse=turn % 2 == 1)
            }
            shares.append(sides["loader"] / sides["synthetic"])
        if place.leads:
            what = {
                "name": "streampetr, share of synthetic",
                "loader": given.loader,
                "ranks": place.world,
                "batch": given.batch_size,
                "network": given.network,
            }
            spread = [round(min(shares), 4), round(max(shares), 4)]
            measure.emit({**what, "share": round(statistics.median(shares), 4), "spread": spread, "steps": int(steps), **measure.machine()})


if __name__ == "__main__":
    main()
