# SPDX-License-Identifier: Apache-2.0
"""Operators on signals, compared with NumPy in double precision. The definitions are those that librosa and SciPy share with the operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from stoker import Pipeline, fn, types
from stoker.errors import StokerError


def run(operator: Any, sample: np.ndarray, **kwargs: Any) -> np.ndarray:
    pipe = Pipeline(batch_size=1, num_threads=1, device_id=None)
    with pipe:
        made = operator(fn.external_source(source=[[sample]], cycle=True), **kwargs)
        pipe.set_outputs(*made if isinstance(made, (list, tuple)) else [made])
    return np.array(pipe.run()[0].at(0))


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(list(shape)).standard_normal(shape).astype("float32")


@pytest.mark.parametrize("n", [*range(1, 70), 121, 127, 243, 400, 441, 625, 997, 1024, 1500, 2310, 4099, 30030])
def test_transforms_of_any_length(n: int) -> None:
    x = noise(n)
    expected = np.abs(np.fft.rfft(x.astype("float64"))) ** 2
    np.testing.assert_allclose(run(fn.power_spectrum, x), expected, atol=4e-6 * expected.max(), rtol=0)


def test_a_tone_has_one_bin() -> None:
    x = np.cos(2 * np.pi * 5 / 64 * np.arange(640)).astype("float32")
    made = run(fn.spectrogram, x, nfft=64, window_length=64, window_step=64, window_fn=[1.0] * 64, center_windows=False)
    expected = np.zeros((33, 10))
    expected[5] = 32**2
    np.testing.assert_allclose(made, expected, atol=1e-3)


def slaney_mel(hz: np.ndarray) -> np.ndarray:
    return np.where(hz < 1000, hz * 3 / 200, 15 + np.log(np.maximum(hz, 1e-9) / 1000) / np.log(6.4) * 27)


def librosa_mel(rate: float, nfft: int, bands: int, low: float, high: float, htk: bool, norm: bool) -> np.ndarray:
    """Returns the filter bank of librosa.filters.mel, from its documentation."""
    grid = np.linspace(0, high, 400001)
    mels = 2595 * np.log10(1 + grid / 700) if htk else slaney_mel(grid)
    ends = np.interp([low, high], grid, mels)
    edges = np.interp(np.linspace(ends[0], ends[1], bands + 2), mels, grid)
    hz = np.linspace(0, rate / 2, nfft // 2 + 1)
    up = (hz - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - hz) / (edges[2:] - edges[1:-1])[:, None]
    weights = np.maximum(0, np.minimum(up, down))
    return weights * (2 / (edges[2:] - edges[:-2]))[:, None] if norm else weights


@pytest.mark.parametrize("htk", [False, True])
@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize(
    ("rate", "nfft", "bands", "low", "high"), [(16000, 512, 80, 0, 8000), (22050, 2048, 128, 20, 9000), (8000, 200, 23, 300, 3400)]
)
def test_mel_bands_are_librosas(htk: bool, norm: bool, rate: int, nfft: int, bands: int, low: float, high: float) -> None:
    made = run(
        fn.mel_filter_bank,
        np.eye(nfft // 2 + 1, dtype="float32"),
        sample_rate=float(rate),
        nfilter=bands,
        freq_low=float(low),
        freq_high=float(high),
        mel_formula="htk" if htk else "slaney",
        normalize=norm,
    )
    expected = librosa_mel(rate, nfft, bands, low, high, htk, norm)
    np.testing.assert_allclose(made, expected, atol=1e-5 * expected.max(), rtol=0)


def test_decibels_are_logarithms() -> None:
    x = np.exp(np.random.default_rng(5).uniform(-80, 80, 100000)).astype("float32")
    expected = 10 * np.log10(np.maximum(x.astype("float64") / 3, 1e-30))
    made = run(fn.to_decibels, x, reference=3.0, cutoff_db=-300.0)
    np.testing.assert_allclose(made, expected, rtol=4e-7, atol=2e-6)


@pytest.mark.parametrize("count", [1, 5, 8, 43])
@pytest.mark.parametrize("reference", [None, 2.0])
def test_decibels_of_nan(count: int, reference: float | None) -> None:
    """NaN becomes the lowest output, as in DALI, or stays NaN with keep_nan. Other values, also infinite ones, are the same."""
    x = np.linspace(0.5, 4, count, dtype="float32")
    x[::3], x[1::7] = np.nan, np.inf if reference else 3
    x[4::11], x[2::13] = -1, -np.nan
    kwargs = {"cutoff_db": -50.0, **({} if reference is None else {"reference": reference})}
    plain, kept = (run(fn.to_decibels, x, keep_nan=keep, **kwargs) for keep in (False, True))
    np.testing.assert_array_equal(np.isnan(kept), np.isnan(x))
    np.testing.assert_array_equal(plain[~np.isnan(x)], kept[~np.isnan(x)])
    np.testing.assert_allclose(plain[np.isnan(x)], -50, rtol=1e-6)
    np.testing.assert_array_equal(np.isinf(kept), np.isinf(x))


@pytest.mark.parametrize("columns", [1, 2, 7, 8, 9, 31, 32, 33, 40, 71])
def test_sums_of_any_width(columns: int) -> None:
    x = noise(3, 40, columns)
    k, i = np.mgrid[0:13, 0:40]
    expected = np.sqrt(np.where(k == 0, 1, 2) / 40) * np.cos(np.pi * k * (2 * i + 1) / 80)
    np.testing.assert_allclose(run(fn.mfcc, x, axis=1, n_mfcc=13, normalize=True), np.einsum("ki,oic->okc", expected, x), atol=1e-5)


def mel_pipeline(samples: list[np.ndarray], layout: str, also_power: bool) -> Any:
    pipe = Pipeline(batch_size=len(samples), num_threads=2, device_id=None)
    with pipe:
        power = fn.spectrogram(fn.external_source(source=[samples], cycle=True), nfft=200, window_length=180, window_step=60, layout=layout)
        mel = fn.to_decibels(fn.mel_filter_bank(power, sample_rate=16000.0, nfilter=23))
        pipe.set_outputs(mel, *([power] if also_power else []))
    pipe.build()
    return pipe


@pytest.mark.parametrize("layout", ["ft", "tf"])
def test_a_spectrum_that_is_not_stored_gives_the_same_bands(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [noise(n) for n in (1, 59, 60, 400, 419, 420, 421, 5000, 4321)]
    held = mel_pipeline(samples, layout, also_power=False)
    kept = mel_pipeline(samples, layout, also_power=True)
    monkeypatch.setenv("STOKER_FUSE", "0")
    plain = mel_pipeline(samples, layout, also_power=False)
    made = [[np.array(p.run()[0].at(i)) for i in range(len(samples))] for p in (held, kept, plain)]
    assert "not stored" in held.explain()
    assert "not stored" not in kept.explain() + plain.explain()
    for a, b, c in zip(*made, strict=True):
        assert a.tobytes() == b.tobytes() == c.tobytes()


def test_a_spectrum_along_another_dimension_is_stored() -> None:
    """A reshape calls the axis of time "f", so mel bands become sums over times. The fused operators, which store no spectrum, cannot compute such sums."""
    samples = [noise(4000)]
    pipe = Pipeline(batch_size=1, num_threads=1, device_id=None)
    with pipe:
        power = fn.spectrogram(fn.external_source(source=[samples], cycle=True), nfft=64, window_length=64, window_step=64, layout="tf")
        pipe.set_outputs(fn.mel_filter_bank(fn.reshape(power, layout="fa"), nfilter=9), power)
    bands, spectrum = (np.array(o.at(0)) for o in pipe.run())
    assert bands.shape == (9, 33)
    np.testing.assert_array_equal(bands, run(fn.mel_filter_bank, spectrum, nfilter=9))


def windowed_sinc(x: np.ndarray, ratio: float, length: int, lobes: int) -> np.ndarray:
    """Returns x, resampled to `length` values with the windowed sinc of src/kernel/sinc/sinc.h, in double precision."""
    position = np.arange(length) * ratio
    distance = np.arange(len(x))[None] - position[:, None]
    weights = np.sinc(distance) * 0.5 * (1 + np.cos(np.pi * distance / (lobes + 1 / 64)))
    return np.where(np.abs(distance) <= lobes, weights, 0) @ x.astype("float64")


@pytest.mark.parametrize(("quality", "lobes"), [(0.0, 3), (20.0, 4), (50.0, 16), (100.0, 64)])
@pytest.mark.parametrize("rates", [(44100.0, 16000.0), (16000.0, 44100.0), (1.0, 1.37), (1.0, 0.2345), (8000.0, 8000.0)])
def test_resampling_is_exact(quality: float, lobes: int, rates: tuple[float, float]) -> None:
    x = noise(700)
    ratio = float(np.float32(rates[0])) / float(np.float32(rates[1]))
    made = run(fn.audio_resample, x, in_rate=rates[0], out_rate=rates[1], quality=quality)
    np.testing.assert_allclose(made, windowed_sinc(x, ratio, len(made), lobes), atol=1e-5)
    same = run(fn.audio_resample, x, scale=rates[1] / rates[0], quality=quality)
    assert abs(len(same) - len(made)) <= 1


def test_resampling_between_rates_has_an_exact_length() -> None:
    """The length is rounded up only if the product is not whole: 147 samples at 44.1 kHz are 160 at 48 kHz."""
    for before, after in ((44100, 48000), (22050, 48000), (11025, 24000), (48000, 44100), (44100, 16000), (16000, 44100)):
        for count in (1, 146, 147, 148, 294, 441, 640, 4410):
            made = run(fn.audio_resample, noise(count), in_rate=float(before), out_rate=float(after))
            assert len(made) == -(-count * after // before)


def test_resampling_to_a_length() -> None:
    x = noise(700)
    for length in (1, 7, 350, 699, 700, 701, 1999):
        made = run(fn.audio_resample, x, out_length=length)
        np.testing.assert_allclose(made, windowed_sinc(x, 700 / length, length, 16), atol=1e-5)


def region(x: np.ndarray, window: int, cutoff: float, reference: float) -> tuple[int, int]:
    window = min(window, len(x))
    power = np.convolve(x.astype("float64") ** 2, np.ones(window), "valid") / window
    loud = np.flatnonzero(power >= 10 ** (cutoff / 10) * (reference or power.max()))
    return (int(loud[0]), int(loud[-1] - loud[0] + window)) if len(loud) else (0, 0)


@pytest.mark.parametrize("length", [1, 2, 30, 1023, 1024, 1025, 1100, 5000, 20000])
@pytest.mark.parametrize("window", [1, 7, 64, 2000])
def test_regions_that_are_not_silent(length: int, window: int) -> None:
    rng = np.random.default_rng([length, window])
    x = (rng.standard_normal(length) * np.exp(-np.abs(np.linspace(-6, 7, length)))).astype("float32")
    for cutoff in (-60.0, -20.0, -3.0, 3.0):
        for reference in (0.0, 0.01):
            kwargs = {"window_length": window, "cutoff_db": cutoff, "reference_power": reference, "reset_interval": -1}
            pipe = Pipeline(batch_size=1, num_threads=1, device_id=None)
            with pipe:
                pipe.set_outputs(*fn.nonsilent_region(fn.external_source(source=[[x]], cycle=True), **kwargs))
            begin, count = (int(np.array(o.at(0))) for o in pipe.run())
            assert (begin, count) == region(x, window, cutoff, reference)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [0, 1200, 3999])
def test_samples_that_are_not_finite_are_silent(bad: float, at: int) -> None:
    x = np.zeros(4000, "float32")
    x[1000:1100] = x[1300:1900] = 0.5
    x[at] = bad
    pipe = Pipeline(batch_size=1, num_threads=1, device_id=None)
    with pipe:
        pipe.set_outputs(*fn.nonsilent_region(fn.external_source(source=[[x]], cycle=True), window_length=64, reset_interval=-1))
    begin, count = (int(np.array(o.at(0))) for o in pipe.run())
    assert (begin, count) == region(np.where(np.isfinite(x), x, 0), 64, -60.0, 0.0)


def test_silence_after_a_loud_part_is_silent() -> None:
    """Sums in float32 would keep rounding errors of the loud part."""
    x = np.zeros(20000, "float32")
    x[1000:9000] = noise(8000) * 1000
    pipe = Pipeline(batch_size=1, num_threads=1, device_id=None)
    with pipe:
        pipe.set_outputs(
            *fn.nonsilent_region(fn.external_source(source=[[x]], cycle=True), window_length=500, reset_interval=-1, cutoff_db=-100.0)
        )
    begin, count = (int(np.array(o.at(0))) for o in pipe.run())
    assert (begin, begin + count) == (501, 9499)


@pytest.mark.parametrize(
    ("operator", "sample", "kwargs", "says"),
    [
        (fn.spectrogram, noise(100), {"nfft": 256}, r"nfft \(256\) cannot be less than window_length \(512\)"),
        (fn.spectrogram, noise(100, 2), {}, "100 and 2 are: slice the channels first"),
        (fn.spectrogram, noise(100), {"center_windows": False}, "100 samples is shorter than window_length"),
        (fn.spectrogram, noise(100), {"window_fn": [1.0, 2.0]}, "window_fn has 2 weights and window_length is 512"),
        (fn.power_spectrum, noise(100), {"axis": 1}, "axis 1 is out of range for a tensor of 1 dimensions"),
        (fn.power_spectrum, noise(100).astype("int16"), {}, "takes float32, not int16: cast the input first"),
        (fn.mel_filter_bank, noise(100, 2), {"freq_high": 1e6}, "at most sample_rate"),
        (fn.to_decibels, noise(100), {"multiplier": 0.0}, "multiplier must be above 0"),
        (fn.audio_resample, noise(10), {}, "needs in_rate and out_rate, scale, or out_length"),
        (fn.audio_resample, noise(10), {"in_rate": 1.0}, "out_rate is missing"),
        (fn.audio_resample, noise(10).astype("float64"), {"scale": 2.0}, "not float64: cast the input"),
        (fn.audio_resample, noise(10), {"scale": 2.0, "dtype": types.FLOAT64}, "not float64: cast the result"),
        (fn.audio_resample, noise(10), {"scale": 1e9}, "the output would have 10000000000 samples"),
        (
            fn.nonsilent_region,
            noise(10),
            {"reset_interval": 5},
            r"reset_interval \(5\) must be -1 or a multiple of window_length \(2048\) for float32",
        ),
        (fn.to_decibels, noise(10), {"reference": 0.0}, r"`reference` argument can't be zero"),
        (fn.nonsilent_region, noise(10, 2), {}, "slice channels first"),
        (fn.mfcc, noise(10, 2), {"dct_type": 1, "normalize": True}, "dct_type 1 has no orthogonal form"),
    ],
)
def test_wrong_calls_say_what_is_wrong(operator: Any, sample: np.ndarray, kwargs: dict[str, Any], says: str) -> None:
    with pytest.raises(StokerError, match=says):
        run(operator, sample, **kwargs)
