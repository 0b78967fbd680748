#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small network to write down spoken sentences, with the CTC loss: train_ctc.py FOLDER [--epochs 12] [--batch 16].

    python examples/audio/make_speech.py /tmp/sentences --sentences 400      # needs espeak-ng
    python examples/audio/train_ctc.py /tmp/sentences

The pipeline reads a NeMo manifest, and makes 40 log-mel bands on the cores. Sentences differ in length: each batch is padded to its longest one.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from stoker import Loader, fn, pipeline_def, types
from torch import Tensor, nn
from torch.nn.functional import ctc_loss

RATE, BANDS, STRIDE = 16000, 40, 4
BLANK = 0  # CTC's token for "nothing"; the words have the numbers from 1 on


@pipeline_def
def sentences(manifest: str, train: bool) -> Any:
    audio, _, text = fn.readers.nemo_asr(
        manifest_filepaths=[manifest], sample_rate=float(RATE), downmix=True, random_shuffle=train, tail="keep", name="Reader"
    )
    power = fn.spectrogram(audio, nfft=512, window_length=400, window_step=160)
    # The values are now between -1 and 1.
    bands = fn.to_decibels(fn.mel_filter_bank(power, nfilter=BANDS, sample_rate=float(RATE)), cutoff_db=-80.0) / 40 + 1
    return fn.pad(bands, axes=[1], fill_value=-1.0), fn.shapes(bands, dtype=types.INT64)[1], fn.pad(text)


def loader(manifest: Path, batch: int, train: bool, threads: int = 2) -> Loader:
    pipe = sentences(str(manifest), train, batch_size=batch, num_threads=threads, device_id=None, seed=1)
    return Loader(pipe, fields=("bands", "frames", "text"))


def words_of(row: Tensor) -> list[str]:
    """Returns the words of a text (a tensor of bytes) that is padded with zeros."""
    return bytes(row.tolist()).rstrip(b"\0").decode().split()


def network(tokens: int, width: int = 96) -> nn.Sequential:
    """Returns a network of convolutions over time, from (N, bands, frames) to (N, tokens, steps). The first two convolutions each halve the number of steps;
    with the dilation of the last ones, a step depends on more than a second of sound."""
    layers: list[nn.Module] = []
    for inside, stride, dilation in ((BANDS, 2, 1), (width, 2, 1), (width, 1, 1), (width, 1, 2), (width, 1, 4)):
        layers += [nn.Conv1d(inside, width, 5, stride, 2 * dilation, dilation), nn.BatchNorm1d(width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv1d(width, tokens, 1), nn.LogSoftmax(1))


def heard(probabilities: Tensor, steps: int, vocabulary: list[str]) -> list[str]:
    """Returns the words of the likeliest tokens: repeated tokens count once, and blanks are left out."""
    best = torch.unique_consecutive(probabilities[:steps].argmax(1)).tolist()
    return [vocabulary[token - 1] for token in best if token != BLANK]


def distance(a: list[str], b: list[str]) -> int:
    """Returns the edit distance: the minimum number of words to change, insert or delete to turn `a` into `b`."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


def steps_of(frames: Tensor) -> Tensor:
    return (frames.flatten() + STRIDE - 1) // STRIDE


def word_errors(model: nn.Module, batches: Loader, vocabulary: list[str]) -> float:
    model.eval()
    wrong = total = 0
    with torch.no_grad():
        for batch in batches:
            for made, steps, text in zip(model(batch.bands), steps_of(batch.frames), batch.text, strict=True):
                wrong += distance(heard(made.T, int(steps), vocabulary), words_of(text))
                total += len(words_of(text))
    model.train()
    return wrong / total


def main() -> float:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch", type=int, default=16)
    args = parser.parse_args()
    torch.manual_seed(1)
    rows = [json.loads(line) for line in (args.folder / "train.json").read_text().splitlines()]
    vocabulary = sorted({word for row in rows for word in row["text"].split()})
    train, test = loader(args.folder / "train.json", args.batch, True), loader(args.folder / "test.json", args.batch, False)
    model = network(len(vocabulary) + 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    errors = 1.0
    for epoch in range(args.epochs):
        losses = []
        for batch in train:
            texts = [[vocabulary.index(word) + 1 for word in words_of(text)] for text in batch.text]
            targets, lengths = torch.tensor([token for text in texts for token in text]), torch.tensor([len(text) for text in texts])
            loss = ctc_loss(model(batch.bands).permute(2, 0, 1), targets, steps_of(batch.frames), lengths, blank=BLANK, zero_infinity=True)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            losses.append(loss.item())
        errors = word_errors(model, test, vocabulary)
        print(f"epoch {epoch}: loss {sum(losses) / len(losses):.3f}, {errors:.1%} of the test's words are wrong")
    return errors


if __name__ == "__main__":
    main()
