#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares StreamPETR's input pipeline (examples/streampetr) in stoker with a PyTorch DataLoader, on a small data set in NuScenes' format.

usage: streampetr_demo.py [--data DIR] [--version v1.0-mini] [--rounds N]
Without --data, the first run makes scenes from photographs of scikit-image and scikit-learn.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import beside  # adds the folders of bench/ and of the example to the path
import corpus
import measure
import picture
import reference
import torch

CACHE = Path(".demo") / "nuscenes"
BATCH, SAMPLES = 4, 16


def scenes(wanted: Path | None) -> Path:
    if wanted:
        return wanted
    if not (CACHE / "v1.0-mini" / "sample_data.json").exists():
        sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "nuscenes"))
        from make_nuscenes import make_nuscenes

        print("making 4 scenes with six cameras of 1600x900 out of the photographs of scikit-image and scikit-learn, once ...", flush=True)
        photos = CACHE.parent / "photographs"
        photos.mkdir(parents=True, exist_ok=True)
        for file in corpus.packaged_photos():
            shutil.copy(file, photos)
        make_nuscenes(CACHE, scenes=4, samples=8, sweeps=0, images=photos)
    return CACHE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--version", default="v1.0-mini")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    args.folder, args.batch, args.threads, args.device = scenes(args.data), BATCH, measure.machine()["cores"], "cpu"
    config = reference.Config()
    torch.set_num_threads(1)
    measure.IDLE_STEP = 0.3  # in seconds; longer than the default, since a user's machine may be busy with other work
    theirs = beside.torch_side(args, config)
    ours, loader = beside.stoker_side(args, config)
    drawn = CACHE.parent / "streampetr.png"
    picture.draw(next(ours), drawn)
    takes = [beside.taker(side, BATCH) for side in (ours, theirs)]
    for take in takes:
        take(2 * BATCH)
    measure.wait_idle()
    found = beside.summary(measure.compare("torch", takes[0], takes[1], SAMPLES, args.rounds))
    print(f"six cameras of 1600x900 to {config.hw[1]}x{config.hw[0]}, matrices and boxes; {args.threads} cores, batches of {BATCH}\n")
    rows = [["", "samples/s", "CPU-seconds a sample"]]
    for name, rate, cost in zip(("stoker", "DataLoader, OpenCV"), found["samples_per_s"], found["cpu_s_per_sample"], strict=True):
        rows.append([name, f"{rate:.1f}", f"{cost:.4f}"])
    print(measure.table(rows))
    print(
        f"\nstoker: {found['ratio_cpu']:.1f} times the samples for the same CPU time, {found['ratio_samples_per_s']:.1f} times the samples a second"
    )
    print(f"calls of Python for a sample: {loader.user_calls}")


if __name__ == "__main__":
    main()
