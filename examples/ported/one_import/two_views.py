#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SimSiam's and MoCo's pairs of crops, from a transform that returns a list of two: two_views.py FOLDER"""

import random
import sys

import torch
from PIL import ImageFilter
from stoker import DataLoader  # was: from torch.utils.data import DataLoader
from torch import nn
from torchvision import datasets, transforms


class GaussianBlur:
    def __init__(self, sigma):
        self.sigma = sigma

    def __call__(self, image):
        return image.filter(ImageFilter.GaussianBlur(radius=random.uniform(*self.sigma)))


class TwoCropsTransform:
    def __init__(self, base):
        self.base = base

    def __call__(self, image):
        return [self.base(image), self.base(image)]


def main(folder, num_workers=0):
    augmentation = [
        transforms.RandomResizedCrop(32, scale=(0.2, 1.0)),
        transforms.RandomApply([transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8),
        transforms.RandomGrayscale(p=0.2),
        transforms.RandomApply([GaussianBlur([0.1, 2.0])], p=0.5),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
    ]
    data = datasets.ImageFolder(f"{folder}/train", TwoCropsTransform(transforms.Compose(augmentation)))
    loader = DataLoader(data, batch_size=5, shuffle=True, num_workers=num_workers, drop_last=True)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 8))
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    for images, _ in loader:
        first, second = model(images[0]), model(images[1])
        loss = -nn.functional.cosine_similarity(first, second.detach()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(sys.argv[1])
