# SPDX-License-Identifier: Apache-2.0
"""Draws rectangles and text, and writes them as a PNG file, so that a timeline needs no other library."""

from __future__ import annotations

from stoker import _png
from stoker._advise.glyphs import WIDTH, glyphs

Colour = tuple[int, int, int]


class Canvas:
    """A picture of RGB pixels."""

    def __init__(self, width: int, height: int, ground: Colour) -> None:
        self.width, self.height = width, height
        self._rows = [bytearray(bytes(ground) * width) for _ in range(height)]

    def box(self, x: float, y: float, width: float, height: float, colour: Colour) -> None:
        """Draws a filled rectangle, cut at the borders. If it is not empty, it is at least one pixel wide."""
        if width <= 0 or height <= 0:
            return
        left, top = max(0, round(x)), max(0, round(y))
        right, bottom = min(self.width, max(round(x + width), left + 1)), min(self.height, max(round(y + height), top + 1))
        if right <= left:
            return
        line = bytes(colour) * (right - left)
        for row in self._rows[top:bottom]:
            row[3 * left : 3 * right] = line

    def text(self, x: float, y: float, words: str, colour: Colour, size: int = 1) -> float:
        """Draws a line of text, 13 * size pixels high, and returns the x at which it ends."""
        for rows in glyphs(words):
            for i, bits in enumerate(rows):
                for j in range(WIDTH - 1):
                    if bits >> (WIDTH - 2 - j) & 1:
                        self.box(x + j * size, y + i * size, size, size, colour)
            x += WIDTH * size
        return x

    def png(self) -> bytes:
        """Returns the bytes of a PNG file."""
        return _png.encode(self.width, self.height, self._rows)
