#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each operator beside DALI's on the CPU: images per CPU-second, in turns, and the median of the ratios.

usage: operators.py [NAME ...] [--size H W] [--batch N] [--rounds N] [--json FILE]
Both libraries run one thread over the same images, which lie in memory; `copy` shows what feeding them costs. Names are parts of names: `noise` is all
of noise.*. Random images are as bad as it gets for what depends on the values. Slices alternate; each ends when both sides rest.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import measure
import numpy as np

SLICE = 0.05  # seconds


@dataclass(frozen=True)
class Call:
    op: str
    kwargs: dict[str, Any] = field(default_factory=dict)
    dtype: str = "uint8"
    channels: int = 3  # 0: HW
    inputs: tuple[np.ndarray, ...] = ()  # behind the image, the same for all samples

    @property
    def name(self) -> str:
        return f"{self.op}({', '.join([self.dtype, *(f'{k}={v}' for k, v in self.kwargs.items())])})"


IDENTITY = {"keys": list(range(256)), "values": [float(255 - v) for v in range(256)]}
CALLS = [
    Call("copy"),
    Call("gaussian_blur", {"sigma": 1.0}),
    Call("gaussian_blur", {"sigma": 3.0}),
    Call("gaussian_blur", {"sigma": 1.0}, "float32"),
    Call("laplacian"),
    Call("laplacian", {"window_size": 7}),
    Call("filter", inputs=(np.full((3, 3), 1 / 9, np.float32),)),
    Call("filter", inputs=(np.full((7, 7), 1 / 49, np.float32),)),
    Call("erase", {"anchor": [40.0, 50.0], "shape": [80.0, 90.0], "fill_value": [1.0, 2.0, 3.0]}),
    Call("lookup_table", IDENTITY),
    Call("lookup_table", {**IDENTITY, "dtype": "UINT8"}),
    Call("grid_mask", {"tile": 30, "angle": 0.3}),
    Call("noise.gaussian", {"stddev": 10.0}),
    Call("noise.salt_and_pepper"),
    Call("noise.shot", {"factor": 20.0}),
    Call("equalize"),
    Call("clahe", {"tiles_x": 8, "tiles_y": 8, "clip_limit": 2.0}),
    Call("clahe", {"tiles_x": 8, "tiles_y": 8, "clip_limit": 2.0, "luma_only": False}),
    Call("jpeg_compression_distortion", {"quality": 60}),
    Call("debayer", {"blue_position": [0, 0]}, channels=0),
    Call("brightness_contrast", {"brightness": 1.2, "contrast": 0.8}),
    Call("hsv", {"hue": 30.0, "saturation": 1.2}),
    Call("color_twist", {"hue": 30.0, "brightness": 1.2, "contrast": 0.8}),
    Call("color_space_conversion", {"image_type": "RGB", "output_type": "YCbCr"}),
    Call("flip"),
    Call("resize", {"size": [160, 192]}),
    Call("crop_mirror_normalize", {"mean": [120.0], "std": [60.0]}),
]


def pipeline(package: str, call: Call, batch: list[np.ndarray]) -> Callable[[], Any]:
    fn, types = importlib.import_module(f"{package}.fn"), importlib.import_module(f"{package}.types")
    pipe = importlib.import_module(package).Pipeline(batch_size=len(batch), num_threads=1, device_id=None, seed=1, prefetch_queue_depth=1)
    found: Any = fn
    for part in call.op.split("."):
        found = getattr(found, part)
    with pipe:
        image = fn.external_source(source=lambda: batch, layout="HWC" if call.channels else "HW", no_copy=True)
        kwargs = {k: getattr(types, v) if isinstance(v, str) and hasattr(types, v) else v for k, v in call.kwargs.items()}
        pipe.set_outputs(found(image, *(types.Constant(i, device="cpu") for i in call.inputs), **kwargs))
    if hasattr(pipe, "build"):
        pipe.build()
    return pipe.run


def taker(run: Callable[[], Any], batch: int) -> Callable[[int], int]:
    def take(images: int) -> int:
        for _ in range(images // batch):
            run()
        return images

    return take


def compare(call: Call, size: tuple[int, int], count: int, rounds: int) -> dict[str, Any]:
    rng = np.random.default_rng(7)
    shape = (*size, call.channels) if call.channels else size
    batch = [rng.integers(0, 256, shape).astype(call.dtype) for _ in range(count)]
    dali, ours = (taker(pipeline(p, call, batch), count) for p in ("nvidia.dali", "stoker"))
    images = count
    for take in (dali, ours):  # the faster one says how many make a slice
        take(count)
        measure.wait_idle()
        images = max(images, round(SLICE * 1000 / measure.measure(take, 2 * count).cost / count) * count)
    images = min(images, 64 * count)
    summary = measure.compare("dali", ours, dali, images, rounds).summary()
    return {
        "call": call.name[:70],
        "dali": summary["theirs"]["images_per_cpu_s"],
        "stoker": summary["stoker"]["images_per_cpu_s"],
        "ratio": summary["ratio_per_cpu_s"],
        "spread": summary["spread"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--size", nargs=2, type=int, default=(224, 224), metavar=("H", "W"))
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    a = parser.parse_args()
    rows = []
    print(f"{'':70}  DALI/s   ours/s  ratio  (least..largest)")
    for call in CALLS:
        if a.names and not any(n in call.op for n in a.names):
            continue
        row = compare(call, tuple(a.size), a.batch, a.rounds)
        rows.append(row)
        print(
            f"{row['call']:70} {row['dali']:7} {row['stoker']:8} {row['ratio']:6.2f}  ({row['spread'][0]}..{row['spread'][1]})", flush=True
        )
    if rows:
        print(f"median of {len(rows)}: {statistics.median(r['ratio'] for r in rows):.2f}")
    if a.json:
        a.json.write_text(json.dumps({"size": a.size, "batch": a.batch, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
