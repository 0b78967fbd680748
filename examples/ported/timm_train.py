#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A port of train.py of timm: timm_train.py FOLDER [--aa rand-m9-mstd0.5-inc1] [--reprob 0.25] [--remode pixel] [--mixup 0.2] [--cutmix 1.0].

A Loader with the transforms of create_transform replaces create_dataset, FastCollateMixup and create_loader with its PrefetchLoader. Crops with random
interpolation, timm's RandAugment and RandomErasing run in C. timm's loader normalises and erases on the GPU; the Loader does so with device="cuda".
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from stoker import Loader
from stoker import transforms as T
from timm.data import create_transform
from torch import nn


def loaders(args: argparse.Namespace) -> tuple[Loader, Loader]:
    # was: create_loader(dataset_train, input_size=..., batch_size=..., is_training=True, re_prob=..., auto_augment=..., interpolation=..., collate_fn=...)
    train: Any = create_transform(
        args.img_size,
        is_training=True,
        auto_augment=args.aa,
        interpolation="random",
        re_prob=args.reprob,
        re_mode=args.remode,
    )
    mixing: list[Any] = ([T.MixUp(alpha=args.mixup)] if args.mixup else []) + ([T.CutMix(alpha=args.cutmix)] if args.cutmix else [])
    common: dict[str, Any] = {"batch_size": args.batch_size, "device": args.device}
    evaluation: Any = create_transform(args.img_size, is_training=False)
    return (
        Loader(
            f"{args.folder}/train", shuffle=True, transforms=train, batch_transforms=T.RandomChoice(mixing) if mixing else None, **common
        ),
        Loader(f"{args.folder}/val", transforms=evaluation, last_batch="pad", **common),
    )


def main(argv: list[str] | None = None) -> tuple[Loader, float]:
    """Trains the network. Returns the training Loader, and the accuracy on the validation images."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--img-size", type=int, default=224)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--aa", default="rand-m9-mstd0.5-inc1")
    parser.add_argument("--reprob", type=float, default=0.25)
    parser.add_argument("--remode", default="pixel")
    parser.add_argument("--mixup", type=float, default=0.2)
    parser.add_argument("--cutmix", type=float, default=1.0)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args(argv)
    loader_train, loader_eval = loaders(args)
    layers = nn.Conv2d(3, 16, 7, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, len(loader_train.classes))
    model = nn.Sequential(*layers).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(args.epochs):
        for images, target in loader_train:
            loss = nn.functional.cross_entropy(model(images), target)  # targets are shares of classes, as in timm's SoftTargetCrossEntropy
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    right = count = 0
    with torch.inference_mode():
        for images, target, valid in loader_eval:
            right += int(((model(images).argmax(1) == target) & valid).sum())
            count += int(valid.sum())
    print(f"Acc@1 {right / count:.3f} of {count} images")
    return loader_train, right / count


if __name__ == "__main__":
    main()
