#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Stoker's work on sounds with DALI's, torchaudio's, torchcodec's, soundfile's, soxr's and librosa's, as far as they are installed.

usage: audio.py [features] [resample] [files] [flac] [--gpu] [--utterances N] [--files N] [--batch N] [--threads N] [--rounds N]

features: compares with DALI how fast float utterances of 1 to 35 s at 16 kHz pass through external_source, spectrogram (25 ms windows, 10 ms steps),
mel_filter_bank (80 bands) and to_decibels. resample: compares how fast clips of 10 s are resampled from 44.1 to 16 kHz at the default quality, then the error
of all libraries against exact samples of tones, and the error of Stoker and DALI against the filter in double precision. files: compares how fast WAV files of
one second become batches of samples. flac: compares how fast FLAC files become 80 log-mel bands, also in padded batches of Loader and of DataLoaders. The sides
of a comparison run in turns, and must make the same values. A ratio compares medians of CPU time.

--gpu measures on the first GPU instead. It compares by time how fast FLAC and WAV files become 80 log-mel bands, with decoding on the cores and features on the
GPU. Then it measures for the features of waveforms in GPU memory how long each kernel takes, and which share of the memory's bandwidth that is. It needs torch
for CUDA and takes less than 90 s.

This program makes all files. Without the program ffmpeg, it uses a simpler encoder for FLAC files, so that these are larger.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import shutil
import statistics
import struct
import subprocess
import tempfile
import time
import wave
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import measure
import numpy as np

RATE = 16000


def has(module: str) -> bool:
    """Returns whether a module is installed and can be imported."""
    try:
        if importlib.util.find_spec(module) is None:
            return False
        importlib.import_module(module)
    except (ImportError, OSError, RuntimeError):
        return False
    return True


def packages() -> list[str]:
    return ["stoker", "nvidia.dali"] if has("nvidia.dali") else ["stoker"]


def features(fn: Any, audio: Any) -> Any:
    power = fn.spectrogram(audio, nfft=512, window_length=400, window_step=160)
    return fn.to_decibels(fn.mel_filter_bank(power, sample_rate=float(RATE), nfilter=80), cutoff_db=-80.0)


def resample(fn: Any, audio: Any) -> Any:
    return fn.audio_resample(audio, in_rate=44100.0, out_rate=float(RATE))


def utterances(count: int) -> list[np.ndarray]:
    """Makes `count` signals of tones with noise, of 1 to 35 seconds, most of them 6 to 18."""
    rng = np.random.default_rng(1)
    made = []
    for seconds in np.clip(rng.normal(12, 6, count), 1, 35):
        t = np.arange(int(seconds * RATE))
        made.append((0.3 * np.sin(t * rng.uniform(0.02, 0.5)) + 0.1 * rng.standard_normal(len(t))).astype("float32"))
    return made


class Side:
    """A pipeline of one library that repeats the same signals endlessly."""

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
    if len(packages()) == 1:
        print(f"{title}: not compared, since DALI is not installed")
        return
    ours, theirs = (Side(p, graph, signals, options) for p in packages())
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
    """Returns the signal resampled from 44.1 to 16 kHz by the default filter, computed in double precision."""
    length, lobes = len(x) * RATE // 44100, 16
    whole, phase = np.divmod(np.arange(length) * 441, 160)
    padded = np.concatenate([np.zeros(lobes), x.astype("float64"), np.zeros(lobes + 1)])
    result = np.zeros(length)
    for k in range(1 - lobes, lobes + 1):
        distance = k - phase / 160
        weight = np.sinc(distance) * 0.5 * (1 + np.cos(np.pi * distance / (lobes + 1 / 64)))
        result += padded[whole + k + lobes] * weight
    return result


def resamplers() -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """Returns the functions of other libraries that resample one clip, by name. They use one thread, as in a worker of a DataLoader."""
    found: dict[str, Callable[[np.ndarray], np.ndarray]] = {}
    if has("torchaudio"):
        import torch
        import torchaudio

        torch.set_num_threads(1)
        # This object computes its filter once; torchaudio.functional.resample does so in each call.
        steps = torchaudio.transforms.Resample(44100, RATE)
        found["torchaudio"] = lambda x: steps(torch.from_numpy(x)).numpy()
    if has("soxr"):
        import soxr

        found["soxr"] = lambda x: soxr.resample(x, 44100, RATE)
    if has("librosa"):
        import librosa

        found["librosa"] = lambda x: librosa.resample(x, orig_sr=44100, target_sr=RATE)
    return found


def one_by_one(function: Callable[[np.ndarray], np.ndarray], clips: list[np.ndarray]) -> Callable[[int], int]:
    return lambda count: sum(len(function(clips[i % len(clips)])) > 0 for i in range(count))


def resampling(options: argparse.Namespace) -> None:
    rng = np.random.default_rng(3)
    clips = [rng.uniform(-1, 1, 441000).astype("float32") for _ in range(options.utterances)]
    compare("44.1 to 16 kHz", resample, clips, options, 3e-3)
    sides: dict[str, Callable[[int], int]] = {"stoker": Side("stoker", resample, clips, options).take}
    for name, function in resamplers().items():
        sides[name] = one_by_one(function, clips)
    take_turns("44.1 to 16 kHz", sides, len(clips), options.rounds)
    options.batch = 1
    resampling_errors(options)


def resampling_errors(options: argparse.Namespace) -> None:
    noise = np.random.default_rng(2).uniform(-1, 1, 44100).astype("float32")
    inputs = [*tones(), (0.0, noise, exact(noise))]
    inner = slice(50, -50)  # leaves out both ends: there a resampler sees the signal stop, but the exact tone continues
    for frequency, x, expected in inputs:
        x = x.astype("float32")
        made = {p.removeprefix("nvidia."): Side(p, resample, [x], options).first[0] for p in packages()}
        if frequency:  # the libraries of resamplers() have other filters, so noise cannot be compared with them
            made.update((name, function(x)) for name, function in resamplers().items())
        errors = [f"{name} {np.abs(y - expected)[inner].max():.1e}" for name, y in made.items()]
        what = f"tone of {frequency:.0f} Hz" if frequency else "noise against the filter in double precision"
        print(f"largest error, {what}: {', '.join(errors)}")


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
    """A map-style Dataset of sounds and their classes, read with soundfile."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: int) -> tuple[Any, int]:
        import soundfile
        import torch

        samples, _ = soundfile.read(self.paths[i], dtype="float32")
        return torch.from_numpy(samples), int(self.paths[i].parent.name.removeprefix("class"))


def batches(loader: Any) -> Callable[[int], int]:
    """Returns a function take(count). It runs whole epochs of a loader until they have at least `count` samples, and returns the number of samples."""

    def take(count: int) -> int:
        taken = 0
        while taken < count:
            taken += sum(len(batch[0] if isinstance(batch, (tuple, list)) else batch) for batch in loader)
        return taken

    return take


def take_turns(title: str, sides: Mapping[str, Callable[[int], int]], count: int, rounds: int) -> None:
    """Measures the sides in turns. Prints the CPU time of each side, and its ratio to the CPU time of Stoker, the first side."""
    for take in sides.values():
        take(count)
    slices: dict[str, list[measure.Slice]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, take in sides.items():
            slices[name].append(measure.measure(take, count))
    costs = {name: [s.cost for s in made] for name, made in slices.items()}
    ours, *others = costs
    middle = statistics.median(costs[ours])
    print(f"{title}, CPU-milliseconds each: {ours} {middle:.3f} ({min(costs[ours]):.3f} to {max(costs[ours]):.3f})")
    for name in others:
        ratios = [b / a for a, b in zip(costs[ours], costs[name], strict=True)]
        their = statistics.median(costs[name])
        print(f"  {name} {their:.3f}: {their / middle:.2f} times Stoker's ({min(ratios):.2f} to {max(ratios):.2f} by rounds)")


def one_thread(worker: int) -> None:
    import torch

    torch.set_num_threads(1)


def data_loader(dataset: Any, options: argparse.Namespace, collate: Callable[[list[Any]], Any] | None = None, shared: bool = False) -> Any:
    from torch.utils.data import DataLoader

    more: dict[str, Any] = {"collate_fn": collate, "worker_init_fn": one_thread, "pin_memory": shared}
    return DataLoader(dataset, options.batch, num_workers=options.threads, persistent_workers=True, **more)


class FileSide(Side):
    """A pipeline of one library that reads files, decodes them on the cores and does the rest of its work on a device."""

    def __init__(
        self, package: str, graph: Callable[[Any, Any], Any], paths: list[str], options: argparse.Namespace, device: int | None = None
    ) -> None:
        fn = importlib.import_module(f"{package}.fn")
        self.pipe = importlib.import_module(package).Pipeline(
            batch_size=options.batch, num_threads=options.threads, device_id=device, prefetch_queue_depth=2 if device is not None else 1
        )
        with self.pipe:
            data, _ = fn.readers.file(files=paths, name="Reader")
            audio, _ = fn.decoders.audio(data, downmix=True, sample_rate=float(RATE))
            self.pipe.set_outputs(graph(fn, audio.gpu() if device is not None else audio))
        self.pipe.build()
        self.device = device

    def next(self) -> list[np.ndarray]:
        (out,) = self.pipe.run()
        out = out.as_cpu() if self.device is not None else out
        return [np.array(out.at(i)) for i in range(len(out))]


def check_equal(made: list[Any], wanted: list[Any], allowed: float) -> None:
    for a, b in zip(made, wanted, strict=True):
        assert a.shape == b.shape and np.abs(a - b).max() <= allowed * (b.max() - b.min()), "the sides differ"


class SampleSet:
    """A map-style Dataset that decodes sound files with the library that `decoder` names."""

    def __init__(self, paths: list[Path], decoder: str) -> None:
        self.paths, self.decoder = paths, decoder

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: int) -> Any:
        import torch

        path = self.paths[i]
        if self.decoder == "wave":  # module `wave` of Python's standard library
            with wave.open(str(path)) as f:
                return torch.from_numpy(np.frombuffer(f.readframes(f.getnframes()), "<i2").astype("float32") / 32768)
        if self.decoder == "soundfile":
            import soundfile

            return torch.from_numpy(soundfile.read(path, dtype="float32")[0])
        from torchcodec.decoders import AudioDecoder

        return AudioDecoder(str(path)).get_all_samples().data[0]


class FeatureSet(SampleSet):
    """A map-style Dataset of log-mel bands."""

    def __init__(self, paths: list[Path], decoder: str) -> None:
        super().__init__(paths, decoder)
        self.steps = mel_of_torchaudio()

    def __getitem__(self, i: int) -> Any:
        sound = super().__getitem__(i)
        for step in self.steps:
            sound = step(sound)
        return sound


def mel_of_torchaudio() -> list[Any]:
    import torchaudio.transforms as T

    return [T.MelSpectrogram(RATE, n_fft=512, win_length=400, hop_length=160, n_mels=80), T.AmplitudeToDB()]


def padded(spectra: list[Any]) -> Any:
    import torch

    return torch.nn.utils.rnn.pad_sequence([s.T for s in spectra], batch_first=True).transpose(1, 2)


def decoders() -> list[str]:
    return [name for name in ("soundfile", "torchcodec") if has(name if name == "soundfile" else "torchcodec.decoders")]


def one_second_files(options: argparse.Namespace) -> None:
    from stoker import Audio, Loader

    with tempfile.TemporaryDirectory() as folder:
        paths = write_wavs(Path(folder), options.files)
        fields = {"audio": Audio(rate=RATE, duration=1.0), "label": None}
        ours = Loader(folder, options.batch, fields=fields, num_threads=options.threads)
        sides = {"stoker": batches(ours)}
        for decoder in decoders():
            theirs = data_loader(SampleSet(paths, decoder), options)
            for (a, _), b in zip(ours, theirs, strict=True):
                assert (a == b).all(), "the sides differ"
            sides[f"DataLoader with {decoder}"] = batches(theirs)
        for package in packages()[1:]:
            sides["DALI"] = FileSide(package, lambda fn, audio: audio, [str(p) for p in paths], options).take
        take_turns("WAVs of one second", sides, options.files, options.rounds)


# ---- FLAC ----


def crc(data: bytes, bits: int, polynomial: int) -> int:
    """Returns FLAC's checksum of a header (8 bits) or of a block (16 bits)."""
    table, top, mask = [], 1 << (bits - 1), (1 << bits) - 1
    for value in range(256):
        value <<= bits - 8
        for _ in range(8):
            value = (value << 1 ^ polynomial if value & top else value << 1) & mask
        table.append(value)
    made = 0
    for byte in data:
        made = (made << 8 & mask) ^ table[(made >> (bits - 8)) ^ byte]
    return made


def flac_block(samples: np.ndarray, number: int) -> bytes:
    """Encodes a block of 16-bit samples of one channel: stores the difference of each sample from the line through the previous two, in Rice's code."""
    x = samples.astype(np.int64)
    left = x[2:] - 2 * x[1:-1] + x[:-2]
    folded = np.where(left < 0, -2 * left - 1, 2 * left)
    low = min(14, int(np.log2(folded.mean() + 1)))
    quotient = folded >> low
    ends = np.cumsum(quotient + 1 + low)
    ones = ends - low - 1
    bits = np.zeros(int(ends[-1]), np.uint8)
    bits[ones] = 1
    for k in range(low):
        bits[ones + 1 + k] = folded >> (low - 1 - k) & 1
    start = f"{0b00010100:08b}{int(x[0]) & 0xFFFF:016b}{int(x[1]) & 0xFFFF:016b}{0:06b}{low:04b}"
    body = np.packbits(np.concatenate([np.frombuffer(start.encode(), np.uint8) - ord("0"), bits])).tobytes()
    head = b"\xff\xf8\x75\x08" + chr(number).encode() + struct.pack(">H", len(x) - 1)  # 16 kHz, one channel, 16 bits
    block = head + bytes([crc(head, 8, 0x07)]) + body
    return block + struct.pack(">H", crc(block, 16, 0x8005))


def flac_file(samples: np.ndarray) -> bytes:
    """Encodes 16-bit samples of one channel at 16 kHz, in blocks of 4096. The last block must have at least 3 samples."""
    at = range(0, len(samples), 4096)
    facts = RATE << 44 | 15 << 36 | len(samples)  # rate, channels - 1, bits - 1, samples
    info = struct.pack(">HH3s3sQ16s", 4096, 4096, b"", b"", facts, b"")
    return b"fLaC\x80\x00\x00\x22" + info + b"".join(flac_block(samples[i : i + 4096], k) for k, i in enumerate(at))


def write_flacs(folder: str, count: int) -> list[Path]:
    paths = []
    for i, signal in enumerate(utterances(count)):
        paths.append(Path(folder, f"{i:04}.flac"))
        samples = (signal * 32767).astype("<i2")
        if shutil.which("ffmpeg"):
            command = ["ffmpeg", "-v", "error", "-y", "-f", "s16le", "-ar", str(RATE), "-ac", "1", "-i", "-", str(paths[-1])]
            subprocess.run(command, input=samples.tobytes(), check=True)
        else:
            paths[-1].write_bytes(flac_file(samples))
    return paths


def flac_files(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = write_flacs(folder, options.utterances)
        names = [str(p) for p in paths]
        pipes = {p.removeprefix("nvidia."): FileSide(p, features, names, options) for p in packages()}
        ours, *others = (side.next() for side in pipes.values())
        for theirs in others:
            check_equal(ours, theirs, 1e-4)
        sides: dict[str, Callable[[int], int]] = {name: side.take for name, side in pipes.items()}
        if has("torchaudio"):
            sides.update(loaders_of_flac(paths, options))
        take_turns("FLAC to 80 log-mel bands", sides, options.utterances, options.rounds)


def loaders_of_flac(paths: list[Path], options: argparse.Namespace) -> dict[str, Callable[[int], int]]:
    from stoker import Audio, Loader

    names = [str(p) for p in paths]
    ours = Loader(names, options.batch, fields={"audio": Audio(rate=RATE)}, transforms=mel_of_torchaudio(), num_threads=options.threads)
    sides = {"Loader": batches(ours)}
    for decoder in decoders():
        theirs = data_loader(FeatureSet(paths, decoder), options, padded)
        for batch, b in zip(ours, theirs, strict=True):
            for k, n in enumerate(batch.audio_lengths.tolist()):
                check_equal([batch.audio[k, :, :n].numpy()], [b[k, :, :n].numpy()], 1e-4)
        sides[f"torchaudio with {decoder}"] = batches(theirs)
    return sides


# ---- on a GPU ----


class MelOnGpu:
    """Computes log-mel bands of padded batches on the GPU, with torchaudio or only with torch."""

    def __init__(self) -> None:
        import torch

        if has("torchaudio"):
            self.steps = [step.cuda() for step in mel_of_torchaudio()]
            return
        self.window = torch.hann_window(400).cuda()
        mel = np.linspace(0, 2595 * np.log10(1 + RATE / 2 / 700), 82)
        edges = 700 * (10 ** (mel / 2595) - 1)
        at = np.arange(257) * RATE / 512
        up, down = (at[:, None] - edges[:-2]) / np.diff(edges)[:-1], (edges[2:] - at[:, None]) / np.diff(edges)[1:]
        bands = torch.from_numpy(np.maximum(0, np.minimum(up, down)).astype("float32")).cuda()
        self.steps = [self.power, lambda s: torch.einsum("nft,fm->nmt", s, bands), lambda m: 10 * torch.log10(m.clamp(min=1e-10))]

    def power(self, sounds: Any) -> Any:
        import torch

        made = torch.stft(sounds, 512, 160, 400, self.window, center=True, pad_mode="reflect", return_complex=True)
        return made.real.square() + made.imag.square()

    def __call__(self, sounds: Any) -> Any:
        for step in self.steps:
            sounds = step(sounds)
        return sounds


def padded_sounds(sounds: list[Any]) -> Any:
    import torch

    return torch.nn.utils.rnn.pad_sequence(sounds, batch_first=True)


def torch_on_gpu(paths: list[Path], decoder: str, options: argparse.Namespace) -> Callable[[int], int]:
    loader, mel = data_loader(SampleSet(paths, decoder), options, padded_sounds, True), MelOnGpu()

    def take(count: int) -> int:
        taken = 0
        while taken < count:
            taken += sum(len(mel(sounds.cuda(non_blocking=True))) for sounds in loader)
        return taken

    return take


def gpu_files(title: str, paths: list[Path], options: argparse.Namespace) -> None:
    """Compares how many files per second become features in GPU memory."""
    import torch

    names = [str(p) for p in paths]
    pipes = {p.removeprefix("nvidia."): FileSide(p, features, names, options, 0) for p in packages()}
    ours, *others = (side.next() for side in pipes.values())
    for theirs in others:
        check_equal(ours, theirs, 1e-4)
    sides: dict[str, Callable[[int], int]] = {name: side.take for name, side in pipes.items()}
    for decoder in ("wave",) if paths[0].suffix == ".wav" else decoders()[:1]:
        sides[f"torch with {decoder}"] = torch_on_gpu(paths, decoder, options)
    rates: dict[str, list[float]] = {name: [] for name in sides}
    count = 4 * len(paths)
    for take in sides.values():
        take(len(paths))
    for _ in range(options.rounds):
        for name, take in sides.items():
            torch.cuda.synchronize()
            begin = time.perf_counter()
            taken = take(count)
            torch.cuda.synchronize()
            rates[name].append(taken / (time.perf_counter() - begin))
    first = statistics.median(rates["stoker"])
    for name, made in rates.items():
        their = statistics.median(made)
        print(
            f"{title}, {name}: {their:.0f} files a second ({min(made):.0f} to {max(made):.0f}); Stoker {first / their:.2f} times",
            flush=True,
        )


def kernel_times(work: Callable[[], Any], rounds: int) -> dict[str, float]:
    """Returns a dict from the name of each kernel and copy of work() on the GPU to the median of its times in seconds. A kernel that work() runs several
    times is in it once, with the median of all its runs."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    work()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as made:
        for _ in range(rounds):
            work()
        torch.cuda.synchronize()
    times: dict[str, list[float]] = {}
    for event in made.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            times.setdefault(event.name, []).append(event.time_range.elapsed_us() * 1e-6)
    return {name: statistics.median(t) for name, t in times.items()}


def copied_bytes_a_second() -> float:
    """Measures how many bytes per second a copy of 1 GiB in GPU memory reads and writes."""
    import torch

    a = torch.zeros(1 << 28, device="cuda")
    b = torch.empty_like(a)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    b.copy_(a)
    begin.record()
    for _ in range(10):
        b.copy_(a)
    end.record()
    torch.cuda.synchronize()
    return 10 * 2 * a.nbytes / (begin.elapsed_time(end) * 1e-3)


KERNELS = {"spectrogram": "spectrum_512", "bands": "bands_tile"}


def gpu_features(options: argparse.Namespace) -> None:
    """Prints the time and the bandwidth of each kernel that computes features of waveforms on the GPU. For comparison, also prints the time of torch's
    spectrogram and of all its steps to features, for the same waveforms as a padded batch."""
    import stoker
    import torch
    from stoker import fn

    sounds = [torch.from_numpy(s).cuda() for s in utterances(options.utterances)]
    frames = sum(len(s) // 160 + 1 for s in sounds)
    moved = {
        "spectrogram": sum(s.nbytes for s in sounds) + 4 * 257 * frames,
        "bands": 4 * (257 + 80) * frames,
        "decibels": 4 * 160 * frames,
    }
    peak = copied_bytes_a_second()
    print(f"{torch.cuda.get_device_name()}: a copy moves {peak * 1e-12:.2f} TB/s; {len(sounds)} waveforms of {frames} frames", flush=True)
    pipe = stoker.Pipeline(batch_size=len(sounds), num_threads=options.threads, device_id=0)
    with pipe:
        pipe.set_outputs(features(fn, fn.external_source(source=[sounds], cycle=True, device="gpu")))
    pipe.build()
    for kernel, seconds in kernel_times(pipe.run, 20).items():
        for job, bytes_moved in moved.items():
            if kernel.partition("(")[0] == f"job_{KERNELS.get(job, job)}":
                rate = bytes_moved / seconds
                print(f"{job}: {seconds * 1e3:.3f} ms, {rate * 1e-12:.2f} TB/s, {rate / peak:.2f} of a copy's bandwidth", flush=True)
    batch, mel = torch.nn.utils.rnn.pad_sequence(sounds, batch_first=True), MelOnGpu()
    for name, times in (
        ("spectrogram", kernel_times(lambda: mel.steps[0](batch), 20)),
        ("all features", kernel_times(lambda: mel(batch), 20)),
    ):
        total = sum(times.values())
        print(f"torch's {name} of the padded batch: {total * 1e3:.3f} ms at least: its kernels, each counted once", flush=True)


def on_gpu(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        flacs = write_flacs(folder, options.utterances)
        wavs = []
        for k, signal in enumerate(utterances(options.utterances)):
            wavs.append(Path(folder, f"{k:04}.wav"))
            with wave.open(str(wavs[-1]), "wb") as f:
                f.setparams((1, 2, RATE, 0, "NONE", ""))
                f.writeframes((signal * 32767).astype("<i2").tobytes())
        gpu_features(options)
        gpu_files("WAV to 80 log-mel bands", wavs, options)
        gpu_files("FLAC to 80 log-mel bands", flacs, options)


WORK: dict[str, Callable[[argparse.Namespace], None]] = {
    "features": lambda options: compare("features of utterances", features, utterances(options.utterances), options, 1e-4),
    "files": one_second_files,
    "flac": flac_files,
    "resample": resampling,  # must be the last one, since it changes options.batch
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help=f"{', '.join(WORK)}; default: features and resample")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--utterances", type=int, default=64)
    parser.add_argument("--files", type=int, default=4000)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    what = options.what or ["features", "resample"]
    if unknown := set(what) - set(WORK):
        parser.error(f"unknown: {' '.join(unknown)}")
    if options.gpu:
        on_gpu(options)
        return
    for name, work in WORK.items():
        if name in what:
            work(options)


if __name__ == "__main__":
    main()
