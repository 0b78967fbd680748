#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A port of run_image_classification.py of transformers: hf_trainer.py FOLDER. FOLDER contains class folders.

The transforms go to a Loader instead of dataset.set_transform, and the Trainer takes its batches from that Loader. The images are decoded in C, directly from
the table; the fields of batches have the Trainer's names.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from datasets import load_dataset
from stoker import Loader
from stoker import transforms as T
from torch import nn
from transformers import Trainer, TrainingArguments

TRAIN = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]


def collated(batch: Any) -> dict[str, torch.Tensor]:
    return {"pixel_values": batch.image, "labels": batch.label}


class StokerTrainer(Trainer):  # type: ignore[misc]
    def get_train_dataloader(self) -> Any:
        size = self.args.per_device_train_batch_size
        return Loader(self.train_dataset, size, shuffle=True, transforms=TRAIN, collate_fn=collated).as_dataloader()


class Classifier(nn.Module):
    """A small network in place of AutoModelForImageClassification."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 16, 7, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, classes))

    def forward(self, pixel_values: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.layers(pixel_values)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def main(argv: list[str] | None = None) -> Any:
    """Trains the network, and returns the Trainer's result."""
    (folder,) = sys.argv[1:] if argv is None else argv
    table = load_dataset("imagefolder", data_dir=folder, split="train")
    arguments = TrainingArguments(output_dir="outputs", per_device_train_batch_size=8, num_train_epochs=1, report_to=[], use_cpu=True)
    return StokerTrainer(model=Classifier(len(table.features["label"].names)), args=arguments, train_dataset=table).train()


if __name__ == "__main__":
    main()
