#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the seconds from the start of a process to its first batch, for stoker and DALI in turns. The processes do not import torch.

usage: startup.py DIR [--rounds N]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import measure

PROGRAM = """
import sys
sys.path.insert(0, {here!r})
import peers
from pathlib import Path
from types import SimpleNamespace
if {name!r} == "stoker":
    import stoker as namespace
else:
    from nvidia import dali
    namespace = SimpleNamespace(fn=dali.fn, types=dali.types, pipeline_def=dali.pipeline_def)
pipeline = peers.dali_pipeline(namespace, sorted(Path({folder!r}).rglob("*.jpg"))[:2048], 128, {threads})
assert len(pipeline.run()[0]) == 128
"""


def once(name: str, folder: Path, threads: int) -> tuple[float, float]:
    """Returns the seconds from the process's start to its first batch, and the CPU seconds of the whole process."""
    program = PROGRAM.format(here=str(Path(__file__).parent), name=name, folder=str(folder), threads=threads)
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", program + "\nprint('first batch', flush=True)"], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    line = process.stdout.readline()
    took = time.perf_counter() - start
    process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status or not line.startswith("first batch"):
        raise SystemExit(f"{name}: no first batch")
    return took, usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=measure.machine()["cores"])
    parser.add_argument("--only-stoker", action="store_true")
    a = parser.parse_args()
    names = ["stoker"] if a.only_stoker else ["stoker", "dali"]
    times: dict[str, list[float]] = {n: [] for n in names}
    cpu: dict[str, list[float]] = {n: [] for n in names}
    for turn in range(a.rounds + 1):
        for name in names:
            took, used = once(name, a.folder, a.threads)
            if turn:  # does not count the first round, which reads the libraries from the disk
                times[name].append(took)
                cpu[name].append(used)
    medians = {f"{n}_s": round(statistics.median(t), 3) for n, t in times.items()}
    costs = {f"{n}_cpu_s": round(statistics.median(t), 3) for n, t in cpu.items()}
    spreads = {f"{n}_spread": [round(min(t), 3), round(max(t), 3)] for n, t in times.items()}
    measure.emit({"name": "startup", "batch": 128, **medians, **costs, **spreads})


if __name__ == "__main__":
    main()
