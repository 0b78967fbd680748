# SPDX-License-Identifier: Apache-2.0
"""Images of more than 8 bits and of any number of bands: PNG and TIFF of 16 bits, TIFF of floats and of signed integers. Pixels equal those of tifffile
and OpenCV, and are converted as in DALI."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stoker
import tifffile
from stoker import Pipeline, fn, types
from stoker.errors import StokerError, UnsupportedError

TYPES = [np.uint8, np.uint16, np.int16, np.float32]
RANGE = {"uint8": 255, "uint16": 65535, "int16": 32767, "float32": 1}


def _values(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    if dtype == np.float32:
        return (rng.random(shape, np.float32) - 0.25) * 4
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def _tiff(pixels: np.ndarray, **options: Any) -> bytes:
    """Returns a TIFF file. pixels: (height, width, bands). options: arguments of tifffile.imwrite; by default the bands are interleaved gray levels."""
    out = io.BytesIO()
    options = {"photometric": "minisblack", "planarconfig": "contig"} | options
    stored = np.ascontiguousarray(np.moveaxis(pixels, -1, 0)) if options["planarconfig"] == "separate" else pixels
    if pixels.shape[-1] == 1:
        stored = pixels[..., 0]
        del options["planarconfig"]
    tifffile.imwrite(out, stored, metadata=None, **options)
    return out.getvalue()


def _decoded(data: bytes, *more: Any, **arguments: Any) -> np.ndarray:
    """Decodes an image in a pipeline, and returns it. arguments: those of the decoder. more: functions that make further nodes after it."""
    pipe = Pipeline(1, 1, None)
    with pipe:
        node = fn.external_source(source=lambda: [np.frombuffer(data, np.uint8)], ndim=1)
        node = fn.decoders.image(node, **arguments)
        for f in more:
            node = f(node)
        pipe.set_outputs(node)
    return np.asarray(pipe.run()[0][0])


@pytest.mark.essential
@pytest.mark.parametrize("dtype", TYPES)
def test_tiffs_of_bands_are_read_as_tifffile_reads_them(rng: np.random.Generator, dtype: Any) -> None:
    for bands in (1, 3, 4, 5, 6, 13, 16, 17, 64):
        for _ in range(6):
            height, width = (int(n) for n in rng.integers(1, 70, 2))
            pixels = _values(rng, (height, width, bands), dtype)
            options: dict[str, Any] = {"byteorder": rng.choice(["<", ">"]), "bigtiff": bool(rng.integers(2))}
            options["planarconfig"] = rng.choice(["contig", "separate"])
            options |= {"tile": (16, 32)} if rng.random() < 0.4 else {"rowsperstrip": int(rng.integers(1, height + 2))}
            if rng.random() < 0.7:
                options |= {"compression": "zlib", "predictor": dtype != np.float32 and bool(rng.integers(2))}
            data = _tiff(pixels, **options)
            got = stoker.imdecode(data, output_type="ANY_DATA", dtype="stored")
            assert got.dtype == dtype
            np.testing.assert_array_equal(got, pixels, err_msg=repr(options))
            np.testing.assert_array_equal(_decoded(data, dtype=types.to_dtype(dtype), output_type=types.ANY_DATA, values="kept"), pixels)


@pytest.mark.parametrize("predictor", [2, 3])
@pytest.mark.parametrize("compression", [5, 8])
def test_predictors_of_floats(rng: np.random.Generator, tmp_path: Path, predictor: int, compression: int) -> None:
    """TIFFs of floats with predictor 2 or 3, compressed by LZW or deflate, give the stored pixels. OpenCV writes them with libtiff."""
    cv2 = pytest.importorskip("cv2")
    path = str(tmp_path / "a.tif")
    for shape in ((9, 7), (30, 41, 3)):
        pixels = _values(rng, shape, np.float32)
        options = [cv2.IMWRITE_TIFF_COMPRESSION, compression, cv2.IMWRITE_TIFF_PREDICTOR, predictor, cv2.IMWRITE_TIFF_ROWSPERSTRIP, 4]
        assert cv2.imwrite(path, pixels, options)
        with tifffile.TiffFile(path) as file:
            assert file.pages[0].predictor == predictor and file.pages[0].compression == compression
        want = pixels.reshape(*shape[:2], -1)
        np.testing.assert_array_equal(stoker.imread(path), want[..., ::-1] if len(shape) == 3 else want)


@pytest.mark.essential
def test_imread_keeps_the_type_of_files_that_are_not_pictures(rng: np.random.Generator, tmp_path: Path) -> None:
    for pixels in (_values(rng, (7, 5, 6), np.uint16), _values(rng, (7, 5, 1), np.float32), _values(rng, (7, 5, 2), np.int16)):
        (tmp_path / "a.tif").write_bytes(_tiff(pixels))
        got = stoker.imread(tmp_path / "a.tif")
        assert got.dtype == pixels.dtype
        np.testing.assert_array_equal(got, pixels)
        out = np.empty_like(pixels)
        assert stoker.imread(tmp_path / "a.tif", out) is out
        np.testing.assert_array_equal(out, pixels)
    picture = _values(rng, (7, 5, 3), np.uint16)
    data = _tiff(picture, photometric="rgb")
    assert stoker.imdecode(data).dtype == np.uint8  # RGB of 16 bits is a picture, so the default is uint8
    np.testing.assert_array_equal(stoker.imdecode(data, dtype="stored"), picture)
    np.testing.assert_array_equal(stoker.imdecode(data, dtype=np.uint16), picture)
    np.testing.assert_allclose(stoker.imdecode(data, dtype="float32"), picture / np.float32(65535), rtol=1e-6)
    with pytest.raises(TypeError, match="dtype is uint8, uint16, int16, float32, or 'stored'"):
        stoker.imdecode(data, dtype="float64")
    with pytest.raises(TypeError, match="out is an array or a tensor of uint16"):
        stoker.imdecode(data, np.empty((7, 5, 3), np.uint8), dtype=np.uint16)


def test_pngs_of_16_bits(rng: np.random.Generator) -> None:
    cv2 = pytest.importorskip("cv2")
    for channels in (1, 3, 4):
        pixels = _values(rng, (9, 7, channels), np.uint16)
        data = cv2.imencode(".png", pixels)[1].tobytes()
        want = pixels if channels == 1 else pixels[..., [2, 1, 0, 3][:channels]]
        np.testing.assert_array_equal(stoker.imdecode(data, output_type="ANY_DATA", dtype="stored"), want)
        np.testing.assert_array_equal(stoker.imdecode(data, output_type="ANY_DATA", dtype="uint16"), want)


@pytest.mark.essential
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("bands", [3, 6, 20])
def test_windows_of_bands_are_parts_of_the_whole(rng: np.random.Generator, dtype: Any, bands: int) -> None:
    """A crop of a file, also followed by a flip, a resize or a cast, equals the same part of the pixels, or of each band separately. Passes over more than
    16 bands run plane by plane, even if they read only a part of a file."""
    pixels = _values(rng, (40, 50, bands), dtype)
    data = _tiff(pixels, rowsperstrip=7, compression="zlib")
    keep = {"dtype": types.to_dtype(dtype), "output_type": types.ANY_DATA, "values": "kept"}

    def crop(node: Any) -> Any:
        return fn.crop(node, crop=(11, 13), crop_pos_x=0.5, crop_pos_y=0.25)

    np.testing.assert_array_equal(_decoded(data, crop, fn.flip, **keep), pixels[7:18, 19:32][:, ::-1])
    resized = _decoded(data, crop, lambda n: fn.resize(n, size=(5, 6)), **keep)
    alone = np.stack(
        [_decoded(_tiff(pixels[..., k : k + 1]), crop, lambda n: fn.resize(n, size=(5, 6)), **keep)[..., 0] for k in range(bands)], -1
    )
    np.testing.assert_array_equal(resized, alone)
    floats = _decoded(data, crop, lambda n: fn.cast(n, dtype=types.FLOAT), **keep)
    np.testing.assert_array_equal(floats, pixels[7:18, 19:32].astype(np.float32))


def test_orientation_of_floats(rng: np.random.Generator) -> None:
    pixels = _values(rng, (6, 9, 5), np.float32)
    data = _tiff(pixels, extratags=[(274, "H", 1, 6, True)])
    np.testing.assert_array_equal(stoker.imdecode(data), np.rot90(pixels, -1))
    np.testing.assert_array_equal(stoker.imdecode(data, adjust_orientation=False), pixels)


@pytest.mark.parametrize("kind", ["RGB", "BGR", "GRAY", "YCbCr", "ANY_DATA"])
@pytest.mark.parametrize("to", ["uint8", "uint16", "int16", "float32"])
def test_values_are_scaled_as_in_dali(rng: np.random.Generator, kind: str, to: str) -> None:
    """Expected values follow the formulas of DALI 2.4's decoders.image: the first three bands are the colours, floats are from 0 to 1, and results are
    rounded and saturate."""
    for dtype in (np.uint8, np.uint16, np.float32):
        for bands in (1, 3, 4, 6):
            pixels = _values(rng, (8, 9, bands), dtype)
            data = _tiff(pixels)
            got = _decoded(data, dtype=types.to_dtype(to), output_type=getattr(types, "YCbCr" if kind == "YCbCr" else kind))
            one = pixels.astype(np.float64) / RANGE[pixels.dtype.name]
            rgb = one[..., :3] if bands >= 3 else np.repeat(one[..., :1], 3, -1)
            if kind == "YCbCr":
                matrix = np.array(
                    [[0.25678824, 0.50412941, 0.09790588], [-0.1482229, -0.29099279, 0.43921569], [0.43921569, -0.36778831, -0.07142737]]
                )
                want = rgb @ matrix.T + np.array([16, 128, 128]) / 255
            else:
                want = {"RGB": rgb, "BGR": rgb[..., ::-1], "GRAY": rgb @ np.array([0.299, 0.587, 0.114])[:, None], "ANY_DATA": one}[kind]
            want = want * RANGE[to]
            if to != "float32":
                want = np.clip(want, np.iinfo(to).min, np.iinfo(to).max)
            assert got.dtype == to and got.shape == want.shape
            # Values of GRAY and YCbCr are rounded to the file's number of bits before they are scaled.
            steps = 1.01 if pixels.dtype != np.float32 and kind in ("GRAY", "YCbCr") else 0.51
            unit = RANGE[to] / min(RANGE[to], RANGE[pixels.dtype.name]) if pixels.dtype != np.float32 else 1
            loose = (
                1e-5
                if to == "float32" and pixels.dtype == np.float32
                else RANGE[to] / RANGE[pixels.dtype.name]
                if to == "float32"
                else unit
            )
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=steps * loose + 1e-6 * RANGE[to])


@pytest.mark.dali
def test_values_are_those_of_dali(rng: np.random.Generator, tmp_path: Path) -> None:
    dali = pytest.importorskip("nvidia.dali")
    import nvidia.dali.fn as dali_fn
    import nvidia.dali.types as dali_types

    for dtype in (np.uint8, np.uint16, np.float32):
        for bands in (1, 3, 6):
            pixels = _values(rng, (8, 9, bands), dtype)
            (tmp_path / "a.tif").write_bytes(_tiff(pixels))
            for to in ("UINT8", "UINT16", "INT16", "FLOAT"):
                for kind in ("RGB", "BGR", "GRAY", "ANY_DATA"):

                    @dali.pipeline_def(batch_size=1, num_threads=1, device_id=None)
                    def peer(to: str = to, kind: str = kind) -> Any:
                        file, _ = dali_fn.readers.file(files=[str(tmp_path / "a.tif")])
                        return dali_fn.decoders.image(file, dtype=getattr(dali_types, to), output_type=getattr(dali_types, kind))

                    pipe = peer()
                    pipe.build()
                    want = np.asarray(pipe.run()[0].at(0))
                    got = _decoded((tmp_path / "a.tif").read_bytes(), dtype=getattr(types, to), output_type=getattr(types, kind))
                    assert got.dtype == want.dtype
                    # DALI truncates in some integer conversions. Its gray of 8 bits differs from ours by at most one before it is scaled to the output's range.
                    gray = RANGE[want.dtype.name] / min(RANGE[pixels.dtype.name], RANGE[want.dtype.name]) if dtype != np.float32 else 1
                    most = (gray if kind == "GRAY" and bands > 1 else 1) if to != "FLOAT" else 1 / 255 if kind == "GRAY" else 1e-6
                    np.testing.assert_allclose(
                        got, want.astype(np.float64), rtol=1e-6, atol=most * 1.001, err_msg=f"{dtype} {bands} {to} {kind}"
                    )


def test_values_that_are_kept_or_refused(rng: np.random.Generator) -> None:
    wide, floats = _tiff(_values(rng, (6, 5, 1), np.uint16)), _tiff(_values(rng, (6, 5, 1), np.float32))
    picture = _tiff(_values(rng, (6, 5, 3), np.uint8), photometric="rgb")
    got = _decoded(wide, dtype=types.FLOAT, values="kept", output_type=types.ANY_DATA)
    np.testing.assert_array_equal(got, stoker.imdecode(wide, dtype="stored", output_type="ANY_DATA").astype(np.float32))
    assert _decoded(picture, dtype=types.UINT16, values="kept").max() <= 255
    for data, dtype in ((wide, types.UINT8), (floats, types.UINT16), (floats, types.UINT8), (wide, types.INT16)):
        with pytest.raises(UnsupportedError, match=r"a file of (uint16|float32), whose values \w+ does not hold; keep them as float32 or"):
            _decoded(data, dtype=dtype, values="kept")
    for data in (floats, _tiff(_values(rng, (6, 5, 6), np.uint8)), _tiff(_values(rng, (6, 5, 1), np.int16))):
        with pytest.raises(UnsupportedError, match=r"a tiff of \d bands? of \w+ is no picture of gray or colours.*FloatMap.*values=.kept"):
            _decoded(data, values="pictures")
    assert _decoded(picture, values="pictures").shape == (6, 5, 3)
    assert _decoded(wide, values="pictures").shape == (6, 5, 3)


def test_memory_of_bands_is_limited(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    data = _tiff(_values(rng, (64, 64, 64), np.float32))
    monkeypatch.setenv("STOKER_MAX_IMAGE_SIZE", str(64 * 64 * 31))
    import threading

    messages: list[str] = []

    def read() -> None:  # runs in a new thread, because each thread reads the limit only once
        try:
            stoker.imdecode(data)
        except StokerError as e:
            messages.append(str(e))

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    assert messages and "64x64 pixels of 64 bands of 32 bits are over the limit of 3968" in messages[0]
