#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares operators of signals with DALI's on the CPU: features of utterances, and resampling.

usage: audio.py [features] [resample] [--utterances N] [--batch N] [--threads N] [--rounds N]

features: float utterances of 1 to 35 s at 16 kHz, from external_source through spectrogram (25 ms windows, 10 ms steps) and mel_filter_bank (80 bands) to
to_decibels. resample: clips of 10 s from 44.1 to 16 kHz at the default quality, then the error of both libraries against exact samples of tones, and against
the filter in double precision. The figure of a comparison is the median ratio of CPU time over interleaved slices; both sides must make the same values.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import measure
import numpy as np

RATE = 16000
PACKAGES = ("stoker", "nvidia.dali")


def features(fn: Any, audio: Any) -> Any:
    power = fn.spectrogram(audio, nfft=512, window_length=400, window_step=160)
    return fn.to_decibels(fn.mel_filter_bank(power, sample_rate=float(RATE), nfilter=80), cutoff_db=-80.0)


def resample(fn: Any, audio: Any) -> Any:
    return fn.audio_resample(audio, in_rate=44100.0, out_rate=float(RATE))


def utterances(count: int) -> list[np.ndarray]:
    """Makes tones with noise, of the lengths of read speech: few are short, most have 10 to 16 seconds."""
    rng = np.random.default_rng(1)
    made = []
    for seconds in np.clip(rng.normal(12, 6, count), 1, 35):
        t = np.arange(int(seconds * RATE))
        made.append((0.3 * np.sin(t * rng.uniform(0.02, 0.5)) + 0.1 * rng.standard_normal(len(t))).astype("float32"))
    return made


class Side:
    """One library's pipeline over the same signals, again and again."""

    def __init__(self, package: str, graph: Callable[[Any, Any], Any], signals: list[np.ndarray], options: argparse.Namespace) -> None:
        fn = importlib.import_module(f"{package}.fn")
        self.pipe = importlib.import_module(package).Pipeline(
            batch_size=options.batch, num_threads=options.threads, device_id=None, prefetch_queue_depth=1
        )
        batches = [signals[i : i + options.batch] for i in range(0, len(signals), options.batch)]
        with self.pipe:
            self.pipe.set_outputs(graph(fn, fn.external_source(source=batches, cycle=True)))
        self.pipe.build()
        self.first = self.next()

    def next(self) -> list[np.ndarray]:
        (out,) = self.pipe.run()
        return [np.array(out.at(i)) for i in range(len(out))]

    def take(self, count: int) -> int:
        taken = 0
        while taken < count:
            taken += len(self.pipe.run()[0])
        return taken


def compare(title: str, graph: Callable[[Any, Any], Any], signals: list[np.ndarray], options: argparse.Namespace, allowed: float) -> None:
    ours, theirs = (Side(p, graph, signals, options) for p in PACKAGES)
    for a, b in zip(ours.first, theirs.first, strict=True):
        assert a.shape == b.shape
        assert np.abs(a - b).max() <= allowed * np.abs(b).max(), "the sides differ"
    result = measure.Comparison("DALI", [], [])
    for _ in range(options.rounds):
        result.ours.append(measure.measure(ours.take, len(signals)))
        result.theirs.append(measure.measure(theirs.take, len(signals)))
    seconds = sum(len(s) for s in signals)
    costs = [sorted(s.cost for s in side)[options.rounds // 2] for side in (result.ours, result.theirs)]
    ratios = sorted(result.ratios)
    print(f"{title}: {ratios[len(ratios) // 2]:.2f} times DALI per CPU-second ({ratios[0]:.2f} to {ratios[-1]:.2f});", end=" ")
    print(f"CPU-milliseconds a signal: {costs[0]:.2f}, DALI {costs[1]:.2f}; {seconds / len(signals):.0f} samples a signal")


def tones() -> Iterator[tuple[float, np.ndarray, np.ndarray]]:
    """Yields a frequency, a tone of one second at 44.1 kHz, and the same tone at 16 kHz."""
    for frequency in (440.0, 1000.0, 3000.0, 7000.0):
        yield frequency, *(np.sin(2 * np.pi * frequency * np.arange(rate) / rate) for rate in (44100, RATE))


def exact(x: np.ndarray) -> np.ndarray:
    """Returns the resampled signal by the default filter in double precision."""
    length, lobes = len(x) * RATE // 44100, 16
    whole, phase = np.divmod(np.arange(length) * 441, 160)
    padded = np.concatenate([np.zeros(lobes), x.astype("float64"), np.zeros(lobes + 1)])
    result = np.zeros(length)
    for k in range(1 - lobes, lobes + 1):
        distance = k - phase / 160
        weight = np.sinc(distance) * 0.5 * (1 + np.cos(np.pi * distance / (lobes + 1 / 64)))
        result += padded[whole + k + lobes] * weight
    return result


def resampling_errors(options: argparse.Namespace) -> None:
    noise = np.random.default_rng(2).uniform(-1, 1, 44100).astype("float32")
    inputs = [*tones(), (0.0, noise, exact(noise))]
    inner = slice(50, -50)  # at the ends, the signal stops and a tone does not
    for frequency, x, expected in inputs:
        errors = []
        for package in PACKAGES:
            made = Side(package, resample, [x.astype("float32")], options).first[0]
            errors.append(np.abs(made - expected)[inner].max())
        what = f"tone of {frequency:.0f} Hz" if frequency else "noise against the filter in double precision"
        print(f"largest error, {what}: {errors[0]:.1e}, DALI {errors[1]:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help="features, resample; default: both")
    parser.add_argument("--utterances", type=int, default=64)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    options.what = options.what or ["features", "resample"]
    if unknown := set(options.what) - {"features", "resample"}:
        parser.error(f"unknown: {' '.join(unknown)}")
    if "features" in options.what:
        compare("features of utterances", features, utterances(options.utterances), options, 1e-4)
    if "resample" in options.what:
        rng = np.random.default_rng(3)
        clips = [rng.uniform(-1, 1, 441000).astype("float32") for _ in range(options.utterances)]
        compare("44.1 to 16 kHz", resample, clips, options, 3e-3)
        options.batch = 1
        resampling_errors(options)


if __name__ == "__main__":
    main()
