# SPDX-License-Identifier: Apache-2.0
"""Measures the time from making a Loader over many Parquet files to its first batch, without imports, and the memory of its process. Each measurement runs
in its own process. Needs pyarrow, torch and Pillow.

usage: table_start.py [--files N] [--rounds N] [--server PROGRAM [--latency MS]]

With --server, the files lie in an object store with latency: PROGRAM, as in bench/storage/bars.py, which is run with --root DIR --port N --base-ms MS
--median-ms 0 --secs N. Each round then measures twice: first without an index of the footers, then with the index that the first process has made.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch  # noqa: F401  # imported before the clock starts
from measure import peak_memory
from PIL import Image
from stoker import Loader


def write(folder: Path, files: int) -> None:
    """Writes files of four row groups of ten small images."""
    out = io.BytesIO()
    Image.fromarray(np.full((64, 64, 3), 7, np.uint8)).save(out, "JPEG")
    images = pa.array([{"bytes": out.getvalue(), "path": "x"}] * 40)
    for k in range(files):
        table = pa.table({"image": images, "label": np.arange(40) + 40 * k, "caption": ["text"] * 40})
        pq.write_table(table, folder / f"{k:05d}.parquet", row_group_size=10)


def start(pattern: str) -> None:
    """Starts a Loader, and prints the time to its first batch and the memory of this process."""
    begin, cpu = time.perf_counter(), time.process_time()
    with Loader(pattern, 32, shuffle="groups", seed=0, fields={"image": "Image", "label": None}) as loader:
        made = time.perf_counter()
        next(iter(loader))
        end = time.perf_counter()
    used, peak = time.process_time() - cpu, peak_memory() / 1e6
    print(
        f"Loader {made - begin:.2f} s, first batch {end - made:.2f} s, together {end - begin:.2f} s, {used:.2f} s of CPU, {peak:.0f} MB at most"
    )


def in_child(what: str, pattern: str, environment: dict[str, str]) -> None:
    command = [sys.executable, __file__, "--child", pattern]
    print(
        what,
        subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}).stdout.strip(),
        flush=True,
    )


def from_store(program: str, latency: str, root: Path, rounds: int) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [program, "--root", str(root), "--port", port, "--base-ms", latency, "--median-ms", "0", "--secs", "600"]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    caches = root.parent / "caches"
    url = f"http://127.0.0.1:{port}"
    keys = {"AWS_ENDPOINT_URL_S3": url, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "XDG_CACHE_HOME": str(caches)}
    try:
        time.sleep(1)  # waits until the server has listed its folder
        for _ in range(rounds):
            shutil.rmtree(caches, ignore_errors=True)
            in_child("store, no footers kept:", "s3://bucket/*.parquet", keys)
            in_child("store, footers kept:   ", "s3://bucket/*.parquet", keys)
    finally:
        server.kill()
        server.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--server")
    parser.add_argument("--latency", default="30", help="milliseconds of each answer of the store")
    parser.add_argument("--child")
    given = parser.parse_args()
    if given.child:
        start(given.child)
        return
    with tempfile.TemporaryDirectory() as folder:
        bucket = Path(folder) / "root" / "bucket"
        bucket.mkdir(parents=True)
        write(bucket, given.files)
        print(f"{given.files} files")
        if given.server:
            from_store(given.server, given.latency, bucket.parent, given.rounds)
            return
        for _ in range(given.rounds):
            in_child("local files:", f"{bucket}/*.parquet", {})


if __name__ == "__main__":
    main()
