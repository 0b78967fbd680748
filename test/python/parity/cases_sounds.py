# SPDX-License-Identifier: Apache-2.0
"""Cases of decoders.audio over every kind of WAV, and over FLAC and Ogg Vorbis files."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from harness import Batch, Case, T, rng_of
from samples import per_sample
from sound_files import pcm16, tone, wav

DRIFTS = "DALI adds up positions in float32, so they drift by up to 1e-3 of a sample; Stoker computes each in double"
SCALED = "floats become integers by scaling, as with downmix; DALI only rounds them, so that nearly all become 0"


def files() -> dict[str, bytes]:
    rng = rng_of("sounds")

    def integers(channels: int, dtype: str, frames: int = 400) -> np.ndarray:
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, (frames, channels), dtype, endpoint=True)

    wide = integers(2, "<i4").reshape(-1, 2, 1).view("<u1")[..., 1:]
    return {
        "8 bits": wav(integers(1, "u1"), 8000),
        "16 bits": wav(integers(1, "<i2"), 16000),
        "16 bits, 2 channels": wav(integers(2, "<i2"), 44100),
        "16 bits, 8 channels": wav(integers(8, "<i2"), 48000, extensible=True),
        "24 bits": wav(wide, 48000),
        "32 bits": wav(integers(3, "<i4"), 384000),
        "float32": wav(tone(rng, 400, 2).astype("<f4") * np.float32(1.5), 16000, "float"),
        "float64": wav(tone(rng, 400, 1), 16000, "float", odd_chunk=True),
        "A-law": wav(np.arange(256, dtype="u1"), 8000, "alaw"),
        "mu-law": wav(np.arange(256, dtype="u1").reshape(128, 2), 8000, "mulaw"),
        "RF64": wav(integers(2, "<i2"), 48000, wide=True),
        "one sample": wav(integers(1, "<i2", 1)),
        "no samples": wav(integers(1, "<i2", 0)),
    }


def compressed(rng: np.random.Generator) -> Iterator[Case]:
    """Tests FLAC and Ogg files, if the program ffmpeg is installed to make them."""
    if shutil.which("ffmpeg") is None:
        return
    for coding, ending in (("flac", "flac"), ("libvorbis", "ogg")):
        files = []
        with tempfile.TemporaryDirectory() as folder:
            for frames, rate in ((20000, 44100), (30000, 16000)):
                source, made = Path(folder, "a.wav"), Path(folder, f"a.{ending}")
                source.write_bytes(pcm16(rng, frames, 2, rate))
                subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", source, "-c:a", coding, made], check=True, timeout=60)
                files.append(np.fromfile(made, np.uint8))
        for kwargs in ({}, {"downmix": True}, {"sample_rate": 16000}):
            rule = (
                {"bound": 3e-3, "differs": DRIFTS} if "sample_rate" in kwargs else {"exact": True} if coding == "flac" else {"bound": 1e-5}
            )
            yield Case("decoders.audio", [Batch(files)], kwargs, title=f"{coding}, {kwargs}", **rule)


def decoders_audio() -> Iterator[Case]:
    made = files()
    for name, data in made.items():
        batch = Batch([np.frombuffer(data, np.uint8)])
        for dtype in (T.FLOAT, T.INT16, T.INT32):
            for downmix in (False, True):
                title = f"{name}, dtype={dtype!r}{', downmix' if downmix else ''}"
                differs = name.startswith("float") and dtype != T.FLOAT and not (downmix and name == "float32")
                rule = {"bound": 2.0**31, "share": 0.0, "differs": SCALED} if differs else {"exact": True}
                yield Case("decoders.audio", [batch], {"dtype": dtype, "downmix": downmix}, title=title, **rule)
    rng = rng_of("decoders.audio")
    batch = Batch([np.frombuffer(pcm16(rng, n, 1, rate), np.uint8) for n, rate in ((500, 8000), (3, 16000), (20000, 44100))])
    yield Case("decoders.audio", [batch], {}, exact=True, title="files of different lengths and rates")
    rates = per_sample([8000, 16000, 44100], "float32")
    yield Case("decoders.audio", [batch], {"sample_rate": rates}, exact=True, title="sample_rate=<the files' own>")
    for rate in (16000, 11025.5, 48000):
        for dtype in (T.FLOAT, T.INT16, T.INT32):
            kwargs = {"sample_rate": rate, "dtype": dtype}
            bound = 3e-3 * {"FLOAT": 1, "INT16": 2**15, "INT32": 2**31}[dtype.name]
            yield Case(
                "decoders.audio", [batch], kwargs, bound=bound, share=0, differs=DRIFTS, title=f"sample_rate={rate}, dtype={dtype!r}"
            )
    stereo = Batch([np.frombuffer(pcm16(rng, n, 2, 44100), np.uint8) for n in (1, 700, 20000)])
    for kwargs in ({"quality": 0}, {"quality": 100}, {"downmix": True}):
        arguments, title = {"sample_rate": 16000, **kwargs}, f"2 channels, sample_rate=16000, {kwargs}"
        yield Case("decoders.audio", [stereo], arguments, bound=3e-3, share=0, differs=DRIFTS, title=title)
    yield from compressed(rng)
    yield Case("decoders.audio", [batch], {"dtype": T.UINT8}, error=True)
    for title, data in (("not a sound", b"not a sound at all" * 9), ("nothing", b""), ("header only", made["16 bits"][:30])):
        yield Case("decoders.audio", [Batch([np.frombuffer(data, np.uint8)])], {}, title=title, error=True)


def all_cases() -> Iterator[Case]:
    yield from decoders_audio()
