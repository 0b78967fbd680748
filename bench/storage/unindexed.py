#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how a Loader reads tars that are in a store and have no index: the time to the first batch, the time of the first epoch, and the bytes fetched. One
side reads the tars in their own order, as a Loader does by default; the other makes the index first, as len(loader) requires.

usage: bench/storage/unindexed.py --server PROGRAM --root DIR [--shards N] [--samples N] [--turns N] [--profile A|B|C] [--under "chrt -r 20"]

The server is that of bars.py. The program makes the tars below DIR/bench/unindexed; each sample has about 115 KiB and a label. Images are decoded at a
quarter of their size, so that the network is the limit. Each run has its own process and starts without an index. Both sides take turns, and figures are
medians.
"""

import argparse
import io
import json
import os
import shlex
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

PORT, BATCH = 9472, 64


def child(source: str, searched_first: bool) -> dict[str, float]:
    import torch  # noqa: F401 - imported before the clock starts, because the import takes seconds
    from stoker import Loader, Storage
    from stoker import transforms as T

    begin = time.perf_counter()
    storage = Storage()
    loader = Loader(source, BATCH, shuffle=True, last_batch="keep", transforms=[T.Resize(32)], storage=storage)
    if searched_first:
        len(loader)
    ends, samples, at_first = [], 0, 0.0
    for images, _ in loader:
        ends.append(time.perf_counter() - begin)
        at_first = at_first or storage.counters()["storage_bytes"]
        samples += len(images)
    return {
        "first": ends[0],
        "epoch": ends[-1],
        "samples": samples,
        "first_mb": at_first / 1e6,
        "mb": storage.counters()["storage_bytes"] / 1e6,
    }


def make_tars(folder: Path, shards: int, samples: int) -> int:
    import numpy as np
    from PIL import Image

    draws = np.random.default_rng(0)
    pictures = []
    for _ in range(50):
        out = io.BytesIO()
        Image.fromarray(draws.integers(0, 256, (272, 272, 3), np.uint8)).save(out, "JPEG", quality=92)
        pictures.append(out.getvalue())
    folder.mkdir(parents=True, exist_ok=True)
    for k in range(shards):
        with tarfile.open(folder / f"s-{k:04}.tar", "w") as tar:
            for i in range(samples):
                for name, data in ((f"{k:04}{i:06}.cls", b"%d" % i), (f"{k:04}{i:06}.jpg", pictures[(k * samples + i) % 50])):
                    info = tarfile.TarInfo(name)
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    return sum(p.stat().st_size for p in folder.glob("*.tar"))


def run(args: argparse.Namespace, searched_first: bool) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as caches:
        command = [
            *shlex.split(args.under),
            sys.executable,
            __file__,
            "--child",
            json.dumps(["s3://bench/unindexed/s-*.tar", searched_first]),
        ]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True, env={**os.environ, "XDG_CACHE_HOME": caches}
        )
    facts: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("server", "root"):
        parser.add_argument(f"--{name}", required="--child" not in sys.argv)
    for name, number in (("shards", 8), ("samples", 400), ("turns", 3)):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--profile", default="A")
    parser.add_argument("--under", default="")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(child(*json.loads(args.child))))
        return
    size = make_tars(Path(args.root, "bench/unindexed"), args.shards, args.samples)
    os.environ.update(
        AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret", AWS_REGION="us-east-1", AWS_ENDPOINT_URL_S3=f"http://127.0.0.1:{PORT}"
    )
    command = [*shlex.split(args.under), args.server, "--root", args.root, "--port", str(PORT), "--profile", args.profile, "--secs", "600"]
    seen: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            time.sleep(0.5)
            for _ in range(args.turns):
                for searched_first, facts in seen.items():
                    facts.append(run(args, searched_first))
                    assert facts[-1]["samples"] == args.shards * args.samples
        finally:
            process.terminate()
    print(f"{args.shards} tars of {args.samples} samples, {size / 1e6:.0f} MB, profile {args.profile}, medians of {args.turns}\n")
    print("| first epoch | first batch of 64, s | MB by then | epoch, s | MB in all |\n|---|---|---|---|---|")
    for searched_first, facts in seen.items():
        of = {k: statistics.median(f[k] for f in facts) for k in facts[0]}
        name = "index made first" if searched_first else "as the tars lie"
        print(f"| {name} | {of['first']:.2f} | {of['first_mb']:.0f} | {of['epoch']:.1f} | {of['mb']:.0f} |")


if __name__ == "__main__":
    main()
