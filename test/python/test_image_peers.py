# SPDX-License-Identifier: Apache-2.0
"""Small random files of every kind of BMP, PNG, PNM and TIFF, and of a few kinds of JPEG, give the pixels that Pillow, OpenCV, tifffile or the
specifications give. Also tests truncated files."""

from __future__ import annotations

import contextlib
import io
import struct
import zlib
from typing import Any

import cv2
import numpy as np
import pytest
import stoker
import tifffile
from PIL import Image
from stoker.errors import CorruptError, StokerError
from support import png_chunk

FILES = 400


def _pillow(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def _opencv(data: bytes) -> np.ndarray:
    return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB)


def _colours(pixels: np.ndarray) -> np.ndarray:
    """Returns RGB pixels: drops an alpha channel, and repeats gray three times."""
    return pixels[..., :3] if pixels.shape[2] > 2 else np.repeat(pixels[..., :1], 3, -1)


def _narrowed(pixels: np.ndarray, most: int) -> np.ndarray:
    """Converts values of 0..most to 8 bits, rounded if most is 65535, otherwise truncated."""
    return ((pixels.astype(np.int64) * 255 + (32767 if most == 65535 else 0)) // most).astype(np.uint8)


def _packed(rows: np.ndarray, bits: int) -> list[bytes]:
    if bits >= 8:
        return [row.astype(">u2" if bits == 16 else np.uint8).tobytes() for row in rows]
    return [np.packbits((row[:, None] >> np.arange(bits - 1, -1, -1) & 1).astype(np.uint8).reshape(-1)).tobytes() for row in rows]


# ---- BMP ----


def _bmp_runs(rng: np.random.Generator, index: np.ndarray, four: bool) -> bytes:
    """Encodes rows as random runs and literal pixels. Sets the pixels of a run in `index` to the run's first pixel."""
    out = bytearray()
    for row in index[::-1]:
        x = 0
        while x < len(row):
            n = int(rng.integers(1, min(len(row) - x, 20) + 1))
            part = row[x : x + n]
            if n >= 3 and rng.random() < 0.6:
                body = _packed(part[None], 4)[0] if four else part.tobytes()
                out += bytes([0, n]) + body + b"\0" * (len(body) & 1)
            else:
                row[x : x + n] = part[0]
                out += bytes([n, int(part[0]) * (17 if four else 1)])
            x += n
        out += b"\0\0"
    return bytes(out + b"\0\1")


def _bmp(rng: np.random.Generator) -> tuple[bytes, np.ndarray]:
    """Returns a BMP and its pixels. The pixels' offset in the header is right, or 0, or the end of the header as if there were no palette."""
    height, width, header = int(rng.integers(1, 9)), int(rng.integers(1, 25)), int(rng.choice([12, 40, 52, 56, 64, 108, 124]))
    bits, top_down = int(rng.choice([1, 4, 8, 16, 24, 32])), header != 12 and rng.random() < 0.4
    compression, masks, palette, colors = 0, b"", b"", 0
    if bits > 8:
        word = rng.integers(0, 2**bits, (height, width), dtype=np.int64)
        fields = (0x7C00, 0x3E0, 0x1F) if bits == 16 else (0xFF0000, 0xFF00, 0xFF)
        if bits != 24 and header in (40, 52, 108) and rng.random() < 0.6:
            compression = 3
            fields = (0xF800, 0x7E0, 0x1F) if bits == 16 else (0xFF, 0xFF00, 0xFF0000)
            masks = struct.pack("<3I", *fields)
        values = [(word & m) // (m & -m) for m in fields]
        most = [m // (m & -m) for m in fields]
        want = np.stack([(v * 255 + m // 2) // m for v, m in zip(values, most, strict=True)], -1).astype(np.uint8)
        rows = [b"".join(int(v).to_bytes(bits // 8, "little") for v in row) for row in word]
    else:
        count = 1 << bits if header == 12 else int(rng.integers(1, (1 << bits) + 1))
        colors = 0 if count == 1 << bits else count
        table = rng.integers(0, 256, (count, 3 if header == 12 else 4), dtype=np.uint8)
        index = rng.integers(0, count, (height, width), dtype=np.uint8)
        if bits >= 4 and header != 12 and rng.random() < 0.4:
            compression, top_down = (1 if bits == 8 else 2), False
            runs = _bmp_runs(rng, index, bits == 4)
        palette, want = table.tobytes(), table[..., 2::-1][index]
        rows = _packed(index, bits)
    body = b"".join(row + b"\0" * (-len(row) % 4) for row in (rows if top_down else rows[::-1])) if compression in (0, 3) else runs
    if header == 12:
        head = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        head = struct.pack("<IiiHHIIiiII", header, width, -height if top_down else height, 1, bits, compression, 0, 0, 0, colors, 0)
        head = (head + masks).ljust(header, b"\0") if header > 40 else head + masks
    offset = 14 + len(head) + len(palette)
    gap = int(rng.choice([0, 0, 5]))
    said = offset + gap
    if rng.random() < 0.3:
        gap, said = 0, int(rng.choice([0, 14 + header])) if palette else 0
    return b"BM" + struct.pack("<IHHI", 0, 0, 0, said) + head + palette + bytes(gap) + body, want


@pytest.mark.essential
def test_bitmaps_are_read_as_by_pillow(rng: np.random.Generator) -> None:
    for i in range(FILES):
        data, want = _bmp(rng)
        np.testing.assert_array_equal(stoker.imdecode(data), want, err_msg=f"file {i}: {data[:64]!r}")
        if struct.unpack_from("<I", data, 14)[0] != 12 and struct.unpack_from("<HI", data, 28) in ((8, 0), (24, 0)):
            np.testing.assert_array_equal(_pillow(data), want, err_msg=f"file {i}: {data[:64]!r}")


def test_bitmaps_whose_pixels_begin_inside_something() -> None:
    """The image equals Pillow's, or the file is refused. A palette is never read as pixels, nor pixels as a palette."""
    pixels = (np.arange(64 * 64) % 256).astype(np.uint8).reshape(64, 64)
    out = io.BytesIO()
    Image.fromarray(pixels).convert("P").save(out, "BMP")
    whole, refused = bytearray(out.getvalue()), 0
    for offset in [*range(100), 54 + 4 * 128, 1074, 1077]:
        data = bytes(whole[:10]) + struct.pack("<I", offset) + bytes(whole[14:])
        try:
            got = stoker.imdecode(data)
        except CorruptError as error:
            refused += 1
            assert "begin" in str(error)
            continue
        np.testing.assert_array_equal(got, _pillow(data), err_msg=str(offset))
    assert refused > 90
    colours = np.zeros((4, 4, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(colours).save(out, "BMP")
    with pytest.raises(CorruptError, match="inside its header of 54 bytes"):
        stoker.imdecode(out.getvalue()[:10] + struct.pack("<I", 30) + out.getvalue()[14:])
    # The header stands for 256 colours, but the palette has only 3. The file is decoded if its pixels use only these, and refused otherwise.
    index = np.arange(16, dtype=np.uint8).reshape(4, 4) % 3
    head = struct.pack("<IiiHHIIiiII", 40, 4, 4, 1, 8, 0, 0, 0, 0, 0, 0)
    table = np.array([[1, 2, 3, 0], [40, 50, 60, 0], [7, 8, 9, 0]], np.uint8)
    short = b"BM" + struct.pack("<IHHI", 0, 0, 0, 54 + 12) + head + table.tobytes() + index[::-1].tobytes()
    np.testing.assert_array_equal(stoker.imdecode(short), table[..., 2::-1][index])
    with pytest.raises(CorruptError, match="a pixel of colour 3, whose pixels begin after colour 2 of the palette, at offset 66"):
        stoker.imdecode(short[:-1] + b"\3")


# ---- PNG ----

PASSES = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}


def _png(rng: np.random.Generator, color: int, bits: int, interlaced: bool) -> tuple[bytes, np.ndarray]:
    height, width, channels = int(rng.integers(1, 15)), int(rng.integers(1, 20)), CHANNELS[color]
    colors = int(rng.integers(1, 2**bits + 1)) if color == 3 else 2**bits
    pixels = rng.integers(0, colors, (height, width, channels))
    parts = [pixels[y0::dy, x0::dx] for x0, y0, dx, dy in PASSES] if interlaced else [pixels]
    raw = b"".join(b"\0" + row for part in parts if part.size for row in _packed(part.reshape(part.shape[0], -1), bits))
    more, table = b"", rng.integers(0, 256, (colors if color == 3 else 1, 3), dtype=np.uint8)
    if color == 3:
        more += png_chunk(b"PLTE", table.tobytes())
    if color in (0, 2, 3) and rng.random() < 0.5:  # adds transparent colours, whose alpha is dropped like that of an alpha channel
        clear = {0: struct.pack(">H", pixels[0, 0, 0]), 2: pixels[0, 0].astype(">u2").tobytes(), 3: bytes(range(min(colors, 9)))}
        more += png_chunk(b"tRNS", clear[color])
    packed = zlib.compress(raw)
    head = png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, interlaced))
    data = b"\x89PNG\r\n\x1a\n" + head + more + png_chunk(b"IDAT", packed[:9]) + png_chunk(b"IDAT", packed[9:]) + png_chunk(b"IEND", b"")
    return data, table[pixels[..., 0]] if color == 3 else _colours(_narrowed(pixels, 2**bits - 1))


@pytest.mark.essential
@pytest.mark.filterwarnings("ignore")  # Pillow warns about some of the files
@pytest.mark.parametrize("interlaced", [False, True])
@pytest.mark.parametrize("color", CHANNELS)
def test_pngs_are_read_as_by_their_peers(rng: np.random.Generator, color: int, interlaced: bool) -> None:
    for bits in {0: (1, 2, 4, 8, 16), 3: (1, 2, 4, 8)}.get(color, (8, 16)):
        for _ in range(FILES // 20):
            data, want = _png(rng, color, bits, interlaced)
            np.testing.assert_array_equal(stoker.imdecode(data), want)
            if bits <= 8:
                np.testing.assert_array_equal(_pillow(data), want)
            assert np.abs(_opencv(data).astype(int) - want).max() <= (bits == 16)


# ---- PNM ----


@pytest.mark.essential
@pytest.mark.parametrize("kind", range(1, 7))
def test_netpbm_files_are_read_as_by_their_peers(rng: np.random.Generator, kind: int) -> None:
    for _ in range(FILES // 4):
        height, width, channels = int(rng.integers(1, 9)), int(rng.integers(1, 20)), 3 if kind in (3, 6) else 1
        most = 1 if kind in (1, 4) else int(rng.choice([1, 2, 7, 100, 254, 255, 256, 1000, 4095, 65535]))
        pixels = rng.integers(0, most + 1, (height, width * channels))
        head = f"P{kind}\n# a comment\n{width}\t{height}" + ("" if kind in (1, 4) else f" {most}") + "\n"
        if kind <= 3:
            data = (head + " ".join(str(v) for v in pixels.reshape(-1))).encode() + b"\n"
        else:
            data = head.encode() + b"".join(_packed(pixels, 1 if kind == 4 else 16 if most > 255 else 8))
        got = stoker.imdecode(data)
        value = (1 - pixels if kind in (1, 4) else pixels).reshape(height, width, channels)
        np.testing.assert_array_equal(got, _colours(_narrowed(value, most)))
        if most <= 255 or channels == 3:  # Pillow clips gray of 16 bits; otherwise it rounds where Stoker truncates
            assert np.abs(_pillow(data).astype(int) - got).max() <= 1


# ---- TIFF ----

KINDS: dict[str, tuple[int, dict[str, Any]]] = {
    "gray": (1, {"photometric": "minisblack"}),
    "white is zero": (1, {"photometric": "miniswhite"}),
    "gray and alpha": (2, {"photometric": "minisblack", "extrasamples": ["unassalpha"]}),
    "rgb": (3, {"photometric": "rgb"}),
    "alpha": (4, {"photometric": "rgb", "extrasamples": ["unassalpha"]}),
    "associated alpha": (4, {"photometric": "rgb", "extrasamples": ["assocalpha"]}),
    "unknown fourth sample": (4, {"photometric": "rgb", "extrasamples": ["unspecified"]}),
    "cmyk": (4, {"photometric": "separated"}),
}


@pytest.mark.essential
@pytest.mark.filterwarnings("ignore")  # Pillow warns about some of the files
@pytest.mark.parametrize("kind", KINDS)
def test_tiffs_are_read_as_by_their_peers(rng: np.random.Generator, kind: str) -> None:
    """Strips, tiles, planes, either byte order, BigTIFF, and deflate with its predictor give the pixels that tifffile wrote."""
    samples, how = KINDS[kind]
    for _ in range(FILES // 5):
        height, width = (int(n) for n in rng.integers(1, 60, 2))
        dtype = rng.choice([np.uint8, np.uint16]) if kind != "cmyk" else np.uint8
        pixels = rng.integers(0, np.iinfo(dtype).max + 1, (height, width, samples)).astype(dtype)
        options: dict[str, Any] = dict(how) | {"byteorder": rng.choice(["<", ">"]), "bigtiff": bool(rng.integers(2))}
        stored = pixels if samples > 1 else pixels[..., 0]
        if samples > 1:
            options["planarconfig"] = rng.choice(["contig", "separate"])
            stored = np.ascontiguousarray(np.moveaxis(pixels, -1, 0)) if options["planarconfig"] == "separate" else pixels
        options |= {"tile": (16, 32)} if rng.random() < 0.4 else {"rowsperstrip": int(rng.integers(1, height + 2))}
        if rng.random() < 0.5:
            options |= {"compression": "zlib", "predictor": bool(rng.integers(2))}
        out = io.BytesIO()
        tifffile.imwrite(out, stored, metadata=None, **options)
        want = _narrowed(pixels, 65535) if dtype == np.uint16 else pixels
        if kind == "cmyk":
            want = ((255 - want[..., :3].astype(int)) * (255 - want[..., 3:].astype(int)) // 255).astype(np.uint8)
        want = _colours(255 - want if kind == "white is zero" else want)
        np.testing.assert_array_equal(stoker.imdecode(out.getvalue()), want, err_msg=repr(options))
        if dtype == np.uint8 and kind in ("gray", "white is zero", "rgb", "alpha", "unknown fourth sample"):
            with contextlib.suppress(OSError):  # Pillow reads few TIFFs of planes or tiles
                np.testing.assert_array_equal(_pillow(out.getvalue()), want, err_msg=repr(options))


def _edited(tag: int, value: int, pixels: np.ndarray | None = None, kind: int = 3, **options: Any) -> bytes:
    """Returns a TIFF whose entry `tag` has this value. If there is no such entry, it replaces the entry of the resolution's unit."""
    out = io.BytesIO()
    tifffile.imwrite(out, np.zeros((8, 8), np.uint8) if pixels is None else pixels, metadata=None, **options)
    data = bytearray(out.getvalue())
    first = struct.unpack_from("<I", data, 4)[0]
    entries = [first + 2 + 12 * i for i in range(struct.unpack_from("<H", data, first)[0])]
    at = next((e for e in entries if struct.unpack_from("<H", data, e)[0] == tag), None)
    at = at or next(e for e in entries if struct.unpack_from("<H", data, e)[0] == 296)
    struct.pack_into("<HHII", data, at, tag, kind, 1, value)
    return bytes(data)


def _array_tiff(pixels: np.ndarray, **options: Any) -> bytes:
    out = io.BytesIO()
    tifffile.imwrite(out, pixels, metadata=None, **options)
    return out.getvalue()


def _tiff_of_bits(bits: int) -> bytes:
    return _edited(258, bits)


def test_tiffs_that_are_refused_say_why_and_what_to_do() -> None:
    rgb = np.zeros((8, 8, 3), np.uint8)
    many = {"photometric": "rgb", "planarconfig": "contig"}
    cases: dict[str, tuple[bytes, str]] = {
        **{
            f"{n} bits": (_tiff_of_bits(n), f"gray of {n} bits a sample; save it as gray or RGB of 8 or 16 bits")
            for n in (3, 6, 10, 12, 14, 24, 32, 64)
        },
        "L*a*b*": (_edited(262, 8, rgb, photometric="rgb"), r"CIE L\*a\*b\* .*; save it as"),
        "ICC L*a*b*": (_edited(262, 9, rgb, photometric="rgb"), r"ICC L\*a\*b\* .*; save it as"),
        "YCbCr": (_edited(262, 6, rgb, photometric="rgb"), "YCbCr .*; save it as"),
        "a raw picture": (_edited(262, 32803), "colour filter array.*; save it as"),
        "LogLuv": (_edited(262, 32845, rgb, photometric="rgb"), "LogLuv.*; save it as"),
        "an unknown kind": (_edited(262, 99), "photometric interpretation 99; save it as"),
        "halves": (_array_tiff(np.zeros((8, 8), np.float16)), "floats of 16 bits; save it as"),
        "doubles": (_array_tiff(np.zeros((8, 8))), "floats of 64 bits; save it as .* floats of 32"),
        "signed": (_array_tiff(np.zeros((8, 8), np.int8)), "signed integers of 8 bits; save it as"),
        "signed, 32 bits": (_array_tiff(np.zeros((8, 8), np.int32)), "signed integers of 32 bits; save it as"),
        "a palette of floats": (_edited(262, 3, np.zeros((8, 8), np.float32)), "palette of floats or signed integers; save it as"),
        "white is zero, floats": (_edited(262, 0, np.zeros((8, 8), np.float32)), "gray of floats or signed integers; save it as"),
        "complex numbers": (_array_tiff(np.zeros((8, 8), np.complex64)), "complex numbers; save it as"),
        "65 samples": (_array_tiff(np.zeros((8, 8, 65), np.uint8), **many), "65 samples a pixel.*up to 64; save it in several"),
        "white is zero, 3 bands": (
            _edited(262, 0, np.zeros((8, 8, 3), np.uint16), photometric="minisblack", planarconfig="contig"),
            "gray with 3 samples .*; save it as",
        ),
        "CMYK and alpha": (
            _array_tiff(np.zeros((8, 8, 5), np.uint8), photometric="separated", planarconfig="contig"),
            "CMYK with 5 samples.*; save it as",
        ),
        "CMYK of 16 bits": (_array_tiff(np.zeros((8, 8, 4), np.uint16), photometric="separated"), "CMYK of 16 bits.*; save it as"),
        "other inks": (_edited(332, 2, np.zeros((8, 8, 4), np.uint8), photometric="separated"), "InkSet 2.*; save it as"),
        "a palette with alpha": (
            _edited(262, 3, np.zeros((8, 8, 2), np.uint8), photometric="minisblack", planarconfig="contig"),
            "palette with 2 samples .*alpha.*; save it as",
        ),
        "reversed bits": (_edited(266, 2), "FillOrder 2.; save it with FillOrder 1"),
        "Zstandard": (_edited(259, 50000), "Zstandard; save it uncompressed"),
        "LZMA": (_edited(259, 34925), "LZMA; save it uncompressed"),
        "JPEG 2000": (_edited(259, 34712), "JPEG 2000; save it uncompressed"),
        "predictor of floats": (_edited(317, 3, compression="zlib", predictor=True), "predictor 3.*; save it without"),
        "an entry of no integers": (_edited(259, 1, kind=11), "entry 259 has type 11"),
    }
    for name, (data, words) in cases.items():
        with pytest.raises(StokerError, match=words):
            stoker.imdecode(data)
            pytest.fail(name)


def test_a_palette_of_8_bits_in_a_tiff(rng: np.random.Generator) -> None:
    """If no colour of the palette is above 255, the colours have 8 bits, as in libtiff, with which OpenCV reads the file; otherwise 16 bits."""
    pixels, table = rng.integers(0, 256, (9, 7), dtype=np.uint8), rng.integers(0, 256, (3, 256), dtype=np.uint16)
    data = _array_tiff(pixels, photometric="palette", colormap=table)
    want = table.T[pixels].astype(np.uint8)
    np.testing.assert_array_equal(stoker.imdecode(data), want)
    np.testing.assert_array_equal(_opencv(data), want)
    wide = _array_tiff(pixels, photometric="palette", colormap=table * 257)
    np.testing.assert_array_equal(stoker.imdecode(wide), want)


# ---- JPEG ----


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"keep_rgb": True}, {"subsampling": 0}])
def test_jpegs_are_read_as_by_pillow(rng: np.random.Generator, options: dict[str, Any]) -> None:
    """Values equal Pillow's. Those of CMYK files may differ by 1, because Stoker truncates and Pillow rounds."""
    for mode, channels in (("L", 1), ("RGB", 3), ("CMYK", 4)):
        for _ in range(FILES // 20):
            height, width = (int(n) for n in rng.integers(1, 40, 2))
            pixels = rng.integers(0, 256, (height, width, channels), dtype=np.uint8)
            image = Image.fromarray(pixels[..., 0]) if mode == "L" else Image.frombytes(mode, (width, height), pixels.tobytes())
            out = io.BytesIO()
            image.save(out, "JPEG", **options)
            difference = np.abs(stoker.imdecode(out.getvalue()).astype(int) - _pillow(out.getvalue()))
            assert difference.max() <= (mode == "CMYK"), (mode, options)


# ---- files that were cut ----


@pytest.mark.essential
def test_cut_files_are_errors_that_say_where(rng: np.random.Generator) -> None:
    pixels = rng.integers(0, 256, (40, 30, 3), dtype=np.uint8)
    for kind, options in (
        ("JPEG", {}),
        ("JPEG", {"progressive": True}),
        ("PNG", {}),
        ("TIFF", {}),
        ("TIFF", {"compression": "tiff_lzw"}),
        ("BMP", {}),
        ("PPM", {}),
        ("WEBP", {"lossless": True}),
    ):
        if kind == "WEBP" and not stoker._core.image_named("a.webp"):
            continue
        out = io.BytesIO()
        Image.fromarray(pixels).save(out, kind, **options)
        for size in (len(out.getvalue()) // 2, len(out.getvalue()) - 40):
            with pytest.raises(CorruptError, match=f"truncated.*{'' if kind == 'WEBP' else size}"):
                stoker.imdecode(out.getvalue()[:size])
    jpeg = io.BytesIO()
    Image.fromarray(pixels).save(jpeg, "JPEG")
    half = jpeg.getvalue()[: len(jpeg.getvalue()) // 2]
    assert stoker.imdecode(half, strict=False).shape == (40, 30, 3)
    with pytest.raises(CorruptError):  # the rest of the file is zeros, as after an unfinished download
        stoker.imdecode(half + bytes(len(half)))
