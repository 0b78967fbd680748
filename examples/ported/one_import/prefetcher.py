#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A wrapper that converts the next batch while the loop uses the current one; a fast collate function makes uint8 batches: prefetcher.py FOLDER"""

import sys

import numpy as np
import torch
from stoker import DataLoader  # was: from torch.utils.data import DataLoader
from torch import nn
from torchvision import datasets, transforms

MEAN, STD = torch.tensor([0.485, 0.456, 0.406]) * 255, torch.tensor([0.229, 0.224, 0.225]) * 255


def to_numpy(image):
    return np.asarray(image, dtype=np.uint8).transpose(2, 0, 1)


def fast_collate(batch):
    targets = torch.tensor([label for _, label in batch], dtype=torch.int64)
    images = torch.zeros((len(batch), *batch[0][0].shape), dtype=torch.uint8)
    for k, (image, _) in enumerate(batch):
        images[k] += torch.from_numpy(image.copy())
    return images, targets


class Prefetcher:
    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        last = None
        for images, targets in self.loader:
            images = images.float().sub_(MEAN.view(1, 3, 1, 1)).div_(STD.view(1, 3, 1, 1))
            if last is not None:
                yield last
            last = images, targets
        yield last

    def __len__(self):
        return len(self.loader)


def main(folder, num_workers=0):
    transform = transforms.Compose([transforms.Resize(36), transforms.CenterCrop(32), to_numpy])
    data = datasets.ImageFolder(f"{folder}/train", transform)
    loader = Prefetcher(DataLoader(data, batch_size=4, shuffle=True, num_workers=num_workers, collate_fn=fast_collate))
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.001)
    for images, targets in loader:
        loss = nn.functional.cross_entropy(model(images), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(sys.argv[1])
