# SPDX-License-Identifier: Apache-2.0
"""`stoker view` of a sound draws its waveform and spectrogram; also tests `stoker bench` of sounds."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sound_files import wav

COMMAND = Path(os.environ.get("STOKER_BUILD", "build")).resolve() / "cli" / "stoker"
WAVE, BINS = 160, 257


def view(*args):
    return subprocess.run([COMMAND, "view", *map(str, args)], capture_output=True, text=True, timeout=120)


def test_a_tone_that_ends(tmp_path):
    """The picture of a file with a tone of 2000 Hz and then silence shows the tone only in its first half: in the waveform by its amplitude, in the spectrogram
    by its frequency."""
    t = np.arange(32000)
    samples = 0.5 * np.sin(2 * np.pi * 2000 / 16000 * t) * (t < 16000)
    (tmp_path / "a.wav").write_bytes(wav((samples[:, None] * [32767, 32767]).astype("<i2"), 16000))
    done = view(tmp_path / "a.wav", "-o", tmp_path / "a.png")
    assert done.returncode == 0 and "2.000 s, 0 to 8000 Hz, 1000 x 417 pixels" in done.stdout, done.stderr
    pixels = np.array(Image.open(tmp_path / "a.png"))
    assert pixels.shape == (WAVE + BINS, 1000, 3)
    blue = (pixels[:WAVE] != 255).any(2)
    assert (blue[:, 10:490].sum(0) > WAVE * 0.45).all() and (blue[:, 10:490].sum(0) < WAVE * 0.55).all()
    assert (blue[:, 510:].sum(0) <= 1).all()
    light = pixels[WAVE:].sum(2)[::-1].astype(int)  # brightness of the spectrogram's rows, the lowest frequency first
    assert (light[:, 10:490].argmax(0) == 64).all() and (light[64, 10:490] > 600).all() and (light[:, 520:] < 30).all()


@pytest.mark.parametrize("frames", (1, 2, 511, 999))
def test_short_sounds(tmp_path, frames):
    (tmp_path / "a.wav").write_bytes(wav(np.full(frames, 9000, "<i2"), 8000))
    done = view(tmp_path / "a.wav", "-o", tmp_path / "a.png", "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["rate"] == 8000 and facts["width"] == frames and facts["height"] == WAVE + BINS
    assert Image.open(tmp_path / "a.png").size == (frames, WAVE + BINS)


def test_sounds_that_cannot_be_drawn(tmp_path):
    (tmp_path / "empty.wav").write_bytes(wav(np.zeros(0, "<i2"), 8000))
    (tmp_path / "cut.wav").write_bytes(wav(np.zeros(900, "<i2"), 8000)[:-100])
    for name, message in (("empty.wav", "has no samples"), ("cut.wav", "truncated WAV"), ("none.wav", "none.wav")):
        done = view(tmp_path / name, "-o", tmp_path / "a.png")
        assert done.returncode == 1 and message in done.stderr and not (tmp_path / "a.png").exists()


@pytest.mark.parametrize("option", ["--augment", "--size", "--batch"])
def test_options_of_images_are_refused(tmp_path, option):
    (tmp_path / "tone.wav").write_bytes(wav(np.zeros(800, np.int16), 8000))
    done = view(tmp_path / "tone.wav", option, "4", "-o", tmp_path / "x.png")
    assert done.returncode == 2 and "are for images" in done.stderr


def test_bench_of_sounds(tmp_path):
    for label in ("a", "b"):
        (tmp_path / label).mkdir()
        for k in range(3):
            (tmp_path / label / f"{k}.wav").write_bytes(wav(np.full(8000 + 100 * k, 500, "<i2"), 8000))
    command = [COMMAND, "bench", tmp_path, "--seconds", "1", "--threads", "1", "--batch", "4"]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["files"] == 6 and facts["stoker"]["images_per_s"] > 0 and "libjpeg_turbo" not in facts
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "80 log-mel bands" in done.stdout and "sounds/s" in done.stdout and "An epoch of 6 sounds takes" in done.stdout, done.stderr
