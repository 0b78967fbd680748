#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pix2pix: one file holds the input and the output side by side, and __getitem__ cuts it: pairs.py FOLDER"""

import os
import sys

import numpy as np
import torch
from PIL import Image
from stoker import DataLoader  # was: from torch.utils.data import DataLoader
from torch import nn
from torch.utils.data import Dataset
from torchvision import transforms


class Aligned(Dataset):
    def __init__(self, folder):
        self.paths = sorted(entry.path for entry in os.scandir(os.path.join(folder, "images")))
        self.transform = transforms.Compose(
            [transforms.Resize((32, 32)), transforms.ToTensor(), transforms.Normalize((0.5,) * 3, (0.5,) * 3)]
        )

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        both = Image.open(self.paths[index]).convert("RGB")
        width, height = both.size
        a, b = both.crop((0, 0, width // 2, height)), both.crop((width // 2, 0, width, height))
        a, b = self.transform(a), self.transform(b)
        if np.random.rand() < 0.5:
            a, b = a.flip(-1), b.flip(-1)
        return {"A": a, "B": b, "A_paths": self.paths[index]}


def main(folder, num_workers=0):
    np.random.seed(0)
    loader = DataLoader(Aligned(folder), batch_size=2, shuffle=True, num_workers=num_workers)
    model = nn.Conv2d(3, 3, 3, padding=1)
    optimizer = torch.optim.Adam(model.parameters(), 0.0002, betas=(0.5, 0.999))
    for batch in loader:
        loss = nn.functional.l1_loss(model(batch["A"]), batch["B"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(sys.argv[1])
