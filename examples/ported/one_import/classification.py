#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Classification of an ImageFolder, with RandAugment, RandomErasing, and MixUp or CutMix in the collate function: classification.py FOLDER"""

import sys

import torch
from stoker import DataLoader  # was: from torch.utils.data import DataLoader
from torch import nn
from torch.utils.data import default_collate
from torchvision import datasets
from torchvision.transforms import v2

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
END = [v2.PILToTensor(), v2.ToDtype(torch.float, scale=True), v2.Normalize(MEAN, STD)]
TRAIN = v2.Compose([v2.RandomResizedCrop(32), v2.RandomHorizontalFlip(), v2.RandAugment(), *END, v2.RandomErasing(p=0.1)])
VAL = v2.Compose([v2.Resize(40), v2.CenterCrop(32), *END])


def main(folder, num_workers=0):
    train_set, val_set = datasets.ImageFolder(f"{folder}/train", TRAIN), datasets.ImageFolder(f"{folder}/val", VAL)
    classes = len(train_set.classes)
    mix = v2.RandomChoice([v2.MixUp(num_classes=classes), v2.CutMix(num_classes=classes)])

    def collate(samples):
        return mix(*default_collate(samples))

    train = DataLoader(train_set, batch_size=5, shuffle=True, num_workers=num_workers, collate_fn=collate, drop_last=True)
    val = DataLoader(val_set, batch_size=5, num_workers=num_workers)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, classes))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(2):
        for images, targets in train:
            loss = nn.functional.cross_entropy(model(images), targets, label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    right = 0
    with torch.inference_mode():
        for images, targets in val:
            right += int((model(images).argmax(1) == targets).sum())
    print(f"accuracy {right / len(val_set):.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
