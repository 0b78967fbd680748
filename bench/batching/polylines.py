# SPDX-License-Identifier: Apache-2.0
"""Compares stoker.batching.polylines.interpolate with shapely, in turns, on the shapes for which NVIDIA's ACCV-Lab publishes the ratio of its lane_helpers to
shapely (on the CPU, a Ryzen 9 7950X). Prints Stoker's ratio to shapely, ACCV-Lab's, and the first divided by the second. At the end it prints the time that
torch needs to allocate the result of the smallest call, which is the least that any call can take.

usage: polylines.py [--rounds N] [--cpu]    needs torch and shapely
--cpu    measures processor time of all threads instead of elapsed time: steadier on a busy machine, but does not show the gain from threads
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from shapely import get_coordinates, line_interpolate_point, linestrings
from stoker.batching import polylines

# (batch, points, distances): how many times faster than shapely, from evaluation_results/polyline_runtime_evaluation of ACCV-Lab at commit 5418854
PUBLISHED = {
    (1, 2, 1): 5.75,
    (1, 20, 20): 9.26,
    (1, 100, 100): 53.82,
    (1, 1000, 1): 2.40,
    (1, 1000, 1000): 651.02,
    (64, 2, 1): 7.11,
    (64, 20, 20): 28.60,
    (64, 20, 100): 67.79,
    (64, 100, 100): 37.89,
    (64, 1000, 1): 4.27,
    (64, 1000, 1000): 200.54,
}


def of_shapely(points: np.ndarray, distances: np.ndarray) -> np.ndarray:
    made = line_interpolate_point(linestrings(points)[:, None], distances)
    return get_coordinates(made).reshape(points.shape[0], distances.shape[1], points.shape[2]).astype(np.float32)


def seconds(call: Callable[[], object], calls: int, clock: Callable[[], float]) -> float:
    begin = clock()
    for _ in range(calls):
        call()
    return (clock() - begin) / calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cpu", action="store_true")
    given = parser.parse_args()
    clock = time.process_time if given.cpu else time.perf_counter
    rng = np.random.default_rng(1)
    print("batch points distances  stoker us  shapely us  times shapely  published  of it")
    all_of_it = []
    for (batch, points, distances), published in PUBLISHED.items():
        lines = rng.uniform(size=(batch, points, 2)).astype(np.float32)
        whole = np.linalg.norm(np.diff(lines, axis=1), axis=2).sum(1)
        at = (rng.uniform(size=(batch, distances)) * whole[:, None]).astype(np.float32)
        a, b = torch.from_numpy(lines), torch.from_numpy(at)
        np.testing.assert_allclose(polylines.interpolate(a, b).numpy(), of_shapely(lines, at), atol=1e-3)
        one = seconds(partial(polylines.interpolate, a, b), 3, clock), seconds(partial(of_shapely, lines, at), 1, clock)
        calls = [max(1, min(2000, int(0.02 / max(s, 1e-9)))) for s in one]
        ours, theirs = [], []
        for _ in range(given.rounds):
            ours.append(seconds(partial(polylines.interpolate, a, b), calls[0], clock))
            theirs.append(seconds(partial(of_shapely, lines, at), calls[1], clock))
        times = statistics.median(theirs) / statistics.median(ours)
        all_of_it.append(times / published)
        print(
            f"{batch:5} {points:6} {distances:9} {1e6 * statistics.median(ours):10.1f} {1e6 * statistics.median(theirs):11.0f} {times:14.1f} {published:10.1f} "
            f"{times / published:6.2f}"
        )
    print(f"of the published ratio: {statistics.median(all_of_it):.1f} times in the median, {min(all_of_it):.1f} at least")
    small = torch.zeros(1, 2, 2)
    empty = statistics.median(seconds(lambda: small.new_empty((1, 1, 2)), 2000, clock) for _ in range(given.rounds))
    print(f"an empty tensor of torch: {1e6 * empty:.1f} us")


if __name__ == "__main__":
    main()
