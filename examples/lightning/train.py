#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lightning with Stoker in its DataModule: train.py FOLDER [--epochs 3] [--devices 2]. FOLDER holds train/ and val/, as examples/imagenet/make_images.py makes.

Lightning expects DataLoaders: `as_dataloader()` returns one. The Loaders are made in the hooks, after the process group is set up, so that each rank finds
its part and no DistributedSampler is needed. Lightning's checkpoints contain the Loader's state, so a run can resume in the middle of an epoch.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import lightning
import torch
from stoker import Loader
from stoker import transforms as T
from torch import nn
from torch.nn.functional import cross_entropy

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Images(lightning.LightningDataModule):
    """Folders of images. batch_size: size of the batch of each rank."""

    def __init__(self, folder: Path, batch_size: int, size: int = 224) -> None:
        super().__init__()
        self.folder, self.batch_size, self.size = folder, batch_size, size

    def _loader(self, split: str, transforms: list[Any], **more: Any) -> Any:
        device = str(self.trainer.strategy.root_device) if self.trainer is not None else "cpu"
        normalize = T.Normalize(MEAN, STD)
        return Loader(self.folder / split, self.batch_size, transforms=[*transforms, normalize], device=device, **more).as_dataloader()

    def train_dataloader(self) -> Any:
        return self._loader(
            "train", [T.RandomResizedCrop(self.size), T.RandomHorizontalFlip()], shuffle=True, fields=("image", "label", "index")
        )

    def val_dataloader(self) -> Any:
        return self._loader("val", [T.Resize(self.size * 8 // 7), T.CenterCrop(self.size)], last_batch="pad")


class Classifier(lightning.LightningModule):
    def __init__(self, classes: int, lr: float) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.network = nn.Sequential(
            nn.Conv2d(3, 16, 7, stride=4),
            nn.ReLU(),
            nn.Conv2d(16, 32, 5, stride=2),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(32, classes),
        )
        self.counts = torch.zeros(2)

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        loss = cross_entropy(self.network(batch.image), batch.label)
        self.log("loss", loss, batch_size=len(batch.label))
        return loss

    def on_validation_epoch_start(self) -> None:
        self.counts = torch.zeros(2, device=self.device)

    def validation_step(self, batch: Any, _: int) -> None:
        right = self.network(batch.image).argmax(1) == batch.label
        self.counts += torch.stack([(right & batch.valid).sum(), batch.valid.sum()])

    def on_validation_epoch_end(self) -> None:
        right, images = self.trainer.strategy.reduce(self.counts, reduce_op="sum")
        self.log("accuracy", right / images, rank_zero_only=True)
        if self.trainer.is_global_zero and not self.trainer.sanity_checking:
            print(f"epoch {self.current_epoch}: {right / images:.2%} of {int(images)} validation images", flush=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), self.hparams["lr"], momentum=0.9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64, help="of each rank")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--accelerator", default="auto")
    parser.add_argument("--checkpoint", type=Path, help="to resume from")
    args = parser.parse_args()
    classes = sum(1 for f in (args.folder / "train").iterdir() if f.is_dir())
    trainer = lightning.Trainer(
        max_epochs=args.epochs,
        devices=args.devices,
        accelerator=args.accelerator,
        strategy="ddp" if args.devices > 1 else "auto",
        num_sanity_val_steps=0,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Classifier(classes, 0.05), datamodule=Images(args.folder, args.batch_size, args.size), ckpt_path=args.checkpoint)


if __name__ == "__main__":
    main()
