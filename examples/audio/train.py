#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small network to tell spoken words apart: train.py FOLDER [--epochs 12] [--batch 32].

    python examples/audio/make_speech.py /tmp/speech      # needs espeak-ng
    python examples/audio/train.py /tmp/speech

The pipeline decodes and resamples each recording, cuts or fills it to one second, and makes 40 log-mel bands, all on the cores.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from stoker import Loader, fn, pipeline_def
from torch import nn
from torch.nn.functional import cross_entropy

RATE, BANDS = 16000, 40


@pipeline_def
def features(folder: str, train: bool) -> Any:
    data, label = fn.readers.file(file_root=folder, file_filters=["*.wav"], random_shuffle=train, tail="keep", name="Reader")
    place = fn.random.uniform(range=(0.0, 1.0)) if train else 0.5
    audio, _ = fn.decoders.audio(data, downmix=True, sample_rate=RATE, duration=1.0, position=place, pad=True)
    power = fn.spectrogram(audio, nfft=512, window_length=400, window_step=160)
    bands = fn.mel_filter_bank(power, nfilter=BANDS, sample_rate=float(RATE))
    return fn.to_decibels(bands, cutoff_db=-80.0) / 40 + 1, label  # values are now between -1 and 1


def loader(folder: Path, batch: int, train: bool, threads: int = 2) -> Loader:
    pipe = features(str(folder), train, batch_size=batch, num_threads=threads, device_id=None, seed=1)
    return Loader(pipe, fields=("features", "label"))


def network(classes: int) -> nn.Sequential:
    """Returns a network of three convolutions over time and frequency."""
    layers: list[nn.Module] = []
    for inside, outside in ((1, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.AdaptiveMaxPool2d((5, 1)), nn.Flatten(), nn.Dropout(0.3), nn.Linear(64 * 5, classes))


def accuracy(model: nn.Module, batches: Loader) -> float:
    model.eval()
    right = total = 0
    with torch.no_grad():
        for batch in batches:
            right += int((model(batch.features[:, None]).argmax(1) == batch.label.flatten()).sum())
            total += len(batch.label)
    model.train()
    return right / total


def main() -> float:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(1)
    words = sorted(p.name for p in (args.folder / "train").iterdir())
    train, test = loader(args.folder / "train", args.batch, True), loader(args.folder / "test", args.batch, False)
    model = network(len(words))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    reached = 0.0
    for epoch in range(args.epochs):
        losses = []
        for batch in train:
            loss = cross_entropy(model(batch.features[:, None]), batch.label.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        reached = accuracy(model, test)
        print(f"epoch {epoch}: loss {sum(losses) / len(losses):.3f}, {reached:.1%} of the test's words are right")
    return reached


if __name__ == "__main__":
    main()
