#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A port of train.py of Pytorch-UNet: unet_masks.py IMAGES MASKS [--size 256]. A mask has the name of its image.

BasicDataset returns file names instead of opening, resizing and scaling the files; each pair is decoded, cropped, mirrored and rotated together in
C. Random crops, mirrors and rotations, which the original lacks, are three entries of a list.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from stoker import Loader
from stoker import transforms as T
from torch import nn
from torch.utils.data import Dataset, random_split


class BasicDataset(Dataset[tuple[Path, Path]]):
    def __init__(self, images_dir: str, mask_dir: str) -> None:
        self.images = sorted(p for p in Path(images_dir).iterdir() if not p.name.startswith("."))
        self.masks = {p.stem: p for p in Path(mask_dir).iterdir()}

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, idx: int) -> tuple[Path, Path]:
        return self.images[idx], self.masks[self.images[idx].stem]  # was: Image.open both, resize both, np.asarray, / 255, torch.as_tensor


class UNet(nn.Module):
    """A UNet of one step down and one step up."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.inc, self.down = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, 2, padding=1)
        self.up, self.outc = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(16, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        high = self.inc(x).relu()
        return self.outc(torch.cat([high, self.up(self.down(high).relu())], 1))


def main(argv: list[str] | None = None) -> list[float]:
    """Trains the network, and returns the loss of each step."""
    parser = argparse.ArgumentParser()
    parser.add_argument("images")
    parser.add_argument("masks")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--classes", type=int, default=2)
    args = parser.parse_args(argv)
    dataset = BasicDataset(args.images, args.masks)
    n_val = len(dataset) // 10
    train_set, _ = random_split(dataset, [len(dataset) - n_val, n_val], torch.Generator().manual_seed(0))
    train_loader = Loader(  # was: DataLoader(train_set, shuffle=True, batch_size=..., num_workers=os.cpu_count(), pin_memory=True)
        train_set,
        args.batch_size,
        shuffle=True,
        fields={"image": "Image", "mask": "Mask"},
        transforms=[T.RandomResizedCrop(args.size, (0.5, 1.0)), T.RandomHorizontalFlip(), T.RandomRotation(10)],
    )
    model = UNet(args.classes)
    optimizer = torch.optim.RMSprop(model.parameters(), 1e-3)
    losses = []
    for batch in train_loader:
        loss = nn.functional.cross_entropy(model(batch.image), batch.mask.long())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    print(f"{len(losses)} steps, loss {losses[-1]:.3f}")
    return losses


if __name__ == "__main__":
    main()
