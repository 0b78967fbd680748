#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares StreamPETR's input pipeline (examples/streampetr) in stoker.structured with a PyTorch DataLoader, or with ACCV-Lab's framework over DALI.

usage: beside.py torch|accvlab FOLDER [--version v1.0-mini] [--size 256x704] [--batch N] [--threads N] [--samples N] [--rounds N] [--device cpu|cuda]
       [--idle SECONDS]

FOLDER contains NuScenes, or a set from examples/nuscenes/make_nuscenes.py. Slices of both sides alternate; a slice ends when its side is idle, so that it
contains all work for its samples. Samples per second, CPU-seconds per sample and their ratios are medians over slices. For `accvlab` its package has to be
importable, with DALI, numba and cupy; without a GPU, a module `cupy` with `ndarray` and a `get_array_module` that returns numpy is enough.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "streampetr"))
import measure
import reference
import torch


def stoker_side(args: argparse.Namespace, config: reference.Config) -> tuple[Iterator[Any], Any]:
    import pipeline

    made = pipeline.Loader(args.folder, args.version, config, args.batch, threads=args.threads, device=args.device)
    return iter(made), made


def torch_side(args: argparse.Namespace, config: reference.Config) -> Iterator[Any]:
    loader = reference.Loader(args.folder, args.version, config, args.batch, workers=args.threads)
    if args.device == "cpu":
        return iter(loader)
    train: Any = importlib.import_module("train")  # the example's module; bench/ has a folder of the same name
    return (train.onto(batch, torch.device(args.device)) for batch in loader)


def accvlab_side(args: argparse.Namespace, config: reference.Config) -> Iterator[Any]:
    import accvlab_side as peer

    return peer.batches(args.folder, args.version, config, args.batch, args.threads, gpu=args.device != "cpu")


def taker(batches: Iterator[Any], batch: int) -> Callable[[int], int]:
    def take(samples: int) -> int:
        for _ in range(samples // batch):
            next(batches)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return samples // batch * batch

    return take


def median(values: list[float]) -> float:
    return round(statistics.median(values), 4)


def summary(found: measure.Comparison) -> dict[str, Any]:
    rates = [o.rate / t.rate for o, t in zip(found.ours, found.theirs, strict=True)]
    return {
        "samples_per_s": [median([s.rate for s in side]) for side in (found.ours, found.theirs)],
        "cpu_s_per_sample": [median([s.cost / 1000 for s in side]) for side in (found.ours, found.theirs)],
        "ratio_samples_per_s": median(rates),
        "ratio_samples_per_s_spread": [round(min(rates), 2), round(max(rates), 2)],
        "ratio_cpu": median(found.ratios),
        "ratio_cpu_spread": [round(min(found.ratios), 2), round(max(found.ratios), 2)],
        "slices": len(rates),
        "samples_per_slice": found.ours[0].images,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=("torch", "accvlab"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--version", default="v1.0-mini")
    parser.add_argument("--size", default="256x704", help="height x width; 372x1024 in ACCV-Lab's published figures")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--threads", type=int, default=measure.machine()["cores"], help="of stoker and DALI; processes of the DataLoader")
    parser.add_argument("--samples", type=int, default=16, help="per slice")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--idle", type=float, default=0.3, help="seconds without work after which a side counts as idle; more on a machine with other work"
    )
    args = parser.parse_args()
    height, width = map(int, args.size.split("x"))
    config = reference.Config(hw=(height, width))
    torch.set_num_threads(1)
    measure.IDLE_STEP = args.idle
    theirs = {"torch": torch_side, "accvlab": accvlab_side}[args.peer](args, config)
    ours, loader = stoker_side(args, config)
    takes = [taker(side, args.batch) for side in (ours, theirs)]
    for take in takes:
        take(2 * args.batch)
    measure.wait_idle()
    found = measure.compare(args.peer, takes[0], takes[1], args.samples, args.rounds)
    what = {"name": "streampetr", "peer": args.peer, "device": args.device, "size": args.size, "batch": args.batch, "threads": args.threads}
    measure.emit({**what, **summary(found), "user_calls": loader.user_calls, **measure.machine()})


if __name__ == "__main__":
    main()
