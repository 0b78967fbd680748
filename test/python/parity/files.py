# SPDX-License-Identifier: Apache-2.0
"""Encoded images in every format that the decoders read, made in memory."""

from __future__ import annotations

import functools
import io

import cv2
import numpy as np
from harness import Batch, rng_of
from PIL import Image
from samples import smooth
from stoker import _core


def _jpeg(rng: np.random.Generator, sampling: str, progressive: bool = False, restart: int = 0) -> bytes:
    """Encodes a picture of random size with libjpeg-turbo through OpenCV, because Pillow cannot write all of these chroma samplings."""
    height, width = (int(v) for v in rng.integers(20, 90, 2))
    flags = [cv2.IMWRITE_JPEG_QUALITY, 88, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, getattr(cv2, f"IMWRITE_JPEG_SAMPLING_FACTOR_{sampling}")]
    flags += [cv2.IMWRITE_JPEG_PROGRESSIVE, int(progressive), cv2.IMWRITE_JPEG_RST_INTERVAL, restart]
    done, data = cv2.imencode(".jpg", smooth(rng, (height, width, 3)), flags)
    assert done
    return data.tobytes()


def _pillow(image: Image.Image, kind: str, **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def _picture(rng: np.random.Generator, mode: str) -> Image.Image:
    channels = {"L": 1, "LA": 2, "RGB": 3, "CMYK": 4, "RGBA": 4}[mode]
    height, width = (int(v) for v in rng.integers(20, 90, 2))
    pixels = smooth(rng, (height, width, channels))
    return Image.fromarray(pixels[..., 0] if channels == 1 else pixels, mode)


def _oriented(rng: np.random.Generator, orientation: int, kind: str = "JPEG") -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return _pillow(_picture(rng, "RGB"), kind, exif=exif, **({"quality": 90} if kind == "JPEG" else {}))


def _png16(rng: np.random.Generator, channels: int) -> bytes:
    height, width = (int(v) for v in rng.integers(20, 60, 2))
    done, data = cv2.imencode(".png", smooth(rng, (height, width, channels), "uint16"))
    assert done
    return data.tobytes()


@functools.cache
def encoded() -> dict[str, bytes]:
    """Returns a dict from a name to the bytes of a file, for many variants of JPEG and PNG."""
    rng = rng_of("files")
    made = {f"jpeg {s}": _jpeg(rng, s) for s in ("444", "422", "420", "440", "411")}
    made |= {f"jpeg {s} progressive": _jpeg(rng, s, progressive=True) for s in ("444", "422", "420", "440", "411")}
    made |= {f"jpeg {s} with restarts": _jpeg(rng, s, restart=3) for s in ("444", "420")}
    made["jpeg gray"] = _pillow(_picture(rng, "L"), "JPEG", quality=90)
    made["jpeg gray progressive"] = _pillow(_picture(rng, "L"), "JPEG", quality=90, progressive=True)
    made["jpeg CMYK"] = _pillow(_picture(rng, "CMYK"), "JPEG", quality=90)
    made |= {f"jpeg orientation {o}": _oriented(rng, o) for o in range(1, 9)}
    for mode in ("L", "LA", "RGB", "RGBA"):
        made[f"png {mode}"] = _pillow(_picture(rng, mode), "PNG")
    palette = _picture(rng, "RGB").quantize(64)
    made["png palette"] = _pillow(palette, "PNG")
    made["png palette with transparency"] = _pillow(palette, "PNG", transparency=3)
    made["png 1 bit"] = _pillow(_picture(rng, "L").convert("1"), "PNG")
    made |= {f"png 16 bit, {c} channels": _png16(rng, c) for c in (1, 3, 4)}
    made["png orientation 6"] = _oriented(rng, 6, "PNG")
    return made


def _cv(rng: np.random.Generator, ending: str, channels: int, *flags: int) -> bytes:
    """Encodes an image of 16 bits per value through OpenCV."""
    height, width = (int(v) for v in rng.integers(20, 60, 2))
    done, data = cv2.imencode(ending, smooth(rng, (height, width, channels), "uint16"), flags)
    assert done
    return data.tobytes()


@functools.cache
def others() -> dict[str, bytes]:
    """Returns a dict from a name to the bytes of a file that is neither JPEG nor PNG. WebP is left out if the build cannot decode it."""
    rng = rng_of("other files")
    made = {f"{kind.lower()} {mode}": _pillow(_picture(rng, mode), kind) for kind in ("BMP", "PPM", "TIFF") for mode in ("L", "RGB")}
    palette = _picture(rng, "RGB").quantize(64)
    made["bmp palette"] = _pillow(palette, "BMP")
    made["tiff palette, 16 bit"] = _pillow(palette, "TIFF")
    made["tiff RGBA"] = _pillow(_picture(rng, "RGBA"), "TIFF")
    made["tiff LZW"] = _pillow(_picture(rng, "RGB"), "TIFF", compression="tiff_lzw", tiffinfo={317: 2})
    made["tiff orientation 6"] = _oriented(rng, 6, "TIFF")
    for ending in (".ppm", ".pgm", ".tiff"):
        made[f"{ending[1:]} 16 bit"] = _cv(rng, ending, 1 if ending == ".pgm" else 3)
    if not _core.image_named("a.webp"):
        return made
    made["webp"] = _pillow(_picture(rng, "RGB"), "WEBP", quality=85)
    made["webp RGBA"] = _pillow(_picture(rng, "RGBA"), "WEBP", lossless=True)
    made["webp orientation 6"] = _oriented(rng, 6, "WEBP")
    return made


def batch_of(*names: str) -> Batch:
    return Batch([np.frombuffer(encoded().get(n) or others()[n], np.uint8) for n in names])
