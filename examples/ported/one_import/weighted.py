#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Dataset over a CSV file, whose rare classes a WeightedRandomSampler draws as often as the others: weighted.py FOLDER"""

import csv
import os
import sys
from collections import Counter

import torch
from stoker import DataLoader  # was: from torch.utils.data import DataLoader
from torch import nn
from torch.utils.data import Dataset, WeightedRandomSampler
from torchvision import transforms
from torchvision.datasets.folder import default_loader


class Table(Dataset):
    def __init__(self, root, transform=None, target_transform=None):
        with open(os.path.join(root, "captions.csv"), newline="") as file:
            self.rows = [(row["filepath"], int(row["label"])) for row in csv.DictReader(file)]
        self.root, self.transform, self.target_transform = root, transform, target_transform

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, idx):
        name, label = self.rows[idx]
        image = default_loader(os.path.join(self.root, name))
        if self.transform:
            image = self.transform(image)
        if self.target_transform:
            label = self.target_transform(label)
        return image, label, name


def main(folder, num_workers=0):
    transform = transforms.Compose([transforms.Resize((32, 32)), transforms.ToTensor(), transforms.Normalize([0.5] * 3, [0.5] * 3)])
    data = Table(folder, transform, target_transform=lambda label: label + 1)
    counts = Counter(label for _, label in data.rows)
    sampler = WeightedRandomSampler([1 / counts[label] for _, label in data.rows], len(data), replacement=True)
    loader = DataLoader(data, batch_size=4, sampler=sampler, num_workers=num_workers)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 4))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for epoch in range(2):
        seen = Counter()
        for images, labels, _ in loader:
            seen.update(labels.tolist())
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {dict(seen)}")


if __name__ == "__main__":
    main(sys.argv[1])
