# SPDX-License-Identifier: Apache-2.0
"""Small hostile inputs are decoded, read or refused within seconds of processor time, like honest inputs of their size.

Without the library's limits these inputs would take from a minute to hours, so a generous bound is enough. The tests also check each result.
test_codec.c and test_coco_mask.c count operations instead.
"""

import io
import json
import struct
import tarfile
import time
import zlib

import numpy as np
import pytest
from PIL import Image
from stoker import Pipeline, fn
from stoker.errors import StokerError
from support import png_chunk, tar_of

SECONDS = 30  # maximum of processor time for a file, in seconds


def decode(data):
    """Returns the shape of the decoded image, or the error's text. Asserts that decoding takes less than SECONDS of processor time."""
    begun = time.process_time()
    pipe = Pipeline(1, 1, None)
    with pipe:
        pipe.set_outputs(fn.decoders.image(fn.external_source(lambda: [np.frombuffer(data, np.uint8)])))
    try:
        result = np.asarray(pipe.run()[0].at(0)).shape
    except StokerError as e:
        result = str(e)
    pipe.close()
    assert time.process_time() - begun < SECONDS
    return result


# ---- JPEG ----


def jpeg(size, mode="L", **how):
    out = io.BytesIO()
    Image.new(mode, size).save(out, "JPEG", **how)
    return out.getvalue()


def last_scan(data):
    return data.rindex(b"\xff\xda")


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_many_scans_of_a_progressive_jpeg(mode):
    data = jpeg((6000, 6000), mode, progressive=True)
    at = last_scan(data)
    bomb = data[:at] + data[at:-2] * 240 + data[-2:]
    assert "STOKER_MAX_JPEG_SCANS" in decode(bomb)
    assert "STOKER_MAX_JPEG_SCANS" in decode(bomb[:at] + b"\xff\xfe\0\3a".join([data[at:-2]] * 240) + data[-2:])


def test_many_scans_of_a_sequential_jpeg():
    data = jpeg((6000, 6000))
    at = last_scan(data)
    frame = data.index(b"\xff\xc0")
    two = bytearray(data[:at])  # adds two components to the header, so that the file has several scans
    two[frame + 3] += 3
    two[frame + 9] = 3
    two[frame + 2 : frame + 4] = struct.pack(">H", 8 + 3 * 3)
    two[frame + 10 + 3 : frame + 10 + 3] = bytes([2, 0x11, 0, 3, 0x11, 0])
    at = len(two)
    scan = data[last_scan(data) : -2]
    assert "STOKER_MAX_JPEG_SCANS" in decode(bytes(two) + scan * 200 + data[-2:])


def test_restart_markers_and_segments_in_masses():
    data = jpeg((512, 512), restart_marker_blocks=1)
    assert decode(data) == (512, 512, 3)
    at = last_scan(data)
    for segment in (b"\xff\xdc\0\4\2\0", b"\xff\xfe\0\2", b"\xff\xe1\0\x0cExif\0\0II*\0", data[data.index(b"\xff\xc4") : at]):
        assert decode(data[:at] + segment * (2_000_000 // len(segment)) + data[at:]) == (512, 512, 3)


# ---- PNG, WebP, BMP, PNM ----


def png(width, height, middle=b"", pieces=1):
    packed = zlib.compress(bytes((width + 1) * height), 9)
    step = -(-len(packed) // pieces)
    idat = b"".join(png_chunk(b"IDAT", packed[i : i + step]) for i in range(0, len(packed), step))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + middle + idat + png_chunk(b"IEND", b"")


def test_pngs_that_unpack_to_much():
    assert decode(png(20000, 4000)) == (4000, 20000, 3)
    assert decode(png(2000, 1000, pieces=1 << 20)) == (1000, 2000, 3)
    assert decode(png(100, 100, png_chunk(b"IDAT", b"") * 100_000)) == (100, 100, 3)
    text = png_chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(15 << 20), 9))
    decode(png(100, 100, text * 60))


@pytest.mark.parametrize("lossless", [True, False])
def test_a_flat_webp(lossless):
    out = io.BytesIO()
    Image.new("RGB", (8000, 8000)).save(out, "WEBP", lossless=lossless, method=0)
    assert decode(out.getvalue()) == (8000, 8000, 3)


def test_runs_of_a_bmp_that_skip_all():
    header = b"BM" + struct.pack("<IHHIIiiHHIIiiII", 0, 0, 0, 1078, 40, 2000, 2000, 1, 8, 1, 0, 0, 0, 0, 0) + bytes(1024)
    assert isinstance(decode(header + b"\0\2\xff\0" * 500_000 + b"\0\1"), (str, tuple))
    assert isinstance(decode(header + b"\0\2\0\xff" * 500_000 + b"\0\1"), (str, tuple))


def test_comments_of_a_pnm():
    assert decode(b"P3" + b"#\n" * 1_000_000 + b" 1 1 255 " + b"#\n1" * 3 + b"\n") == (1, 1, 3)


# ---- TIFF ----


def lzw_codes(codes):
    bits = "".join(f"{c:09b}" for c in codes)
    return int(bits, 2).to_bytes(len(bits) // 8, "big")


def tiff(strips, compression, data):
    """Makes a TIFF with one pixel in each strip. All strips share the same bytes."""
    numbers = {256: 1, 257: strips, 258: 8, 259: compression, 262: 1, 273: 0, 277: 1, 278: 1, 279: 0}
    offsets = 8 + 2 + 12 * len(numbers) + 4
    at = offsets + 8 * strips
    numbers[273], numbers[279] = offsets, offsets + 4 * strips
    out = b"II*\0" + struct.pack("<IH", 8, len(numbers))
    for tag, value in numbers.items():
        out += struct.pack("<HHII", tag, 4, strips if tag in (273, 279) else 1, value)
    return out + bytes(4) + struct.pack("<I", at) * strips + struct.pack("<I", len(data)) * strips + data


SHARED = {
    "PackBits": (32773, b"\x80" * 400_000 + b"\0\1"),
    "LZW": (5, lzw_codes([256] * 8) * 40_000 + lzw_codes([256, 1, 257, 257, 257, 257, 257, 257])),
    "deflate": (8, b"\x78\x01" + b"\0\0\0\xff\xff" * 80_000 + b"\1\1\0\xfe\xff\1" + struct.pack(">I", zlib.adler32(b"\1"))),
}


@pytest.mark.parametrize("compression", SHARED)
def test_strips_of_a_tiff_that_share_bytes(compression):
    assert "share bytes" in decode(tiff(20_000, *SHARED[compression]))
    assert decode(tiff(2, *SHARED[compression])) == (2, 1, 3)


def test_directories_of_a_tiff_in_masses():
    one = tiff(2, 32773, b"\0\1")
    count = struct.unpack("<H", one[8:10])[0]
    entry = struct.pack("<HHII", 40000, 4, 1, 0)
    loop = bytearray(one)
    loop[10 + 12 * count : 14 + 12 * count] = struct.pack("<I", 8)  # makes the first directory its own successor
    assert decode(bytes(loop)) == (2, 1, 3)
    many = one[:8] + struct.pack("<H", 65535) + one[10 : 10 + 12 * count] + entry * (65535 - count) + bytes(4) + one
    assert isinstance(decode(many), (str, tuple))


# ---- readers ----


def read(reader, batch=64):
    """Runs a reader over all its samples. Returns the number of samples, or the error's text. Asserts that this takes less than SECONDS of processor time."""
    begun = time.process_time()
    pipe = Pipeline(batch, 1, None)
    try:
        with pipe:
            pipe.set_outputs(reader())
        pipe.build()
        result = next(iter(pipe.reader_meta().values()))["epoch_size"]
        for _ in range(0, result, batch):
            pipe.run()
    except StokerError as e:
        result = str(e)
    pipe.close()
    assert time.process_time() - begun < SECONDS
    return result


@pytest.mark.parametrize(
    ("names", "samples"),
    [
        ([f"{i:06}.cls" for i in range(30_000)], 30_000),
        (["a.cls"] * 10_000, None),
        ([f"{i}.{'x' * 120}.cls" for i in range(3_000)], None),
        ([f"a.x{i}" for i in range(20_000)], None),
        ([f"a{i % 7}/{'d/' * 100}{i}.cls" for i in range(3_000)], None),
    ],
)
def test_members_of_a_tar_in_masses(tmp_path, names, samples):
    (tmp_path / "a.tar").write_bytes(tar_of([(name, b"") for name in names], tarfile.PAX_FORMAT))
    result = read(lambda: fn.readers.webdataset(paths=[str(tmp_path / "a.tar")], ext=["cls"], missing_component_behavior="skip"))
    assert samples is None or result == samples


DEEP = 400_000


@pytest.mark.parametrize(
    "inner", ["[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP, "[" * DEEP, '"' + "\\" * DEEP, "1" * DEEP, "[" + "1e999," * DEEP]
)
def test_deep_and_long_json(tmp_path, inner):
    (tmp_path / "1.jpg").write_bytes(jpeg((8, 8)))
    path = tmp_path / "a.json"
    for text in (
        inner,
        f'{{"info": {inner}, "images": [], "annotations": [], "categories": []}}',
        f'{{"images": [{{"id": 1, "file_name": "1.jpg", "width": 8, "height": 8, "x": {inner}}}], "annotations": [], "categories": []}}',
    ):
        path.write_text(text)
        assert isinstance(read(lambda: fn.readers.coco(file_root=str(tmp_path), annotations_file=str(path))[1]), (str, int))


def coco(folder, width, annotations, categories=1):
    (folder / "1.jpg").write_bytes(jpeg((8, 8)))
    one = {"image_id": 1, "bbox": [0, 0, 5, 5], "area": 25, "iscrowd": 0}
    data = {
        "images": [{"id": 1, "file_name": "1.jpg", "width": width, "height": width}],
        "categories": [{"id": i + 1, "name": str(i)} for i in range(categories)],
        "annotations": [{"id": i, **one, "category_id": i % categories + 1, "segmentation": a} for i, a in enumerate(annotations)],
    }
    (folder / "a.json").write_text(json.dumps(data))
    return read(lambda: fn.readers.coco(file_root=str(folder), annotations_file=str(folder / "a.json"), pixelwise_masks=True)[3], 1)


def test_outlines_and_masks_of_coco(tmp_path):
    width = 4000
    zigzag = [x for i in range(100_000) for x in (i % 2 * (width - 1), i * 7 % width)]
    assert "outlines" in coco(tmp_path, width, [[zigzag]])
    steep = [x for i in range(100_000) for x in (i * 7 % width, i % 2 * (width - 1))]  # each long side crosses only 7 columns
    assert coco(tmp_path, width, [[steep]]) == 1
    outside = [x for i in range(100_000) for x in (i % 2 * 1000 - 2000, i)]
    assert isinstance(coco(tmp_path, width, [[outside]]), (str, int))
    whole = [[0, 0, width, 0, width, width, 0, width]]
    assert coco(tmp_path, width, [whole] * 1000, 1000) == 1
    assert "cover" in coco(tmp_path, width, [whole] * 30_000)
    assert "cover" in coco(tmp_path, width, [{"size": [width, width], "counts": [0, width * width]}] * 30_000)
    assert coco(tmp_path, 8, [[[0, 0, 1, 0, 1, 1]]] * 40_000, 40_000) == 1


def test_headers_of_npy_files(tmp_path):
    for number, text in enumerate(
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': " + "(" * 60_000 + ")",
            "{" + "'a': 1, " * 8000 + "}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "1, " * 20_000 + "), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "0, " * 30 + "999999999999999), }",
        )
    ):
        header = text.encode().ljust(65_472)
        path = tmp_path / f"{number}.npy"
        path.write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + bytes(4))
        result = read(lambda path=path: fn.readers.numpy(files=[str(path)]), 1)
        assert (result == 1) == (number == 0)
