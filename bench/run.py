#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the measuring programs, each in its own process, and prints their figures as tables. Writes all figures to bench/results/ as JSON, with a plot of
the comparisons.

usage: run.py [--build DIR] [--data DIR] [--cameras DIR] [--only NAME,...]     names: compare cameras ceiling memory startup cifar listing
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import corpus
import measure
import peers
import plot

HERE = Path(__file__).resolve().parent
IMAGES, FRAMES = 4800, 240


def child(*command: str | Path) -> dict | None:
    """Runs a measuring program, and returns its result. If the program fails, prints its error output and returns None."""
    print(f"... {' '.join(Path(c).name for c in map(str, command[:3]))}", file=sys.stderr)
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    found = measure.emitted(done.stdout)
    if found is not None:
        return found
    print(f"failed: {' '.join(map(str, command))}\n{done.stderr[-2000:]}", file=sys.stderr)
    return None


def python(script: str, *arguments: str | Path) -> dict | None:
    return child(sys.executable, HERE / script, *arguments)


def run_compare(folder: Path, build: Path) -> list[dict | None]:
    return [python("compare.py", peer, folder) for peer in ("dali", "torchvision", "simplejpeg")]


def run_cameras(folder: Path, build: Path) -> list[dict | None]:
    return [python("cameras.py", folder)]


def run_ceiling(folder: Path, build: Path) -> list[dict | None]:
    """Compares `stoker bench` with bare libjpeg-turbo at 1 and 2 threads, and reports how both scale."""
    runs = []
    for threads in (1, 2):
        done = subprocess.run(
            [build / "cli" / "stoker", "bench", folder, "--threads", str(threads), "--seconds", "20", "--json"], stdout=subprocess.PIPE
        )
        if done.returncode:
            return [None]
        runs.append(json.loads(done.stdout))
    one, two = runs

    def scaling(side: str) -> float:
        return two[side]["images_per_s"] / one[side]["images_per_s"]

    return [
        {
            "name": "ceiling",
            "share_1_thread": round(one["share_of_ceiling"], 3),
            "share_2_threads": round(two["share_of_ceiling"], 3),
            "spread_1_thread": [round(min(one["shares"]), 3), round(max(one["shares"]), 3)],
            "stoker_images_per_s": [round(r["stoker"]["images_per_s"]) for r in runs],
            "ceiling_images_per_s": [round(r["libjpeg_turbo"]["images_per_s"]) for r in runs],
            "scaling_of_ours_by_theirs": round(scaling("stoker") / scaling("libjpeg_turbo"), 3),
            "page_faults_per_image": round(two["page_faults_per_image"], 3),
        }
    ]


def run_memory(folder: Path, build: Path) -> list[dict | None]:
    return [python("memory.py", folder)]


def run_startup(folder: Path, build: Path) -> list[dict | None]:
    return [python("startup.py", folder)]


def run_cifar(folder: Path, build: Path) -> list[dict | None]:
    return [python("cifar.py", peer) for peer in ("numpy", "dataloader")]


def run_listing(folder: Path, build: Path) -> list[dict | None]:
    """Lists a million empty files in a thousand folders twice, and reports the second run."""
    subprocess.run(["ninja", "-C", build, "--quiet", "bench/file_list"], check=True, stdout=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="stoker-listing-") as scratch:
        done = subprocess.run(
            [build / "bench" / "file_list", "--json", "--make", "1000000", "1000", scratch], stdout=subprocess.PIPE, text=True
        )
    if done.returncode:
        return [None]
    return [{"name": "listing", **json.loads(done.stdout.splitlines()[-1])}]


RUNS = {
    "compare": run_compare,
    "cameras": run_cameras,
    "ceiling": run_ceiling,
    "memory": run_memory,
    "startup": run_startup,
    "cifar": run_cifar,
    "listing": run_listing,
}


def print_comparisons(results: list[dict]) -> None:
    rows = [["images per CPU-second", "stoker", "peer", "times", "spread"]]
    for r in results:
        low, high = r["spread"]
        name = f"{r['name']}: {r['peer']}, batch {r['batch']}"
        figures = [r["stoker"]["images_per_cpu_s"], r["theirs"]["images_per_cpu_s"]]
        rows.append([name, *map(str, figures), f"{r['ratio_per_cpu_s']:.2f}", f"{low:.2f} to {high:.2f}"])
    if len(rows) > 1:
        print(measure.table(rows), "\n")


def print_others(results: list[dict]) -> None:
    for r in results:
        rows = [[r["name"], ""]] + [[k, json.dumps(v)] for k, v in r.items() if k != "name"]
        print(measure.table(rows), "\n")


def made(folder: Path, count: int, kind: str) -> Path:
    """Returns the folder of a generated corpus, and creates the corpus if it is missing."""
    if not (folder / "corpus.json").exists():
        corpus.make(folder, count, [], kind=kind)
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--cameras", type=Path, help="frames of 1600x900")
    parser.add_argument("--only", default=",".join(RUNS))
    a = parser.parse_args()
    names = a.only.split(",")
    if unknown := [n for n in names if n not in RUNS]:
        parser.error(f"there is no row {unknown[0]}: {' '.join(RUNS)}")
    folder = a.data or made(Path(".demo") / "bench", IMAGES, "imagenet")
    own = {}
    if "cameras" in names:
        own["cameras"] = a.cameras or made(Path(".demo") / "cameras", FRAMES, "cameras")
    inputs = measure.describe(peers.list_files(folder))
    for file in peers.list_files(folder):  # reads all files into the page cache
        file.read_bytes()
    found = [r for name in names for r in RUNS[name](own.get(name, folder), a.build)]
    results = [r for r in found if r]
    out = HERE / "results" / time.strftime("%Y-%m-%d-%H%M%S.json")
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps({"machine": measure.machine(), "inputs": inputs, "results": results}, indent=1) + "\n")
    print(
        f"{inputs['files']} files, {inputs['mean_bytes']} bytes and {inputs['mean_pixels']} pixels on average; {measure.machine()['processor']}\n"
    )
    print_comparisons([r for r in results if "ratio_per_cpu_s" in r])
    print_others([r for r in results if "ratio_per_cpu_s" not in r])
    print(f"all of it: {os.path.relpath(out)}")
    if "compare" in names and len(results) == len(found):
        plot.write(out, out.with_suffix(".svg"))
        print(f"as a plot: {os.path.relpath(out.with_suffix('.svg'))}")
    return 0 if len(results) == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
