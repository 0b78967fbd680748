# SPDX-License-Identifier: Apache-2.0
"""PNG files whose rows have any filters and whose pixels are in any number of chunks give their pixels. Damaged files raise the same errors wherever the
damage is."""

from __future__ import annotations

import random
import struct
import zlib
from typing import Any

import numpy as np
import pytest
import stoker
from stoker.errors import StokerError

GRAY, RGB, GRAY_ALPHA, RGBA = 0, 2, 4, 6
CHANNELS = {GRAY: 1, RGB: 3, GRAY_ALPHA: 2, RGBA: 4}
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunk(kind: bytes, contents: bytes) -> bytes:
    return struct.pack(">I", len(contents)) + kind + contents + struct.pack(">I", zlib.crc32(kind + contents))


def filtered(pixels: np.ndarray, filters: list[int]) -> bytes:
    """Returns the filtered rows of an image (H, W, C), with the PNG specification's five filters."""
    big_endian = np.ascontiguousarray(pixels.astype(pixels.dtype.newbyteorder(">")))
    rows = big_endian.view(np.uint8).reshape(len(pixels), -1).astype(np.int32)
    pixel = pixels.shape[2] * pixels.itemsize
    out = bytearray()
    above = np.zeros_like(rows[0])
    for row, kind in zip(rows, filters, strict=True):
        left = np.concatenate([np.zeros(pixel, np.int32), row])[: len(row)]
        corner = np.concatenate([np.zeros(pixel, np.int32), above])[: len(row)]
        by_left, by_up, by_corner = abs(above - corner), abs(left - corner), abs(left + above - 2 * corner)
        paeth = np.where((by_left <= by_up) & (by_left <= by_corner), left, np.where(by_up <= by_corner, above, corner))
        predicted = [0 * row, left, above, (left + above) // 2, paeth]
        out += bytes([kind]) + (row - predicted[min(kind, 4)]).astype(np.uint8).tobytes()
        above = row
    return bytes(out)


def png(
    pixels: np.ndarray,
    color: int,
    filters: list[int],
    sizes: list[int],
    before: bytes = b"",
    after: bytes = b"",
    stream: bytes | None = None,
) -> bytes:
    """Makes a file whose pixel stream is cut into chunks of the given sizes; the rest is the last chunk."""
    height, width = pixels.shape[:2]
    stream = zlib.compress(filtered(pixels, filters), 6) if stream is None else stream
    out = SIGNATURE + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8 * pixels.itemsize, color, 0, 0, 0)) + before
    for size in sizes:
        out += chunk(b"IDAT", stream[:size])
        stream = stream[size:]
    return out + chunk(b"IDAT", stream) + after + chunk(b"IEND", b"")


def image(rng: np.random.Generator, color: int, dtype: Any) -> np.ndarray:
    height, width = (int(n) for n in rng.integers(1, 40, 2))
    most = np.iinfo(dtype).max
    if rng.integers(2):  # half of the images are smooth, so that neighbouring pixels are close, as in a photograph; the others are noise
        y, x = np.mgrid[:height, :width]
        planes = [(most / 2 * (1 + np.sin(x / rng.uniform(1, 9) + y / rng.uniform(1, 9)))) for _ in range(CHANNELS[color])]
        return np.stack(planes, -1).astype(dtype)
    return rng.integers(0, most + 1, (height, width, CHANNELS[color])).astype(dtype)


@pytest.mark.essential
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("color", CHANNELS)
def test_all_filters_and_chunks(rng: np.random.Generator, color: int, dtype: Any) -> None:
    for _ in range(40):
        pixels = image(rng, color, dtype)
        filters = [int(f) for f in rng.integers(0, 5, len(pixels))]
        sizes = [int(n) for n in rng.integers(0, 60, rng.integers(0, 5))]
        extra = {"before": chunk(b"gAMA", struct.pack(">I", 45455))} if rng.integers(2) else {}
        if rng.integers(3) == 0:
            extra["after"] = chunk(b"tEXt", b"Comment\0after the pixels")
        data = png(pixels, color, filters, sizes, **extra)
        decoded = np.asarray(stoker.imdecode(data, output_type="ANY_DATA", dtype=np.dtype(dtype).name))
        np.testing.assert_array_equal(decoded, pixels, err_msg=f"filters {filters}, chunks {sizes}, {list(extra)}")


def damaged(rng: np.random.Generator) -> dict[str, bytes]:
    """Returns a dict of files, each with one fault in or after the pixels."""
    pixels = image(rng, RGB, np.uint8)
    filters = [int(f) for f in rng.integers(0, 5, len(pixels))]
    raw = filtered(pixels, filters)
    stream = zlib.compress(raw)
    whole = png(pixels, RGB, filters, [9])
    at = whole.index(b"IDAT")
    second = whole.index(b"IDAT", at + 4)
    return {
        "a wrong checksum of the first chunk": whole[: at + 13] + bytes([whole[at + 13] ^ 1]) + whole[at + 14 :],
        "a wrong checksum of the last chunk": whole[:-13] + bytes([whole[-13] ^ 1]) + whole[-12:],
        "a wrong checksum of the end": whole[:-1] + bytes([whole[-1] ^ 1]),
        "a flipped bit in the stream": whole[: second + 6] + bytes([whole[second + 6] ^ 4]) + whole[second + 7 :],
        "no end": whole[:-12],
        "a row too few": png(pixels, RGB, filters, [], stream=zlib.compress(raw[: -(1 + 3 * pixels.shape[1])])),
        "a byte too few": png(pixels, RGB, filters, [], stream=zlib.compress(raw[:-1])),
        "a cut stream": png(pixels, RGB, filters, [], stream=stream[: len(stream) * 2 // 3]),
        "a filter that does not exist": png(pixels, RGB, [*filters[:-1], 5], []),
        "no pixels": png(pixels, RGB, filters, [], stream=b""),
    }


def test_damage_is_refused(rng: np.random.Generator) -> None:
    for _ in range(20):
        for what, data in damaged(rng).items():
            with pytest.raises(StokerError, match="PNG"):
                stoker.imdecode(data)
                pytest.fail(f"accepted: {what}")


def test_files_of_the_wide_kind(rng: np.random.Generator) -> None:
    """PNGs of all colour types with rows of 5003 pixels, which are longer than a memory page, give their pixels."""
    for color in CHANNELS:
        pixels = rng.integers(0, 256, (7, 5003, CHANNELS[color])).astype(np.uint8)
        data = png(pixels, color, [4, 3, 2, 1, 0, 4, 4], [1000] * 5)
        np.testing.assert_array_equal(np.asarray(stoker.imdecode(data, output_type="ANY_DATA")), pixels)


def test_mutations_never_give_other_pixels(rng: np.random.Generator) -> None:
    """A file with any changed byte is refused, or has the same pixels because its decoding does not use the chunk with that byte."""
    draw = random.Random(int(rng.integers(1 << 32)))
    pixels = image(rng, RGB, np.uint8)
    data = png(
        pixels, RGB, [int(f) for f in rng.integers(0, 5, len(pixels))], [20, 30], before=chunk(b"pHYs", struct.pack(">IIB", 1, 1, 0))
    )
    for _ in range(300):
        changed = bytearray(data)
        changed[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        try:
            decoded = np.asarray(stoker.imdecode(bytes(changed)))
        except StokerError:
            continue
        np.testing.assert_array_equal(decoded, pixels)
