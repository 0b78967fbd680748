#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the GPU backend, and NVIDIA DALI in the same run if it is installed. Each side runs in its own process, and their slices alternate. Prints the
median ratios with their spread as a table, and writes them as JSON.

usage: figures.py FOLDER [--only ROW,...] [--sweep] [--out FILE] [--gpu-decode PROGRAM] [--rounds N] [--seconds S]
FOLDER: a folder that photographs.py has filled (FOLDER/imagenet, FOLDER/cameras).
Rows: check pinned loose256 loose64 cores2 cameras startup memory growth share where (see ROWS, and the function run_... of each other row).
A row whose programs are missing is skipped, with a message. A sweep on 16 cores and an H200 found the two best settings of DALI for each row; the program uses
the better one. --sweep searches for the best settings again.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import measure  # noqa: E402


class Setting(NamedTuple):
    """A configuration of DALI. threads: number of CPU threads. load: share of the images that the GPU's JPEG engines decode. form: variant of the pipeline (see
    sides.py)."""

    threads: int
    load: float
    form: str = ""


def swept(threads: tuple[int, ...], form: str) -> list[Setting]:
    return [Setting(t, x, f) for t in threads for x in (0.0, 0.3, 0.5, 0.65, 0.8, 0.9, 1.0) for f in ("", form)]


@dataclass
class Row:
    """A kind of work that both sides do. settings: DALI's best settings in an earlier sweep, of which the better one is used. sweep: the settings that --sweep
    tries. cores: number of cores for each side; 0: all."""

    name: str
    title: str
    kind: str
    batch: int
    threads: int
    settings: list[Setting]
    sweep: list[Setting] = field(default_factory=list)
    cores: int = 0


MANY = (4, 8, 16)
ROWS = [
    Row("loose256", "loose files -> PyTorch, batch 256", "loader", 256, 16, [Setting(8, 0.65), Setting(16, 0.8)], swept(MANY, "crop")),
    Row("loose64", "loose files -> PyTorch, batch 64", "loader", 64, 16, [Setting(16, 0.8), Setting(8, 0.65)], swept(MANY, "crop")),
    Row("cores2", "batch 256, 2 threads on 2 cores", "loader", 256, 2, [Setting(2, 1.0), Setting(2, 0.9)], swept((2,), "crop"), 2),
    Row(
        "cameras", "6 cameras 1600x900 -> affine 704x256", "cameras", 8, 16, [Setting(4, 0.9), Setting(16, 0.9, "one")], swept(MANY, "one")
    ),
]
OURS = Setting(0, 0.0)  # Stoker's setting; 0 threads stands for the row's number of threads


class Child:
    """Runs one side (child.py) in its own process."""

    def __init__(self, side: str, row: Row, folder: Path, setting: Setting, batch: int = 0) -> None:
        command = [sys.executable, HERE / "child.py", side, row.kind, folder, "--batch", batch or row.batch]
        command += ["--threads", setting.threads or row.threads, "--load", setting.load, "--form", setting.form, "--cores", row.cores]
        self.side = side
        self.log = open(f"/tmp/stoker-bench-{os.getpid()}-{side}.log", "w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, bufsize=1
        )
        self.answer()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        self.log.seek(0)
        raise RuntimeError(f"{self.side} ended: {self.log.read()[-1500:]}")

    def ask(self, text: str) -> dict[str, Any]:
        assert self.process.stdin
        self.process.stdin.write(text + "\n")
        return self.answer()

    def slice(self, seconds: float) -> measure.Slice:
        a = self.ask(f"slice {seconds}")
        return measure.Slice(a["images"], a["wall"], a["cpu"])

    def close(self) -> None:
        if self.process.stdin and self.process.poll() is None:
            self.process.stdin.write("quit\n")
            self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()


def has_dali() -> bool:
    return importlib.util.find_spec("nvidia") is not None and importlib.util.find_spec("nvidia.dali") is not None


def median(values: list[float]) -> float:
    return statistics.median(values)


def best_setting(row: Row, a: argparse.Namespace) -> Setting | None:
    """Returns DALI's best setting for this row, found by a short slice with each setting. Returns None if DALI runs with none of them."""
    rates = {}
    for setting in row.sweep if a.sweep else row.settings:
        try:
            child = Child("dali", row, a.folder, setting)
        except RuntimeError as e:
            print(f"  DALI with {setting}: {e}", file=sys.stderr)
            continue
        rates[setting] = child.slice(1.5).rate
        child.close()
        print(f"  DALI with {setting}: {rates[setting]:.0f} images/s", file=sys.stderr)
    return max(rates, key=rates.__getitem__) if rates else None


def compare(row: Row, a: argparse.Namespace) -> dict[str, Any]:
    setting = best_setting(row, a) if has_dali() else None
    ours = Child("stoker", row, a.folder, OURS)
    theirs = Child("dali", row, a.folder, setting) if setting else None
    mine: list[measure.Slice] = []
    other: list[measure.Slice] = []
    for turn in range(a.rounds):
        for side in (ours, theirs) if turn % 2 else (theirs, ours):
            if side:
                (mine if side is ours else other).append(side.slice(a.seconds))
    memory = {s.side: s.ask("memory") for s in (ours, theirs) if s}
    for side in (ours, theirs):
        if side:
            side.close()
    result: dict[str, Any] = {"name": row.name, "title": row.title, "memory": memory, "dali_setting": setting}
    for name, slices in (("stoker", mine), ("dali", other)):
        if slices:
            result[name] = {
                "images_per_s": round(median([s.rate for s in slices])),
                "cpu_s_per_1000": round(median([s.cost for s in slices]), 4),
                "rates": [round(s.rate) for s in slices],
            }
    if other:
        ratios = [m.rate / o.rate for m, o in zip(mine, other, strict=True)]
        result |= {"ratio": round(median(ratios), 2), "spread": [round(min(ratios), 2), round(max(ratios), 2)]}
    return result


def run_pinned(a: argparse.Namespace) -> dict[str, Any]:
    """Runs bench/gpu_decode.c, which measures how fast the GPU decodes and crops files that are in pinned memory. In the first round, that program compares
    every image with the CPU's result."""
    if not a.gpu_decode:
        return {"name": "pinned", "left_out": "give --gpu-decode build/bench/gpu_decode"}
    rates, text = [], ""
    one_copy = next(iter(sorted((a.folder / "imagenet").iterdir())))
    for turn in range(a.rounds):
        done = subprocess.run(
            [a.gpu_decode, one_copy, "256", "8", "60"],
            capture_output=True,
            text=True,
            env={**os.environ, **({"UNVERIFIED": "1"} if turn else {})},
        )
        if done.returncode:
            return {"name": "pinned", "failed": (done.stdout + done.stderr)[-500:]}
        text = text or done.stdout
        rates.append(float(re.search(r"(\d+) images/s", done.stdout)[1]))  # type: ignore[index]
    about = {"images_per_s": round(median(rates)), "spread": [round(min(rates)), round(max(rates))], "rates": rates}
    return {"name": "pinned", "title": "bytes in pinned memory -> 224 crops", "stoker": about, "said": text.splitlines()}


def run_check(a: argparse.Namespace) -> dict[str, Any]:
    """Checks, on a sample of the files, that Stoker's results on the GPU equal its results on the CPU byte for byte."""
    code = f"""
import sys; sys.path.insert(0, {str(HERE)!r})
import json, numpy as np, sides
from pathlib import Path
folder = Path({str(a.folder)!r})
count = 0
for make, name in ((lambda d: sides.crops("stoker", sides.listed(folder, "imagenet"), 64, 8, 0, "", d), "crops"),
                   (lambda d: sides.cameras("stoker", sides.listed(folder, "cameras"), 8, 8, 0, "", d), "cameras")):
    cores, gpu = make(None), make(0)
    for _ in range(8 if name == "crops" else 2):
        for x, y in zip(cores.run(), gpu.run(), strict=True):
            assert x.source_info() == y.source_info() and np.array_equal(x.as_array(), y.as_cpu().as_array()), (name, "differs")
            count += len(x)
print(json.dumps({{"equal_outputs": count}}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if done.returncode:
        return {"name": "check", "failed": done.stderr[-800:]}
    return {"name": "check", "title": "equal to the cores' bytes", **json.loads(done.stdout.splitlines()[-1])}


def run_startup(a: argparse.Namespace) -> dict[str, Any]:
    """Measures the seconds from the start of a process to its first batch, without torch."""
    program = """
import sys; sys.path.insert(0, {here!r})
import sides
from pathlib import Path
pipeline = sides.crops({side!r}, sides.listed(Path({folder!r}), "imagenet")[:4096], 256, 16, 0.65)
pipeline.build()
assert len(pipeline.run()[0]) == 256
print("first batch", flush=True)
"""
    times: dict[str, list[float]] = {}
    for turn in range(a.rounds + 1):
        for side in ("stoker", "dali") if has_dali() else ("stoker",):
            begin = time.perf_counter()
            text = program.format(here=str(HERE), side=side, folder=str(a.folder))
            process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            assert process.stdout
            line = process.stdout.readline()
            took = time.perf_counter() - begin
            process.communicate()
            if not line.startswith("first batch"):
                if side == "stoker":
                    return {"name": "startup", "failed": f"{side}: no first batch"}
            elif turn:  # does not count the first turn, which reads the libraries from the disk
                times.setdefault(side, []).append(took)
    result: dict[str, Any] = {"name": "startup", "title": "process start to first batch, s"}
    result |= {side: {"seconds": round(median(t), 3), "times": [round(x, 3) for x in t]} for side, t in times.items()}
    if "dali" in times:
        ratios = [m / o for m, o in zip(times["stoker"], times["dali"], strict=True)]
        result |= {"ratio": round(median(ratios), 2), "spread": [round(min(ratios), 2), round(max(ratios), 2)]}
    return result


def context_bytes() -> int:
    """Returns the GPU memory of a bare CUDA context in bytes, or 0 if it cannot be measured. Callers subtract it to get a loader's own memory."""
    code = """
import sys, torch; sys.path.insert(0, %r)
import child
before = child.gpu_memory(); torch.zeros(1, device="cuda"); torch.cuda.synchronize(); print(child.gpu_memory() - before)
"""
    done = subprocess.run([sys.executable, "-c", code % str(HERE)], capture_output=True, text=True)
    return int(done.stdout.split()[-1]) if done.returncode == 0 and done.stdout.split() else 0


def run_memory(a: argparse.Namespace) -> dict[str, Any]:
    """Measures the GPU memory of three loaders with batches of 256 at full speed, without the memory of a bare CUDA context. They are Stoker with as many
    finished batches as DALI keeps and less memory for decoding (sides.SMALL), Stoker with its defaults, and DALI if it is installed."""
    bare = context_bytes()
    result: dict[str, Any] = {"name": "memory", "title": "memory of the GPU, batch 256, MiB", "context": bare >> 20}
    settings = {"stoker": OURS._replace(form="small"), "default": OURS, "dali": ROWS[0].settings[0]}
    for name in settings if has_dali() else ("stoker", "default"):
        child = Child("dali" if name == "dali" else "stoker", ROWS[0], a.folder, settings[name])
        rate = child.slice(3).rate
        answer = child.ask("memory")
        child.close()
        result[name] = {"gpu_mib": (answer["gpu"] - bare) >> 20, "host_mib": answer["resident"] >> 20, "images_per_s": round(rate)}
    if "dali" in result:
        result["ratio"] = round(result["stoker"]["gpu_mib"] / max(1, result["dali"]["gpu_mib"]), 2)
    return result


def run_growth(a: argparse.Namespace) -> dict[str, Any]:
    """Runs 2 000 batches of 16 six times, and measures how much memory grows from each run to the next. The first run is the warm-up."""
    child = Child("stoker", ROWS[0], a.folder, OURS, batch=16)
    seen = [child.ask("batches 2000") for _ in range(6)]
    child.close()
    steps = {k: [(b[k] - a[k]) >> 10 for a, b in itertools.pairwise(seen)] for k in ("resident", "gpu")}
    return {"name": "growth", "title": "growth in each 2 000 of 10 000 batches, KiB", "host": steps["resident"], "gpu": steps["gpu"]}


def run_share(a: argparse.Namespace) -> dict[str, Any]:
    """Measures how much of the GPU the loader uses at 20 000 images/s, as the slowdown of matrix products that run at the same time."""
    code = f"""
import sys; sys.path.insert(0, {str(HERE)!r})
import json, threading, time, torch, sides
from pathlib import Path
take = sides.make("stoker", "loader", Path({str(a.folder)!r}), 256, 16, 0, "")
for _ in range(20): take()
x = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
def products(seconds):
    torch.cuda.synchronize(); n, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        for _ in range(20): x @ x
        torch.cuda.synchronize(); n += 20
    return n / (time.perf_counter() - begin)
products(1)
shares, rates = [], []
for _ in range({a.rounds}):
    alone = products({a.seconds})
    stop, taken = threading.Event(), [0, 0.0]
    def pull():
        stream = torch.cuda.Stream(); begin = time.perf_counter()
        with torch.cuda.stream(stream):
            while not stop.is_set():
                taken[0] += take()
                time.sleep(max(0, taken[0] / 20000 - (time.perf_counter() - begin)))
        taken[1] = time.perf_counter() - begin
    thread = threading.Thread(target=pull); thread.start()
    beside = products({a.seconds}); stop.set(); thread.join()
    shares.append(1 - beside / alone); rates.append(taken[0] / taken[1])
print(json.dumps({{"share": sorted(shares)[len(shares) // 2], "shares": shares, "images_per_s": sorted(rates)[len(rates) // 2]}}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if done.returncode:
        return {"name": "share", "failed": done.stderr[-800:]}
    found = json.loads(done.stdout.splitlines()[-1])
    return {
        "name": "share",
        "title": "of the GPU at 20 000 images/s",
        **{k: v if isinstance(v, list) else round(v, 4) for k, v in found.items()},
    }


def run_where(a: argparse.Namespace) -> dict[str, Any]:
    """Reports how the time of a pipeline over single files with batches of 256 is spent: microseconds per image for each kind of span in the trace, and the
    counters."""
    trace = Path(f"/tmp/stoker-trace-{os.getpid()}.json")
    code = f"""
import sys; sys.path.insert(0, {str(HERE)!r})
import json, sides
from pathlib import Path
pipeline = sides.package("stoker").Pipeline.deserialize(
    sides.crops("stoker", sides.listed(Path({str(a.folder)!r}), "imagenet"), 256, 16, 0).serialize(), trace={str(trace)!r})
for _ in range(100): pipeline.run()
print(json.dumps({{"images": 25600, "counters": pipeline.counters()}}))
pipeline.close()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if done.returncode or not trace.exists():
        return {"name": "where", "failed": done.stderr[-800:]}
    found = json.loads(done.stdout.splitlines()[-1])
    events = json.loads(trace.read_text())
    spans: dict[str, float] = {}
    for event in events["traceEvents"] if isinstance(events, dict) else events:
        if "dur" in event:
            spans[event["name"]] = spans.get(event["name"], 0.0) + event["dur"]
    trace.unlink()
    each = {k: round(v / found["images"], 3) for k, v in sorted(spans.items(), key=lambda kv: -kv[1])}
    return {"name": "where", "title": "time by span, us an image", "us_per_image": each, "counters": found["counters"]}


def lines(result: dict[str, Any]) -> list[list[str]]:
    """Converts a row's result to lines of the table: name, Stoker's figure, DALI's, ratio, spread."""
    title = result.get("title", result["name"])
    for key in ("failed", "left_out"):
        if key in result:
            return [[f"{result['name']}: {result[key]}"[:150], "", "", "", ""]]
    low, high = result.get("spread", ("", ""))
    spread = f"{low} to {high}" if low != "" else ""
    ratio = str(result.get("ratio", ""))
    if "stoker" not in result:
        facts = ", ".join(f"{k} {v}" for k, v in result.items() if k not in ("name", "title", "counters", "shares"))
        return [[f"{title}: {facts}", "", "", "", ""]]
    ours, theirs = result["stoker"], result.get("dali", {})
    keys = [k for k in ("gpu_mib", "images_per_s", "cpu_s_per_1000", "seconds") if k in ours]
    rows = []
    for k in keys:
        first = k == keys[0]
        name = title if first else "  " + k.replace("_", " ").replace("cpu s", "CPU-s")
        rows.append([name, str(ours[k]), str(theirs.get(k, "")), ratio if first else "", spread if first else ""])
    if "default" in result:
        rows.append([f"  by default, {result['default']['images_per_s']} images/s", str(result["default"]["gpu_mib"]), "", "", ""])
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--gpu-decode")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    a = parser.parse_args()
    runs: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {"check": run_check, "pinned": run_pinned}
    runs |= {row.name: functools.partial(compare, row) for row in ROWS}
    runs |= {"startup": run_startup, "memory": run_memory, "growth": run_growth, "share": run_share, "where": run_where}
    for file in sorted(a.folder.rglob("*.jpg")):  # reads all files into the page cache
        file.read_bytes()
    results = []
    names = a.only.split(",") if a.only else list(runs)
    if unknown := [n for n in names if n not in runs]:
        parser.error(f"there is no row {unknown[0]}: {' '.join(runs)}")
    for name in names:
        print(f"... {name}", file=sys.stderr)
        try:
            results.append(runs[name](a))
        except RuntimeError as e:
            results.append({"name": name, "failed": str(e)})
        if a.out:  # saves the results so far, in case the machine fails
            about = {"machine": measure.machine(), "dali": has_dali(), "results": results}
            a.out.write_text(json.dumps(about, indent=1) + "\n")
    rows = [["", "stoker", "DALI", "ratio", "spread"]] + [line for r in results for line in lines(r)]
    print(measure.table(rows))
    return 1 if any("failed" in r for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
