#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how much of a training loop's speed remains with each loader, for several networks, with many cores and with few. Prints a table, and writes JSON.

usage: table.py FOLDER [--models mobilenet_v3_small,resnet18,resnet50] [--cores 16,2] [--gpus 1,2] [--rounds 5] [--seconds 10] [--json FILE] [-- more of
share.py]

Each row runs in its own process (share.py), whose affinity limits it to the given number of cores per GPU. Rows for GPUs or cores that the machine lacks are
"not run".
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import measure

HERE = Path(__file__).resolve().parent

# Required and desired share of the loop's speed, by network and number of cores per GPU.
BARS = {
    ("mobilenet_v3_small", 16): (0.96, 0.99),
    ("mobilenet_v3_small", 2): (0.93, 0.98),
    ("resnet18", 16): (0.97, 0.99),
    ("resnet18", 2): (0.95, 0.98),
    ("resnet50", 16): (0.98, 0.995),
    ("resnet50", 2): (0.97, 0.99),
}


def gpus() -> int:
    """Returns the number of this machine's GPUs. A child process counts them, so that this process creates no CUDA context."""
    done = subprocess.run([sys.executable, "-c", "import torch; print(torch.cuda.device_count())"], capture_output=True, text=True)
    return int(done.stdout or 0)


def run(folder: Path, model: str, cores: int, ranks: int, rounds: int, seconds: float, more: list[str]) -> dict[str, Any]:
    """Measures one row. Returns {"failed": reason} if that fails, or if there are too few cores."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < cores * ranks:
        return {"failed": f"not run: {len(usable)} cores, {cores * ranks} wanted"}
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks > 1 else []
    asked = ["--model", model, "--threads", cores, "--rounds", rounds, "--seconds", seconds, *more]
    chosen = ",".join(map(str, usable[: cores * ranks]))
    command = ["taskset", "-c", chosen, sys.executable, *launcher, HERE / "share.py", folder, *asked]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env={"OMP_NUM_THREADS": "1", **os.environ})
    found: dict[str, Any] | None = measure.emitted(done.stdout)
    if found is not None:
        return found
    complaint = (done.stderr.strip().splitlines() or ["no output"])[-1]
    print(done.stderr[-3000:], file=sys.stderr)
    return {"failed": f"failed: {complaint}"}


def rows_of(model: str, cores: int, ranks: int, result: dict[str, Any]) -> list[list[str]]:
    what = model if ranks == 1 else f"{model}, {ranks} GPUs"
    if "failed" in result:
        return [[what, str(cores), "", result["failed"], "", "", "", "", ""]]
    rows = []
    for name, arm in result["arms"].items():
        low, high = arm["share_spread"]
        bar = ""
        if name == "stoker" and (model, cores) in BARS:
            least, goal = BARS[model, cores]
            bar = f"{least:.0%} {'met' if arm['share'] >= least else 'MISSED'}; {goal:.1%} {'met' if arm['share'] >= goal else 'not yet'}"
        speed = f"{arm['images_per_s']}"
        times = [f"{arm['step_ms']['median']:.2f}", f"{arm['step_ms']['p99']:.2f}"]
        rows.append([what, str(cores), name, speed, f"{arm['share']:.1%}", f"{low:.1%} - {high:.1%}", *times, bar])
    rows += [[what, str(cores), name, why, "", "", "", "", ""] for name, why in result["missing"].items()]
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", default="mobilenet_v3_small,resnet18,resnet50")
    parser.add_argument("--cores", default="16,2", help="for each GPU")
    parser.add_argument("--gpus", default="1", help="1,2: also DDP on two")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--json", type=Path)
    own, more = (sys.argv[1:], []) if "--" not in sys.argv else (sys.argv[1 : sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1 :])
    a = parser.parse_args(own)
    heading = ["network", "cores", "arm", "images/s", "share", "spread", "step ms", "p99", "bar; goal"]
    rows, results = [heading], []
    here = gpus()
    for ranks in map(int, a.gpus.split(",")):
        for model in a.models.split(","):
            for cores in map(int, a.cores.split(",")):
                short = ranks > max(1, here) and "cpu" not in more
                result = {"failed": f"not run: {here} GPUs"} if short else run(a.folder, model, cores, ranks, a.rounds, a.seconds, more)
                results.append({"model": model, "cores": cores, "ranks": ranks, **result})
                rows += rows_of(model, cores, ranks, result)
                print(measure.table([heading, *rows_of(model, cores, ranks, result)]), flush=True)
    print("\n" + measure.table(rows))
    if a.json:
        a.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0 if any("arms" in r for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
