# SPDX-License-Identifier: Apache-2.0
"""Makes WAV files of every kind in memory, without a library."""

from __future__ import annotations

import struct

import numpy as np

TAGS = {"pcm": 1, "float": 3, "alaw": 6, "mulaw": 7}


def wav(
    samples: np.ndarray,
    rate: int = 16000,
    coding: str = "pcm",
    *,
    extensible: bool = False,
    wide: bool = False,
    fmt_last: bool = False,
    odd_chunk: bool = False,
    promise: int | None = None,
) -> bytes:
    """Makes the file of an array (frames, channels) or (frames,) whose type is the stored one; 24-bit samples are uint8 of shape (frames, channels, 3).

    extensible: the header of WAVE_FORMAT_EXTENSIBLE. wide: RF64, with 64-bit sizes. fmt_last: the format follows the samples. odd_chunk: a chunk of an odd
    size before the format. promise: the number of bytes of samples that the header states, if it is not the right one.
    """
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    packed = samples.ndim == 3  # the three bytes of 24-bit samples
    bits = 24 if packed else 8 * samples.dtype.itemsize
    frame = channels * bits // 8
    tag = TAGS[coding]
    fmt = struct.pack("<HHIIHH", 0xFFFE if extensible else tag, channels, rate, rate * frame, frame, bits)
    if extensible:
        fmt += struct.pack("<HHIH", 22, bits, 0, tag) + bytes.fromhex("000000001000800000aa00389b71")
    data = np.ascontiguousarray(samples).tobytes()
    size = len(data) if promise is None else promise
    head = b"ds64" + struct.pack("<IQQQI", 28, 36 + size, size, len(samples), 0) if wide else b""
    if odd_chunk:
        head += b"LIST" + struct.pack("<I", 5) + b"INFO!\0"
    described = b"fmt " + struct.pack("<I", len(fmt)) + fmt
    body = b"data" + struct.pack("<I", 0xFFFFFFFF if wide else size) + data + b"\0" * (len(data) % 2)
    body = head + (body + described if fmt_last else described + body)
    return (b"RF64" if wide else b"RIFF") + struct.pack("<I", 0xFFFFFFFF if wide else min(4 + len(body), 0xFFFFFFFF)) + b"WAVE" + body


def tone(rng: np.random.Generator, frames: int, channels: int = 1) -> np.ndarray:
    """Makes a sine with noise, float64 in -1..1, of shape (frames, channels)."""
    t = np.arange(frames)[:, None] + rng.uniform(0, 100, (1, channels))
    return np.clip(0.6 * np.sin(t * rng.uniform(0.01, 0.3)) + 0.2 * rng.standard_normal((frames, channels)), -1, 1)


def pcm16(rng: np.random.Generator, frames: int, channels: int = 1, rate: int = 16000) -> bytes:
    return wav((tone(rng, frames, channels) * 32767).astype("<i2"), rate)
