#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A port of open_clip's CSV data: open_clip_csv.py TABLE.tsv [--csv-img-key filepath] [--csv-caption-key title]. Tabs or commas divide the table's columns.

Loader.from_csv replaces CsvDataset and its DataLoader. The tokenizer is called once for the strings of a whole batch, instead of once per sample.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from stoker import Loader
from stoker import transforms as T
from torch import nn

OPENAI_MEAN, OPENAI_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
CONTEXT = 77


def tokenize(texts: list[str]) -> torch.Tensor:
    """Replaces open_clip.get_tokenizer(model)."""
    codes = [list(text.encode()[:CONTEXT]) for text in texts]
    return torch.tensor([c + [0] * (CONTEXT - len(c)) for c in codes])


class Clip(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.visual = nn.Sequential(nn.Conv2d(3, 16, 7, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, width))
        self.text = nn.EmbeddingBag(256, width)
        self.logit_scale = nn.Parameter(torch.tensor(2.66))

    def forward(self, images: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
        first, second = nn.functional.normalize(self.visual(images)), nn.functional.normalize(self.text(texts))
        return self.logit_scale.exp() * first @ second.T


def main(argv: list[str] | None = None) -> list[float]:
    """Trains the network, and returns the loss of each step."""
    parser = argparse.ArgumentParser()
    parser.add_argument("table")
    parser.add_argument("--csv-img-key", default="filepath")
    parser.add_argument("--csv-caption-key", default="title")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--size", type=int, default=224)
    args = parser.parse_args(argv)

    def collate(batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return batch.image, tokenize(getattr(batch, args.csv_caption_key))

    dataloader = Loader.from_csv(  # was: CsvDataset(input_filename, preprocess_fn, img_key=..., caption_key=..., sep="\t", tokenizer=...), DataLoader(...)
        args.table,
        args.batch_size,
        path=args.csv_img_key,
        targets=args.csv_caption_key,
        shuffle=True,
        transforms=[T.RandomResizedCrop(args.size, (0.9, 1.0), interpolation="bicubic"), T.Normalize(OPENAI_MEAN, OPENAI_STD)],
        collate_fn=collate,
    )
    model = Clip()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    losses = []
    for images, texts in dataloader:
        logits = model(images, texts)
        target = torch.arange(len(logits))
        loss = (nn.functional.cross_entropy(logits, target) + nn.functional.cross_entropy(logits.T, target)) / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    print(f"{len(losses)} steps, loss {losses[-1]:.3f}")
    return losses


if __name__ == "__main__":
    main()
