# SPDX-License-Identifier: Apache-2.0
"""FLAC files of every kind, decoded by Stoker, by the program ffmpeg and by soundfile. test/c/test_sound.c compares with the samples that were encoded."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import stoker
from stoker import Pipeline, fn

BUILD = Path(__file__).resolve().parents[2] / os.environ.get("STOKER_BUILD", "build")
WRITER = BUILD / "test" / "fuzz" / "replay_sound"  # a program that writes the fuzz target's seeds, which use all parts of the format

LEVELS = {"fast": 0, "default": 5, "best": 12}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    if not WRITER.exists():
        pytest.skip("the tests in C are not built")
    folder = tmp_path_factory.mktemp("flac")
    subprocess.run([WRITER, "--write", folder], check=True, timeout=60)
    found = []
    for path in sorted(folder.iterdir()):
        if b"fLaC" in path.read_bytes()[:1000]:
            path.rename(path.with_suffix(".flac"))
            found.append(path.with_suffix(".flac"))
    assert len(found) > 15
    return found


def decoded_by_ffmpeg(path, channels):
    command = ["ffmpeg", "-v", "error", "-i", str(path), "-f", "s32le", "-c:a", "pcm_s32le", "-"]
    done = subprocess.run(command, check=True, capture_output=True, timeout=60)
    return np.frombuffer(done.stdout, "<i4").reshape(-1, channels)


def bits_of(path):
    data = path.read_bytes()
    at = data.index(b"fLaC") + 8
    return ((data[at + 12] & 1) << 4 | data[at + 13] >> 4) + 1


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="the program ffmpeg is not installed")
def test_every_kind_is_ffmpegs(files):
    compared = 0  # number of files, without empty sounds, and without those of 32 bits, which only newer releases of ffmpeg decode
    for path in files:
        samples, _ = stoker.audioread(path, dtype="int32")
        if bits_of(path) < 32 and len(samples):
            assert np.array_equal(samples, decoded_by_ffmpeg(path, samples.shape[1])), path.name
            compared += 1
    assert compared >= 12


def test_every_kind_is_soundfiles(files):
    soundfile = pytest.importorskip("soundfile")
    compared = 0
    for path in files:
        if bits_of(path) not in (8, 16, 24):
            continue
        try:
            want, rate = soundfile.read(path, dtype="int32", always_2d=True)
        except soundfile.LibsndfileError:  # soundfile refuses files without a length, or whose blocks are not numbered from 0
            continue
        samples, our_rate = stoker.audioread(path, dtype="int32")
        assert rate == our_rate and np.array_equal(samples, want), path.name
        want, _ = soundfile.read(path, dtype="float32", always_2d=True)
        assert np.array_equal(stoker.audioread(path)[0], want), path.name
        compared += 1
    assert compared >= 5


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="the program ffmpeg is not installed")
@pytest.mark.parametrize("level", LEVELS.values(), ids=LEVELS)
@pytest.mark.parametrize("channels", (1, 2, 6))
@pytest.mark.parametrize("bits", (16, 24))
def test_files_of_ffmpegs_encoder(level, channels, bits, tmp_path):
    rng = np.random.default_rng(level + channels)
    t = np.arange(30000)[:, None]
    wave = 0.5 * np.sin(t * rng.uniform(0.01, 0.2, channels)) + 0.05 * rng.standard_normal((30000, channels))
    raw = (np.clip(wave, -1, 1) * (2**31 - 1)).astype("<i4") & ~(2 ** (32 - bits) - 1)
    command = ["ffmpeg", "-v", "error", "-y", "-f", "s32le", "-ar", "44100", "-ac", str(channels), "-i", "-", "-sample_fmt"]
    command += ["s16" if bits == 16 else "s32", "-compression_level", str(level), "-lpc_passes", "2", str(tmp_path / "a.flac")]
    subprocess.run(command, input=raw.tobytes(), check=True, timeout=60)
    samples, rate = stoker.audioread(tmp_path / "a.flac", dtype="int32")
    assert rate == 44100
    assert np.array_equal(samples, decoded_by_ffmpeg(tmp_path / "a.flac", channels))
    assert bits == 16 or np.array_equal(samples, raw)


def test_without_ffmpeg(files):
    """FLAC needs no library: neither Loader nor audioread asks for FFmpeg."""
    maps = Path("/proc/self/maps")
    if not maps.exists() or "libavcodec" in maps.read_text():
        pytest.skip("another test has loaded FFmpeg here")
    pipe = Pipeline(1, 1, None)
    with pipe:
        pipe.set_outputs(fn.decoders.audio(fn.external_source(source=[[np.fromfile(files[0], np.uint8)]], cycle=True))[0])
    assert np.array_equal(np.array(pipe.run()[0].at(0)), stoker.audioread(files[0])[0])
    assert "libavcodec" not in maps.read_text()


def test_damage_is_silent_without_strict(files, tmp_path):
    whole, _ = stoker.audioread(files[0])
    data = bytearray(files[0].read_bytes())
    data[len(data) // 2] ^= 0x55
    (tmp_path / "bad.flac").write_bytes(data)
    with pytest.raises(stoker.errors.StokerError, match=r"bad\.flac: the sound is damaged at 0\.\d+ s \(byte \d+\)\. strict=False makes"):
        stoker.audioread(tmp_path / "bad.flac")
    samples, _ = stoker.audioread(tmp_path / "bad.flac", strict=False)
    lost = np.flatnonzero((samples != whole).any(1))
    assert len(samples) == len(whole) and 0 < lost[-1] - lost[0] < 400 and not samples[lost[0] : lost[-1] + 1].any()
