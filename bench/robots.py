# SPDX-License-Identifier: Apache-2.0
"""Measures in turns how many samples of a robot data set are read per CPU-second: by Loader.from_lerobot, and by LeRobotDataset with torchcodec in a
DataLoader. Each sample has one frame from each of two cameras (480 x 640, AV1 with a key frame every 2 frames) and 16 actions. Each measurement is a process
of its own, whose clock starts after the imports and a first epoch. With --gpu, compares Loader.from_lerobot on a GPU with itself on the cores instead.

usage: robots.py [--gpu] [--codec NAME] [--root FOLDER] [--rounds N] [--batch N] [--threads N]
needs lerobot (which writes the data set), and torchcodec with FFmpeg's libraries; with --gpu and a data set that is there already, neither
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

FPS = 30
CAMERAS = ("observation.images.top", "observation.images.wrist")
DELTAS = {"action": [k / FPS for k in range(16)]}


def write(root: str, episodes: int, frames: int, codec: str) -> None:
    """Records a data set of episodes whose two cameras show moving pictures with noise."""
    import numpy as np
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    numbers = {"dtype": "float32", "shape": (6,), "names": None}
    video = {"dtype": "video", "shape": (480, 640, 3), "names": ["height", "width", "channels"]}
    features = {"observation.state": numbers, "action": numbers, **dict.fromkeys(CAMERAS, video)}
    made = LeRobotDataset.create("bench/robots", FPS, features, root=root, use_videos=True, vcodec=codec)
    rng = np.random.default_rng(0)
    y, x = np.mgrid[0:480, 0:640]
    pictures = [(127 + 80 * np.sin(x / 17 + k) * np.cos(y / 23))[..., None] + rng.normal(0, 6, (480, 640, 3)) for k in range(2)]
    for _ in range(episodes):
        for f in range(frames):
            shown = [np.roll(p, (3 * f, 5 * f), (0, 1)).clip(0, 255).astype(np.uint8) for p in pictures]
            values = {n: rng.normal(size=6).astype(np.float32) for n in ("observation.state", "action")}
            made.add_frame({**values, **dict(zip(CAMERAS, shown, strict=True)), "task": "move"})
        made.save_episode()
    made.finalize()


def of_stoker(root: str, batch: int, threads: int, device: str = "cpu") -> Iterator[Any]:
    from stoker import Loader

    with Loader.from_lerobot(root, batch, delta_timestamps=DELTAS, shuffle=True, seed=1, num_threads=threads, device=device) as loader:
        yield from loader
        if device == "cuda":
            import torch

            torch.cuda.synchronize()


def on_gpu(root: str, batch: int, threads: int) -> Iterator[Any]:
    return of_stoker(root, batch, threads, "cuda")


def of_lerobot(root: str, batch: int, threads: int) -> Iterator[Any]:
    import torch
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    rows = LeRobotDataset("bench/robots", root=root, delta_timestamps=DELTAS, video_backend="torchcodec")
    yield from torch.utils.data.DataLoader(rows, batch, shuffle=True, num_workers=threads, drop_last=True)


SIDES: dict[str, Callable[[str, int, int], Iterator[Any]]] = {"stoker": of_stoker, "gpu": on_gpu, "lerobot": of_lerobot}


def cpu_seconds() -> float:
    """Returns the CPU time of this process and of its children that have ended, in seconds."""
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def measure(name: str, root: str, batch: int, threads: int) -> dict[str, float]:
    # Warms up with a whole epoch: after an iterator is dropped, its next batches would still be decoded while the clock runs.
    sum(1 for _ in SIDES[name](root, batch, threads))
    begin, cpu, samples = time.perf_counter(), cpu_seconds(), 0
    for made in SIDES[name](root, batch, threads):
        samples += len(made["index"])
    return {"per_cpu": samples / (cpu_seconds() - cpu), "per_second": samples / (time.perf_counter() - begin)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=8)
    parser.add_argument("--frames", type=int, default=100)
    parser.add_argument("--codec", default="libsvtav1", help="libsvtav1 (LeRobot's default), h264 or hevc")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2, help="threads of the Loader, and worker processes of the DataLoader")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--root", help="a data set that an earlier run has written; it is written there if there is none")
    parser.add_argument("--child")
    given = parser.parse_args()
    if given.child:
        print(json.dumps(measure(*json.loads(given.child))))
        return
    os.environ["HF_HUB_OFFLINE"] = "1"
    sides = ("gpu", "stoker") if given.gpu else ("stoker", "lerobot")
    found: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
    with tempfile.TemporaryDirectory() as folder:
        root = given.root or f"{folder}/robots"
        if not os.path.exists(root):
            write(root, given.episodes, given.frames, given.codec)
        for _ in range(given.rounds):
            for name in sides:
                command = [sys.executable, __file__, "--child", json.dumps([name, root, given.batch, given.threads])]
                printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
                found[name].append(json.loads(printed.splitlines()[-1]))
    for name, values in found.items():
        per_cpu, per_second = (statistics.median(v[k] for v in values) for k in ("per_cpu", "per_second"))
        print(f"{name:8} {per_cpu:6.0f} samples a CPU-second, {per_second:6.0f} samples a second")
    ratios = sorted(a["per_cpu"] / b["per_cpu"] for a, b in zip(*found.values(), strict=True))
    print(f"samples a CPU-second: {statistics.median(ratios):.1f} times {sides[1]} ({ratios[0]:.1f} to {ratios[-1]:.1f})")


if __name__ == "__main__":
    main()
