# SPDX-License-Identifier: Apache-2.0
"""Measures how long a Loader over many Parquet files takes to its first batch, without the time of imports, and the memory of the process."""

from __future__ import annotations

import argparse
import io
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch  # noqa: F401  # imported before the clock starts
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


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--files", type=int, default=1000)
    arguments.add_argument("--rounds", type=int, default=5)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), given.files)
        for _ in range(given.rounds):
            begin, cpu = time.perf_counter(), time.process_time()
            with Loader(f"{folder}/*.parquet", 32, shuffle="groups", seed=0, fields={"image": "Image", "label": None}) as loader:
                made = time.perf_counter()
                next(iter(loader))
                end = time.perf_counter()
            used, peak = time.process_time() - cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"{given.files} files: Loader {made - begin:.2f} s, first batch {end - made:.2f} s, {used:.2f} s of CPU, {peak:.0f} MB at most"
            )


if __name__ == "__main__":
    main()
