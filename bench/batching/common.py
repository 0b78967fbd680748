# SPDX-License-Identifier: Apache-2.0
"""Times functions, and finds the package in a build folder (STOKER_BUILD, by default build/) or uses the installed one (STOKER_BUILD=installed)."""

import json
import os
import pathlib
import statistics
import sys
import time

if os.environ.get("STOKER_BUILD") != "installed":
    ROOT = pathlib.Path(__file__).resolve().parents[2]
    sys.path.insert(0, str(pathlib.Path(os.environ.get("STOKER_BUILD", ROOT / "build")) / "python"))

import torch


def gpu_ms(function, repeats=15, inner=10, warm=3):
    """Returns (median, minimum, maximum) of the milliseconds per call, over `repeats` slices of `inner` calls. Makes `warm` calls before."""
    for _ in range(warm):
        function()
    torch.cuda.synchronize()
    slices = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(inner):
            function()
        torch.cuda.synchronize()
        slices.append((time.perf_counter() - start) / inner * 1e3)
    return statistics.median(slices), min(slices), max(slices)


def interleaved(functions, repeats=9, inner=10):
    """Times several functions like gpu_ms, but in turns, slice by slice. Returns {name: (median, minimum, maximum)} in milliseconds."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        for _ in range(3):
            function()
    torch.cuda.synchronize()
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            for _ in range(inner):
                function()
            torch.cuda.synchronize()
            times[name].append((time.perf_counter() - start) / inner * 1e3)
    return {name: (statistics.median(t), min(t), max(t)) for name, t in times.items()}


def captured(function):
    """Captures the function as a CUDA graph; returns a callable that replays it."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph.replay


def report(**row):
    print(json.dumps({k: float(f"{v:.5g}") if isinstance(v, float) else v for k, v in row.items()}), flush=True)
