# SPDX-License-Identifier: Apache-2.0
"""Cases of operators on signals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from harness import Batch, Case, Name, T, rng_of
from samples import INTEGERS, per_sample


def signals(rng: np.random.Generator, *lengths: int) -> Batch:
    """Returns signals of these lengths: tones with noise."""
    made = []
    for n in lengths or (4000, 700, 3123):
        t = np.arange(n)
        made.append(
            (np.sin(t * rng.uniform(0.01, 1)) + 0.3 * np.sin(t * rng.uniform(0.5, 3)) + 0.05 * rng.standard_normal(n)).astype("float32")
        )
    return Batch(made)


def spectra(rng: np.random.Generator, bins: int, layout: str | None = None, axis: int = 0, ndim: int = 2) -> Batch:
    """Returns power spectra with this number of bins and 37, 1 and 100 points in time."""
    made = []
    for n in (37, 1, 100):
        shape = [n, 3, 2][: ndim - 1]
        shape.insert(axis, bins)
        made.append(np.exp(3 * rng.standard_normal(shape)).astype("float32"))
    return Batch(made, layout)


def preemphasis_filter() -> Iterator[Case]:
    rng = rng_of("preemphasis_filter")

    def signals(dtype: str = "float32", *shapes: tuple[int, ...]) -> Batch:
        drawn = [rng.standard_normal(shape) * 100 for shape in shapes or ((1,), (2,), (1000,), (513,))]
        return Batch([x.astype(dtype) for x in drawn])

    def case(batch: Batch, **kwargs: Any) -> Case:
        return Case("preemphasis_filter", [batch], kwargs, exact=True)

    yield case(signals())
    for border in ("zero", "clamp", "reflect"):
        longer = signals("float32", (2,), (1000,), (513,))  # DALI's "reflect" reads the memory after a signal of one element
        yield case(longer, border=border, preemph_coeff=0.9)
        yield case(signals("float32", (300, 2), (5, 1)), border=border)
    for dtype in (*INTEGERS, "float64"):
        batch = Batch([np.abs(x).astype(dtype) for x in signals("float64").samples]) if dtype.startswith("u") else signals(dtype)
        yield case(batch)
        yield case(signals(), dtype=Name(dtype.upper()))
    yield case(signals("float64"), dtype=T.FLOAT64)
    yield case(signals("float32", (10,), (20,), (30,)), preemph_coeff=per_sample([0, 0.5, 1.5], "float32"))
    yield Case("preemphasis_filter", [signals()], {"border": "mirror"}, error=True)
    yield Case("preemphasis_filter", [Batch([np.ones(4, bool)] * 2)], {}, error=True)


def spectrogram() -> Iterator[Case]:
    rng = rng_of("spectrogram")

    def case(batch: Batch | None = None, **kwargs: Any) -> Case:
        return Case("spectrogram", [batch or signals(rng)], kwargs)

    yield case()
    for layout in ("ft", "tf"):
        yield case(layout=layout, power=1)
        yield case(signals(rng, 300, 2050, 513), layout=layout, window_length=400, window_step=160, nfft=512)
    for nfft in (400, 401, 480, 500, 509, 514, 600, 768, 1000, 1022, 1023, 1024, 2048, 4096, 5500, 5760, 5800):
        yield case(nfft=nfft, window_length=min(nfft, 400), window_step=160)
    for n in (16, 17, 30, 31, 3, 4, 7):
        yield case(window_length=n, window_step=5)
    yield case(signals(rng, 20000, 9000), nfft=16384, window_length=8191, window_step=3000)
    yield case(reflect_padding=False)
    yield case(center_windows=False)
    yield case(signals(rng, 300, 513, 257, 511), center_windows=False)
    yield case(signals(rng, 1, 2, 3, 100, 255, 256, 257))
    yield case(signals(rng, 1, 2, 3, 100, 255, 256, 257), reflect_padding=False)
    yield case(signals(rng, 3000, 100), window_length=64, window_step=1000)
    yield case(window_fn=[float(w) for w in np.hamming(320)], window_length=320, window_step=100)
    yield case(Batch([np.array(rng.standard_normal((1, 900)), "float32"), np.array(rng.standard_normal((1, 700)), "float32")]))
    yield case(Batch([np.array(rng.standard_normal((900, 1)), "float32"), np.array(rng.standard_normal((700, 1)), "float32")]))
    for wrong in (
        {"nfft": 256},
        {"window_fn": [1.0] * 100},
        {"power": 3},
        {"layout": "fx"},
        {"window_step": 0},
        {"window_length": 0},
    ):
        yield Case("spectrogram", [signals(rng)], wrong, error=True)
    yield Case("spectrogram", [signals(rng, 200, 200)], {"center_windows": False}, error=True)
    for samples in (np.zeros(0, "float32"), np.zeros((500, 2), "float32"), np.zeros(1000, "int16"), np.zeros(1000, "float64")):
        yield Case("spectrogram", [Batch([samples] * 2)], {}, error=True)


def power_spectrum() -> Iterator[Case]:
    rng = rng_of("power_spectrum")

    def tensor(*shape: int) -> Batch:
        return Batch([rng.standard_normal(shape).astype("float32") for _ in range(2)])

    yield Case("power_spectrum", [signals(rng, 1000, 512, 1001)], {})
    yield Case("power_spectrum", [signals(rng)], {"power": 1, "nfft": 2048})
    yield Case("power_spectrum", [signals(rng)], {"nfft": 500})
    yield Case("power_spectrum", [signals(rng)], {"nfft": 0})
    for axis in (0, 1, 2, -1):
        yield Case("power_spectrum", [tensor(20, 33, 12)], {"axis": axis})
        yield Case("power_spectrum", [tensor(20, 33, 12)], {"axis": axis, "nfft": 25, "power": 1})
    yield Case("power_spectrum", [tensor(64, 40)], {"axis": 0})
    yield Case("power_spectrum", [tensor(64, 3)], {"axis": 0})
    yield Case("power_spectrum", [tensor(3, 64)], {})
    for wrong in ({"power": 3}, {"axis": 1}):
        yield Case("power_spectrum", [signals(rng)], wrong, error=True)
    yield Case("power_spectrum", [Batch([np.zeros(10, "int32")])], {}, error=True)
    yield Case("power_spectrum", [Batch([np.zeros(0, "float32")])], {}, error=True)


def mel_filter_bank() -> Iterator[Case]:
    rng = rng_of("mel_filter_bank")

    rounds = "DALI computes the slopes of the triangles in float32, Stoker in double"

    def case(batch: Batch | None = None, bound: float | None = None, differs: str = "", **kwargs: Any) -> Case:
        return Case("mel_filter_bank", [batch or spectra(rng, 257)], kwargs, bound=bound, differs=differs)

    yield case()
    for formula in ("slaney", "htk"):
        for normalize in (True, False):
            for rate in (16000.0, 22050.0):
                yield case(nfilter=80, sample_rate=rate, mel_formula=formula, normalize=normalize)
        yield case(mel_formula=formula, freq_low=300.0, freq_high=6000.5, nfilter=23, sample_rate=16000.0)
        # freq_high above half of the rate is not compared, since DALI then reads memory after the spectrum
        yield case(mel_formula=formula, freq_low=1000.0, nfilter=1)
    yield case(nfilter=1000, bound=2.0, differs=rounds)
    yield case(spectra(rng, 201), sample_rate=16000.0)
    yield case(spectra(rng, 200))
    yield case(spectra(rng, 257, "tf", 1), nfilter=40)
    yield case(spectra(rng, 257, "ft", 0), nfilter=40)
    yield case(spectra(rng, 65, "abf", 2, 3), nfilter=40)
    yield case(spectra(rng, 65, "afb", 1, 3), nfilter=40)
    yield case(spectra(rng, 65, None, 1, 3), nfilter=40)
    yield case(spectra(rng, 65, "afbc", 1, 4), nfilter=40)
    yield case(spectra(rng, 65, None, 0, 1), nfilter=40)
    for wrong in (
        {"mel_formula": "mel"},
        {"nfilter": 0},
        {"freq_low": -1.0},
        {"freq_low": 5000.0, "freq_high": 4000.0},
        {"freq_high": 50000.0},
        {"sample_rate": 0.0},
    ):
        yield Case("mel_filter_bank", [spectra(rng, 257)], wrong, error=True)
    yield Case("mel_filter_bank", [spectra(rng, 257, "ab")], {}, error=True)
    yield Case("mel_filter_bank", [Batch([np.zeros((10, 10), "float64")])], {}, error=True)


def mfcc() -> Iterator[Case]:
    rng = rng_of("mfcc")

    def decibels(bins: int = 40, axis: int = 0, ndim: int = 2) -> Batch:
        return Batch([np.log(s) for s in spectra(rng, bins, None, axis, ndim).samples])

    def case(batch: Batch | None = None, **kwargs: Any) -> Case:
        return Case("mfcc", [batch or decibels()], kwargs)

    yield case()
    for kind in (1, 2, 3, 4):
        for normalize in (False, True) if kind > 1 else (False,):
            yield case(dct_type=kind, normalize=normalize, n_mfcc=13)
            yield case(decibels(31), dct_type=kind, normalize=normalize, n_mfcc=40)
    yield case(lifter=22.0)
    yield case(lifter=-3.0, n_mfcc=30)
    yield case(decibels(40, 1), axis=1)
    yield case(decibels(40, 1, 3), axis=1)
    yield case(decibels(40, 2, 3), axis=2)
    for wrong in (
        {"axis": -1},
        {"axis": 2},
        {"n_mfcc": 0},
        {"dct_type": 0},
        {"dct_type": 5},
        {"dct_type": 1, "normalize": True},
    ):
        yield Case("mfcc", [decibels()], wrong, error=True)
    yield Case("mfcc", [decibels(1)], {"dct_type": 1}, error=True)
    yield Case("mfcc", [Batch([np.zeros((10, 10), "int32")])], {}, error=True)


def to_decibels() -> Iterator[Case]:
    rng = rng_of("to_decibels")

    def case(batch: Batch | None = None, **kwargs: Any) -> Case:
        return Case("to_decibels", [batch or spectra(rng, 50)], kwargs)

    yield case()
    yield case(reference=1.0)
    yield case(multiplier=20.0, reference=0.3, cutoff_db=-30.0)
    yield case(cutoff_db=-20.0)
    yield case(cutoff_db=10.0)
    special = np.array([0, -1, 1e-40, 1e-30, 1e-20, 1e-10, 0.5, 1, 1.0000001, 2, 1e20, np.nan], "float32")
    for samples in (special, special[:2], special[:5], np.zeros(7, "float32"), np.zeros(0, "float32"), np.array(3, "float32")):
        yield case(Batch([samples]))
        yield case(Batch([samples]), reference=2.0, cutoff_db=-90.0)
    yield case(Batch([special[:5]]), reference=1.0, cutoff_db=-1000.0)
    yield case(Batch([np.append(special, np.inf).astype("float32")]))
    yield case(spectra(rng, 20, "ft"))
    yield Case("to_decibels", [Batch([np.zeros((10, 10), "int32")])], {}, error=True)
    yield Case("to_decibels", [spectra(rng, 50)], {"reference": 0.0}, error=True)


def log_mel() -> Iterator[Case]:
    rng = rng_of("log_mel")

    def build(lib: Any, audio: Any) -> Any:
        power = lib.fn.spectrogram(audio, nfft=512, window_length=400, window_step=160)
        return lib.fn.to_decibels(lib.fn.mel_filter_bank(power, sample_rate=16000.0, nfilter=80), cutoff_db=-80.0)

    yield Case("to_decibels", [signals(rng)], build=build, title="spectrogram, mel_filter_bank, to_decibels", bound=1e-3, share=0)


def audio_resample() -> Iterator[Case]:
    rng = rng_of("audio_resample")
    drifts = "DALI adds up the positions of 256 outputs in float32, so they drift by up to 1e-3 of a sample; Stoker computes each in double"

    def case(batch: Batch | None = None, bound: float | None = None, differs: str = "", **kwargs: Any) -> Case:
        return Case("audio_resample", [batch or signals(rng)], kwargs, bound=bound, differs=differs, share=0)

    for quality in (0.0, 33.3, 50.0, 100.0):
        for rates in ((44100.0, 16000.0), (16000.0, 44100.0), (22050.0, 16000.0)):
            yield case(in_rate=rates[0], out_rate=rates[1], quality=quality, bound=3e-3, differs=drifts)
        yield case(in_rate=48000.0, out_rate=16000.0, quality=quality)
    yield case(scale=0.5)
    yield case(scale=2.0)
    yield case(in_rate=3.0, out_rate=3.0)
    yield case(in_rate=0.3, out_rate=0.7, bound=3e-3, differs=drifts)
    yield case(scale=0.31, bound=3e-3, differs=drifts)
    yield case(scale=0.0)
    yield case(out_length=777, bound=1e-2, differs=drifts)
    yield case(scale=per_sample([0.5, 1.0, 2.0]))
    yield case(in_rate=16000.0, out_rate=per_sample([8000.0, 16000.0, 4000.0]))
    yield case(signals(rng, 1, 2, 100), scale=2.0)
    yield case(Batch([np.zeros(0, "float32")]), scale=2.0)
    stereo = [np.stack([s, s[::-1]], -1) for s in signals(rng).samples]
    yield case(Batch(stereo), scale=0.5)
    yield case(Batch(stereo, "tc"), scale=0.5)
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32"):
        largest = np.iinfo(dtype).max
        scaled = [np.clip(s * 0.4 + (0.5 if dtype[0] == "u" else 0), -0.5, 1) for s in signals(rng).samples]
        batch = Batch([(s * 0.9 * largest).astype(dtype) for s in scaled])
        wide = 1.0 if np.iinfo(dtype).bits < 32 else 1e-6 * largest
        yield case(batch, scale=0.5, bound=wide)
        yield case(batch, scale=0.5, dtype=T.FLOAT)
        yield case(Batch(scaled[:2]), scale=0.5, dtype=Name(dtype.upper()), bound=wide)
    for wrong in (
        {},
        {"in_rate": 3.0},
        {"out_rate": 3.0},
        {"scale": 1.0, "out_length": 5},
        {"in_rate": 2.0, "out_rate": 4.0, "scale": 2.0},
        {"scale": -1.0},
        {"in_rate": 0.0, "out_rate": 1.0},
        {"in_rate": -1.0, "out_rate": -1.0},
        {"scale": 1.0, "quality": 101.0},
        {"scale": 1.0, "dtype": T.FLOAT64},
        {"scale": 1.0, "dtype": T.BOOL},
    ):
        yield Case("audio_resample", [signals(rng)], wrong, error=True)
    for samples in (np.zeros(10, "float64"), np.zeros(10, "int64"), np.zeros((3, 3, 3), "float32")):
        yield Case("audio_resample", [Batch([samples])], {"scale": 2.0}, error=True)
    yield Case("audio_resample", [Batch([np.zeros(0, "float32")])], {"out_length": 7}, error=True)


def nonsilent_region() -> Iterator[Case]:
    rng = rng_of("nonsilent_region")

    def case(batch: Batch | None = None, **kwargs: Any) -> Case:
        return Case("nonsilent_region", [batch or spoken()], kwargs, exact=True)

    def spoken(dtype: str = "float32", scale: float = 1) -> Batch:
        """Returns loud noise within faint noise, for which DALI's rounding errors do not matter."""
        made = []
        for before, loud, after in ((5000, 5000, 3000), (0, 9000, 4000), (3000, 3000, 0), (100, 50, 100)):
            x = 0.02 * rng.standard_normal(before + loud + after)
            x[before : before + loud] += rng.standard_normal(loud)
            made.append((x * scale).astype(dtype))
        return Batch(made)

    yield case(cutoff_db=-20.0)
    yield case(cutoff_db=-10.0)
    yield case(cutoff_db=-20.0, window_length=1, reset_interval=-1)
    yield case(cutoff_db=-20.0, window_length=300, reset_interval=300)
    yield case(cutoff_db=-15.0, reference_power=0.3)
    yield case(cutoff_db=-15.0, window_length=8192)
    yield case(cutoff_db=10.0)
    for dtype in ("int8", "int16", "int32", "int64"):
        yield case(spoken(dtype, 30), cutoff_db=-20.0)
        yield case(spoken(dtype, 30), cutoff_db=-20.0, window_length=5)
        yield case(spoken(dtype, 30), cutoff_db=-20.0, window_length=300, reset_interval=7)
    for dtype in ("uint8", "uint16", "uint32", "uint64"):
        yield case(Batch([np.abs(s).astype(dtype) for s in spoken("float32", 20).samples]), cutoff_db=-20.0)
    yield case(Batch([np.zeros(3000, "float32"), np.zeros(1, "float32"), np.ones(100, "float32")]))
    for wrong in ({"reference_power": -1.0}, {"reset_interval": 1000}, {"window_length": 20000}):
        yield Case("nonsilent_region", [spoken()], wrong, error=True)
    for samples in (np.zeros(10, "float64"), np.zeros(10, "bool"), np.zeros((10, 1), "float32")):
        yield Case("nonsilent_region", [Batch([samples])], {}, error=True)


def all_cases() -> Iterator[Case]:
    for made in (
        preemphasis_filter,
        spectrogram,
        power_spectrum,
        mel_filter_bank,
        mfcc,
        to_decibels,
        log_mel,
        audio_resample,
        nonsilent_region,
    ):
        yield from made()
