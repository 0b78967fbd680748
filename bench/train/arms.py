# SPDX-License-Identifier: Apache-2.0
"""Sources of batches for a training loop: Stoker, DALI, a DataLoader, or a few batches that are already on the GPU.

An arm is an endless iterator of (images, labels) on the device, in channels_last. Each peer has its best settings: DALI makes half-precision HWC, so
that the loop converts nothing; the DataLoader's workers return uint8, and the GPU normalises.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import peers

KEPT = 8  # number of batches that the arm "synthetic" copies once and then repeats


@dataclass(frozen=True)
class Setting:
    """Settings of all arms. threads: number of threads or worker processes of a loader."""

    files: list[str]
    batch: int
    size: int
    threads: int
    device: torch.device

    @property
    def labels(self) -> list[int]:
        return [i % 1000 for i in range(len(self.files))]

    @property
    def half(self) -> torch.dtype:
        return torch.bfloat16 if self.device.type == "cuda" else torch.float32


class Arm:
    """An endless iterator of batches. ahead: the most batches that may be ready in advance; a measurement must take these before its clock starts."""

    def __init__(self, name: str, batches: Iterator[Any], ahead: int) -> None:
        self.name, self._batches, self.ahead = name, batches, ahead

    def next(self) -> tuple[torch.Tensor, torch.Tensor]:
        images, labels = next(self._batches)
        return images, labels


def stoker_arm(s: Setting, store: str = "") -> Arm:
    """Builds the arm with Stoker. store: s3://BUCKET/PREFIX of a copy of the folder, from which the files are read; "": they are read from the folder."""
    from stoker import Loader
    from stoker import transforms as T

    folder = os.path.commonpath(s.files)
    files = [f"{store}/{os.path.relpath(f, folder)}" for f in s.files] if store else s.files
    loader = Loader(
        list(zip(files, s.labels, strict=True)),
        s.batch,
        shuffle=True,
        seed=1,
        transforms=[T.RandomResizedCrop(s.size), T.RandomHorizontalFlip(), T.Normalize(peers.MEAN, peers.STD)],
        device=str(s.device),
        dtype=s.half,
        memory_format=torch.channels_last,
        num_threads=s.threads,
        drop_last=True,  # a CUDA graph reads batches of one size
    )
    return Arm("store" if store else "stoker", peers.endless(lambda: iter(loader)), loader.pipeline.cpu_queue_size + 2)


def synthetic_arm(s: Setting, other: Arm) -> Arm:
    """Builds an arm that repeats a few batches of another arm, so that no loader runs."""
    kept = [tuple(t.detach().clone() for t in other.next()) for _ in range(KEPT)]
    return Arm("synthetic", peers.endless(lambda: iter(kept)), 0)


def dali_arm(s: Setting, load: float) -> Arm:
    """Builds the arm with DALI. load: share of the images that the GPU's JPEG engines decode."""
    dali: Any = importlib.import_module("nvidia.dali")
    plugin: Any = importlib.import_module("nvidia.dali.plugin.pytorch")
    fn, types = dali.fn, dali.types
    gpu = s.device.type == "cuda"
    rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
    shards = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1

    @dali.pipeline_def(batch_size=s.batch, num_threads=s.threads, device_id=s.device.index or 0 if gpu else None, prefetch_queue_depth=2)
    def program() -> Any:
        data, label = fn.readers.file(
            files=s.files, labels=s.labels, random_shuffle=True, name="Reader", seed=1, shard_id=rank, num_shards=shards
        )
        decoder: dict[str, Any] = {"device": "mixed", "hw_decoder_load": load} if gpu else {"device": "cpu"}
        images = fn.random_resized_crop(fn.decoders.image(data, output_type=types.RGB, **decoder), size=(s.size, s.size))
        images = fn.crop_mirror_normalize(
            images,
            mirror=fn.random.coin_flip(),
            mean=peers.MEAN255,
            std=peers.STD255,
            dtype=types.FLOAT16 if gpu else types.FLOAT,
            output_layout="HWC",
        )
        label = fn.cast(fn.squeeze(label, axes=0), dtype=types.INT64)
        return images, label.gpu() if gpu else label

    made = plugin.DALIGenericIterator(
        program(), ["data", "label"], reader_name="Reader", last_batch_policy=plugin.LastBatchPolicy.DROP, auto_reset=True
    )

    def batches() -> Iterator[Any]:
        while True:
            for (batch,) in made:
                yield batch["data"].permute(0, 3, 1, 2), batch["label"]

    return Arm(f"dali:{load:g}", batches(), 4)


def dataloader_arm(s: Setting) -> Arm:
    from PIL import Image

    transforms = peers.import_torchvision().transforms
    steps = transforms.Compose([transforms.RandomResizedCrop(s.size), transforms.RandomHorizontalFlip(), transforms.PILToTensor()])
    mean, std = (torch.tensor(v, device=s.device).view(1, 3, 1, 1) for v in (peers.MEAN255, peers.STD255))

    class Files(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return len(s.files)

        def __getitem__(self, i: int) -> Any:
            with open(s.files[i], "rb") as f:
                return steps(Image.open(f).convert("RGB")), i % 1000

    gpu = s.device.type == "cuda"
    made = torch.utils.data.DataLoader(
        Files(), s.batch, shuffle=True, num_workers=s.threads, pin_memory=gpu, persistent_workers=True, prefetch_factor=4, drop_last=True
    )

    def batches() -> Iterator[Any]:
        while True:
            for images, labels in made:
                images = images.to(s.device, non_blocking=True).to(memory_format=torch.channels_last)
                yield images.to(s.half).sub_(mean).div_(std), labels.to(s.device, non_blocking=True)

    return Arm("dataloader", batches(), 4 * s.threads)


def make(names: list[str], s: Setting) -> tuple[list[Arm], dict[str, str]]:
    """Returns the arms (the synthetic one, Stoker's, and those in `names`), and a dict from the name of each arm that cannot run to the reason."""
    found, missing = [stoker_arm(s)], {}
    for name in names:
        kind, _, argument = name.partition(":")
        try:
            if kind == "dali":
                found.append(dali_arm(s, float(argument or 0.65)))
            elif kind == "store":
                found.append(stoker_arm(s, argument))
            elif kind == "dataloader":
                found.append(dataloader_arm(s))
            elif kind not in ("stoker", "synthetic"):
                raise SystemExit(f"there is no arm {name!r}")
        except ImportError as e:
            missing[name] = f"not run: {e}"
    return [synthetic_arm(s, found[0]), *found], missing
