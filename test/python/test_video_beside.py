# SPDX-License-Identifier: Apache-2.0
"""Stoker decodes videos in a process that loads another package's FFmpeg before or after Stoker's, and that package decodes too."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest
import videos

pytestmark = videos.needs_video

# Imports two packages in the order of the arguments. Then both decode, in this order and in the other one. A package must give the same frames each time,
# which differ little from those of the first package. The last line of output is the number of FFmpegs that were loaded.
PROGRAM = """
import sys
import numpy as np

def with_stoker(path):
    import stoker
    return np.asarray(stoker.VideoDecoder(path, dimension_order="NHWC")[:])

def with_av(path):
    import av
    with av.open(path) as file:
        return np.stack([frame.to_ndarray(format="rgb24") for frame in file.decode(video=0)])

def with_torchcodec(path):
    from torchcodec.decoders import VideoDecoder
    return np.asarray(VideoDecoder(path, dimension_order="NHWC")[:])

def with_cv2(path):
    import cv2
    file, frames = cv2.VideoCapture(path), []
    while (found := file.read())[0]:
        frames.append(found[1][..., ::-1])
    return np.stack(frames)

def with_decord(path):
    import decord
    return decord.VideoReader(path)[:].asnumpy()

def prepare(name):
    try:
        if name == "torchcodec":
            import torchcodec.decoders
        else:
            __import__(name)
    except (ImportError, OSError, RuntimeError) as e:
        print(f"cannot load {name}: {e}"[:300])
        sys.exit(77)

path, *names = sys.argv[1:]
for name in names:
    prepare(name)
first = {}
for name in [*names, *names[::-1]]:
    frames = globals()["with_" + name](path)
    assert frames.shape == (25, 144, 176, 3), (name, frames.shape)
    assert np.array_equal(first.setdefault(name, frames), frames), name
    error = np.abs(frames.astype(int) - first[names[0]]).mean()
    assert error < 4, (name, error)
loaded = {line.split()[-1] for line in open("/proc/self/maps") if "libavcodec" in line}
print("decoded;", len(loaded), "libavcodec:", *sorted(loaded))
"""
OTHERS = ("av", "torchcodec", "cv2", "decord")


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    folder = tmp_path_factory.mktemp("videos")
    path = folder / "clip.mp4"
    videos.ffmpeg("-f lavfi -i", videos.SOURCE.format(1), videos.H264, path)
    return path


def run(clip, *names):
    for name in names:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(clip), *names], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0 and "decoded;" in done.stdout, (done.returncode, done.stdout, done.stderr)
    return done.stdout


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("first", ["stoker", "other"])
def test_both_packages_decode_in_either_order(clip, other, first):
    run(clip, *(("stoker", other) if first == "stoker" else (other, "stoker")))


def test_all_installed_packages(clip):
    """Stoker can be imported before, between or after all those packages that work together without it."""
    there = [name for name in OTHERS if importlib.util.find_spec(name) is not None]
    good: list[str] = []
    for name in there:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(clip), *good, name], capture_output=True, text=True, timeout=300, check=False
        )
        good += [name] if done.returncode == 0 else []
    if len(good) < 2:
        pytest.skip("fewer than two of the packages are installed")
    for place in range(len(good) + 1):
        run(clip, *good[:place], "stoker", *good[place:])
