# SPDX-License-Identifier: Apache-2.0
"""Measures how many rows of Parquet files with images are read and decoded per CPU-second: by Loader, by `datasets` with a transform in a DataLoader, and by
litData's Parquet reader in its StreamingDataLoader. The sides take turns over the same files. Each measurement is a process of its own, whose clock starts
after the imports and a first batch.

usage: parquet.py [--rows N] [--side PIXELS] [--crop PIXELS] [--rounds N] [--only NAME,...]    needs pyarrow, torch, torchvision, datasets and litdata
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import peers
from measure import peak_memory

BATCH = 32


def write(folder: Path, rows: int, side: int) -> list[str]:
    """Writes rows of JPEGs of `side` x `side` pixels, as `datasets` writes images, in four files. Returns their paths."""
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
    """Returns the CPU time of this process and of its children that have ended, in seconds."""
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def of_stoker(paths: list[str], crop: int) -> Iterator[Any]:
    from stoker import Loader
    from stoker import transforms as T

    steps = [T.RandomResizedCrop(crop), T.RandomHorizontalFlip(), T.Normalize([0.5] * 3, [0.5] * 3)]
    with Loader(paths, BATCH, transforms=steps, fields={"image": "Image", "label": None}, shuffle="groups", seed=1) as loader:
        yield from loader


def torchvision_steps(crop: int) -> Callable[[Any], Any]:
    import torch

    peers.import_torchvision()
    from torchvision.transforms import v2

    return v2.Compose(
        [
            v2.ToImage(),
            v2.RandomResizedCrop(crop),
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.5] * 3, [0.5] * 3),
        ]
    )


def of_datasets(paths: list[str], crop: int) -> Iterator[Any]:
    import datasets
    import torch

    datasets.disable_progress_bars()
    steps = torchvision_steps(crop)
    cache = os.path.dirname(paths[0]) + "/cache"
    rows = datasets.load_dataset("parquet", data_files=paths, split="train", streaming=False, cache_dir=cache)
    rows = rows.with_transform(lambda r: {"image": [steps(i) for i in r["image"]], "label": r["label"]})
    yield from torch.utils.data.DataLoader(rows, BATCH, shuffle=True, num_workers=2)


def of_litdata(paths: list[str], crop: int) -> Iterator[Any]:
    import litdata
    import torch
    from litdata.streaming.item_loader import ParquetLoader
    from PIL import Image

    torch.set_num_threads(1)  # as in a worker of a DataLoader
    steps, folder = torchvision_steps(crop), os.path.dirname(paths[0])
    if not os.path.exists(folder + "/index.json"):
        litdata.index_parquet_dataset(folder, num_workers=1)

    def made(row: Any) -> dict[str, Any]:
        image, label = row.values() if isinstance(row, dict) else row
        return {"image": steps(Image.open(io.BytesIO(image["bytes"])).convert("RGB")), "label": label}

    rows = litdata.StreamingDataset(folder, item_loader=ParquetLoader(), shuffle=True, seed=1, transform=made)
    # Runs without workers, since that takes the fewest CPU seconds: Polars forbids forked workers, and the imports of spawned ones would count.
    yield from litdata.StreamingDataLoader(rows, batch_size=BATCH, num_workers=0)


SIDES: dict[str, Callable[[list[str], int], Iterator[Any]]] = {"stoker": of_stoker, "datasets": of_datasets, "litdata": of_litdata}


def measure(name: str, paths: list[str], crop: int) -> dict[str, float]:
    """Returns rows per CPU second, rows per second, seconds to the first batch, and peak memory in MB of this process, without its workers."""
    warm = SIDES[name](paths, crop)
    next(warm)
    del warm
    begin, cpu, rows, first = time.perf_counter(), cpu_seconds(), 0, 0.0
    for batch in SIDES[name](paths, crop):
        rows += len(batch["label"] if isinstance(batch, dict) else batch.label)
        first = first or time.perf_counter() - begin
    wall, used, peak = time.perf_counter() - begin, cpu_seconds() - cpu, peak_memory() / 1e6
    return {"rows": rows, "per_cpu": rows / used, "per_second": rows / wall, "first": first, "peak": peak}


def in_child(name: str, paths: list[str], crop: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", json.dumps([name, paths, crop])]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--side", type=int, default=256)
    parser.add_argument("--crop", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(SIDES))
    parser.add_argument("--child")
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(measure(*json.loads(asked.child))))
        return
    names = [n for n in SIDES if n in asked.only.split(",")]
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        paths = write(Path(folder), asked.rows, asked.side)
        size = os.path.getsize(paths[0]) * 4 / asked.rows
        for _ in range(asked.rounds):
            for name in names:
                found[name].append(in_child(name, paths, asked.crop))
    print(f"{asked.rows} rows of {size / 1000:.0f} KB, {asked.side} x {asked.side} pixels, crops of {asked.crop}, batches of {BATCH}")
    for name, values in found.items():
        rows, per_cpu, per_second, first, peak = (
            statistics.median(v[k] for v in values) for k in ("rows", "per_cpu", "per_second", "first", "peak")
        )
        print(
            f"{name:9} {per_cpu:7.0f} rows a CPU-second, {per_second:7.0f} rows a second, first batch after {first:.2f} s, {peak:.0f} MB at most, "
            f"{rows:.0f} rows"
        )
    for name in names[1:]:
        ratios = sorted(a["per_cpu"] / b["per_cpu"] for a, b in zip(found[names[0]], found[name], strict=True))
        print(f"rows a CPU-second: {statistics.median(ratios):.1f} times {name} ({ratios[0]:.1f} to {ratios[-1]:.1f})")


if __name__ == "__main__":
    main()
