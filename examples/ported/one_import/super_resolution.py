#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Super-resolution: a patch of an image, and the same patch at half the size, from a Dataset that repeats its images: super_resolution.py FOLDER"""

import os
import random
import sys

import torch
from PIL import Image
from stoker import DataLoader  # was: from torch.utils.data import DataLoader
from torch import nn
from torch.utils.data import Dataset
from torchvision.transforms import functional as F


class Patches(Dataset):
    def __init__(self, folder, patch=32, scale=2, repeat=2):
        self.paths = sorted(entry.path for entry in os.scandir(os.path.join(folder, "images")))
        self.patch, self.scale, self.repeat = patch, scale, repeat

    def __len__(self):
        return len(self.paths) * self.repeat

    def __getitem__(self, index):
        image = Image.open(self.paths[index % len(self.paths)]).convert("RGB")
        left, top = (random.randrange(side - self.patch + 1) for side in image.size)
        large = image.crop((left, top, left + self.patch, top + self.patch))
        small = large.resize((self.patch // self.scale, self.patch // self.scale), Image.Resampling.BICUBIC)
        if random.random() < 0.5:
            small, large = F.hflip(small), F.hflip(large)
        return F.to_tensor(small), F.to_tensor(large)


def main(folder, num_workers=0):
    loader = DataLoader(Patches(folder), batch_size=4, shuffle=True, num_workers=num_workers, drop_last=True)
    model = nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.PixelShuffle(2))
    optimizer = torch.optim.Adam(model.parameters(), 0.001)
    for small, large in loader:
        loss = nn.functional.l1_loss(model(small), large)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(sys.argv[1])
