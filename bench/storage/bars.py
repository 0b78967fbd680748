#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures reading from an object store on this machine, and compares each figure with its required value (bar) and with a bare client of the same server.

usage: bench/storage/bars.py --server PROGRAM --client PROGRAM --root DIR [--only NAME,...] [--seconds N] [--turns N] [--seeds N] [--under "chrt -r 20"]
       [--server-under "chrt -f 30"]

PROGRAM of --server is an object store with latency. It is called with --root DIR --port N --profile A|B|C [--tail P:TIMES] [--p503 P --preset P --ptrunc P]
--secs N. PROGRAM of --client reads from that store directly. It is called with PORT IN_FLIGHT OBJECTS SEED, and prints a JSON object with `objects`, `wall`,
`first` and `cpu`. DIR holds 2000 objects, bench/train/NNNNNN.jpg. The profiles of the store are: A: the first byte after 115 ms and a lognormal time (median
45 ms), 25 MB/s per connection, 1.2 Gbit/s in all; B: 10 Gbit/s in all; C: 0.5 ms, no limits. Both sides run in turns, each in its own process. The server
takes a core. On a machine with two cores, the cores limit the results of B and C, and the server needs the higher priority (--server-under): while decoding
takes the server's core, it cannot send, and loses the traffic that the profile allows for that time.
"""

import argparse
import functools
import hashlib
import json
import os
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Facts = dict[str, Any]
BATCH, PORT, TIMES = 64, 9471, 4
CAP = {"A": 150e6, "B": 1250e6}
# Settings for profile B: enough requests and bytes in flight for 10 Gbit/s at the profile's latency.
WIDE: Facts = {"read_requests": 3072, "read_bytes": 1 << 30}

# ---- stoker's side, in its own process ----


def child(source: str, objects: int, seed: int, what: str, config: Facts) -> Facts:
    """Reads `objects` objects from the source with a pipeline of Stoker, and returns the measured figures by name. what: "bytes" only reads, "decode" also
    decodes, "digest" computes a digest of all bytes in order."""
    import numpy as np
    from stoker import fn, pipeline_def

    @pipeline_def(batch_size=BATCH, num_threads=os.cpu_count(), seed=seed, **config)
    def pipe():
        files, _ = fn.readers.file(file_root=source, random_shuffle=True, name="reader")
        if what != "decode":
            return files
        return fn.crop_mirror_normalize(fn.random_resized_crop(fn.decoders.image(files), size=224), dtype="float", output_layout="CHW")

    def cpu() -> float:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime

    pipeline = pipe()
    pipeline.build()
    used, begin, ends, digest = cpu(), time.perf_counter(), [], hashlib.sha256()
    for _ in range(max(1, objects // BATCH)):
        (out,) = pipeline.run()
        ends.append(time.perf_counter() - begin)
        for i in range(BATCH if what == "digest" else 0):
            digest.update(np.asarray(out.at(i)).tobytes())
    used = cpu() - used
    low, high, counters = 10, len(ends) - 10, pipeline.counters()
    return {
        "first": ends[0],
        "rate": len(ends) * BATCH / ends[-1],
        "steady": BATCH * (high - low) / (ends[high] - ends[low]) if high > low else 0,
        "cpu": used
        / max(len(ends) * BATCH, counters.get("storage_requests", 0))
        * 1000,  # CPU seconds per 1000 objects that were read, even if they were not consumed
        "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "again": counters.get("storage_hedges", 0) + counters.get("storage_retries", 0),
        "digest": digest.hexdigest()[:16],
    }


# ---- both sides ----


class Bench:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.under = shlex.split(args.under)
        self.sizes = [p.stat().st_size for p in sorted(Path(args.root, "bench/train").glob("*.jpg"))]
        self.mean = statistics.mean(self.sizes)
        self.tree = Path(args.root, "bench/often")
        if not self.tree.is_dir():  # makes class folders with TIMES copies of each object, since a Loader reads ahead by at most one epoch
            for i, path in enumerate(sorted(Path(args.root, "bench/train").glob("*.jpg"))):
                for k in range(TIMES):
                    to = self.tree / f"c{i % 20:02}" / f"{path.stem}-{k}.jpg"
                    to.parent.mkdir(parents=True, exist_ok=True)
                    to.hardlink_to(path)
        os.environ.update(
            AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret", AWS_REGION="us-east-1", AWS_ENDPOINT_URL_S3=f"http://127.0.0.1:{PORT}"
        )
        self.index = Path(tempfile.mkdtemp(prefix="stoker-bars-")) / "classes.stoker"

    @contextmanager
    def server(self, profile: str, *more: str) -> Iterator[None]:
        command = [
            *shlex.split(self.args.server_under or self.args.under),
            self.args.server,
            "--root",
            self.args.root,
            "--port",
            str(PORT),
            "--profile",
            profile,
            "--secs",
            "120",
            *more,
        ]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            try:
                time.sleep(0.3)
                if not self.index.exists():
                    built = os.environ.get("STOKER_BUILD")
                    command = [f"{built}/cli/stoker"] if built else [sys.executable, "-m", "stoker"]
                    subprocess.run([*command, "index", "s3://bench/often", "-o", str(self.index)], check=True, stdout=subprocess.DEVNULL)
                yield
            finally:
                process.terminate()

    def ours(self, objects: float, *, source: str = "", seed: int = 1, what: str = "bytes", **config: Any) -> Facts:
        given = json.dumps([source or str(self.index), int(objects), seed, what, config])
        done = subprocess.run([*self.under, sys.executable, __file__, "--child", given], stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout.splitlines()[-1])

    def bare(self, objects: float, in_flight: int, seed: int = 1) -> Facts:
        command = [*self.under, self.args.client, str(PORT), str(in_flight), str(int(objects)), str(seed)]
        facts = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
        rate, steady = facts["objects"] / facts["wall"], facts["objects"] / (facts["wall"] - facts["first"])
        return {**facts, "rate": rate, "steady": steady, "cpu": facts["cpu"] / facts["objects"] * 1000}

    def turns(self, rate: float, in_flight: int, **config: Any) -> tuple[Facts, Facts]:
        """Runs both sides in turns, and returns the median figures of Stoker's and of the bare client. A turn takes about --seconds at `rate` objects/s."""
        ours, bare = [], []
        for seed in range(self.args.turns):
            bare.append(self.bare(rate * self.args.seconds, in_flight, seed))
            ours.append(self.ours(rate * self.args.seconds, seed=seed, **config))
        return medians(ours), medians(bare)

    @functools.cached_property
    def steady(self) -> tuple[Facts, Facts]:
        """Measures both sides in profile A; several bars use the result."""
        with self.server("A"):
            return self.turns(1250, 300)


def medians(facts: list[Facts]) -> Facts:
    return {k: statistics.median(f[k] for f in facts) for k in facts[0] if isinstance(facts[0][k], (int, float))}


# ---- the bars ----

Row = tuple[float, str]  # the bar's figure, and a text with further numbers to print


def share(b: Bench) -> Row:
    ours, bare = b.steady
    return ours["steady"] * b.mean / CAP["A"], f"{ours['steady']:.0f}/s, bare {bare['rate'] * b.mean / CAP['A']:.3f} of all, with its ends"


def decode(b: Bench) -> Row:
    local = b.ours(1500 * b.args.seconds, source=str(b.tree), what="decode")
    with b.server("A"):
        ours = b.ours(1250 * b.args.seconds, what="decode")
    possible = min(CAP["A"] / b.mean, local["steady"])
    return ours["steady"] / possible, f"{ours['steady']:.0f}/s; local files {local['steady']:.0f}/s, cap {CAP['A'] / b.mean:.0f}/s"


def first(b: Bench) -> Row:
    with b.server("A"):
        seen = [b.ours(BATCH, seed=seed)["first"] for seed in range(b.args.seeds)]
    return statistics.median(seen), f"{min(seen):.2f} to {max(seen):.2f} over {len(seen)} seeds"


def cpu(b: Bench) -> Row:
    ours, bare = b.steady
    return ours["cpu"], f"bare {bare['cpu']:.3f}"


def wide(b: Bench) -> Row:
    with b.server("B"):
        ours, bare = b.turns(6000, 2000, **WIDE)
    return ours["steady"] / bare["steady"], f"{ours['steady']:.0f}/s, bare {bare['steady']:.0f}/s"


def near(b: Bench) -> Row:
    with b.server("C"):
        ours, bare = b.turns(15000, 256)
    return ours["steady"] / bare[
        "steady"
    ], f"{ours['steady']:.0f}/s, bare {bare['steady']:.0f}/s; CPU-s {ours['cpu']:.3f}, bare {bare['cpu']:.3f}"


def slow(b: Bench) -> Row:
    with b.server("B", "--tail", "0.02:20"):
        ours = b.ours(2000 * b.args.seconds, **WIDE)
        bare = b.bare(2000, 256)
    return ours["steady"], f"second requests {ours['again'] / 2000 / b.args.seconds:.3f}; bare {bare['rate']:.0f}/s"


def flight(b: Bench) -> Row:
    rates, began = [], []
    for n in (1024, 4096):
        with b.server("A"):
            began.append(statistics.median(b.ours(BATCH, seed=seed, read_requests=n)["first"] for seed in range(9)))
            rates.append(b.ours(1250 * b.args.seconds, read_requests=n)["steady"])
    return 1 - rates[1] / rates[0], f"first batch {began[0]:.2f} s, then {began[1]:.2f} s"


def memory(b: Bench) -> Row:
    local = b.ours(6000, source=str(b.tree))
    ours, _ = b.steady
    return (ours["mib"] - local["mib"]) * 1.048576, f"{ours['mib']:.0f} MiB, from local files {local['mib']:.0f} MiB"


def faults(b: Bench) -> Row:
    with b.server("C"):
        right = b.ours(4000, what="digest")
    with b.server("C", "--p503", "0.05", "--preset", "0.05", "--ptrunc", "0.05"):
        ours = b.ours(4000, what="digest")
    return float(
        ours["digest"] != right["digest"]
    ), f"digests {ours['digest']} and {right['digest']}, {ours['again']:.0f} retries and second requests"


# name: (function, description, required value, desired value, whether less is better)
BARS: dict[str, tuple[Callable[[Bench], Row], str, float, float, bool]] = {
    "share": (share, "A: bytes as share of the cap", 0.97, 0.985, False),
    "decode": (decode, "A: the same with decode and RandomResizedCrop, of what is possible", 0.95, 0.97, False),
    "first": (first, "A: first batch of 64 from an index, s", 0.55, 0.47, True),
    "cpu": (cpu, "A: CPU-seconds for 1000 objects", 0.15, 0.10, True),
    "b": (wide, "B: objects/s as share of the bare client's", 0.85, 0.92, False),
    "c": (near, "C: objects/s as share of the bare client's", 0.85, 0.92, False),
    "slow": (slow, "B, 2% of requests 20 times slower: objects/s", 1500, 2000, False),
    "flight": (flight, "A, 4 times as many in flight: loss of rate", 0.05, 0.02, True),
    "memory": (memory, "A: memory above the pipeline's own, MB", 200, 120, True),
    "faults": (faults, "503, resets, truncation: batches that differ", 0, 0, True),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("server", "client", "root"):
        parser.add_argument(f"--{name}", required="--child" not in sys.argv)
    parser.add_argument("--only", default=",".join(BARS))
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--under", default="")
    parser.add_argument("--server-under", help="as --under, of the server; else the same")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(child(*json.loads(args.child))))
        return
    bench = Bench(args)
    print("| bar | wanted | measured | | beside it |\n|---|---|---|---|---|")
    for name in args.only.split(","):
        measure, text, bar, goal, less = BARS[name]
        figure, seen = measure(bench)
        word = "short" if (figure > bar if less else figure < bar) else "goal" if (figure <= goal if less else figure >= goal) else "pass"
        print(f"| {name}: {text} | {bar:g} | {figure:.3g} | {word} | {seen} |", flush=True)


if __name__ == "__main__":
    main()
