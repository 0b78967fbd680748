# SPDX-License-Identifier: Apache-2.0
"""bench/audio.py: its FLAC encoder, and a short run of two comparisons on the cores, with the libraries that are installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import stoker
from support import SEED

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import audio  # noqa: E402


@pytest.mark.parametrize("count", (3, 4096, 10000))
@pytest.mark.parametrize("loud", (0, 10, 30000))
def test_the_encoder_loses_nothing(count, loud):
    samples = np.random.default_rng(SEED).integers(-loud, loud + 1, count).astype("<i2")
    made, rate = stoker.audiodecode(audio.flac_file(samples), mono=True, dtype="int16")
    assert rate == audio.RATE and (made == samples).all()


def test_files_without_ffmpeg(tmp_path, monkeypatch):
    monkeypatch.setattr(audio.shutil, "which", lambda name: None)
    (path,) = audio.write_flacs(str(tmp_path), 1)
    (signal,) = audio.utterances(1)
    made, _ = stoker.audioread(path, mono=True, dtype="int16")
    assert (made == (signal * 32767).astype("<i2")).all()


@pytest.mark.parametrize("what", ("flac", "files"))
def test_a_short_run(what):
    pytest.importorskip("torch")
    command = [sys.executable, str(ROOT / "bench/audio.py"), what, "--utterances", "2", "--files", "20", "--rounds", "1", "--threads", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert "CPU-milliseconds each: stoker" in done.stdout
