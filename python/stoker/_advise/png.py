# SPDX-License-Identifier: Apache-2.0
"""A canvas of rectangles and small capitals, and the PNG that it makes: no library is needed for a timeline."""

from __future__ import annotations

from stoker import _png

Colour = tuple[int, int, int]

# Glyphs of 3 x 5 pixels: a digit for each row, its bits from left to right.
_GLYPHS = {
    **dict(zip("0123456789", "75557 26227 71747 71717 55711 74717 74757 71122 75757 75717".split(), strict=True)),
    **dict(zip("ABCDEFGHIJKLM", "25755 65656 34443 65556 74647 74644 34553 55755 72227 11152 55655 44447 57755".split(), strict=True)),
    **dict(zip("NOPQRSTUVWXYZ", "65555 25552 65644 25563 65655 34216 72222 55557 55552 55775 55255 55222 71247".split(), strict=True)),
    **dict(zip(".,:%-/()=+", "00002 00024 02020 51245 00700 11244 24442 21112 07070 02720".split(), strict=True)),
}


class Canvas:
    """RGB pixels."""

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

    def text(self, x: float, y: float, words: str, colour: Colour, size: int = 2) -> float:
        """Draws capitals, 5 * size pixels high, and returns the x at which they end. Unknown characters are drawn as blanks."""
        for letter in words.upper():
            for i, bits in enumerate(_GLYPHS.get(letter, "00000")):
                for j in range(3):
                    if int(bits) & 4 >> j:
                        self.box(x + j * size, y + i * size, size, size, colour)
            x += 4 * size
        return x

    def png(self) -> bytes:
        """Returns the picture as a PNG file."""
        return _png.encode(self.width, self.height, self._rows)
