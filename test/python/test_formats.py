# SPDX-License-Identifier: Apache-2.0
"""Images of other formats than JPEG and PNG: their pixels equal the stored ones and Pillow's; also tests windows, damaged files and refusals."""

from __future__ import annotations

import functools
import io
import struct
import zlib
from typing import Any

import cv2
import numpy as np
import pytest
import stoker
from PIL import Image
from stoker import _core, _where, fn, types
from stoker.errors import CorruptError, StokerError, UnsupportedError
from support import SEED

tifffile = pytest.importorskip("tifffile")  # installed as a dependency of scikit-image

pytestmark = pytest.mark.filterwarnings("error")
HEIGHT, WIDTH = 19, 27


def _pillow(image: Any, kind: str, **options: Any) -> bytes:
    out = io.BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(out, kind, **options)
    return out.getvalue()


def _tiff(pixels: np.ndarray, **options: Any) -> bytes:
    out = io.BytesIO()
    tifffile.imwrite(out, pixels, metadata=None, **options)
    return out.getvalue()


def _without_counts(tiff: bytes) -> bytes:
    """Returns the TIFF with its tag StripByteCounts (279) renamed to a private tag, since some old writers omit it."""
    at = struct.unpack_from("<I", tiff, 4)[0]
    entries = [at + 2 + 12 * i for i in range(struct.unpack_from("<H", tiff, at)[0])]
    found = next(e for e in entries if struct.unpack_from("<H", tiff, e)[0] == 279)
    return tiff[:found] + struct.pack("<H", 65000) + tiff[found + 2 :]


def _bmp(bits: int, rows: bytes, palette: bytes = b"", compression: int = 0, masks: tuple[int, ...] = (), top_down: bool = False) -> bytes:
    """Returns a BMP of a variant that Pillow does not write. With four masks its header has 56 bytes."""
    size = 56 if len(masks) == 4 else 40
    fields = struct.pack(f"<{len(masks)}I", *masks)
    offset = 14 + 40 + len(fields) + len(palette)
    header = struct.pack(
        "<IiiHHIIiiII", size, WIDTH, -HEIGHT if top_down else HEIGHT, 1, bits, compression, len(rows), 0, 0, len(palette) // 4, 0
    )
    return b"BM" + struct.pack("<IHHI", offset + len(rows), 0, 0, offset) + header + fields + palette + rows


def _rows(pixels: np.ndarray) -> bytes:
    """Returns the bytes of the rows from the bottom up, each padded to a multiple of four bytes."""
    return b"".join(r.tobytes() + b"\0" * (-len(r.tobytes()) % 4) for r in pixels[::-1])


def _runs(index: np.ndarray, four: bool) -> bytes:
    """Encodes RLE8 or RLE4: runs, four literal pixels if the next pixel differs, jumps over runs of colour 0, and ends of rows."""
    out = bytearray()
    for row in index[::-1]:
        x = 0
        while x < WIDTH:
            n = 1
            while x + n < WIDTH and n < 255 and row[x + n] == row[x]:
                n += 1
            if n == 1 and x + 4 <= WIDTH:
                part = row[x : x + 4]
                out += bytes([0, 4]) + (bytes([part[0] << 4 | part[1], part[2] << 4 | part[3]]) if four else part.tobytes())
                x += 4
            elif row[x] == 0 and x + n < WIDTH:
                out += bytes([0, 2, n, 0])
                x += n
            else:
                out += bytes([n, row[x] * 17 if four else row[x]])
                x += n
        out += b"\0\0"
    return bytes(out + b"\0\1")


def _scaled(value: np.ndarray, bits: int) -> np.ndarray:
    most = 2**bits - 1
    return ((value.astype(np.int64) * 255 + most // 2) // most).astype(np.uint8)


def _bitmaps(rng: np.random.Generator, rgb: np.ndarray, rgba: np.ndarray) -> dict[str, tuple[bytes, np.ndarray]]:
    index = rng.integers(0, 3, (HEIGHT, WIDTH), dtype=np.uint8)
    index[:, 8:20] = index[:, 8:9]
    colors = rng.integers(0, 256, (16, 4), dtype=np.uint8)
    table = colors[:, 2::-1]
    nibbles = np.pad(index, ((0, 0), (0, 1)))
    word = rng.integers(0, 65536, (HEIGHT, WIDTH), dtype=np.uint16)
    r5, g5, b5 = (_scaled(word >> s & 31, 5) for s in (10, 5, 0))
    r6, g6, b6 = _scaled(word >> 11, 5), _scaled(word >> 5 & 63, 6), _scaled(word & 31, 5)
    masks = (0xFF, 0xFF00, 0xFF0000, 0xFF000000)
    gray = Image.fromarray(rgb[..., 0])
    return {
        "bmp 1": (_pillow(gray.convert("1"), "BMP"), np.asarray(gray.convert("1"))[..., None] * np.uint8(255)),
        "bmp 4": (_bmp(4, _rows(nibbles[:, ::2] << 4 | nibbles[:, 1::2]), colors.tobytes()), table[index]),
        "bmp 8 gray": (_pillow(gray, "BMP"), rgb[..., :1]),
        "bmp 8": (_bmp(8, _rows(index), colors.tobytes()), table[index]),
        "bmp 16": (_bmp(16, _rows(word)), np.stack([r5, g5, b5], -1)),
        "bmp 565": (_bmp(16, _rows(word), compression=3, masks=(0xF800, 0x7E0, 0x1F)), np.stack([r6, g6, b6], -1)),
        "bmp 24": (_pillow(rgb, "BMP"), rgb),
        "bmp 24 top-down": (_bmp(24, _rows(rgb[::-1, :, ::-1]), top_down=True), rgb),
        "bmp 32": (_bmp(32, _rows(rgba)), rgba[..., 2::-1]),
        "bmp 32 with alpha": (_bmp(32, _rows(rgba), compression=3, masks=masks), rgba),
        "bmp rle8": (_bmp(8, _runs(index, False), colors.tobytes(), compression=1), table[index]),
        "bmp rle4": (_bmp(4, _runs(index, True), colors.tobytes(), compression=2), table[index]),
    }


def _netpbm(rgb: np.ndarray, wide: np.ndarray) -> dict[str, tuple[bytes, np.ndarray]]:
    def text(kind: int, most: str, values: np.ndarray, gap: str = " ") -> bytes:
        return f"P{kind}\n# made by hand\n{WIDTH} {HEIGHT}\n{most}{gap.join(str(v) for v in values.reshape(-1).tolist())}\n".encode()

    bits = (rgb[..., :1] > 127).astype(np.uint8)
    small, odd = rgb % 101, wide % 1001
    return {
        "pbm": (_pillow(Image.fromarray(bits[..., 0] * 255).convert("1"), "PPM"), bits * 255),
        "pbm text": (text(1, "", 1 - bits, ""), bits * 255),
        "pgm": (b"P5 %d %d 255\n" % (WIDTH, HEIGHT) + rgb[..., 0].tobytes(), rgb[..., :1]),
        "pgm text": (text(2, "255\n", rgb[..., 0]), rgb[..., :1]),
        "ppm": (_pillow(rgb, "PPM"), rgb),
        "ppm text, up to 100": (text(3, "100\n", small), (small.astype(int) * 255 // 100).astype(np.uint8)),
        "pgm 16": (b"P5 %d %d 65535\n" % (WIDTH, HEIGHT) + wide[..., 0].astype(">u2").tobytes(), wide[..., :1]),
        "ppm 16, up to 1000": (
            b"P6\n%d %d\n1000\n" % (WIDTH, HEIGHT) + odd.astype(">u2").tobytes(),
            ((odd.astype(np.int64) * 65535 + 500) // 1000).astype(np.uint16),
        ),
    }


def _tiffs(rgb: np.ndarray, rgba: np.ndarray, wide: np.ndarray) -> dict[str, tuple[bytes, np.ndarray]]:
    gray, picture, alpha = rgb[..., 0], Image.fromarray(rgb), {"photometric": "rgb", "extrasamples": ["unassalpha"]}
    smooth = np.sort(rgb, 1)
    palette = picture.quantize(64)
    table = np.asarray(palette.getpalette()).reshape(-1, 3)
    one = np.asarray(Image.fromarray(gray).convert("1"))
    large = np.tile(smooth, (3, 3, 1))
    planes = np.ascontiguousarray(np.moveaxis(wide, -1, 0))
    return {
        "tiff without counts": (_without_counts(_tiff(rgb, rowsperstrip=5)), rgb),
        "tiff deflate without counts": (_without_counts(_tiff(rgb, compression="zlib", rowsperstrip=HEIGHT)), rgb),
        "tiff gray": (_tiff(gray), gray[..., None]),
        "tiff white is zero": (_tiff(gray, photometric="miniswhite"), 255 - gray[..., None]),
        "tiff 1 bit": (_pillow(Image.fromarray(gray).convert("1"), "TIFF"), one[..., None] * np.uint8(255)),
        "tiff gray and alpha": (_tiff(rgba[..., :2], photometric="minisblack", extrasamples=["unassalpha"]), rgba[..., :2]),
        "tiff": (_tiff(rgb), rgb),
        "tiff alpha": (_tiff(rgba, **alpha), rgba),
        "tiff palette": (_pillow(palette, "TIFF"), (table[np.asarray(palette)] * 256).astype(np.uint16)),
        "tiff lzw": (_pillow(smooth, "TIFF", compression="tiff_lzw"), smooth),
        "tiff lzw, predictor": (_pillow(smooth, "TIFF", compression="tiff_lzw", tiffinfo={317: 2}), smooth),
        "tiff lzw, large": (_pillow(np.tile(rgb, (9, 9, 1)), "TIFF", compression="tiff_lzw"), np.tile(rgb, (9, 9, 1))),
        "tiff deflate": (_pillow(smooth, "TIFF", compression="tiff_adobe_deflate"), smooth),
        "tiff packbits": (_pillow(smooth, "TIFF", compression="packbits"), smooth),
        "tiff 16, deflate, predictor": (_tiff(wide, compression="zlib", predictor=True, byteorder=">"), wide),
        "tiff 16 gray": (_tiff(wide[..., 0], rowsperstrip=4), wide[..., :1]),
        "tiff 16, planes": (_tiff(planes, photometric="rgb", planarconfig="separate"), wide),
        "tiff tiles": (_tiff(large, tile=(16, 32)), large),
        "tiff tiles, deflate": (_tiff(large, tile=(32, 16), compression="zlib"), large),
        "tiff big": (_tiff(rgb, bigtiff=True, rowsperstrip=5), rgb),
    }


@functools.cache
def files() -> dict[str, tuple[bytes, np.ndarray]]:
    """Returns a dict from a name to (file, its pixels)."""
    rng = np.random.default_rng(SEED)
    rgba = rng.integers(0, 256, (HEIGHT, WIDTH, 4), dtype=np.uint8)
    wide = rng.integers(0, 65536, (HEIGHT, WIDTH, 3), dtype=np.uint16)
    rgb = np.ascontiguousarray(rgba[..., :3])
    made = _bitmaps(rng, rgb, rgba) | _netpbm(rgb, wide) | _tiffs(rgb, rgba, wide)
    if _core.image_named("a.webp"):
        photo = np.asarray(Image.fromarray(rgb).resize((90, 70), Image.Resampling.BICUBIC))
        lossy = _pillow(photo, "WEBP", quality=80)
        clip = _pillow(Image.fromarray(rgb), "WEBP", save_all=True, append_images=[Image.fromarray(rgb[::-1].copy())], lossless=True)
        made |= {
            "webp": (lossy, np.asarray(Image.open(io.BytesIO(lossy)))),
            "webp lossless": (_pillow(rgb, "WEBP", lossless=True), rgb),
            "webp alpha": (_pillow(rgba, "WEBP", lossless=True, exact=True), rgba),
            "webp animation": (clip, np.dstack([rgb, np.full_like(rgb[..., :1], 255)])),
        }
    return made


def decode(data: bytes, op: Any = fn.eager.decoders.image, **arguments: Any) -> np.ndarray:
    return np.asarray(op([np.frombuffer(data, np.uint8)], **arguments)[0])


def narrowed(pixels: np.ndarray) -> np.ndarray:
    return pixels if pixels.dtype == np.uint8 else ((pixels.astype(np.int64) * 255 + 32767) // 65535).astype(np.uint8)


@pytest.mark.essential
@pytest.mark.parametrize("name", files())
def test_pixels_are_those_that_were_stored(name: str) -> None:
    data, stored = files()[name]
    whole = decode(data, output_type=types.ANY_DATA, dtype=types.UINT16 if stored.dtype == np.uint16 else types.UINT8)
    np.testing.assert_array_equal(whole, stored)
    shape = decode(data, fn.eager.peek_image_shape, image_type=types.ANY_DATA)
    assert tuple(shape) == stored.shape
    eight = narrowed(stored)
    if name == "ppm 16, up to 1000":  # this file's values are truncated to 8 bits, as in DALI
        eight = (np.frombuffer(data[-stored.size * 2 :], ">u2").astype(int) * 255 // 1000).astype(np.uint8).reshape(stored.shape)
    colours = np.repeat(eight[..., :1], 3, -1) if stored.shape[2] < 3 else eight[..., :3]
    np.testing.assert_array_equal(stoker.imdecode(data), colours)
    np.testing.assert_array_equal(decode(data, output_type=types.BGR), colours[..., ::-1])
    scale = np.float32(65535 if stored.dtype == np.uint16 else 255)
    floats = decode(data, output_type=types.ANY_DATA, dtype=types.FLOAT)
    np.testing.assert_allclose(floats, stored.astype(np.float32) / scale, rtol=0, atol=1e-6)
    if stored.dtype == np.uint8:
        gray = eight[..., :1] if stored.shape[2] < 3 else colours @ np.array([0.299, 0.587, 0.114])[:, None]
        assert np.abs(decode(data, output_type=types.GRAY) - gray).max() <= 0.501


@pytest.mark.parametrize("name", files())
def test_windows_are_parts_of_the_whole(name: str, rng: np.random.Generator) -> None:
    data, stored = files()[name]
    whole = stoker.imdecode(data)
    for _ in range(4):
        y, x = (int(rng.integers(0, n)) for n in stored.shape[:2])
        bottom, right = int(rng.integers(y + 1, stored.shape[0] + 1)), int(rng.integers(x + 1, stored.shape[1] + 1))
        part = decode(data, fn.eager.decoders.image_slice, start=[x, y], end=[right, bottom])
        np.testing.assert_array_equal(part, whole[y:bottom, x:right], err_msg=f"{y}:{bottom}, {x}:{right}")


@pytest.mark.parametrize("name", files())
def test_a_cut_file_is_an_error_wherever_it_is_cut(name: str) -> None:
    """A truncated file is an error, or gives its pixels if only padding of the last row or the end marker is missing."""
    data, _ = files()[name]
    whole = stoker.imdecode(data, strict=True)
    last = len(data) - (4 if "text" in name else 1)  # in a text file, the first digits of the last number are also a number
    for size in {*range(12, last, max(len(data) // 25, 1)), last}:
        try:
            got = stoker.imdecode(data[:size], strict=True)
        except CorruptError:
            continue
        assert len(data) - size <= 4, size
        np.testing.assert_array_equal(got, whole)


@pytest.mark.parametrize("kind", ["TIFF", *(["WEBP"] if _core.image_named("a.webp") else [])])
def test_orientation_is_applied(kind: str, rng: np.random.Generator) -> None:
    pixels = rng.integers(0, 256, (11, 7, 3), dtype=np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6
    more = {"lossless": True} if kind == "WEBP" else {}
    data = _pillow(pixels, kind, exif=exif, **more)
    np.testing.assert_array_equal(stoker.imdecode(data), np.rot90(pixels, -1))
    np.testing.assert_array_equal(stoker.imdecode(data, adjust_orientation=False), pixels)


def test_a_loader_reads_all_formats_and_reports_rounding(tmp_path: Any, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    """The Loader reports how many files have endings of formats that Stoker does not decode. It converts 16 bits to 8, with one notice. A pipeline that
    requests 16 bits keeps them."""
    monkeypatch.setattr(_where, "_shown", set())
    images = {
        "a.bmp": "bmp 24",
        "b.ppm": "ppm",
        "c.pgm": "pgm 16",
        "d.tif": "tiff 16, planes",
        "e.TIFF": "tiff lzw",
        "f.png": "",
        "g.jp2": "",
        "h.wav": "",
    }
    (tmp_path / "one").mkdir()
    wide = files()["tiff 16, planes"][1]
    for name, kind in images.items():
        (tmp_path / "one" / name).write_bytes(files()[kind][0] if kind else b"")
    assert cv2.imwrite(str(tmp_path / "one" / "f.png"), wide[..., ::-1])
    loader = stoker.Loader(tmp_path, batch_size=6, shuffle=False, last_batch="keep", transforms=[])
    for _ in range(2):
        got = [np.asarray(image) for batch in loader for image in batch[0]]
    said = capsys.readouterr().err
    assert "skipped 2 files that are no images: .jp2 (1), .wav (1)" in said
    assert said.count("images of 16 bits a channel are rounded to 8") == 1
    for image, kind in zip(got, ["bmp 24", "ppm", "pgm 16", "tiff 16, planes", "tiff lzw", "tiff 16, planes"], strict=True):
        want = narrowed(files()[kind][1])
        rows = np.moveaxis(np.repeat(want, 3, -1) if want.shape[2] == 1 else want, -1, 0)
        np.testing.assert_allclose(image * 255, rows, rtol=0, atol=1e-3, err_msg=kind)

    @stoker.pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def kept() -> Any:
        data, label = fn.readers.file(files=[str(tmp_path / "one" / n) for n in ("d.tif", "f.png")], name="Reader")
        return fn.decoders.image(data, dtype=types.UINT16), label

    batch = next(iter(stoker.Loader(kept())))
    for image in batch[0]:
        np.testing.assert_array_equal(np.asarray(image), np.moveaxis(wide, -1, 0))
    assert "rounded" not in capsys.readouterr().err


def test_what_is_not_decoded_is_named(rng: np.random.Generator) -> None:
    rgb = rng.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    one = Image.fromarray(rgb[..., 0]).convert("1")
    jpeg = _pillow(rgb, "JPEG")
    for data, word in (
        (_pillow(rgb, "TIFF", compression="jpeg"), "compressed by JPEG;"),
        (_pillow(one, "TIFF", compression="group4"), "group 4"),
        (_tiff(rgb[..., 0].astype(np.float64)), "floats of 64 bits"),
        (_tiff(rgb[..., 0].astype(np.int32)), "signed integers of 32 bits"),
        (_tiff(rgb[..., 0].astype(np.uint32)), "32 bits"),
        (jpeg.replace(b"\xff\xc0\x00\x11\x08", b"\xff\xc3\x00\x11\x08"), "lossless JPEG"),
        (jpeg.replace(b"\xff\xc0\x00\x11\x08", b"\xff\xc5\x00\x11\x08"), "hierarchical"),
        (jpeg.replace(b"\xff\xc0\x00\x11\x08", b"\xff\xc1\x00\x11\x0c"), "other than 8 bits"),
        (jpeg.replace(b"\xff\xc0\x00\x11\x08", b"\xff\xf7\x00\x11\x08"), "a JPEG-LS; save it as PNG"),
        (b"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 1\nMAXVAL 255\nENDHDR\n\0", "PAM"),
        (_bmp(24, b"", compression=5), "compression 5"),
    ):
        with pytest.raises(UnsupportedError, match=word):
            stoker.imdecode(data)
    with pytest.raises(StokerError, match="16384 x 16384 pixels in 66 bytes"):
        bomb = _bmp(8, b"\0\1", bytes(10 * 4), compression=1)
        stoker.imdecode(bomb[:18] + struct.pack("<ii", 16384, 16384) + bomb[26:][: 66 - 26])
    with pytest.raises(CorruptError, match=r'not a JPEG, PNG, .*BMP or PNM \(starts with "hello"'):
        stoker.imdecode(b"hello")
    with pytest.raises(StokerError):
        stoker.imdecode(b"BM")


def test_a_tiff_of_tiles_outside_the_image() -> None:
    """A TIFF with tiles outside of the image is refused. All tiles share the same few bytes; unpacking them for each tile would take hours."""
    tile, count = zlib.compress(bytes(1 << 24)), 64
    entries = [(256, 4, 1, count), (257, 4, 1, 1), (258, 3, 1, 8), (259, 3, 1, 8), (262, 3, 1, 1), (322, 4, 1, 1), (323, 4, 1, 1 << 24)]
    lists = 8 + 2 + 12 * (len(entries) + 2) + 4
    entries += [(324, 4, count, lists), (325, 4, count, lists + 4 * count)]
    data = b"II*\0" + struct.pack("<IH", 8, len(entries)) + b"".join(struct.pack("<HHII", *e) for e in entries) + bytes(4)
    data += struct.pack(f"<{count}I", *[lists + 8 * count] * count) + struct.pack(f"<{count}I", *[len(tile)] * count) + tile
    with pytest.raises(stoker.errors.StokerError, match="outside the image"):
        stoker.imdecode(data)
