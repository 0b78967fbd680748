#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training like CLIP's: pairs of images and captions from a CSV file, with captions that the Dataset tokenises: image_text.py FOLDER"""

import csv
import os
import sys

import torch
from PIL import Image
from stoker import DataLoader  # was: from torch.utils.data import DataLoader
from torch import nn
from torch.utils.data import Dataset
from torchvision import transforms


def tokenize(text, length=12):
    tokens = [ord(letter) % 256 for letter in text][:length]
    return torch.tensor(tokens + [0] * (length - len(tokens)))


class Captions(Dataset):
    def __init__(self, folder, transform, tokenizer):
        with open(os.path.join(folder, "captions.csv"), newline="") as file:
            rows = list(csv.DictReader(file))
        self.folder, self.transform, self.tokenize = folder, transform, tokenizer
        self.images, self.captions = [row["filepath"] for row in rows], [row["title"] for row in rows]

    def __len__(self):
        return len(self.captions)

    def __getitem__(self, idx):
        images = self.transform(Image.open(os.path.join(self.folder, str(self.images[idx]))))
        texts = self.tokenize(str(self.captions[idx]))
        return images, texts


def main(folder, num_workers=0):
    transform = transforms.Compose([transforms.Resize(36), transforms.CenterCrop(32), transforms.ToTensor()])
    loader = DataLoader(Captions(str(folder), transform, tokenize), batch_size=4, shuffle=True, num_workers=num_workers, drop_last=True)
    image_net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 8))
    text_net = nn.EmbeddingBag(256, 8)
    optimizer = torch.optim.AdamW([*image_net.parameters(), *text_net.parameters()], 0.001)
    for images, texts in loader:
        scores = image_net(images) @ text_net(texts).T
        loss = nn.functional.cross_entropy(scores, torch.arange(len(scores)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(sys.argv[1])
