#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares each operator with DALI's in turns, and prints the median of the ratios: images per CPU-second on the CPU, or images per second on a GPU.

usage: operators.py [NAME ...] [--gpu] [--size H W] [--batch N] [--rounds N] [--seconds S] [--json FILE]
Both libraries work on the same images: on the CPU with one thread, from memory; with --gpu from a batch on GPU 0 (a tensor of torch; without
torch's CUDA the batch is uploaded). `copy` shows the cost of passing images to the pipeline. A NAME selects all operators whose names contain it: `noise`
selects noise.*. Random images are the worst case for operators whose time depends on values. Slices alternate, and end when both sides are idle. Operators that
a library lacks are named and skipped. No operator is started after --seconds.
"""

from __future__ import annotations

import argparse
import functools
import gc
import importlib
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import measure
import numpy as np

SLICE = 0.05  # in seconds
MOST = 64  # maximum number of batches in a slice
AHEAD = 32  # with --gpu: batches taken before timing starts, at least as many as a library prepares in advance
GPU_THREADS = 8


@dataclass(frozen=True)
class Call:
    op: str
    kwargs: dict[str, Any] = field(default_factory=dict)
    dtype: str = "uint8"
    channels: int = 3  # 0: images (height, width) without channels
    inputs: tuple[np.ndarray, ...] = ()  # inputs after the image, the same for all samples
    again: int = 1  # number of inputs that are the image; more than 1 for an operator on several images

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
    Call("brightness", {"brightness": 1.3}),
    Call("contrast", {"contrast": 1.3}),
    Call("saturation", {"saturation": 1.3}),
    Call("hue", {"hue": 30.0}),
    Call("flip"),
    Call("flip", {"vertical": 1, "horizontal": 0}),
    Call("resize", {"size": [160, 192]}),
    Call("resize", {"size": [300, 320]}),
    Call("resize", {"size": [160, 192], "interp_type": "INTERP_CUBIC"}),
    Call("resize", {"size": [160, 192], "antialias": False}),
    Call("resize", {"size": [160, 192], "dtype": "FLOAT"}),
    Call("resize", {"size": [160, 192]}, "float32"),
    Call("random_resized_crop", {"size": [160, 160]}),
    Call("resize_crop_mirror", {"size": [180, 180], "crop": [160, 160], "mirror": 1}),
    Call("crop", {"crop": [160, 160]}),
    Call("crop_mirror_normalize", {"mean": [120.0], "std": [60.0]}),
    Call("crop_mirror_normalize", {"mean": [120.0, 110.0, 100.0], "std": [60.0, 61.0, 62.0], "crop": [200, 200], "mirror": 1}),
    Call("crop_mirror_normalize", {"mean": [120.0], "std": [60.0], "output_layout": "HWC", "dtype": "FLOAT16"}),
    Call("slice", {"start": [10, 20], "shape": [150, 160], "axes": [0, 1]}),
    Call("pad", {"axes": [0, 1], "align": [64, 64]}),
    Call("paste", {"ratio": 1.5, "fill_value": 7}),
    Call("rotate", {"angle": 15.0}),
    Call("rotate", {"angle": 15.0, "interp_type": "INTERP_NN", "keep_size": True}),
    Call("warp_affine", {"matrix": [0.9, 0.1, 5.0, -0.1, 0.9, 9.0]}),
    Call("warp_affine", {"matrix": [0.9, 0.1, 5.0, -0.1, 0.9, 9.0]}, "float32"),
    Call("water"),
    Call("sphere"),
    Call("jitter"),
    Call("transpose", {"perm": [2, 0, 1]}),
    Call("cast", {"dtype": "FLOAT"}),
    Call("cast", {"dtype": "UINT8"}, "float32"),
    Call("normalize", {"axes": [0, 1]}),
    Call("normalize", {"mean": 120.0, "stddev": 60.0}),
    Call("reductions.mean", {"axes": [0, 1]}),
    Call("reductions.max", {"axes": [0, 1]}),
    Call("reductions.mean_square", {"axes": [0, 1]}),
    Call("reductions.sum", {"axes": [2]}),
    Call("cat", {"axis": 0}, again=2),
    Call("stack", again=2),
    Call("reshape", {"rel_shape": [1, 1, 1]}),
    Call("arithmetic"),
    Call("arithmetic", dtype="float32"),
    Call("experimental.dilate", {"mask_size": [3, 3]}),
    Call("experimental.median_blur", {"window_size": [3, 3]}),
    Call("experimental.warp_perspective", {"matrix": [1.0, 0.1, 2.0, 0.0, 0.9, 3.0, 0.0001, 0.0, 1.0]}),
]


def arithmetic(image: Any) -> Any:
    return image * 2 + 1


def torch_cuda() -> Any:
    """Returns the module torch if torch finds a GPU, else None."""
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


@functools.cache
def gpu_images(shape: tuple[int, ...], dtype: str) -> Any:
    """Returns a batch of random images on the GPU, the same in all calls; in host memory if torch finds no GPU."""
    torch = torch_cuda()
    if torch is None:
        return np.random.default_rng(7).integers(0, 256, shape).astype(dtype)
    batch = torch.randint(0, 256, shape, dtype=torch.uint8, device="cuda", generator=torch.Generator("cuda").manual_seed(7))
    batch = batch.to(getattr(torch, dtype))
    torch.cuda.synchronize()
    return batch


def pipeline(package: str, call: Call, batch: Any, gpu: bool) -> Callable[[], Any]:
    fn, types = importlib.import_module(f"{package}.fn"), importlib.import_module(f"{package}.types")
    pipe = importlib.import_module(package).Pipeline(
        batch_size=len(batch),
        num_threads=GPU_THREADS if gpu else 1,
        device_id=0 if gpu else None,
        seed=1,
        prefetch_queue_depth=2 if gpu else 1,
    )
    with pipe:
        layout, device = "HWC" if call.channels else "HW", "gpu" if gpu else "cpu"
        image = fn.external_source(source=lambda: batch, layout=layout, no_copy=True, device=device)
        kwargs = {k: getattr(types, v) if isinstance(v, str) and hasattr(types, v) else v for k, v in call.kwargs.items()}
        found: Any = arithmetic if call.op == "arithmetic" else functools.reduce(getattr, call.op.split("."), fn)
        pipe.set_outputs(found(*[image] * call.again, *(types.Constant(i, device=device) for i in call.inputs), **kwargs))
    if hasattr(pipe, "build"):
        pipe.build()
    return pipe.run


def taker(run: Callable[[], Any], batch: int) -> Callable[[int], int]:
    def take(images: int) -> int:
        for _ in range(images // batch):
            run()
        return images

    return take


def row_of(call: Call, dali: float, ours: float, ratio: float, spread: list[float]) -> dict[str, Any]:
    return {"call": call.name[:80], "dali": round(dali), "stoker": round(ours), "ratio": ratio, "spread": spread}


def compare(call: Call, size: tuple[int, int], count: int, rounds: int) -> dict[str, Any]:
    """Compares Stoker and DALI for one operator on the CPU."""
    rng = np.random.default_rng(7)
    shape = (*size, call.channels) if call.channels else size
    batch = [rng.integers(0, 256, shape).astype(call.dtype) for _ in range(count)]
    dali, ours = (taker(pipeline(p, call, batch, False), count) for p in ("nvidia.dali", "stoker"))
    images = count
    for take in (dali, ours):  # the faster library decides how many batches make a slice
        take(count)
        measure.wait_idle()
        images = max(images, round(SLICE * 1000 / measure.measure(take, 2 * count).cost / count) * count)
    images = min(images, MOST * count)
    summary = measure.compare("dali", ours, dali, images, rounds).summary()
    theirs, mine = (summary[side]["images_per_cpu_s"] for side in ("theirs", "stoker"))
    return row_of(call, theirs, mine, summary["ratio_per_cpu_s"], summary["spread"])


def seconds_of(run: Callable[[], Any], batches: int) -> float:
    """Returns seconds per batch. Takes the batches that are ready before the clock starts, so that filling a queue between slices brings no advantage."""
    torch = torch_cuda()
    for _ in range(AHEAD):
        run()
    began = time.perf_counter()
    for _ in range(batches):
        run()
    if torch is not None:
        torch.cuda.synchronize()
    took = time.perf_counter() - began
    time.sleep(SLICE / 5)  # lets both sides become idle
    if torch is not None:
        torch.cuda.synchronize()
    return took / batches


def compare_gpu(call: Call, size: tuple[int, int], count: int, rounds: int) -> dict[str, Any]:
    batch = gpu_images((count, *size, call.channels) if call.channels else (count, *size), call.dtype)
    other = "nvidia.dali" if torch_cuda() is not None else "stoker"  # without torch's CUDA, only checks that the program works
    runs = [pipeline(package, call, batch, True) for package in (other, "stoker")]
    for run in runs:
        seconds_of(run, 4)
    batches = [min(MOST, max(16, round(SLICE / seconds_of(run, 4)))) for run in runs]
    taken: list[tuple[float, float]] = []
    for k in range(rounds):
        first, second = (0, 1) if k % 2 else (1, 0)
        times = {side: seconds_of(runs[side], batches[side]) for side in (first, second)}
        taken.append((times[0], times[1]))
    ratios = [t[0] / t[1] for t in taken]
    theirs, mine = (count / statistics.median(t[side] for t in taken) for side in (0, 1))
    return row_of(call, theirs, mine, round(statistics.median(ratios), 3), [round(min(ratios), 2), round(max(ratios), 2)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--size", nargs=2, type=int, default=(224, 224), metavar=("H", "W"))
    parser.add_argument("--batch", type=int, help="default: 32, with --gpu 256")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--json", type=Path)
    a = parser.parse_args()
    batch, rows, began = a.batch or (256 if a.gpu else 32), [], time.monotonic()
    print(f"{'':80}  DALI/s   ours/s  ratio  (least..largest)")
    for call in CALLS:
        if (a.names and not any(n in call.op for n in a.names)) or time.monotonic() - began > a.seconds:
            continue
        try:
            row = (compare_gpu if a.gpu else compare)(call, tuple(a.size), batch, a.rounds)
        except Exception as e:
            print(f"{call.name[:80]:80} left out: {str(e).splitlines()[0][:120] if str(e) else type(e).__name__}", flush=True)
            continue
        finally:
            gc.collect()  # frees memory of the GPU
        rows.append(row)
        low, high = row["spread"]
        print(f"{row['call']:80} {row['dali']:8} {row['stoker']:8} {row['ratio']:6.2f}  ({low}..{high})", flush=True)
    if rows:
        under = [r for r in rows if r["ratio"] < 0.95]
        print(f"median of {len(rows)}: {statistics.median(r['ratio'] for r in rows):.2f}; {len(under)} below 0.95")
    if a.json:
        a.json.write_text(json.dumps({"gpu": a.gpu, "size": a.size, "batch": batch, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
