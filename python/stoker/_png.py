# SPDX-License-Identifier: Apache-2.0
"""Writes PNG files of RGB pixels. No library is needed."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable


def encode(width: int, height: int, rows: Iterable[bytes | bytearray]) -> bytes:
    """Returns the PNG of an image of RGB pixels. rows: `height` rows of 3 * width bytes."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows), 6)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
