# SPDX-License-Identifier: Apache-2.0
"""What tests share: the seed, photographs made of it, programs run on their own, torchvision or a skip."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

SEED = int(os.environ.get("STOKER_TEST_SEED", "20240917"))


def photograph(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """Something with edges and gradients, unlike noise and unlike one colour."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    image = np.zeros((height, width, 3), np.float32)
    for channel in range(3):
        a, b, c = rng.uniform(0.01, 0.12, 3)
        image[..., channel] = 127 + 60 * np.sin(a * x + c) * np.cos(b * y) + 50 * np.sin(0.02 * (x + y) * (channel + 1))
    top, left = int(rng.integers(0, height // 2)), int(rng.integers(0, width // 2))
    image[top : top + height // 3, left : left + width // 3] += rng.uniform(-90, 90, 3)
    return np.clip(image + rng.normal(0, 4, image.shape), 0, 255).astype(np.uint8)


def write_tree(root: Path, rng: np.random.Generator, classes: int, per_class: int, low: int = 60, high: int = 160) -> list[Path]:
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


def run_script(text: str, *args: str, timeout: float = 60, **env: str) -> subprocess.CompletedProcess[str]:
    """A program of its own, since it ends the interpreter, is interrupted, or counts imports."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text), *args], capture_output=True, text=True, timeout=timeout, env={**os.environ, **env}
    )


def import_torchvision():
    """torchvision, or a skip. One built for another torch lacks its box operators, which are declared here: transforms do not use them."""
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
