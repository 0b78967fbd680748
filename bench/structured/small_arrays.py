#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of a sample's small arrays: StreamPETR's pipeline (examples/streampetr) without the images, in microseconds of CPU time per sample.

usage: small_arrays.py FOLDER [--version v1.0-mini] [--batch N] [--samples N] [--rounds N]

Uses one thread. The time includes reading rows of the tables, transforming matrices and boxes, computing masks, removing the boxes that they rule out,
passing batches to Python, and the Python code that takes them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "streampetr"))
import measure
import pipeline
import reference


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--version", default="v1.0-mini")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--samples", type=int, default=800, help="per slice")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    loader = pipeline.Loader(args.folder, args.version, reference.Config(), args.batch, threads=1, images=False)
    batches = iter(loader)
    costs, taken = [], []
    for _ in range(args.rounds + 1):
        measure.wait_idle()
        start, own = time.process_time(), time.thread_time()
        for _ in range(args.samples // args.batch):
            next(batches)
        own = time.thread_time() - own
        measure.wait_idle()
        costs.append(1e6 * (time.process_time() - start) / args.samples)
        taken.append(1e6 * own / args.samples)
    costs, taken = costs[1:], taken[1:]  # the first round includes starting threads
    found = {"us_per_sample": round(statistics.median(costs), 1), "spread": [round(min(costs), 1), round(max(costs), 1)]}
    measure.emit(
        {
            "name": "streampetr, small arrays",
            **found,
            "of_it_the_consumers_thread": round(statistics.median(taken), 1),
            "fields": len(next(batches)),
            "user_calls": loader.user_calls,
            **measure.machine(),
        }
    )


if __name__ == "__main__":
    main()
