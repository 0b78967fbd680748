#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares video decoding on the GPU with PyNvVideoCodec: frames a second of six cameras, as RGB tensors in GPU memory.

usage: video_gpu.py [--folder DIR] [--cameras N] [--gop N] [--frames N] [--seconds S] [--threads N] [--rounds N] [--check]
       [--engines]
Makes one HEVC video of 1600 x 900 pixels for each camera in the folder if it is empty (needs the ffmpeg program). A moment is one frame of every camera.
random: moments at random times. consecutive: the moments of a video one after another, in requests of ten. single: the same in requests of one. Each
camera has its own decoder and --threads threads share the cameras' work; all sides use the same threads. A figure is the median over the rounds. --check
compares a few frames with those that the CPU decodes. --engines measures what the GPU's decode engines give at most: PyNvVideoCodec decodes whole files,
and nothing is converted or copied.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import stoker
import torch

BATCH = 10  # number of moments in a request of a consecutive reader


def make_videos(folder: Path, cameras: int, gop: int, frames: int) -> list[Path]:
    """Makes videos of a camera that moves over a fractal, with noise, so that motion and residuals are not trivial."""
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(cameras):
        pan = f"crop=1600:900:x=mod(n*{i + 3}\\,800):y=mod(n*{i + 1}\\,450)"
        source = f"mandelbrot=size=2400x1350:rate=12:start_scale=2.{i},trim=end_frame=1,loop=-1:1,setpts=N/12/TB,{pan},noise=alls=6:allf=t"
        x265 = f"log-level=error:keyint={gop}:min-keyint={gop}:scenecut=0:open-gop=0"
        command = f"ffmpeg -nostdin -v error -f lavfi -i {source} -frames:v {frames} -pix_fmt yuv420p -c:v libx265 -preset veryfast -crf 30"
        path = folder / f"{i}.mp4"
        if not path.exists():
            subprocess.run([*command.split(), "-x265-params", x265, str(path)], check=True)
    return sorted(folder.glob("*.mp4"))[:cameras]


class FromStoker:
    name = "stoker"

    def __init__(self, path: Path) -> None:
        self.decoder = stoker.VideoDecoder(path, device="cuda", dimension_order="NHWC")

    def __len__(self) -> int:
        return len(self.decoder)

    def read(self, frames: list[int]) -> Any:
        return self.decoder.get_frames_at(frames).data


class FromPyNv:
    name = "PyNvVideoCodec"

    def __init__(self, path: Path) -> None:
        import PyNvVideoCodec as nvc

        self.decoder = nvc.SimpleDecoder(str(path), gpu_id=0, use_device_memory=True, output_color_type=nvc.OutputColorType.RGB)

    def __len__(self) -> int:
        return len(self.decoder)

    def read(self, frames: list[int]) -> Any:
        """Returns copies of the frames, since the decoder overwrites its memory in the next call."""
        return torch.stack([torch.from_dlpack(f) for f in self.decoder.get_batch_frames_by_index(frames)])


def measure(decoders: list[list[Any]], requests: Callable[[], list[int]], threads: int, seconds: float) -> float:
    """Returns frames per second. decoders: for each camera, a list of the decoders that work at the same time."""
    work = [d for several in zip(*decoders, strict=True) for d in several]
    count = 0
    with ThreadPoolExecutor(threads) as pool:
        for warm_up in (True, False):
            begin = time.perf_counter()
            count = 0
            while time.perf_counter() - begin < (0.3 if warm_up else seconds):
                wanted = [requests() for _ in range(len(decoders[0]))]
                jobs = [pool.submit(d.read, wanted[i // len(decoders)]) for i, d in enumerate(work)]
                count += sum(len(job.result()) for job in jobs)
            torch.cuda.synchronize()
            elapsed = time.perf_counter() - begin
    return count / elapsed


def consecutive(length: int, count: int) -> Callable[[], list[int]]:
    """Returns a function that returns the numbers of the next `count` frames at each call, and begins again at the end of the video."""
    at = 0

    def requests() -> list[int]:
        nonlocal at
        first = at
        at = (at + count) % (length - length % count)
        return list(range(first, first + count))

    return requests


def measure_engines(files: list[Path], streams: int, seconds: float) -> float:
    """Returns how many frames per second `streams` decoders of PyNvVideoCodec decode together, in a thread each."""
    import PyNvVideoCodec as nvc

    end = 0.0

    def decode(file: Path) -> int:
        count = 0
        decoder = nvc.CreateDecoder(gpuid=0, codec=nvc.CreateDemuxer(filename=str(file)).GetNvCodecId(), usedevicememory=True)
        while time.perf_counter() < end:
            for packet in nvc.CreateDemuxer(filename=str(file)):
                count += len(decoder.Decode(packet))
        return count

    with ThreadPoolExecutor(streams) as pool:
        begin = time.perf_counter()
        end = begin + seconds
        jobs = [pool.submit(decode, files[i % len(files)]) for i in range(streams)]
        count = sum(job.result() for job in jobs)
        return count / (time.perf_counter() - begin)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, default=Path("/tmp/stoker-video-gpu"))
    parser.add_argument("--cameras", type=int, default=6)
    parser.add_argument("--gop", type=int, default=30)
    parser.add_argument("--frames", type=int, default=90)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=[6, 12])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--engines", action="store_true")
    args = parser.parse_args()
    files = make_videos(args.folder, args.cameras, args.gop, args.frames)
    print(torch.cuda.get_device_name(), stoker.__version__, f"{len(files)} files of {len(stoker.VideoDecoder(files[0]))} frames")
    if args.check:
        cores, gpu = stoker.VideoDecoder(files[0]), stoker.VideoDecoder(files[0], device="cuda")
        numbers = [3, 17, len(gpu) // 2, len(gpu) - 1]
        print("equal to the cores:", torch.equal(gpu.get_frames_at(numbers).data.cpu(), cores.get_frames_at(numbers).data), gpu.counters)
    sides: list[Any] = [FromStoker]
    try:
        import PyNvVideoCodec  # noqa: F401

        sides.append(FromPyNv)
    except ImportError as e:
        print("without PyNvVideoCodec:", e)
    if args.engines:
        for streams in (1, 6, 7, 8, 12, 14):
            print(f"engines alone, {streams} streams: {measure_engines(files, streams, args.seconds):.0f} frames/s", flush=True)
    for threads in args.threads:
        copies = max(1, threads // len(files))
        opened = {side.name: [[side(f) for _ in range(copies)] for f in files] for side in sides}
        for mode, size in (("random", 1), ("consecutive", BATCH), ("single", 1)):
            figures: dict[str, list[float]] = {}
            for k in range(args.rounds):
                for name, decoders in opened.items():
                    length = len(decoders[0][0])
                    rng = random.Random(k)
                    requests = (lambda r=rng, n=length: [r.randrange(n)]) if mode == "random" else consecutive(length, size)
                    figures.setdefault(name, []).append(measure(decoders, requests, threads, args.seconds))
            for name, values in figures.items():
                shown = " ".join(f"{v:.0f}" for v in values)
                print(f"{threads} threads, {mode}: {name} {statistics.median(values):.0f} frames/s ({shown})", flush=True)
            if len(figures) == 2:
                print(f"  ratio {statistics.median(figures['stoker']) / statistics.median(figures['PyNvVideoCodec']):.2f}", flush=True)


if __name__ == "__main__":
    main()
