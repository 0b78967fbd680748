#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares how many clips of videos are read per CPU-second: 16 frames with stride 4 from random positions, RandomResizedCrop(224), flip, normalise.

usage: video.py [--folder DIR] [--peers pyav,decord] [--rounds N] [--clips N] [--size WxH] [--gop N] [--single]
Makes eight H.264 videos of ten seconds in the folder if it is empty (needs the ffmpeg program). Slices of all sides alternate in one process; a figure is the
median over the rounds of clips per second of CPU time, of all threads, and of its ratio to Stoker's. --single: single frames of AV1 with a key frame every
second frame, as robots' data sets have them, from random positions in batches of 16; all sides keep the files open.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import stoker
import torch
from stoker import transforms as T

FRAMES, STRIDE, CROP = 16, 4, 224
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def make_videos(folder: Path, size: str, gop: int, codec: str) -> list[Path]:
    """Makes videos that zoom into a fractal, with noise, so that motion and residuals are not trivial."""
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(8):
        path = folder / f"{i}.mp4"
        source = f"mandelbrot=size={size}:rate=30:start_scale={3 - 0.3 * i}:end_scale=0.0{i + 1},noise=alls=6:allf=t"
        command = [
            "ffmpeg",
            "-nostdin",
            "-v",
            "error",
            "-f",
            "lavfi",
            "-i",
            source,
            "-t",
            "10",
            "-pix_fmt",
            "yuv420p",
            "-c:v",
            *codec.split(),
            "-g",
            str(gop),
        ]
        if not path.exists():
            subprocess.run([*command, str(path)], check=True)
    return sorted(folder.glob("*.mp4"))


def from_stoker(files: list[Path]) -> Iterator[Any]:
    steps = [T.RandomResizedCrop(CROP), T.RandomHorizontalFlip(), T.Normalize(MEAN, STD)]
    loader = stoker.Loader([str(f) for f in files] * 64, 1, shuffle=True, frames=FRAMES, stride=STRIDE, transforms=steps)
    while True:
        for batch in loader:
            clip = batch[0]
            assert clip.shape == (1, FRAMES, 3, CROP, CROP)
            yield clip


BATCH = 16


def single_stoker(files: list[Path]) -> Iterator[Any]:
    from stoker import fn, pipeline_def

    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=None, seed=1)
    def frames() -> Any:
        return fn.readers.video(filenames=[str(f) for f in files], sequence_length=1, random_shuffle=True)

    pipe = frames()
    pipe.build()
    while True:
        (batch,) = pipe.run()
        yield torch.from_dlpack(batch.as_tensor())


def single_of(opened: Callable[[str], Any]) -> Callable[[list[Path]], Iterator[Any]]:
    """Returns a function that reads single frames. It keeps its decoders open, and stacks frames to batches as a DataLoader does."""

    def side(files: list[Path]) -> Iterator[Any]:
        decoders = [opened(str(f)) for f in files]
        while True:
            chosen = [random.choice(decoders) for _ in range(BATCH)]
            yield torch.utils.data.default_collate([d[random.randrange(len(d))] for d in chosen])

    return side


def open_torchcodec(path: str) -> Any:
    from torchcodec.decoders import VideoDecoder

    return VideoDecoder(path, num_ffmpeg_threads=1)


SINGLE = {"stoker": single_stoker, "VideoDecoder": single_of(stoker.VideoDecoder), "torchcodec": single_of(open_torchcodec)}


def finish(frames: torch.Tensor) -> torch.Tensor:
    """Applies the transforms of Stoker's side with torch, to frames (T, C, H, W) of uint8."""
    height, width = frames.shape[-2:]
    area = height * width * random.uniform(0.08, 1)
    ratio = random.uniform(3 / 4, 4 / 3)
    h, w = min(height, max(1, round((area / ratio) ** 0.5))), min(width, max(1, round((area * ratio) ** 0.5)))
    top, left = random.randint(0, height - h), random.randint(0, width - w)
    window = frames[..., top : top + h, left : left + w].float()
    clip = torch.nn.functional.interpolate(window, (CROP, CROP), mode="bilinear", antialias=True)
    clip = clip.flip(-1) if random.random() < 0.5 else clip
    return (clip / 255 - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]


def from_decoder(files: list[Path]) -> Iterator[Any]:
    """Yields clips that are read with Stoker's VideoDecoder, which opens a file for each clip, and transformed with torch."""
    while True:
        decoder = stoker.VideoDecoder(random.choice(files))
        first = random.randint(0, len(decoder) - (FRAMES - 1) * STRIDE - 1)
        yield finish(decoder.get_frames_at(range(first, first + FRAMES * STRIDE, STRIDE)).data)


def from_pyav(files: list[Path]) -> Iterator[Any]:
    import av

    while True:
        with av.open(str(random.choice(files))) as file:
            stream = file.streams.video[0]
            stream.thread_count = 1
            first = random.randint(0, stream.frames - (FRAMES - 1) * STRIDE - 1)
            step = int(1 / (stream.average_rate * stream.time_base))
            file.seek(first * step, stream=stream)
            wanted = {(first + k * STRIDE) * step for k in range(FRAMES)}
            frames = []
            for frame in file.decode(stream):
                if frame.pts - (stream.start_time or 0) in wanted:
                    frames.append(torch.from_numpy(frame.to_ndarray(format="rgb24")))
                if len(frames) == FRAMES:
                    break
        yield finish(torch.stack(frames).permute(0, 3, 1, 2))


def from_decord(files: list[Path]) -> Iterator[Any]:
    import decord

    while True:
        reader = decord.VideoReader(str(random.choice(files)), num_threads=1)
        first = random.randint(0, len(reader) - (FRAMES - 1) * STRIDE - 1)
        frames = reader.get_batch(range(first, first + FRAMES * STRIDE, STRIDE)).asnumpy()
        yield finish(torch.from_numpy(frames).permute(0, 3, 1, 2))


def from_torchcodec(files: list[Path]) -> Iterator[Any]:
    from torchcodec.decoders import VideoDecoder

    while True:
        decoder = VideoDecoder(str(random.choice(files)), num_ffmpeg_threads=1)
        first = random.randint(0, len(decoder) - (FRAMES - 1) * STRIDE - 1)
        yield finish(decoder.get_frames_at(list(range(first, first + FRAMES * STRIDE, STRIDE))).data)


SIDES: dict[str, Callable[[list[Path]], Iterator[Any]]] = {
    "stoker": from_stoker,
    "VideoDecoder": from_decoder,
    "pyav": from_pyav,
    "decord": from_decord,
    "torchcodec": from_torchcodec,
}


def pace(side: Iterator[Any], clips: int) -> float:
    begin = time.process_time()
    for _ in range(clips):
        next(side)
    return clips / (time.process_time() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--peers", default="VideoDecoder,pyav,decord")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--clips", type=int, default=8)
    parser.add_argument("--size", default="340x256")
    parser.add_argument("--gop", type=int, default=250)
    parser.add_argument("--single", action="store_true")
    options = parser.parse_args()
    if options.single:
        options.size, options.gop = "640x480", 2
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        files = make_videos(
            options.folder or Path(folder), options.size, options.gop, "libsvtav1 -preset 10 -crf 35" if options.single else "libx264"
        )
        names = ["stoker", *filter(None, options.peers.split(","))]
        sides = {name: (SINGLE if options.single else SIDES)[name](files) for name in names}
        for side in sides.values():
            pace(side, 2)
        figures: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(options.rounds):
            for name, side in sides.items():
                figures[name].append(pace(side, options.clips))
        for name, paces in figures.items():
            ratio = statistics.median(ours / theirs for ours, theirs in zip(figures["stoker"], paces, strict=True))
            print(
                f"{name:13} {statistics.median(paces):7.2f} {'batches' if options.single else 'clips'} per CPU-second   stoker / {name}: {ratio:.2f}"
            )


if __name__ == "__main__":
    main()
