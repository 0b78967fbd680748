# SPDX-License-Identifier: Apache-2.0
"""The functions of doc/audio.md that make the features of well-known models, compared with the models' definitions in float64."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from sound_files import tone, wav
from stoker import Pipeline, fn
from support import SEED

torch = pytest.importorskip("torch")

PAGE = Path(__file__).resolve().parents[2] / "doc" / "audio.md"
RATE = 16000


@pytest.fixture(scope="module")
def functions():
    """Returns a dict with the functions that the program with whisper() in doc/audio.md defines."""
    block = next(b for b in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S) if "def whisper(" in b)
    names = {"math": math, "fn": fn}
    exec(compile(block.partition("@pipeline_def")[0], str(PAGE), "exec"), names)
    return names


@pytest.fixture(scope="module", params=[3.0, 0.61, 30.0])
def sound(request, tmp_path_factory):
    """Returns the path of a sound file, and its samples."""
    path = tmp_path_factory.mktemp("sound") / "a.wav"
    samples = (tone(np.random.default_rng(SEED), int(request.param * RATE)) * 32767).astype("<i2")
    samples[: len(samples) // 4] //= 200  # makes the first quarter quiet
    path.write_bytes(wav(samples, RATE))
    return path, samples[:, 0] / 32768


def made(path, function, **window):
    pipe = Pipeline(1, num_threads=1)
    with pipe:
        data, _ = fn.readers.file(files=[str(path)])
        audio, _ = fn.decoders.audio(data, downmix=True, sample_rate=float(RATE), **window)
        pipe.set_outputs(function(audio))
    pipe.build()
    return np.asarray(pipe.run()[0].at(0)).astype(np.float64)


def slaney_filters(bands: int, nfft: int) -> np.ndarray:
    """Returns librosa's default filters, (bands, bins): triangles of area 1 in Hz, between points at equal distances in mel."""

    def hertz(mel):
        return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) * np.log(6.4) / 27))

    top = 15 + 27 * np.log(RATE / 2 / 1000) / np.log(6.4)
    points, bins = hertz(np.linspace(0, top, bands + 2)), np.arange(nfft // 2 + 1) * RATE / nfft
    low, middle, high = (points[k : bands + k, None] for k in range(3))
    return np.maximum(0, np.minimum((bins - low) / (middle - low), (high - bins) / (high - middle))) * 2 / (high - low)


def powers(samples: np.ndarray, nfft: int, window: torch.Tensor) -> np.ndarray:
    found = torch.stft(torch.from_numpy(samples), nfft, 160, len(window), window.double(), return_complex=True)
    return (found.abs() ** 2).numpy()


def close(got, want, part):
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= part * (want.max() - want.min())


@pytest.mark.parametrize("bands", [80, 128])
def test_features_of_whisper_equal_its_definition(functions, sound, bands):
    path, samples = sound
    padded = np.concatenate([samples, np.zeros(30 * RATE - len(samples))])
    mel = slaney_filters(bands, 400) @ powers(padded, 400, torch.hann_window(400))[:, :-1]
    log = np.log10(np.maximum(mel, 1e-10))
    want = (np.maximum(log, log.max() - 8) + 4) / 4
    close(made(path, lambda audio: functions["whisper"](audio, bands), duration=30.0, pad=True), want, 2e-5)


def test_features_of_wav2vec2_equal_its_definition(functions, sound):
    path, samples = sound
    close(made(path, functions["wav2vec2"]), (samples - samples.mean()) / np.sqrt(samples.var() + 1e-7), 1e-6)


def test_features_of_nemo_equal_its_definition(functions, sound):
    path, samples = sound
    filtered = np.concatenate([samples[:1], samples[1:] - 0.97 * samples[:-1]])
    log = np.log(slaney_filters(80, 512) @ powers(filtered, 512, torch.hann_window(400, periodic=False)) + 2.0**-24)
    want = (log - log.mean(1, keepdims=True)) / (log.std(1, keepdims=True, ddof=1) + 1e-5)
    close(made(path, functions["nemo"]), want, 5e-5)


def test_the_filters_are_librosas():
    librosa = pytest.importorskip("librosa")
    for bands, nfft in ((80, 400), (128, 400), (80, 512)):
        assert np.abs(slaney_filters(bands, nfft) - librosa.filters.mel(sr=RATE, n_fft=nfft, n_mels=bands)).max() < 1e-8


@pytest.fixture(scope="module")
def kaldi():
    """Returns the function kaldi() that doc/audio.md shows."""
    block = next(b for b in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S) if "def kaldi(" in b)
    names = {"math": math}
    exec(compile(block, str(PAGE), "exec"), names)
    return names["kaldi"]


def fbank(samples: np.ndarray, bands: int, low: float, high: float) -> np.ndarray:
    """Returns Kaldi's features by definition: subtracts the mean of each frame, applies pre-emphasis and a window, sums the spectrum's powers with filters
    that are triangles on the mel scale, and takes logarithms."""
    frames = np.lib.stride_tricks.sliding_window_view(samples * 32768, 400)[::160]
    frames = frames - frames.mean(1, keepdims=True)
    frames = frames - 0.97 * np.concatenate([frames[:, :1], frames[:, :-1]], 1)
    window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 399)) ** 0.85
    powers = np.abs(np.fft.rfft(frames * window, 512)) ** 2
    mel = [1127 * np.log(1 + hertz / 700) for hertz in (np.arange(257) * RATE / 512, low, high)]
    step = (mel[2] - mel[1]) / (bands + 1)
    filters = np.maximum(0, 1 - np.abs((mel[0] - mel[1]) / step - 1 - np.arange(bands)[:, None]))
    filters[:, 256] = 0  # Kaldi omits the bin at half of the sampling rate
    return np.log(np.maximum(powers @ filters.T, 2.0**-23))


@pytest.mark.parametrize(("bands", "low", "high"), ((80, 20.0, 8000.0), (23, 20.0, 8000.0), (40, 64.0, 7600.0)))
def test_features_of_kaldi_equal_its_definition(kaldi, sound, bands, low, high):
    path, samples = sound
    close(made(path, lambda audio: kaldi(audio, bands, low, high)), fbank(samples, bands, low, high), 5e-5)


@pytest.mark.parametrize("count", (400, 559, 560, 20001))
def test_kaldi_of_torchaudio(kaldi, tmp_path, count):
    compliance = pytest.importorskip("torchaudio.compliance.kaldi")
    # Kaldi subtracts the mean, so the samples have a mean other than 0.
    samples = (np.random.default_rng(SEED).standard_normal(count) * 3000 + 500).astype("<i2")
    (tmp_path / "a.wav").write_bytes(wav(samples[:, None], RATE))
    want = compliance.fbank(torch.from_numpy(samples.astype("float32"))[None], num_mel_bins=80, energy_floor=0.0).numpy()
    close(made(tmp_path / "a.wav", kaldi), want, 1e-4)
    close(fbank(samples / 32768, 80, 20.0, 8000.0), want, 1e-4)
