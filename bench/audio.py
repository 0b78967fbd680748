#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Stoker's operators on sounds with DALI's on the CPU, and its reading of sound files with soundfile, torchaudio, torchcodec and DALI.

usage: audio.py [features] [resample] [files] [flac] [peers] [--utterances N] [--files N] [--batch N] [--threads N] [--rounds N]

features: float utterances of 1 to 35 s at 16 kHz, from external_source through spectrogram (25 ms windows, 10 ms steps) and mel_filter_bank (80 bands) to
to_decibels. resample: clips of 10 s from 44.1 to 16 kHz at the default quality, then the error of both libraries against exact samples of tones, and against
the filter in double precision. files: WAVs of one second by Loader, against a DataLoader with soundfile and as many workers as Loader has threads.
flac: FLAC files (written by the program ffmpeg) to 80 log-mel bands, against DALI. peers: the same files to batches of padded log-mel bands by Loader, against
DataLoaders with torchaudio's transforms, and soundfile or torchcodec to decode. The figure of a comparison is the median ratio of CPU time over
interleaved slices; both sides must make the same values.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import subprocess
import tempfile
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
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
    """A pipeline of one library that repeats the same signals without end."""

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
        before, after = (np.sin(2 * np.pi * frequency * np.arange(rate) / rate) for rate in (44100, RATE))
        yield frequency, before, after


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
    inner = slice(50, -50)  # without the ends, where the signal stops but the exact tone continues
    for frequency, x, expected in inputs:
        errors = []
        for package in PACKAGES:
            made = Side(package, resample, [x.astype("float32")], options).first[0]
            errors.append(np.abs(made - expected)[inner].max())
        what = f"tone of {frequency:.0f} Hz" if frequency else "noise against the filter in double precision"
        print(f"largest error, {what}: {errors[0]:.1e}, DALI {errors[1]:.1e}")


# ---- reading files ----


def write_wavs(folder: Path, count: int) -> list[Path]:
    rng, paths = np.random.default_rng(4), []
    for i in range(count):
        path = folder / f"class{i % 10}" / f"{i:06}.wav"
        path.parent.mkdir(exist_ok=True)
        with wave.open(str(path), "wb") as f:
            f.setparams((1, 2, RATE, 0, "NONE", ""))
            f.writeframes((rng.standard_normal(RATE) * 3000).astype("<i2").tobytes())
        paths.append(path)
    return sorted(paths)


class SoundfileSet:
    """A map-style Dataset of sounds and their classes."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: int) -> tuple[Any, int]:
        import soundfile
        import torch

        samples, _ = soundfile.read(self.paths[i], dtype="float32")
        return torch.from_numpy(samples), int(self.paths[i].parent.name.removeprefix("class"))


def epochs(loader: Any) -> Callable[[int], int]:
    def take(count: int) -> int:
        taken = 0
        while taken < count:
            taken += sum(len(labels) for _, labels in loader)
        return taken

    return take


def report(title: str, peer: str, result: measure.Comparison) -> None:
    ratios = sorted(result.ratios)
    costs = [statistics.median(s.cost for s in side) for side in (result.ours, result.theirs)]
    walls = [statistics.median(s.rate for s in side) for side in (result.ours, result.theirs)]
    print(f"{title}: {statistics.median(ratios):.2f} times {peer} per CPU-second ({ratios[0]:.2f} to {ratios[-1]:.2f});", end=" ")
    print(f"CPU-milliseconds a file: {costs[0]:.3f}, {peer} {costs[1]:.3f}; files a second: {walls[0]:.0f}, {peer} {walls[1]:.0f}")


def alternate(peer: str, ours: Callable[[int], int], theirs: Callable[[int], int], count: int, rounds: int) -> measure.Comparison:
    ours(count), theirs(count)
    result = measure.Comparison(peer, [], [])
    for _ in range(rounds):
        result.ours.append(measure.measure(ours, count))
        result.theirs.append(measure.measure(theirs, count))
    return result


def one_second_files(options: argparse.Namespace) -> None:
    from stoker import Audio, Loader
    from torch.utils.data import DataLoader

    with tempfile.TemporaryDirectory() as folder:
        paths = write_wavs(Path(folder), options.files)
        fields = {"audio": Audio(rate=RATE, duration=1.0), "label": None}
        ours = Loader(folder, options.batch, fields=fields, num_threads=options.threads)
        theirs: Any = DataLoader(SoundfileSet(paths), options.batch, num_workers=options.threads, persistent_workers=True)  # type: ignore[arg-type]
        for (a, la), (b, lb) in zip(ours, theirs, strict=True):
            assert (a == b).all() and (la == lb).all(), "the sides differ"
        report("WAVs of one second", "soundfile", alternate("soundfile", epochs(ours), epochs(theirs), options.files, options.rounds))


def write_flacs(folder: str, count: int) -> list[Path]:
    paths = []
    for i, signal in enumerate(utterances(count)):
        paths.append(Path(folder, f"{i:04}.flac"))
        raw = (signal * 32767).astype("<i2").tobytes()
        command = ["ffmpeg", "-v", "error", "-y", "-f", "s16le", "-ar", str(RATE), "-ac", "1", "-i", "-", str(paths[-1])]
        subprocess.run(command, input=raw, check=True)
    return paths


class FeatureSet:
    """A map-style Dataset of log-mel bands."""

    def __init__(self, paths: list[Path], decoder: str) -> None:
        self.paths, self.decoder, self.steps = paths, decoder, mel_of_torchaudio()

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: int) -> Any:
        import torch

        if self.decoder == "soundfile":
            import soundfile

            sound = torch.from_numpy(soundfile.read(self.paths[i], dtype="float32")[0])
        else:
            from torchcodec.decoders import AudioDecoder

            sound = AudioDecoder(str(self.paths[i])).get_all_samples().data[0]
        for step in self.steps:
            sound = step(sound)
        return sound


def mel_of_torchaudio() -> list[Any]:
    import torchaudio.transforms as T

    return [T.MelSpectrogram(RATE, n_fft=512, win_length=400, hop_length=160, n_mels=80), T.AmplitudeToDB()]


def padded(spectra: list[Any]) -> Any:
    import torch

    return torch.nn.utils.rnn.pad_sequence([s.T for s in spectra], batch_first=True).transpose(1, 2)


def one_thread(worker: int) -> None:
    import torch

    torch.set_num_threads(1)


def batches(loader: Any) -> Callable[[int], int]:
    def take(count: int) -> int:
        taken = 0
        while taken < count:
            taken += sum(len(batch[0] if isinstance(batch, tuple) else batch) for batch in loader)
        return taken

    return take


def torch_peers(options: argparse.Namespace) -> None:
    from stoker import Audio, Loader
    from torch.utils.data import DataLoader

    with tempfile.TemporaryDirectory() as folder:
        paths = write_flacs(folder, options.utterances)
        names = [str(p) for p in paths]
        ours = Loader(names, options.batch, fields={"audio": Audio(rate=RATE)}, transforms=mel_of_torchaudio(), num_threads=options.threads)
        for decoder in ("soundfile", "torchcodec"):
            theirs: Any = DataLoader(
                FeatureSet(paths, decoder),  # type: ignore[arg-type]
                options.batch,
                num_workers=options.threads,
                persistent_workers=True,
                collate_fn=padded,
                worker_init_fn=one_thread,
            )
            for batch, b in zip(ours, theirs, strict=True):
                lengths = batch.audio_lengths
                for k, n in enumerate(lengths.tolist()):
                    assert (batch.audio[k, :, :n] - b[k, :, :n]).abs().max() <= 1e-4 * (b.max() - b.min()), "the sides differ"
            result = alternate(decoder, batches(ours), batches(theirs), options.utterances, options.rounds)
            report("FLAC to 80 log-mel bands in batches", f"torchaudio with {decoder}", result)


def flac_files(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = [np.fromfile(path, np.uint8) for path in write_flacs(folder, options.utterances)]

    def graph(fn: Any, data: Any) -> Any:
        return features(fn, fn.decoders.audio(data, downmix=True)[0])

    compare("FLAC to 80 log-mel bands", graph, files, options, 1e-4)
    compare("FLAC to samples", lambda fn, data: fn.decoders.audio(data, downmix=True)[0], files, options, 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help="features, resample, files, flac, peers; default: the first two")
    parser.add_argument("--utterances", type=int, default=64)
    parser.add_argument("--files", type=int, default=4000)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    options.what = options.what or ["features", "resample"]
    if unknown := set(options.what) - {"features", "resample", "files", "flac", "peers"}:
        parser.error(f"unknown: {' '.join(unknown)}")
    if "features" in options.what:
        compare("features of utterances", features, utterances(options.utterances), options, 1e-4)
    if "files" in options.what:
        one_second_files(options)
    if "flac" in options.what:
        flac_files(options)
    if "peers" in options.what:
        torch_peers(options)
    if "resample" in options.what:
        rng = np.random.default_rng(3)
        clips = [rng.uniform(-1, 1, 441000).astype("float32") for _ in range(options.utterances)]
        compare("44.1 to 16 kHz", resample, clips, options, 3e-3)
        options.batch = 1
        resampling_errors(options)


if __name__ == "__main__":
    main()
