#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An IterableDataset over the lines of a file, divided among workers: lines.py FOLDER"""

import os
import sys

import torch
from stoker import DataLoader  # was: from torch.utils.data import DataLoader
from torch import nn
from torch.utils.data import IterableDataset, get_worker_info


class Lines(IterableDataset):
    def __init__(self, path):
        self.path = path

    def __iter__(self):
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        with open(self.path) as file:
            for k, line in enumerate(file):
                if k % step == first:
                    yield torch.tensor([ord(letter) % 256 for letter in line.rstrip()])


def collate(lines):
    return nn.utils.rnn.pad_sequence(lines, batch_first=True)


def main(folder, num_workers=0):
    loader = DataLoader(Lines(os.path.join(folder, "captions.csv")), batch_size=4, num_workers=num_workers, collate_fn=collate)
    model = nn.Sequential(nn.Embedding(256, 8), nn.Linear(8, 256))
    optimizer = torch.optim.Adam(model.parameters())
    for tokens in loader:
        loss = nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(sys.argv[1])
