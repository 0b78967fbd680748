# SPDX-License-Identifier: Apache-2.0
"""Trains a classifier of clips on videos that it makes itself: a square moves left, right, up or down.

usage: train.py FOLDER [--epochs N] [--videos N]

The direction cannot be seen in a single frame, so the network has to use time. Needs torch, and the ffmpeg program to make the videos.
"""

from __future__ import annotations

import argparse
import random
import subprocess
from pathlib import Path

import stoker
import torch
from stoker import transforms as T
from torch import nn

DIRECTIONS = {"down": (0, 1), "left": (-1, 0), "right": (1, 0), "up": (0, -1)}  # the classes, in the order of the labels
SIZE, LENGTH = 64, 40  # side of a picture in pixels, number of frames in a video


def write_video(path: Path, direction: tuple[int, int], rng: random.Random) -> None:
    x, y = rng.randint(4, 44), rng.randint(4, 44)
    frames = torch.randint(0, 60, (LENGTH, SIZE, SIZE, 3), dtype=torch.uint8)
    for t in range(LENGTH):
        left, top = (x + direction[0] * t) % (SIZE - 16), (y + direction[1] * t) % (SIZE - 16)
        frames[t, top : top + 16, left : left + 16] = 220
    command = f"ffmpeg -y -v error -f rawvideo -pix_fmt rgb24 -s {SIZE}x{SIZE} -r 25 -i - -pix_fmt yuv420p -c:v libx264 -g 12"
    subprocess.run([*command.split(), str(path)], input=frames.numpy().tobytes(), check=True)


def make_videos(folder: Path, count: int) -> None:
    rng = random.Random(1)
    for part in ("train", "val"):
        for name, direction in DIRECTIONS.items():
            (folder / part / name).mkdir(parents=True, exist_ok=True)
            for i in range(count):
                path = folder / part / name / f"{i}.mp4"
                if not path.exists():
                    write_video(path, direction, rng)


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv3d(3, 16, (3, 7, 7), stride=(1, 4, 4)),
        nn.ReLU(),
        nn.Conv3d(16, 32, (3, 5, 5), stride=(1, 2, 2)),
        nn.ReLU(),
        nn.AdaptiveAvgPool3d(1),
        nn.Flatten(),
        nn.Linear(32, len(DIRECTIONS)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epochs", type=int, default=7)
    parser.add_argument("--videos", type=int, default=24, help="of each class, for training and for validation each")
    options = parser.parse_args()
    torch.manual_seed(0)
    make_videos(options.folder, options.videos)
    steps = [T.Normalize([0.2] * 3, [0.3] * 3)]
    train = stoker.Loader(options.folder / "train", 8, shuffle=True, seed=0, frames=8, stride=2, transforms=steps)
    val = stoker.Loader(options.folder / "val", 8, frames=8, stride=2, transforms=steps)
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for epoch in range(options.epochs):
        for clips, labels in train:  # the shape of `clips` is (8, 8, 3, 64, 64)
            loss = nn.functional.cross_entropy(model(clips.transpose(1, 2)), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            right = sum(int((model(clips.transpose(1, 2)).argmax(1) == labels).sum()) for clips, labels in val)
        print(f"epoch {epoch}: loss {loss:.3f}, {right} of {len(DIRECTIONS) * options.videos} clips right", flush=True)


if __name__ == "__main__":
    main()
