#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cross-validation by SubsetRandomSampler for training and Subset for validation: k_fold.py FOLDER"""

import sys

import torch
from stoker import DataLoader  # was: from torch.utils.data import DataLoader
from torch import nn
from torch.utils.data import Subset, SubsetRandomSampler
from torchvision import datasets, transforms


def main(folder, num_workers=0, folds=3):
    transform = transforms.Compose([transforms.Resize((32, 32)), transforms.ToTensor()])
    data = datasets.ImageFolder(f"{folder}/train", transform)
    parts = torch.randperm(len(data)).chunk(folds)
    for k in range(folds):
        inside = torch.cat([part for j, part in enumerate(parts) if j != k]).tolist()
        train = DataLoader(data, batch_size=5, sampler=SubsetRandomSampler(inside), num_workers=num_workers)
        val = DataLoader(Subset(data, parts[k].tolist()), batch_size=5, num_workers=num_workers)
        model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 3))
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for images, labels in train:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            right = sum(int((model(images).argmax(1) == labels).sum()) for images, labels in val)
        print(f"fold {k}: {right} of {len(parts[k])} right")


if __name__ == "__main__":
    main(sys.argv[1])
