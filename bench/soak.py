#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Soak test: checks that the memory, descriptors and threads of a process do not grow, however many epochs it runs.

Each round runs an epoch of everything that lives as long as the program (a Loader, a pipeline with branches, structured samples, clips and frames of videos
of different sizes with a memory_limit, a Loader over a bucket), then creates new ones, runs a part of an epoch with them and drops them. The
test samples the resources of the process after each round, when nothing is in flight, and also every few seconds. Steady growth after the warm-up by more than
the samples' noise is a fault: the last line reports it, and the exit status is 1.

usage: soak.py [--build DIR] [--seconds N] [--device N] [--plant memory|descriptors|threads|gpu]
--seconds: the length of the run; default 3600
--device: uses this GPU and also checks its memory, without the Loader over a bucket; needs about 400 seconds, since the driver's memory settles late
--plant: leaks a little in each round, to prove that leaks are found
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import math
import os
import runpy
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import measure
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
# Warm-up as a fraction of the run. A CUDA driver takes 8 MB, 0.8 of them by malloc, whenever more work than ever before runs at once, and never frees it.
# The last time that this happens is random: on an H100 it was after 130 s, and in the four minutes after that, memory grew by less than 1 MB.
WARM_UP_CPU, WARM_UP_GPU = 0.25, 0.5
SAMPLE_EVERY = 5  # in seconds
BATCH = 8
# Growth over the whole run that noise may cause, in bytes or as a count. Sockets are idle connections to the store; their number depends on how fast the store
# answers. A driver takes up to 16 MiB of GPU memory at a time.
LIMITS = {"memory": 8 << 20, "descriptors": 2, "sockets": 64, "threads": 2, "gpu": 32 << 20}
SIGMAS = 4
PARTS = 5


def open_files() -> list[str]:
    """Returns the target of each open descriptor of this process; skips descriptors that are closed during the call."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
    return found


def gpu_memory(device: int) -> int:
    """Returns the number of bytes in use on a GPU, by all processes."""
    import torch

    free, total = torch.cuda.mem_get_info(device)
    return total - free


def held(device: int | None) -> dict[str, int]:
    files = open_files()
    sockets = sum(f.startswith("socket:") for f in files)
    found = {
        "memory": measure.resident_memory(),
        "descriptors": len(files) - sockets,
        "sockets": sockets,
        "threads": len(os.listdir("/proc/self/task")),
    }
    return found if device is None else found | {"gpu": gpu_memory(device)}


def line(samples: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Returns the slope of the least-squares line through the samples (time, value), and the slope's standard error."""
    times = [t for t, _ in samples]
    slope, begin = statistics.linear_regression(times, [v for _, v in samples])
    spread = sum((t - statistics.fmean(times)) ** 2 for t in times)
    noise = sum((v - begin - slope * t) ** 2 for t, v in samples) / max(1, len(samples) - 2)
    return slope, (noise / spread) ** 0.5


def growth(samples: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Returns the rise of the value from the first sample to the last, and the rise's standard error.

    The rise is computed from the smaller of two slopes: that of the line through all samples, and the median slope of PARTS consecutive stretches of time. A
    leak raises both slopes. A single step, as an allocator or a driver makes, raises only the first; values that rise and fall again can raise only the
    second."""
    size = max(3, -(-len(samples) // PARTS))
    lines = [line(samples[k : k + size]) for k in range(0, len(samples) - 2, size)]
    error = statistics.median(e for _, e in lines) * (math.pi / 2 / len(lines)) ** 0.5  # standard error of the median of len(lines) slopes
    slope, error = min(line(samples), (statistics.median(slope for slope, _ in lines), error))
    span = samples[-1][0] - samples[0][0]
    return slope * span, error * span


def grows(samples: Sequence[tuple[float, float]], limit: float) -> bool:
    """Returns whether the rise that growth() computes exceeds the limit and also SIGMAS times its standard error."""
    rise, error = growth(samples)
    return rise > limit and rise > SIGMAS * error


# ---- the work ----


def write_images(root: Path, count: int) -> None:
    from PIL import Image

    rng = np.random.default_rng(19)
    for i in range(count):
        folder = root / f"class{i % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        coarse = rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)
        height, width = (int(n) for n in rng.integers(90, 260, 2))
        Image.fromarray(coarse).resize((width, height)).save(folder / f"{i:04d}.jpg", quality=90, progressive=i % 8 == 0)


def make_loader(root: Any, device: int | None) -> Any:
    from stoker import Loader
    from stoker import transforms as T

    steps = [T.RandomResizedCrop(64), T.RandomHorizontalFlip(), T.ColorJitter(0.2, 0.2)]
    return Loader(root, BATCH, transforms=steps, shuffle=True, num_threads=2, device="cpu" if device is None else f"cuda:{device}")


def make_branches(root: Path, device: int | None) -> Callable[[], Iterable[Any]]:
    """Builds a pipeline with conditionals, random crops and a source in Python. Returns a function that runs one epoch of it."""
    from stoker import fn, pipeline_def

    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=device, seed=3, enable_conditionals=True)
    def define() -> Any:
        files, labels = fn.readers.file(file_root=str(root), random_shuffle=True, name="reader")
        pixels = fn.decoders.image(files, device="cpu" if device is None else "mixed")
        images = fn.random_resized_crop(pixels, size=48)
        if fn.random.coin_flip(probability=0.5):
            images = fn.flip(fn.brightness(images, brightness=1.2))
        else:
            images = fn.gaussian_blur(images, window_size=3)
        return images, labels, fn.external_source(lambda: [np.ones(3, np.float32)] * BATCH, batch=True)

    pipe = define()

    def epoch() -> Iterable[Any]:
        for _ in range(pipe.epoch_size("reader") // BATCH):
            yield pipe.run()

    return epoch


def make_structured(files: Sequence[bytes], device: int | None) -> Any:
    from stoker import types
    from stoker.structured.inputs import DataProvider, ShuffledShardedInputCallable
    from stoker.structured.pipeline import DALIStructuredOutputIterator, PipelineDefinition, SampleDataGroup
    from stoker.structured.processing_steps import ImageDecoder, ImageMeanStdDevNormalizer, ImageToTileSizePadder

    class Photographs(DataProvider):
        @property
        def sample_data_structure(self) -> SampleDataGroup:
            sample = SampleDataGroup()
            sample.add_data_field("image", types.DALIDataType.UINT8)
            sample.add_data_field("boxes", types.DALIDataType.FLOAT)
            sample.add_data_field("token", types.DALIDataType.STRING)
            return sample

        def get_number_of_samples(self) -> int:
            return len(files)

        def get_data(self, sample_index: int) -> SampleDataGroup:
            sample = self.sample_data_structure
            sample["image"] = np.frombuffer(files[sample_index], np.uint8)
            sample["boxes"] = np.ones((sample_index % 4, 4), np.float32)
            sample["token"] = f"sample {sample_index}"
            return sample

    steps = [ImageDecoder("image", device is not None), ImageMeanStdDevNormalizer("image", 120.0, 57.0), ImageToTileSizePadder("image", 64)]
    definition = PipelineDefinition(ShuffledShardedInputCallable(Photographs(), BATCH), steps, use_parallel_external_source=False)
    pipe = definition.get_dali_pipeline(batch_size=BATCH, num_threads=2, device_id=device)
    return DALIStructuredOutputIterator(len(files) // BATCH, pipe, definition.check_and_get_output_data_structure(), None, None, True, None)


VIDEO_SIZES = ["96x64", "320x240", "176x144", "640x360", "64x48", "480x640"]


def write_videos(folder: Path) -> list[str]:
    """Makes videos of different sizes, codecs and lengths with the program ffmpeg, and returns their paths. Returns no paths if the program is missing."""
    paths: list[str] = []
    if not shutil.which("ffmpeg"):
        print("soak: without videos, since there is no ffmpeg program to make them", file=sys.stderr)
        return paths
    folder.mkdir()
    for i, size in enumerate(VIDEO_SIZES):
        codec = ["libx264 -preset ultrafast", "mpeg4", "libx264 -preset ultrafast -bf 2"][i % 3]
        source = f"-f lavfi -i testsrc2=size={size}:rate=10:duration={2 + i}"
        path = folder / f"{i}.mp4"
        subprocess.run(
            ["ffmpeg", "-nostdin", "-v", "error", *f"{source} -c:v {codec} -g 12 -pix_fmt yuv420p".split(), str(path)], check=True
        )
        paths.append(str(path))
    return paths


def make_clips(paths: Sequence[str], device: int | None) -> Callable[[], Iterable[Any]]:
    """Builds a pipeline over clips of videos that differ in size, with a memory limit for each sample. Returns a function that runs one epoch of it and also
    opens a decoder for each file."""
    import stoker
    from stoker import fn, pipeline_def

    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=device, seed=3, memory_limit=64 << 20)
    def define() -> Any:
        where = {} if device is None else {"device": "gpu"}
        clip, label = fn.readers.video(filenames=list(paths), labels=[], sequence_length=4, random_shuffle=True, name="reader", **where)
        return fn.resize(clip, size=[48, 48]), label

    pipe = define()

    def epoch() -> Iterable[Any]:
        for path in paths:
            decoder = stoker.VideoDecoder(path, device="cpu" if device is None else f"cuda:{device}")
            decoder.get_frames_at([0, len(decoder) - 1])
        for _ in range(pipe.epoch_size("reader") // BATCH):
            yield pipe.run()

    return epoch


def make_video_loader(paths: Sequence[str], device: int | None) -> Any:
    from stoker import Loader
    from stoker import transforms as T

    where = "cpu" if device is None else f"cuda:{device}"
    steps = [T.RandomResizedCrop(48), T.RandomHorizontalFlip()]
    return Loader(
        list(paths) * 4, 4, frames=4, stride=2, transforms=steps, shuffle=True, num_threads=2, device=where, memory_limit=64 << 20
    )


def uneven_files(count: int) -> list[bytes]:
    """Returns `count` JPEG files of the same image size, for structured samples."""
    from PIL import Image

    rng, files = np.random.default_rng(7), []
    for _ in range(count):
        file = io.BytesIO()
        Image.fromarray(rng.integers(0, 255, (10, 12, 3), dtype=np.uint8)).resize((96, 80)).save(file, "JPEG")
        files.append(file.getvalue())
    return files


def works(trees: Sequence[Any], clips: Sequence[str], device: int | None) -> list[Callable[[], Callable[[], Iterable[Any]]]]:
    """Returns factories. Each creates an object, and returns a function that runs one epoch of it. trees: image folders, of which the first is on a disk."""
    files = uneven_files(32)
    return [
        *(lambda tree=tree: make_loader(tree, device).__iter__ for tree in trees),
        lambda: make_branches(trees[0], device),
        lambda: make_structured(files, device).__iter__,
        *([lambda: make_clips(clips, device), lambda: make_video_loader(clips, device).__iter__] if clips else []),
    ]


def run_round(kept: Sequence[Callable[[], Iterable[Any]]], making: Sequence[Callable[[], Callable[[], Iterable[Any]]]]) -> int:
    """Runs one epoch of each object in `kept`, and three batches of each object that `making` creates. Returns the number of batches."""
    batches = sum(1 for epoch in kept for _ in epoch())
    for make in making:
        batches += sum(1 for _ in zip(range(3), make()(), strict=False))
    gc.collect()
    return batches


PLANTED: list[Any] = []


def plant(kind: str | None) -> None:
    if kind == "memory":
        PLANTED.append(np.ones(1 << 18))
    elif kind == "descriptors":
        PLANTED.append(os.open("/dev/null", os.O_RDONLY))
    elif kind == "threads":
        PLANTED.append(threading.Thread(target=threading.Event().wait, daemon=True))
        PLANTED[-1].start()
    elif kind == "gpu":
        import torch

        PLANTED.append(torch.ones(1 << 18, device="cuda"))


def soak(
    making: Sequence[Callable[[], Callable[[], Iterable[Any]]]], device: int | None, seconds: float, planted: str | None
) -> dict[str, Any]:
    kept = [make() for make in making]
    begin, rounds, batches = time.monotonic(), 0, 0
    resting: list[tuple[float, dict[str, int]]] = []  # samples taken between rounds, from which the result is computed
    running: list[tuple[float, dict[str, int]]] = []  # samples taken at any time, from which the maximum is computed
    done = threading.Event()

    def watch() -> None:
        while not done.wait(SAMPLE_EVERY):
            running.append((time.monotonic() - begin, held(device)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        while (now := time.monotonic() - begin) < seconds or rounds < 8:
            plant(planted)
            batches += run_round(kept, making)
            rounds += 1
            resting.append((time.monotonic() - begin, held(device)))
    finally:
        done.set()
        watcher.join()
    warm_up = WARM_UP_CPU if device is None else WARM_UP_GPU
    settled = [s for s in resting if s[0] >= warm_up * now]
    result: dict[str, Any] = {"name": "soak", "seconds": round(now), "rounds": rounds, "batches": batches, "samples": len(settled)}
    grown = []
    for kind in resting[0][1]:
        line = [(t, float(values[kind])) for t, values in settled]
        rise, error = growth(line)
        result[kind] = {
            "first": resting[0][1][kind],
            "warm": settled[0][1][kind],
            "last": settled[-1][1][kind],
            "highest": max(values[kind] for _, values in running + resting),
            "course": [resting[len(resting) * k // 10][1][kind] for k in range(10)],
            "growth": round(rise, 2),
            "error": round(error, 2),
        }
        if grows(line, LIMITS[kind]):
            grown.append(kind)
    result["grows"] = grown
    return result


def serve(folder: Path, build: Path) -> Any:
    """Starts an object store over a folder, and sets the environment variables by which clients find it. Some of its requests fail, so that clients have to
    retry. Returns the store, for the caller to stop."""
    os.environ["STOKER_BUILD"] = str(build.resolve())
    sys.path.insert(0, str(ROOT / "test" / "python"))
    store = runpy.run_path(str(ROOT / "test" / "python" / "storage.py"))["Store"](
        folder, "p503=0.02&reset=0.02&truncate=0.02&latency_ms=2&seed=7"
    )
    os.environ.update(store.environment)
    return store


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="has the test server of object storage")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--device", type=int)
    parser.add_argument("--plant", choices=[kind for kind in LIMITS if kind != "sockets"])
    a = parser.parse_args()
    if a.plant == "gpu" and a.device is None:
        parser.error("--plant gpu leaks on the GPU that --device names: none is named")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        trees: list[Any] = [Path(folder, "photos", "train")]
        write_images(trees[0], 96)
        clips = write_videos(Path(folder, "clips"))
        if a.device is None:
            store = serve(Path(folder), a.build)
            stack.callback(store.close)
            trees.append("s3://photos/train")
        result = soak(works(trees, clips, a.device), a.device, a.seconds, a.plant)
    measure.emit(result)
    for kind in result["grows"]:
        print(f"soak: {kind} grew by {result[kind]['growth']} in {result['seconds']} s, of which noise explains {result[kind]['error']}")
    return 1 if result["grows"] else 0


if __name__ == "__main__":
    sys.exit(main())
