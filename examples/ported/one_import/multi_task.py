#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two targets for each image, in a nested dict, and a custom Trainer class: multi_task.py FOLDER"""

import sys
from pathlib import Path

import torch
from PIL import Image
from stoker import DataLoader  # was: from torch.utils.data import DataLoader
from torch import nn
from torch.utils.data import Dataset, random_split
from torchvision import transforms


class Faces(Dataset):
    def __init__(self, folder, transform):
        self.paths, self.transform = sorted(Path(folder, "images").glob("*.jpg")), transform
        self.ages = torch.arange(len(self.paths), dtype=torch.float32) / 2
        self.kinds = [k % 3 for k in range(len(self.paths))]

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, idx):
        image = Image.open(self.paths[idx]).convert("RGB")
        return self.transform(image), {"age": self.ages[idx], "kind": self.kinds[idx], "name": self.paths[idx].name}


class Trainer:
    def __init__(self, model, train, val):
        self.model, self.train_loader, self.val_loader = model, train, val
        self.optimizer = torch.optim.SGD(model.parameters(), 0.001)

    def loss(self, images, targets):
        out = self.model(images)
        return nn.functional.mse_loss(out[:, 0], targets["age"]) + nn.functional.cross_entropy(out[:, 1:], targets["kind"])

    def fit(self, epochs):
        for epoch in range(epochs):
            for images, targets in self.train_loader:
                self.optimizer.zero_grad()
                self.loss(images, targets).backward()
                self.optimizer.step()
            with torch.no_grad():
                losses = [self.loss(*batch).item() for batch in self.val_loader]
            print(f"epoch {epoch}: {sum(losses) / len(losses):.3f}")


def main(folder, num_workers=0):
    transform = transforms.Compose([transforms.Resize((32, 32)), transforms.ToTensor()])
    train, val = random_split(Faces(folder, transform), [0.75, 0.25], torch.Generator().manual_seed(0))
    loaders = [DataLoader(part, 3, shuffle=part is train, num_workers=num_workers) for part in (train, val)]
    Trainer(nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 4)), *loaders).fit(2)


if __name__ == "__main__":
    main(sys.argv[1])
