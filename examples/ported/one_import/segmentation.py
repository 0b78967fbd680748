#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images and masks that are cropped and flipped together in __getitem__: segmentation.py FOLDER"""

import random
import sys
from pathlib import Path

import torch
from PIL import Image
from stoker import DataLoader  # was: from torch.utils.data import DataLoader
from torch import nn
from torch.utils.data import Dataset
from torchvision import transforms
from torchvision.transforms import functional as F


class Segments(Dataset):
    def __init__(self, folder, size, train):
        self.images = sorted(Path(folder, "images").glob("*.jpg"))
        self.masks = [Path(folder, "masks", path.stem + ".png") for path in self.images]
        self.size, self.train = size, train

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image, mask = Image.open(self.images[index]).convert("RGB"), Image.open(self.masks[index])
        image = F.resize(image, [self.size + 8] * 2)
        mask = F.resize(mask, [self.size + 8] * 2, transforms.InterpolationMode.NEAREST)
        if self.train:
            window = transforms.RandomCrop.get_params(image, (self.size, self.size))
            image, mask = F.crop(image, *window), F.crop(mask, *window)
            if random.random() < 0.5:
                image, mask = F.hflip(image), F.hflip(mask)
        return F.to_tensor(image), F.pil_to_tensor(mask).squeeze(0).long()


def main(folder, num_workers=0):
    random.seed(0)
    train = DataLoader(Segments(folder, 32, train=True), batch_size=4, shuffle=True, num_workers=num_workers)
    val = DataLoader(Segments(folder, 32, train=False), batch_size=4, num_workers=num_workers)
    model = nn.Conv2d(3, 2, 3, padding=1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for images, masks in train:
        loss = nn.functional.cross_entropy(model(images), masks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        right = [(model(images).argmax(1) == masks).float().mean().item() for images, masks in val]
    print(f"{sum(right) / len(right):.3f} of the pixels right")


if __name__ == "__main__":
    main(sys.argv[1])
