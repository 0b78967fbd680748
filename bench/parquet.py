# SPDX-License-Identifier: Apache-2.0
"""Measures rows of Parquet files decoded per CPU-second, in turns over the same files: by Loader, and by `datasets` with a transform in a DataLoader.

usage: parquet.py [--rows N] [--side PIXELS] [--rounds N]    needs pyarrow, datasets, torch and torchvision
"""

from __future__ import annotations

import argparse
import io
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import peers

BATCH, CROP = 32, 64


def write(folder: Path, rows: int, side: int) -> list[str]:
    """Writes photographs of a size as `datasets` writes images, in four files."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from PIL import Image

    rng = np.random.default_rng(1)
    y, x = np.mgrid[0:side, 0:side].astype(np.float32)
    photographs = []
    for _ in range(16):
        a, b, c = rng.uniform(0.01, 0.12, 3)
        image = 127 + 60 * np.sin(a * x + c) * np.cos(b * y) + rng.normal(0, 12, (side, side))
        out = io.BytesIO()
        Image.fromarray(np.repeat(image.clip(0, 255).astype(np.uint8)[..., None], 3, 2)).save(out, "JPEG", quality=92)
        photographs.append(out.getvalue())
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    meta = {"huggingface": '{"info": {"features": {"image": {"_type": "Image"}, "label": {"dtype": "int64", "_type": "Value"}}}}'}
    paths = []
    for f in range(4):
        images = pa.array([{"bytes": photographs[i % 16], "path": None} for i in range(rows // 4)], kind)
        table = pa.table({"image": images, "label": pa.array(range(rows // 4), pa.int64())}).replace_schema_metadata(meta)
        paths.append(str(folder / f"part-{f}.parquet"))
        pq.write_table(table, paths[-1], row_group_size=100, use_dictionary=False)
    return paths


def cpu_seconds() -> float:
    """Returns the processor time of this process and of its ended children."""
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def of_stoker(paths: list[str]) -> Iterator[Any]:
    from stoker import Loader
    from stoker import transforms as T

    steps = [T.RandomResizedCrop(CROP), T.RandomHorizontalFlip(), T.Normalize([0.5] * 3, [0.5] * 3)]
    with Loader(paths, BATCH, transforms=steps, fields={"image": "Image", "label": None}, shuffle="groups", seed=1) as loader:
        yield from loader


def of_datasets(paths: list[str]) -> Iterator[Any]:
    import datasets
    import torch

    peers.import_torchvision()
    from torchvision.transforms import v2

    datasets.disable_progress_bars()
    steps = v2.Compose(
        [
            v2.ToImage(),
            v2.RandomResizedCrop(CROP),
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.5] * 3, [0.5] * 3),
        ]
    )
    rows = datasets.load_dataset(
        "parquet", data_files=paths, split="train", streaming=False, cache_dir=os.path.dirname(paths[0]) + "/cache"
    )
    rows = rows.with_transform(lambda r: {"image": [steps(i) for i in r["image"]], "label": r["label"]})
    yield from torch.utils.data.DataLoader(rows, BATCH, shuffle=True, num_workers=2)


def measure(run: Callable[[list[str]], Iterator[Any]], paths: list[str]) -> tuple[float, float, float]:
    """Returns rows a CPU-second, rows a second, and the seconds to the first batch."""
    begin, cpu, rows, first = time.perf_counter(), cpu_seconds(), 0, 0.0
    for batch in run(paths):
        rows += len(batch["label"] if isinstance(batch, dict) else batch.label)
        first = first or time.perf_counter() - begin
    return rows / (cpu_seconds() - cpu), rows / (time.perf_counter() - begin), first


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--side", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    sides = {"stoker": of_stoker, "datasets": of_datasets}
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in sides}
    with tempfile.TemporaryDirectory() as folder:
        paths = write(Path(folder), asked.rows, asked.side)
        size = os.path.getsize(paths[0]) * 4 / asked.rows
        for run in sides.values():
            measure(run, paths)  # not counted: this run includes imports, and `datasets` makes its cache
        for _ in range(asked.rounds):
            for name, run in sides.items():
                found[name].append(measure(run, paths))
    print(f"{asked.rows} rows of {size / 1000:.0f} KB, {asked.side} x {asked.side} pixels, crops of {CROP}")
    for name, values in found.items():
        per_cpu, per_second, first = (statistics.median(v[k] for v in values) for k in range(3))
        print(f"{name:9} {per_cpu:7.0f} rows a CPU-second, {per_second:7.0f} rows a second, first batch after {first:.2f} s")
    ratios = sorted(a[0] / b[0] for a, b in zip(*found.values(), strict=True))
    print(f"rows a CPU-second: {statistics.median(ratios):.1f} times ({ratios[0]:.1f} to {ratios[-1]:.1f})")


if __name__ == "__main__":
    main()
