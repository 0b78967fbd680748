#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Episodes of a few classes, with a few images of each, by a batch_sampler: few_shot.py FOLDER"""

import sys

import torch
from stoker import DataLoader  # was: from torch.utils.data import DataLoader
from torch import nn
from torchvision import datasets, transforms


class Episodes:
    """A batch_sampler whose batches have `shots` samples of each of `ways` classes."""

    def __init__(self, targets, ways, shots, episodes):
        targets = torch.tensor(targets)
        self.places = [torch.nonzero(targets == label).flatten() for label in targets.unique()]
        self.ways, self.shots, self.episodes = ways, shots, episodes

    def __len__(self):
        return self.episodes

    def __iter__(self):
        for _ in range(self.episodes):
            classes = torch.randperm(len(self.places))[: self.ways]
            chosen = [self.places[label][torch.randperm(len(self.places[label]))[: self.shots]] for label in classes]
            yield torch.stack(chosen).t().reshape(-1)


def main(folder, num_workers=0):
    transform = transforms.Compose([transforms.Resize((32, 32)), transforms.ToTensor()])
    data = datasets.ImageFolder(f"{folder}/train", transform)
    loader = DataLoader(data, batch_sampler=Episodes(data.targets, 2, 4, 5), num_workers=num_workers, pin_memory=False)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 16))
    optimizer = torch.optim.Adam(model.parameters(), 0.001)
    for images, _ in loader:
        shots = model(images).reshape(4, 2, -1)
        prototypes, queries = shots[:2].mean(0), shots[2:].reshape(4, -1)
        loss = nn.functional.cross_entropy(-torch.cdist(queries, prototypes), torch.arange(2).repeat(2))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(sys.argv[1])
