#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how fast a Loader reads from an object store: objects per second in the steady state (tenth to last-but-tenth batch),
the first batch, CPU-seconds, memory.

usage: bench/storage/throughput.py SOURCE [--objects N] [--batch N] [--runs N] [--beside COMMAND] [--read-requests N] [--read-bytes MIB]

SOURCE is a folder of class folders, an index of one, or s3://BUCKET/PREFIX; the store's address and keys come from the environment (doc/storage.md).
Each run has its own process. COMMAND is a peer, run after each run against the same store: a program that prints one JSON object with `objects` and `wall`
or `rate`. On a machine that also runs other programs, only the ratio of Stoker's rate to the peer's is meaningful; times are not.
"""

import argparse
import json
import resource
import shlex
import statistics
import subprocess
import sys
import time


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(args: argparse.Namespace) -> dict[str, float]:
    from stoker import fn, pipeline_def

    window = {"read_requests": args.read_requests, "read_bytes": args.read_bytes and args.read_bytes << 20}

    @pipeline_def(batch_size=args.batch, num_threads=2, seed=1, **{k: v for k, v in window.items() if v})
    def pipe():
        return fn.readers.file(file_root=args.source, random_shuffle=True, name="reader")[0]

    pipeline = pipe()
    pipeline.build()
    cpu, begin, ends = cpu_seconds(), time.perf_counter(), []
    for _ in range(max(30, args.objects // args.batch)):
        pipeline.run()
        ends.append(time.perf_counter() - begin)
    cpu = cpu_seconds() - cpu
    objects, low, high = len(ends) * args.batch, 10, len(ends) - 10
    return {
        "objects": objects,
        "rate": objects / ends[-1],
        "steady_rate": args.batch * (high - low) / (ends[high] - ends[low]),
        "first_batch_s": ends[0],
        "cpu_s_per_1000": cpu / objects * 1000,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def run(command: list[str]) -> dict[str, float]:
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    facts = json.loads(done.stdout.splitlines()[-1])
    return {"rate": facts["objects"] / facts["wall"], **facts} if "wall" in facts else facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    for name, default in (("objects", 10000), ("batch", 64), ("runs", 3), ("read-requests", None), ("read-bytes", None)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--beside", metavar="COMMAND")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.once:
        print(json.dumps(measure(args)))
        return
    ours, shares = [], []
    for _ in range(args.runs):
        ours.append(run([sys.executable, *sys.argv, "--once"]))
        if args.beside:
            shares.append(ours[-1]["rate"] / run(shlex.split(args.beside))["rate"])
    facts = {name: round(statistics.median(o[name] for o in ours), 4) for name in ours[0]}
    print(json.dumps({**facts, **({"share_of_peer": round(statistics.median(shares), 3)} if shares else {}), "runs": args.runs}))


if __name__ == "__main__":
    main()
