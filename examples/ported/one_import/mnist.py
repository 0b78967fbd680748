#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The usual first program: digits in memory, a training loop, and a test loop with sums over len(loader.dataset): mnist.py FOLDER"""

import sys

import torch
from stoker import DataLoader  # was: from torch.utils.data import DataLoader
from torch import nn
from torchvision import datasets, transforms


def main(folder, num_workers=0):
    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
    options = {"num_workers": num_workers, "persistent_workers": num_workers > 0}
    train = DataLoader(datasets.MNIST(folder, train=True, transform=transform), batch_size=8, shuffle=True, **options)
    test = DataLoader(datasets.MNIST(folder, train=False, transform=transform), batch_size=16, **options)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    optimizer = torch.optim.Adadelta(model.parameters())
    for epoch in range(2):
        for batch, (data, target) in enumerate(train):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(data), target)
            loss.backward()
            optimizer.step()
            if batch % 4 == 0:
                print(
                    f"epoch {epoch} [{batch * len(data)}/{len(train.dataset)} ({100.0 * batch / len(train):.0f}%)] loss {loss.item():.4f}"
                )
        right = 0
        with torch.no_grad():
            for data, target in test:
                right += model(data).argmax(dim=1, keepdim=True).eq(target.view_as(data[:, 0, 0, 0].long())[:, None]).sum().item()
        print(f"{right} of {len(test.dataset)} right")


if __name__ == "__main__":
    main(sys.argv[1])
