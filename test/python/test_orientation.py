# SPDX-License-Identifier: Apache-2.0
"""EXIF's orientation in every form that occurs in files, compared with Pillow's ImageOps.exif_transpose."""

from __future__ import annotations

import io
import itertools
import struct
from typing import Any

import numpy as np
import pytest
import stoker
from PIL import Image, ImageOps
from stoker import _core
from stoker.errors import CorruptError
from stoker.loader.sources import _image_sizes
from stoker.loader.sources._image_sizes import size_of_file
from support import png_chunk

# The letters by which the module struct packs TIFF's types. Types 5 and 10 are pairs of numbers; 0 and 129 are invalid.
TYPES = {
    1: "B",
    2: "B",
    3: "H",
    4: "L",
    5: "LL",
    6: "b",
    7: "B",
    8: "h",
    9: "l",
    10: "ll",
    11: "f",
    12: "d",
    13: "L",
    16: "Q",
    0: "B",
    129: "H",
}
PIXELS = np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3)


def _values(kind: int, count: int, first: float, order: str) -> bytes:
    letters = TYPES[kind]
    numbers = [first if letters in "fd" else int(first)] + [3] * max(count - 1, 0)
    return b"".join(struct.pack(order + letters, n, *[1] * (len(letters) - 1)) for n in numbers[: max(count, 1)])


def _exif(kind: int = 3, count: int = 1, order: str = "<", first: float = 6, more: tuple[bytes, ...] = ()) -> bytes:
    """Makes a TIFF structure with an entry for the orientation, followed by the entries in `more`. kind, count: type and number of the entry's values;
    first: the first value. order: byte order, "<" or ">"."""
    data = _values(kind, count, first, order)
    entries = len(more) + 1
    inside = len(data) <= 4
    value = data.ljust(4, b"\0") if inside else struct.pack(order + "L", 8 + 2 + 12 * entries + 4)
    entry = struct.pack(order + "HHL", 0x112, kind, count) + value
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "LH", 8, entries)
    return head + entry + b"".join(more) + bytes(4) + (b"" if inside else data)


def _jpeg(exif: bytes) -> bytes:
    out = io.BytesIO()
    Image.fromarray(PIXELS).save(out, "JPEG", exif=b"Exif\0\0" + exif)
    return out.getvalue()


def _png(exif: bytes, after_pixels: bool = False) -> bytes:
    out = io.BytesIO()
    Image.fromarray(PIXELS).save(out, "PNG")
    at = out.getvalue().index(b"IEND" if after_pixels else b"IDAT") - 4
    return out.getvalue()[:at] + png_chunk(b"eXIf", exif) + out.getvalue()[at:]


def _webp(exif: bytes) -> bytes:
    out = io.BytesIO()
    Image.fromarray(PIXELS).save(out, "WEBP", lossless=True, exif=exif)
    return out.getvalue()


def _tiff(kind: int, count: int, order: str) -> bytes:
    """Makes an uncompressed TIFF. kind, count: type of the values of its orientation entry, and their number. order: byte order, "<" or ">"."""
    data = _values(kind, count, 6, order)
    fields = [
        (256, 3, 7),
        (257, 3, 5),
        (258, 3, 8),
        (259, 3, 1),
        (262, 3, 2),
        (273, 4, 0),
        (274, kind, 0),
        (277, 3, 3),
        (278, 3, 5),
        (279, 4, PIXELS.size),
    ]
    tail = 8 + 2 + 12 * len(fields) + 4
    out = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "LH", 8, len(fields))
    for tag, of, value in fields:
        if tag == 274:
            out += struct.pack(order + "HHL", tag, kind, count)
            out += data.ljust(4, b"\0") if len(data) <= 4 else struct.pack(order + "L", tail)
        else:
            value = tail + len(data) if tag == 273 else value
            out += struct.pack(order + "HHL", tag, of, 1) + struct.pack(
                order + ("HH" if of == 3 else "L"), *([value, 0] if of == 3 else [value])
            )
    return out + bytes(4) + data + PIXELS.tobytes()


def _pillow(data: bytes) -> np.ndarray:
    return np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB"))


FILES: dict[str, Any] = {"jpeg": _jpeg, "png": _png, "png, after the pixels": lambda exif: _png(exif, True)}
if _core.image_named("a.webp"):
    FILES["webp"] = _webp


@pytest.mark.essential
@pytest.mark.filterwarnings("ignore")  # Pillow warns about entries that it ignores
@pytest.mark.parametrize("form", FILES)
def test_types_and_counts(form: str) -> None:
    for kind, count, order in itertools.product(TYPES, (0, 1, 2, 3), "<>"):
        data = FILES[form](_exif(kind, count, order))
        np.testing.assert_array_equal(stoker.imdecode(data), _pillow(data), err_msg=f"type {kind}, {count} values, {order}")
    assert stoker.imdecode(FILES[form](_exif(4))).shape == (7, 5, 3)  # checks that images are rotated at all


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", FILES)
def test_values_and_doubled_entries(form: str) -> None:
    again = struct.pack("<HHLHH", 0x112, 3, 1, 8, 0)
    forms = [_exif(first=v) for v in range(10)] + [_exif(11, first=v) for v in (6.5, -6, 0, float("nan"), 1e30)]
    forms += [
        _exif(6, first=-6),
        _exif(9, first=-1),
        _exif(more=(again,)),
        _exif(more=(again[:2] + b"\x01" + again[3:],)),
        b"Exif\0\0" + _exif(),
    ]
    forms += [_exif(12)[:-1], _exif(12, count=2)[:-4], _exif()[:12], _exif(4, 3)[:-1]]  # structures that end inside an entry or a value
    for exif in forms:
        data = FILES[form](exif)
        np.testing.assert_array_equal(stoker.imdecode(data), _pillow(data), err_msg=repr(exif))


@pytest.mark.filterwarnings("ignore")
def test_types_and_counts_of_a_tiff() -> None:
    for kind, count, order in itertools.product(set(TYPES) - {0, 129}, (1, 2, 3), "<>"):
        data = _tiff(kind, count, order)
        np.testing.assert_array_equal(stoker.imdecode(data), _pillow(data), err_msg=f"type {kind}, {count} values, {order}")


def test_sizes_are_those_of_turned_images(tmp_path) -> None:
    """bucket_by applies orientations that follow the pixels of a long file, as the pipeline does."""
    noise = Image.fromarray(np.random.default_rng(3).integers(0, 256, (200, 300, 3), np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 6
    noise.save(tmp_path / "a.webp", lossless=True, exif=exif)
    noise.save(tmp_path / "a.png")
    data = (tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").write_bytes(data[:-12] + png_chunk(b"eXIf", exif.tobytes()[6:]) + data[-12:])
    for name in ("a.webp", "a.png"):
        with Image.open(tmp_path / name) as image:
            width, height = ImageOps.exif_transpose(image).size
        assert (tmp_path / name).stat().st_size > 100_000
        assert size_of_file(tmp_path / name, True) == (height, width) == (300, 200)
        assert size_of_file(tmp_path / name, False) == (200, 300)


def test_files_whose_sizes_are_in_their_heads_are_not_read_whole(tmp_path, monkeypatch) -> None:
    random = np.random.default_rng(3)
    Image.fromarray(random.integers(0, 256, (200, 300, 3), np.uint8)).save(tmp_path / "a.png")
    Image.fromarray(random.integers(0, 256, (200, 200, 3), np.uint8)).save(tmp_path / "a.webp", lossless=True)
    monkeypatch.setattr(_image_sizes._files, "read_bytes", lambda path: pytest.fail(f"{path} is read whole"))
    assert size_of_file(tmp_path / "a.png", True) == (200, 300)
    assert size_of_file(tmp_path / "a.webp", True) == (200, 200)
    (tmp_path / "b.png").write_bytes((tmp_path / "a.png").read_bytes()[:-12])
    with pytest.raises(pytest.fail.Exception, match=r"b\.png is read whole"):
        size_of_file(tmp_path / "b.png", True)


def _check_size(data: bytes) -> None:
    with Image.open(io.BytesIO(data)) as image:
        size = ImageOps.exif_transpose(image).size
    assert stoker.imdecode(data).shape[:2] == size[::-1]


@pytest.mark.parametrize("first", ["none", "invalid", "damaged", "empty", "1", "6"])
def test_only_the_first_exif_segment_counts(first: str) -> None:
    """A second EXIF segment of a JPEG does not turn the picture, unless the first one is empty."""
    tiff = {
        "none": _exif()[:8] + struct.pack("<H", 0) + bytes(4),
        "invalid": _exif(first=9),
        "damaged": b"abcd",
        "empty": b"",
        "1": _exif(first=1),
        "6": _exif(first=6),
    }[first]
    data = _jpeg(_exif(first=8))
    segment = b"\xff\xe1" + struct.pack(">H", 8 + len(tiff)) + b"Exif\0\0" + tiff
    _check_size(data[:2] + segment + data[2:])


@pytest.mark.parametrize("after_pixels", [False, True])
@pytest.mark.parametrize("palette", [False, True])
def test_an_empty_orientation_is_ignored(after_pixels: bool, palette: bool) -> None:
    """Pillow and OpenCV read a PNG with a chunk eXIf without contents."""
    data = _png(b"", after_pixels)
    if palette:
        out = io.BytesIO()
        Image.open(io.BytesIO(data)).convert("P").save(out, "PNG", exif=_exif())
        at = out.getvalue().index(b"IEND" if after_pixels else b"IDAT") - 4
        data = out.getvalue()[:at] + png_chunk(b"eXIf", b"") * 2 + out.getvalue()[at:]
    with Image.open(io.BytesIO(data)) as image:
        assert np.array_equal(np.asarray(stoker.imdecode(data, adjust_orientation=False)), np.asarray(image.convert("RGB")))


@pytest.mark.parametrize("after_pixels", [False, True])
def test_a_damaged_orientation_turns_nothing(after_pixels: bool) -> None:
    """The bytes of a chunk whose checksum is wrong are not believed. The picture is refused, unless it is read as stored or leniently."""
    whole = _png(_exif(first=1), after_pixels)
    at = whole.index(_exif(first=1))
    data = whole[:at] + _exif(first=6) + whole[at + len(_exif()) :]
    assert _core.image_header(whole)["orientation"] == _core.image_header(data)["orientation"] == 1
    assert np.array_equal(np.asarray(stoker.imdecode(whole)), PIXELS)
    with pytest.raises(CorruptError, match="the checksum of its chunk eXIf is wrong"):
        stoker.imdecode(data)
    for how in ({"adjust_orientation": False}, {"strict": False}):
        assert np.array_equal(np.asarray(stoker.imdecode(data, **how)), PIXELS)
