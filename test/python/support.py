# SPDX-License-Identifier: Apache-2.0
"""Helpers that tests share, such as the seed, made images and tars, and programs run as separate processes."""

from __future__ import annotations

import contextlib
import io
import os
import struct
import subprocess
import sys
import tarfile
import textwrap
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

# Environment variables that keep programs from finding this machine's AWS keys.
NO_AWS = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"}

SEED = int(os.environ.get("STOKER_TEST_SEED", "20240917"))


def photograph(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """Returns an RGB image of uint8, (height, width, 3), like a photograph: gradients, the edges of a rectangle, and a little noise."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    image = np.zeros((height, width, 3), np.float32)
    for channel in range(3):
        a, b, c = rng.uniform(0.01, 0.12, 3)
        image[..., channel] = 127 + 60 * np.sin(a * x + c) * np.cos(b * y) + 50 * np.sin(0.02 * (x + y) * (channel + 1))
    top, left = int(rng.integers(0, height // 2)), int(rng.integers(0, width // 2))
    image[top : top + height // 3, left : left + width // 3] += rng.uniform(-90, 90, 3)
    return np.clip(image + rng.normal(0, 4, image.shape), 0, 255).astype(np.uint8)


def make_nuscenes(*args: Any, **kwargs: Any) -> Path:
    """Calls make_nuscenes of examples/nuscenes/make_nuscenes.py with these arguments."""
    folder = str(Path(__file__).resolve().parents[2] / "examples" / "nuscenes")
    if folder not in sys.path:
        sys.path.append(folder)
    from make_nuscenes import make_nuscenes as make

    return make(*args, **kwargs)


def write_tree(root: Path, rng: np.random.Generator, classes: int, per_class: int, low: int = 60, high: int = 160) -> list[Path]:
    """Writes JPEGs as ROOT/classC/III.jpg and returns their paths, class by class. Each side has low to high - 1 pixels. The JPEGs also differ in chroma
    sampling."""
    paths = []
    for c in range(classes):
        folder = root / f"class{c}"
        folder.mkdir(parents=True)
        for i in range(per_class):
            height, width = (int(v) for v in rng.integers(low, high, 2))
            path = folder / f"{i:03d}.jpg"
            Image.fromarray(photograph(rng, height, width)).save(path, quality=92, subsampling=int(rng.integers(0, 3)))
            paths.append(path)
    return paths


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def tar_of(members: Iterable[tuple[str, bytes]], form: int = tarfile.USTAR_FORMAT) -> bytes:
    """Returns the bytes of a tar of `members`, which are (name, bytes)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def hostile_jpeg(width: int, height: int) -> bytes:
    """Makes a whole progressive JPEG of three components, whose only scan consists of runs of empty blocks. With 16384 x 16384 pixels the file has about
    370 bytes, but 1.5 GB of coefficients (test/c/hostile_files.c)."""
    frame = b"\x08" + height.to_bytes(2) + width.to_bytes(2) + bytes([3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0])
    table = bytes([0x10, 1] + [0] * 15 + [0xE0])  # one code, 0: a run of 2^14 empty blocks, plus the number in the next 14 bits
    more = 0x3EFD  # a number whose bits never form a byte 0xFF, which a scan would have to escape
    runs = -(-(-(-width // 8) * -(-height // 8)) // (2**14 + more))
    bits = "".join(f"0{more:014b}" for _ in range(runs))
    bits += "01111111"[: -len(bits) % 8]
    out = b"\xff\xd8"
    for marker, body in ((0xDB, b"\0" + b"\1" * 64), (0xC2, frame), (0xC4, table), (0xDA, bytes([1, 1, 0, 1, 63, 0]))):
        out += bytes([0xFF, marker]) + (len(body) + 2).to_bytes(2) + body
    return out + int(bits, 2).to_bytes(len(bits) // 8) + b"\xff\xd9"


def run_script(text: str, *args: str, timeout: float = 60, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs Python code in a separate process, for code that ends the interpreter, is interrupted, or counts imports. env: more environment variables.
    Returns the ended process with its output, whatever its code."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text), *args], capture_output=True, text=True, timeout=timeout, env={**os.environ, **env}
    )


def alive(pid: int) -> bool:
    """Returns whether the process runs. A process that has ended but was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


@contextlib.contextmanager
def child_process(command: list[str], **more: Any) -> Iterator[subprocess.Popen[str]]:
    """Runs a program during a `with` block, and kills it at the block's end, even if the block raises an error."""
    with subprocess.Popen(command, text=True, **more) as process:
        try:
            yield process
        finally:
            process.kill()


def import_torchvision():
    """Returns torchvision with its datasets and transforms.v2. Skips the test, or the file if called while it is imported, if torch or torchvision is missing.
    A torchvision built for another torch can be imported only after its box operators, which are missing, are declared. Transforms do not use them."""
    torch = pytest.importorskip("torch")
    try:
        import torchvision
    except ImportError:
        pytest.skip("torchvision is not installed", allow_module_level=True)
    except RuntimeError:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import torchvision

        import_torchvision.library = library
    import torchvision.datasets
    import torchvision.transforms.v2

    return torchvision
