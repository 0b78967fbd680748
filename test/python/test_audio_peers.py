# SPDX-License-Identifier: Apache-2.0
"""Features of sounds differ from librosa's and torchaudio's by at most 1e-4 of their range. Needs these packages, for example in their own environment:
PYTHONPATH=build/python STOKER_BUILD=build /tmp/peers/bin/python -m pytest test/python/test_audio_peers.py"""

from __future__ import annotations

import numpy as np
import pytest
from sound_files import tone
from stoker import Pipeline, fn
from support import SEED

RATE = 16000


def run(samples, graph):
    pipe = Pipeline(1, 1, None)
    with pipe:
        pipe.set_outputs(graph(fn.external_source(source=[[samples]], cycle=True)))
    return np.array(pipe.run()[0].at(0))


def close(made, want, allowed=1e-4):
    want = np.asarray(want)
    assert made.shape == want.shape
    assert np.abs(made - want).max() <= allowed * (want.max() - want.min())


@pytest.fixture(scope="module")
def sound():
    return tone(np.random.default_rng(SEED), 20000)[:, 0].astype("float32")


@pytest.mark.parametrize(("nfft", "window", "step"), ((512, 400, 160), (1024, 1024, 256), (400, 400, 100)))
@pytest.mark.parametrize("power", (1, 2))
def test_spectrogram_of_librosa(sound, nfft, window, step, power):
    librosa = pytest.importorskip("librosa")
    made = run(sound, lambda x: fn.spectrogram(x, nfft=nfft, window_length=window, window_step=step, power=power))
    # fn.spectrogram uses DALI's Hann window, sampled at n + 0.5. librosa's default is sampled at n, so librosa gets DALI's window as an argument.
    hann = np.sin(np.pi * (np.arange(window) + 0.5) / window) ** 2
    want = np.abs(librosa.stft(sound, n_fft=nfft, win_length=window, hop_length=step, window=hann, pad_mode="reflect")) ** power
    close(made, want)


@pytest.mark.parametrize("formula", ("slaney", "htk"))
@pytest.mark.parametrize("norm", (True, False))
def test_mel_bands_of_librosa(sound, formula, norm):
    librosa = pytest.importorskip("librosa")
    power = run(sound, lambda x: fn.spectrogram(x, nfft=512, window_length=400, window_step=160))
    made = run(power, lambda s: fn.mel_filter_bank(s, sample_rate=float(RATE), nfilter=64, mel_formula=formula, normalize=norm))
    want = librosa.feature.melspectrogram(S=power, sr=RATE, n_mels=64, htk=formula == "htk", norm="slaney" if norm else None)
    close(made, want)
    decibels = run(made, lambda m: fn.to_decibels(m, cutoff_db=-80.0))
    close(decibels, librosa.power_to_db(made, ref=np.max, top_db=80))
    close(
        run(decibels, lambda d: fn.mfcc(d, n_mfcc=20, dct_type=2, normalize=True)),
        librosa.feature.mfcc(S=decibels, n_mfcc=20, dct_type=2, norm="ortho"),
    )


def test_preemphasis_of_librosa(sound):
    librosa = pytest.importorskip("librosa")
    made = run(sound, lambda x: fn.preemphasis_filter(x, preemph_coeff=0.95, border="zero"))
    close(made, librosa.effects.preemphasis(sound, coef=0.95, zi=[0.0]))


def test_features_of_torchaudio(sound):
    torch, transforms = pytest.importorskip("torch"), pytest.importorskip("torchaudio.transforms")
    step = transforms.MelSpectrogram(RATE, n_fft=512, win_length=400, hop_length=160, n_mels=40)
    window = np.pad(np.hanning(401)[:-1], 56).tolist()  # torch's window is periodic

    def graph(x):
        power = fn.spectrogram(x, nfft=512, window_length=512, window_step=160, window_fn=window)
        return fn.mel_filter_bank(power, sample_rate=float(RATE), nfilter=40, mel_formula="htk", normalize=False)

    close(run(sound, graph), step(torch.from_numpy(sound)).numpy())


@pytest.mark.parametrize(("before", "after"), ((44100, 16000), (16000, 8000), (8000, 16000)))
def test_resampling_of_torchaudio(before, after):
    """The libraries' filters differ, so the test compares a tone far below half of both rates, without the ends."""
    torch, functional = pytest.importorskip("torch"), pytest.importorskip("torchaudio.functional")
    x = (0.5 * np.sin(2 * np.pi * 440 * np.arange(before) / before)).astype("float32")
    made = run(x, lambda s: fn.audio_resample(s, in_rate=float(before), out_rate=float(after)))
    want = functional.resample(torch.from_numpy(x), before, after, lowpass_filter_width=64).numpy()
    n = min(len(made), len(want))
    assert abs(len(made) - len(want)) <= 1
    assert np.abs(made[200 : n - 200] - want[200 : n - 200]).max() < 2e-3
