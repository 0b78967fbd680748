# SPDX-License-Identifier: Apache-2.0
"""Loaders that a user could choose instead of stoker, each with its best settings: persistent workers, tensors as results, no avoidable conversion.

A Take is a function that takes whole batches from a loader until they have at least n images, across epochs, and returns the number of images.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
MEAN255, STD255 = [255 * m for m in MEAN], [255 * s for s in STD]
Take = Callable[[int], int]


def endless(epoch: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    while True:
        yield from epoch()


def taker(batches: Iterator[Any], size: Callable[[Any], int], watch: Callable[[Any], None] | None = None) -> Take:
    def take(n: int) -> int:
        taken = 0
        while taken < n:
            batch = next(batches)
            taken += size(batch)
            if watch:
                watch(batch)
        return taken

    return take


def import_torchvision() -> Any:
    """Returns the module of torchvision's transforms. If torchvision's compiled operators do not load, because it was built for another torch, first declares
    their names to torch."""
    import torch

    try:
        import torchvision
    except RuntimeError:
        library = torch.library.Library("torchvision", "DEF")
        import_torchvision.keep = library  # type: ignore[attr-defined]
        for name in ("nms", "qnms", "roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d"):
            library.define(f"{name}(Tensor a) -> Tensor")
            library.define(f"_{name}_backward(Tensor a) -> Tensor")
        import sys

        for stale in [m for m in sys.modules if m.split(".")[0] == "torchvision"]:
            del sys.modules[stale]
        import torchvision
    return torchvision


class Files:
    """A map-style dataset over JPEG files. load: makes a tensor from a file's bytes."""

    def __init__(self, files: list[Path], load: Callable[[bytes], Any]) -> None:
        self.files, self.load = files, load
        names = sorted({f.parent.name for f in files})
        self.labels = [names.index(f.parent.name) for f in files]

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int) -> tuple[Any, int]:
        return self.load(self.files[i].read_bytes()), self.labels[i]


def load_with_torchvision() -> Callable[[bytes], Any]:
    from PIL import Image

    transforms = import_torchvision().transforms
    steps = transforms.Compose(
        [
            transforms.RandomResizedCrop(224),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize(MEAN, STD),
        ]
    )
    return lambda data: steps(Image.open(io.BytesIO(data)).convert("RGB"))


def load_with_simplejpeg() -> Callable[[bytes], Any]:
    """Returns a function that decodes, crops and flips a file's bytes to a uint8 tensor. Normalising is left to the GPU."""
    import simplejpeg
    import torch

    import_torchvision()
    from torchvision.transforms import v2

    steps = v2.Compose([v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()])
    return lambda data: steps(torch.from_numpy(simplejpeg.decode_jpeg(data, colorspace="RGB")).permute(2, 0, 1))


def load_with_pil() -> Callable[[bytes], Any]:
    """Returns a function that decodes, crops (RandomResizedCrop), flips and normalises a file's bytes without torchvision."""
    import math
    import random

    import numpy as np
    import torch
    from PIL import Image

    mean, scale = np.array(MEAN255, np.float32), 1 / np.array(STD255, np.float32)

    def load(data: bytes) -> Any:
        image = Image.open(io.BytesIO(data)).convert("RGB")
        box = (0, 0, image.width, image.height)
        for _ in range(10):
            area = random.uniform(0.08, 1) * image.width * image.height
            aspect = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
            w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if 0 < w <= image.width and 0 < h <= image.height:
                x, y = random.randint(0, image.width - w), random.randint(0, image.height - h)
                box = (x, y, x + w, y + h)
                break
        pixels = np.asarray(image.resize((224, 224), Image.Resampling.BILINEAR, box=box), np.float32)
        if random.random() < 0.5:
            pixels = pixels[:, ::-1]
        return torch.from_numpy(np.ascontiguousarray(((pixels - mean) * scale).transpose(2, 0, 1)))

    return load


def torch_loader(files: list[Path], load: Callable[[bytes], Any], batch: int, threads: int, samples: int | None = None) -> Any:
    import torch

    torch.set_num_threads(1)
    dataset: Any = Files(files, load)
    sampler = torch.utils.data.RandomSampler(dataset, num_samples=samples) if samples else None
    return torch.utils.data.DataLoader(
        dataset,
        batch_size=batch,
        shuffle=sampler is None,
        sampler=sampler,
        num_workers=threads,
        persistent_workers=True,
        prefetch_factor=2,
    )


def dali_pipeline(namespace: Any, files: list[Path], batch: int, threads: int, seed: int = 1) -> Any:
    """Builds the same pipeline with DALI or with Stoker. namespace: the module nvidia.dali or stoker."""
    fn, types = namespace.fn, namespace.types
    names = [str(f) for f in files]

    @namespace.pipeline_def(batch_size=batch, num_threads=threads, device_id=None, prefetch_queue_depth=2, seed=seed)
    def program() -> Any:
        jpegs, labels = fn.readers.file(files=names, random_shuffle=True, name="Reader")
        images = fn.decoders.image_random_crop(jpegs, device="cpu", output_type=types.RGB)
        images = fn.resize(images, size=(224, 224))
        mirror = fn.random.coin_flip()
        return fn.crop_mirror_normalize(images, mirror=mirror, mean=MEAN255, std=STD255, dtype=types.FLOAT, output_layout="CHW"), labels

    pipeline = program()
    pipeline.build()
    return pipeline


def run_endless(pipeline: Any) -> Iterator[Any]:
    while True:
        yield pipeline.run()


def list_files(folder: Path, endings: tuple[str, ...] = (".jpg", ".jpeg")) -> list[Path]:
    found = [Path(root) / name for root, _, names in os.walk(folder) for name in names if name.lower().endswith(endings)]
    if not found:
        raise SystemExit(f"{folder}: no files with the ending {', '.join(endings)}")
    return sorted(found)
