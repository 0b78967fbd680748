#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Samples that are dicts, and a data collator that makes a batch of pixel_values and labels: dict_batches.py FOLDER"""

import sys
from pathlib import Path

import torch
from PIL import Image
from stoker import DataLoader  # was: from torch.utils.data import DataLoader
from torch import nn
from torch.utils.data import Dataset
from torchvision.transforms import CenterCrop, Compose, Normalize, Resize, ToTensor


class Examples(Dataset):
    def __init__(self, folder, transform):
        self.files = sorted(Path(folder, "train").glob("*/*.jpg"))
        names = sorted({path.parent.name for path in self.files})
        self.label2id = {name: k for k, name in enumerate(names)}
        self.transform = transform

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        path = self.files[index]
        pixel_values = self.transform(Image.open(path).convert("RGB"))
        return {"pixel_values": pixel_values, "label": self.label2id[path.parent.name], "file": str(path)}


def collate(examples):
    pixel_values = torch.stack([example["pixel_values"] for example in examples])
    labels = torch.tensor([example["label"] for example in examples])
    return {"pixel_values": pixel_values, "labels": labels}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3 * 32 * 32, 3)

    def forward(self, pixel_values, labels):
        return nn.functional.cross_entropy(self.head(pixel_values.flatten(1)), labels)


def main(folder, num_workers=0):
    transform = Compose([Resize(32), CenterCrop(32), ToTensor(), Normalize([0.5] * 3, [0.5] * 3)])
    loader = DataLoader(Examples(folder, transform), batch_size=4, shuffle=True, collate_fn=collate, num_workers=num_workers)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        for batch in loader:
            loss = model(**{key: value.to("cpu") for key, value in batch.items()})
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    main(sys.argv[1])
