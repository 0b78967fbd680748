#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A detection data set: boxes for each image, batches of either wide or tall images, and a collate function that keeps tuples: detection.py FOLDER"""

import sys
from pathlib import Path

import torch
from PIL import Image
from stoker import DataLoader  # was: from torch.utils.data import DataLoader
from torch.utils.data import BatchSampler, Dataset, RandomSampler
from torchvision import transforms


class Boxes(Dataset):
    def __init__(self, folder, transform):
        self.paths, self.transform = sorted(Path(folder, "images").glob("*.jpg")), transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, idx):
        image = Image.open(self.paths[idx]).convert("RGB")
        width, height = image.size
        boxes = torch.tensor([[0.0, 0.0, width / 2, height / 2]])
        target = {"boxes": boxes, "labels": torch.ones((1,), dtype=torch.int64), "image_id": idx}
        return self.transform(image), target

    def is_wide(self, idx):
        width, height = Image.open(self.paths[idx]).size
        return width > height


class GroupedBatchSampler(BatchSampler):
    """Makes batches whose samples belong to one group."""

    def __init__(self, sampler, groups, batch_size):
        self.sampler, self.groups, self.batch_size = sampler, groups, batch_size

    def __iter__(self):
        waiting = {}
        for idx in self.sampler:
            batch = waiting.setdefault(self.groups[idx], [])
            batch.append(idx)
            if len(batch) == self.batch_size:
                yield waiting.pop(self.groups[idx])
        yield from waiting.values()

    def __len__(self):
        return sum(-(-self.groups.count(group) // self.batch_size) for group in set(self.groups))


def main(folder, num_workers=0):
    data = Boxes(folder, transforms.ToTensor())
    batches = GroupedBatchSampler(RandomSampler(data), [data.is_wide(k) for k in range(len(data))], 3)
    loader = DataLoader(data, batch_sampler=batches, num_workers=num_workers, collate_fn=lambda batch: tuple(zip(*batch, strict=True)))
    for images, targets in loader:
        for image, target in zip(images, targets, strict=True):
            assert image.shape[1] >= target["boxes"][0, 3] > 0


if __name__ == "__main__":
    main(sys.argv[1])
