#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the speed of two wheels of Stoker on the same work. Each side runs in its own process, and slices of both alternate.

usage: versions.py OLD.whl NEW.whl FOLDER [--only ROW,...] [--rounds N] [--seconds S]
FOLDER holds FOLDER/imagenet (and FOLDER/cameras), as gpu/photographs.py unpacks them. Rows: loose256 loose64 cores2 cameras on a GPU, if there is one; cpu and
cpu1 (one thread) on the CPU; startup. The program prints the medians of old and new, the median ratio (new over old) with its spread, and CPU-seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import measure

HERE = Path(__file__).resolve().parent


@dataclass
class Row:
    """One kind of work that both versions do: the row of child.py, and its arguments."""

    name: str
    kind: str
    batch: int
    threads: int
    cores: int = 0
    gpu: bool = True


MANY = min(16, os.cpu_count() or 1)
ROWS = [
    Row("loose256", "loader", 256, MANY),
    Row("loose64", "loader", 64, MANY),
    Row("cores2", "loader", 256, 2, 2),
    Row("cameras", "cameras", 8, MANY),
    Row("cpu", "cores", 128, min(MANY, 4), 4, gpu=False),
    Row("cpu1", "cores", 128, 1, 1, gpu=False),
]


class Side:
    """Runs one version of Stoker on one row."""

    def __init__(self, site: Path, row: Row, folder: Path) -> None:
        command = [sys.executable, HERE / "gpu" / "child.py", "stoker", row.kind, folder]
        command += ["--batch", row.batch, "--threads", row.threads, "--cores", row.cores]
        env = {**os.environ, "PYTHONPATH": str(site)}
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        self.answer()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise SystemExit(f"a side ended with {self.process.wait()}")

    def ask(self, text: str) -> dict[str, Any]:
        assert self.process.stdin
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self) -> None:
        self.process.communicate("quit\n", timeout=60)


def compare(row: Row, sites: list[Path], folder: Path, rounds: int, seconds: float) -> list[str]:
    sides = [Side(site, row, folder) for site in sites]
    slices: list[list[dict[str, Any]]] = [[], []]
    for turn in range(rounds):
        for k in (0, 1) if turn % 2 else (1, 0):
            slices[k].append(sides[k].ask(f"slice {seconds}"))
    memory = [side.ask("memory") for side in sides]
    for side in sides:
        side.close()
    rates = [[s["images"] / s["wall"] for s in one] for one in slices]
    costs = [[1000 * s["cpu"] / s["images"] for s in one] for one in slices]
    median = statistics.median
    ratios = sorted(new / old for old, new in zip(*rates, strict=True))
    work = sorted(new / old for old, new in zip(*costs, strict=True))
    cells = [f"{median(r):.0f}" for r in rates] + [f"{median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})"]
    cells += [f"{median(c):.4f}" for c in costs] + [f"{median(work):.3f} ({work[0]:.3f} to {work[-1]:.3f})"]
    return [
        row.name,
        *cells,
        f"{memory[0]['resident'] >> 20} {memory[1]['resident'] >> 20}",
        f"{memory[0]['gpu'] >> 20} {memory[1]['gpu'] >> 20}",
    ]


def startup(sites: list[Path], folder: Path, rounds: int) -> str:
    """Returns a line with the milliseconds in which a process starts, runs one batch on the CPU, and ends: medians and spreads of old and new."""
    code = f"""
import sys; sys.path.insert(0, {str(HERE / "gpu")!r})
import sides
from pathlib import Path
p = sides.crops("stoker", sides.listed(Path({str(folder)!r}), "imagenet")[:512], 64, 2, 0, device_id=None)
p.build(); assert len(p.run()[0]) == 64
"""
    times: list[list[float]] = [[], []]
    for turn in range(2 * rounds + 2):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(sites[turn % 2])})
        if turn > 1:  # does not count the first turn of each side, which reads the library from the disk
            times[turn % 2].append(time.perf_counter() - begin)
    return "startup: " + ", ".join(f"{1e3 * statistics.median(t):.0f} ms ({1e3 * min(t):.0f} to {1e3 * max(t):.0f})" for t in times)


def has_gpu() -> bool:
    import torch

    return bool(torch.cuda.is_available())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", type=Path, nargs=2)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    a = parser.parse_args()
    names = a.only.split(",") if a.only else [r.name for r in ROWS] + ["startup"]
    gpu = has_gpu()
    for file in sorted(a.folder.rglob("*.jpg")):  # reads all files into the page cache
        file.read_bytes()
    with tempfile.TemporaryDirectory() as temporary:
        sites = [Path(temporary) / name for name in ("old", "new")]
        for wheel, site in zip(a.wheels, sites, strict=True):
            zipfile.ZipFile(wheel).extractall(site)
        table = [["", "old", "new", "new/old", "old CPU-s/1000", "new", "new/old", "MiB", "GPU MiB"]]
        for row in ROWS:
            if row.name in names and (gpu or not row.gpu):
                print(f"... {row.name}", file=sys.stderr)
                table.append(compare(row, sites, a.folder, a.rounds, a.seconds))
        print(measure.table(table))
        if "startup" in names:
            print(startup(sites, a.folder, a.rounds))


if __name__ == "__main__":
    main()
