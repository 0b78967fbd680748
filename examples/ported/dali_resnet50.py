#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A short port of resnet50/main.py of DALI's examples, with a small model and one process: dali_resnet50.py FOLDER [--batch-size 256]. FOLDER holds train/ and
val/.

The pipeline and the iterators are used as in the DALI program; only the imports name another package. device="mixed" decodes on the GPU, as in DALI.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import torch
from stoker import (
    fn,
    pipeline_def,
    types,
)  # was: from nvidia.dali.pipeline import pipeline_def; import nvidia.dali.types as types, .fn as fn
from stoker.plugin.pytorch import DALIClassificationIterator, LastBatchPolicy  # was: from nvidia.dali.plugin.pytorch import ...
from torch import nn


@pipeline_def(exec_dynamic=True)
def create_dali_pipeline(data_dir: str, crop: int, size: int, shard_id: int, num_shards: int, dali_cpu: bool, is_training: bool) -> Any:
    images, labels = fn.readers.file(
        file_root=data_dir, shard_id=shard_id, num_shards=num_shards, random_shuffle=is_training, pad_last_batch=True, name="Reader"
    )
    dali_device, decoder_device = ("cpu", "cpu") if dali_cpu else ("gpu", "mixed")
    if is_training:
        images = fn.decoders.image_random_crop(
            images,
            device=decoder_device,
            output_type=types.RGB,
            preallocate_width_hint=5980 if decoder_device == "mixed" else 0,
            preallocate_height_hint=6430 if decoder_device == "mixed" else 0,
            random_aspect_ratio=[0.8, 1.25],
            random_area=[0.1, 1.0],
            num_attempts=100,
        )
        images = fn.resize(images, resize_x=crop, resize_y=crop, interp_type=types.INTERP_TRIANGULAR)
        mirror = fn.random.coin_flip(probability=0.5)
    else:
        images = fn.decoders.image(images, device=decoder_device, output_type=types.RGB)
        images = fn.resize(images, size=size, mode="not_smaller", interp_type=types.INTERP_TRIANGULAR)
        mirror = False
    images = fn.crop_mirror_normalize(
        images.cpu() if dali_device == "cpu" else images.gpu(),
        dtype=types.FLOAT,
        output_layout="CHW",
        crop=(crop, crop),
        mean=[0.485 * 255, 0.456 * 255, 0.406 * 255],
        std=[0.229 * 255, 0.224 * 255, 0.225 * 255],
        mirror=mirror,
    )
    return images, labels if dali_device == "cpu" else labels.gpu()


def loader(folder: str, args: argparse.Namespace, training: bool) -> Any:
    pipe = create_dali_pipeline(
        batch_size=args.batch_size,
        num_threads=args.workers,
        device_id=None if args.dali_cpu else 0,
        seed=12,
        data_dir=folder,
        crop=args.crop,
        size=args.crop * 8 // 7,
        dali_cpu=args.dali_cpu,
        shard_id=0,
        num_shards=1,
        is_training=training,
    )
    pipe.build()
    return DALIClassificationIterator(pipe, reader_name="Reader", last_batch_policy=LastBatchPolicy.PARTIAL, auto_reset=True)


def main(argv: list[str] | None = None) -> tuple[int, int]:
    """Trains for one epoch, then validates. Returns the number of images of each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--crop", type=int, default=224)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--dali_cpu", action="store_true")
    args = parser.parse_args(argv)
    device = "cpu" if args.dali_cpu else "cuda"
    model = nn.Sequential(nn.Conv2d(3, 16, 7, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 1000)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    train_loader, val_loader = (loader(f"{args.folder}/{part}", args, part == "train") for part in ("train", "val"))
    train_loader_len = math.ceil(train_loader._size / args.batch_size)
    seen = [0, 0]
    for i, data in enumerate(train_loader):
        images, target = data[0]["data"], data[0]["label"].squeeze(-1).long()
        loss = nn.functional.cross_entropy(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen[0] += len(images)
        print(f"{i + 1}/{train_loader_len}: loss {loss:.3f}")
    for data in val_loader:
        seen[1] += len(data[0]["data"])
    return seen[0], seen[1]


if __name__ == "__main__":
    main()
