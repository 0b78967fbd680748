#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A port of torchvision's references/classification/train.py: torchvision_references.py FOLDER [--auto-augment ta_wide] [--random-erase 0.1] [--mixup-alpha
0.2].

Two Loaders replace `load_data` and the two DataLoaders, and take the presets unchanged. MixUp and CutMix need no collate function, a DistributedSampler is not
needed, and with `batch.valid` validation counts each image once on any number of ranks.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from stoker import Loader
from torch import nn
from torchvision.transforms import autoaugment, v2


class ClassificationPresetTrain:  # the same as in presets.py of the references, with use_v2 and the backend of PIL images
    def __init__(self, crop_size: int, auto_augment_policy: str | None, random_erase_prob: float) -> None:
        transforms: list[Any] = [v2.RandomResizedCrop(crop_size, antialias=True), v2.RandomHorizontalFlip()]
        if auto_augment_policy == "ra":
            transforms.append(v2.RandAugment(magnitude=9))
        elif auto_augment_policy == "ta_wide":
            transforms.append(v2.TrivialAugmentWide())
        elif auto_augment_policy == "augmix":
            transforms.append(v2.AugMix(severity=3))
        elif auto_augment_policy is not None:
            transforms.append(v2.AutoAugment(policy=autoaugment.AutoAugmentPolicy(auto_augment_policy)))
        transforms += [v2.PILToTensor(), v2.ToDtype(torch.float, scale=True), v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
        if random_erase_prob > 0:
            transforms.append(v2.RandomErasing(p=random_erase_prob))
        transforms.append(v2.ToPureTensor())
        self.transforms = v2.Compose(transforms)

    def __call__(self, img: Any) -> Any:
        return self.transforms(img)


class ClassificationPresetEval:
    def __init__(self, crop_size: int, resize_size: int) -> None:
        transforms = [
            v2.Resize(resize_size, antialias=True),
            v2.CenterCrop(crop_size),
            v2.PILToTensor(),
            v2.ToDtype(torch.float, scale=True),
        ]
        self.transforms = v2.Compose([*transforms, v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)), v2.ToPureTensor()])

    def __call__(self, img: Any) -> Any:
        return self.transforms(img)


def main(argv: list[str] | None = None) -> tuple[Loader, float]:
    """Trains the network. Returns the training Loader, and the accuracy on the validation images."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--auto-augment", default=None)
    parser.add_argument("--random-erase", type=float, default=0.0)
    parser.add_argument("--mixup-alpha", type=float, default=0.0)
    parser.add_argument("--cutmix-alpha", type=float, default=0.0)
    parser.add_argument("--train-crop-size", type=int, default=224)
    parser.add_argument("--val-resize-size", type=int, default=256)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args(argv)
    mixing = [v2.MixUp(alpha=args.mixup_alpha)] if args.mixup_alpha else []
    mixing += [v2.CutMix(alpha=args.cutmix_alpha)] if args.cutmix_alpha else []
    data_loader = Loader(  # was: ImageFolder, RandomSampler or DistributedSampler, DataLoader(collate_fn=...)
        f"{args.folder}/train",
        args.batch_size,
        shuffle=True,
        transforms=ClassificationPresetTrain(args.train_crop_size, args.auto_augment, args.random_erase),
        batch_transforms=v2.RandomChoice(mixing) if mixing else None,
        device=args.device,
    )
    data_loader_test = Loader(
        f"{args.folder}/val",
        args.batch_size,
        transforms=ClassificationPresetEval(args.train_crop_size, args.val_resize_size),
        last_batch="pad",
        device=args.device,
    )
    layers = nn.Conv2d(3, 16, 7, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, len(data_loader.classes))
    model = nn.Sequential(*layers).to(args.device)
    criterion, optimizer = nn.CrossEntropyLoss(label_smoothing=0.1), torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for _ in range(args.epochs):
        for image, target in data_loader:
            loss = criterion(model(image), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    right = count = 0
    with torch.inference_mode():
        for image, target, valid in data_loader_test:
            right += int(((model(image).argmax(1) == target) & valid).sum())
            count += int(valid.sum())
    print(f"Acc@1 {right / count:.3f} of {count} images")
    return data_loader, right / count


if __name__ == "__main__":
    main()
