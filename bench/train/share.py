#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains one network with each loader in turn, and reports the speed as a share of the speed of the same loop on batches that are already on the GPU.

usage: share.py FOLDER [--model resnet18] [--arms stoker,dali:0.65,dali:1,dataloader] [--rounds 5] [--seconds 10] [--threads N] [--graph]
                [--neighbours N]
       torchrun --nproc-per-node=2 share.py FOLDER ...                for DDP: a process for each GPU

The arms (sources of batches) take turns in one process, so that changes of clocks and load affect all of them. A slice first uses up the batches that were
ready, then counts steps; all ranks take the same number. Each slice's rate is divided by that of its round's synthetic slice. Step times are measured between
events on the GPU's stream, which are recorded without a wait. With --graph the step is a CUDA graph, so Python does not limit it: a loader can slow it down
only by using the GPU. The GPU time of Stoker's batches is also reported. With --neighbours, that many other processes compute from half of the rounds on, and
the figures of both halves are reported.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from arms import Arm, Setting, make
from torch.nn.functional import cross_entropy

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "imagenet"))
import measure
import models
import peers

_SETTLE = 5  # number of uncounted steps at the start of a slice, in addition to those that use up ready batches


class Loop:
    """A training step as a user writes it."""

    def __init__(self, model: str, device: torch.device) -> None:
        self.device = device
        network = models.make(model).to(device, memory_format=torch.channels_last).train()
        gpu = device.type == "cuda"
        self.optimizer = torch.optim.SGD(network.parameters(), lr=1e-4, momentum=0.9, fused=gpu)
        self.model: torch.nn.Module = network
        if dist.is_initialized():
            self.model = torch.nn.parallel.DistributedDataParallel(network, device_ids=[device.index] if gpu else None)

    def step(self, arm: Arm) -> None:
        images, labels = arm.next()
        self.train(images.to(memory_format=torch.channels_last), labels)  # no copy if the images have this format already

    def train(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        with torch.autocast(self.device.type, torch.bfloat16):
            loss = cross_entropy(self.model(images), labels)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def mark(self) -> Any:
        if self.device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, marks: list[Any]) -> list[float]:
        """Returns the seconds between consecutive marks. Call synchronize() first."""
        if self.device.type != "cuda":
            return [b - a for a, b in itertools.pairwise(marks)]
        return [a.elapsed_time(b) / 1e3 for a, b in itertools.pairwise(marks)]


class GraphLoop(Loop):
    """The training step as one CUDA graph. Each batch is copied to the tensors that the graph reads."""

    def __init__(self, model: str, device: torch.device) -> None:
        super().__init__(model, device)
        self.captured = False

    def step(self, arm: Arm) -> None:
        images, labels = arm.next()
        if not self.captured:
            self.capture(images, labels)
        self.images.copy_(images)
        self.labels.copy_(labels)
        self.graph.replay()

    def capture(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        self.images, self.labels = images.clone(memory_format=torch.channels_last), labels.clone()
        current, side = torch.cuda.current_stream(), torch.cuda.Stream()
        side.wait_stream(current)
        with torch.cuda.stream(side):
            for _ in range(3):  # makes all one-time allocations before the capture
                self.train(self.images, self.labels)
        current.wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.train(self.images, self.labels)
        self.captured = True


def gpu_ms(arm: Arm, batches: int = 100) -> float:
    """Returns the GPU time in milliseconds for one batch of a loader while nothing else runs: the union of the times of its overlapping kernels and copies."""
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    for _ in range(arm.ahead + 10):
        arm.next()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(batches):
            arm.next()
        torch.cuda.synchronize()
    busy, until = 0.0, 0.0
    for begin, end in sorted((e.time_range.start, e.time_range.end) for e in seen.events() if e.device_type == DeviceType.CUDA):
        busy += max(0.0, end - max(begin, until))
        until = max(until, end)
    return round(busy / 1e3 / batches, 3)


def run_slice(loop: Loop, arm: Arm, steps: int) -> dict[str, Any]:
    """Runs `steps` steps with one arm, after steps that use up its ready batches. Returns the slice's seconds, CPU seconds, step times and rate."""
    for _ in range(arm.ahead + _SETTLE):
        loop.step(arm)
    loop.synchronize()
    cpu, begin = measure.cpu_seconds(), time.perf_counter()
    marks = [loop.mark()]
    for _ in range(steps):
        loop.step(arm)
        marks.append(loop.mark())
    loop.synchronize()
    wall = time.perf_counter() - begin
    return {"wall": wall, "cpu": measure.cpu_seconds() - cpu, "steps": loop.between(marks), "rate": steps / wall}


def steps_for(loop: Loop, arm: Arm, seconds: float) -> int:
    """Returns the number of steps that take `seconds`, as measured on rank 0, since all ranks must run the same number. Also warms up."""
    for _ in range(arm.ahead + 10):
        loop.step(arm)
    loop.synchronize()
    begin = time.perf_counter()
    for _ in range(8):
        loop.step(arm)
    loop.synchronize()
    found = torch.tensor([max(8, round(8 * seconds / (time.perf_counter() - begin)))], device=loop.device)
    if dist.is_initialized():
        dist.broadcast(found, 0)
    return int(found)


def summary(slices: dict[str, list[dict[str, Any]]], images: int) -> dict[str, Any]:
    """Returns a dict from the names of the arms to their figures. slices: the results of run_slice for each arm. images: number of images in a step, of all
    ranks together."""
    result = {}
    for name, own in slices.items():
        shares = [o["rate"] / s["rate"] for o, s in zip(own, slices["synthetic"], strict=True)]
        times = sorted(t for s in own for t in s["steps"])
        result[name] = {
            "images_per_s": round(statistics.median(s["rate"] for s in own) * images),
            "share": round(statistics.median(shares), 4),
            "share_spread": [round(min(shares), 4), round(max(shares), 4)],
            "step_ms": {
                "median": round(1e3 * statistics.median(times), 3),
                "p99": round(1e3 * times[min(len(times) - 1, int(0.99 * len(times)))], 3),
            },
            "cpu_s_per_1000": round(statistics.median(1e3 * s["cpu"] / (len(s["steps"]) * images) for s in own), 4),
            "steps_per_slice": len(own[0]["steps"]),
        }
    return result


def place(device: str) -> torch.device:
    """Returns this process's device, and joins the process group if torchrun started the process."""
    gpu = device == "cuda" or (device == "auto" and torch.cuda.is_available())
    found = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(found)
        torch.backends.cudnn.benchmark = True
    if "WORLD_SIZE" in os.environ:
        dist.init_process_group("nccl" if gpu else "gloo")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--arms", default="stoker,dali:0.65,dali:1,dataloader")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10, help="of a slice")
    parser.add_argument("--batch", type=int, default=256, help="of each rank")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--threads", type=int, default=measure.machine()["cores"], help="of each rank")
    parser.add_argument("--repeat", type=int, default=40, help="times that the files are listed, so that an epoch outlasts a slice")
    parser.add_argument(
        "--urgent", action="store_true", help="the loop runs on a stream of high priority: loaders' kernels give way to its own"
    )
    parser.add_argument("--graph", action="store_true", help="the step is a CUDA graph; one GPU")
    parser.add_argument("--neighbours", type=int, default=0, help="processes that compute from half of the rounds on, one thread each")
    parser.add_argument("--device", choices=("auto", "cuda", "cpu"), default="auto")
    a = parser.parse_args()
    device = place(a.device)
    if a.urgent and device.type == "cuda":
        torch.cuda.set_stream(torch.cuda.Stream(priority=-1))
    torch.manual_seed(0)
    files = [str(f) for f in peers.list_files(a.folder)] * a.repeat
    arms, missing = make(a.arms.split(","), Setting(files, a.batch, a.size, a.threads, device))
    if a.graph and (device.type != "cuda" or dist.is_initialized()):
        parser.error("--graph is for one GPU: leave out torchrun and --device cpu")
    loop = GraphLoop(a.model, device) if a.graph else Loop(a.model, device)
    steps = {arm.name: steps_for(loop, arm, a.seconds) for arm in arms}
    slices: dict[str, list[dict[str, Any]]] = {arm.name: [] for arm in arms}
    half = a.rounds // 2 if a.neighbours else a.rounds
    neighbours: list[subprocess.Popen[bytes]] = []
    try:
        for turn in range(a.rounds):
            if turn == half:
                neighbours = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(a.neighbours)]
            for arm in arms[turn % len(arms) :] + arms[: turn % len(arms)]:
                slices[arm.name].append(run_slice(loop, arm, steps[arm.name]))
    finally:
        for process in neighbours:
            process.kill()
            process.wait()
    ranks = dist.get_world_size() if dist.is_initialized() else 1
    if ranks == 1 or dist.get_rank() == 0:
        gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
        about = {
            "model": a.model,
            "batch": a.batch,
            "ranks": ranks,
            "threads": a.threads,
            "rounds": a.rounds,
            "seconds": a.seconds,
            "urgent": a.urgent,
            "graph": a.graph,
        }
        if a.graph:
            about["gpu_ms_of_a_batch"] = gpu_ms(arms[1])
        images = a.batch * ranks
        found = {"arms": summary({name: own[:half] for name, own in slices.items()}, images)}
        if a.neighbours:
            about["neighbours"] = a.neighbours
            found["arms_with_neighbours"] = summary({name: own[half:] for name, own in slices.items()}, images)
        measure.emit({"name": "train", **about, "gpu": gpu, **measure.machine(), **found, "missing": missing})
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
