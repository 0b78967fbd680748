#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ray Train with Stoker in its workers: train.py FOLDER [--workers 2] [--gpu]. FOLDER holds train/ and val/, as examples/imagenet/make_images.py makes.

Ray sets up the process group; a Loader that is made in the worker asks the group for its part. ray.train.torch.prepare_data_loader is not needed: batches
are divided and on their device already. The checkpoint holds the Loader's state, so a run can continue in mid-epoch, even with another number of workers.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import ray.train.torch
import torch
import torch.distributed as dist
from ray.train import Checkpoint, RunConfig, ScalingConfig
from stoker import Loader
from stoker import transforms as T
from torch import nn
from torch.nn.functional import cross_entropy

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def network_for(loader: Loader) -> nn.Module:
    """Makes the network in a function of its own: if a function uses `torch` and a name such as `classes`, Ray tries to pickle the module torch.classes."""
    body = [nn.Conv2d(3, 16, 7, stride=4), nn.ReLU(), nn.Conv2d(16, 32, 5, stride=2), nn.ReLU()]
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, len(loader.classes)))


@torch.no_grad()
def validate(model: nn.Module, loader: Loader, device: torch.device) -> tuple[float, int]:
    counts = torch.zeros(2, dtype=torch.float64, device=device)
    for images, labels, valid in loader:
        valid = valid.to(device)
        counts += torch.stack([((model(images).argmax(1) == labels) & valid).sum(), valid.sum()])
    dist.all_reduce(counts)
    return float(counts[0] / counts[1]), int(counts[1])


def work(config: dict[str, Any]) -> None:
    """Trains in one worker process of Ray."""
    device = ray.train.torch.get_device()
    common = {"global_batch_size": config["batch_size"], "device": str(device)}
    augment = [T.RandomResizedCrop(config["size"]), T.RandomHorizontalFlip(), T.Normalize(MEAN, STD)]
    train = Loader(Path(config["folder"]) / "train", shuffle=True, transforms=augment, **common)
    plain = [T.Resize(config["size"] * 8 // 7), T.CenterCrop(config["size"]), T.Normalize(MEAN, STD)]
    valid = Loader(Path(config["folder"]) / "val", last_batch="pad", transforms=plain, **common)
    model = ray.train.torch.prepare_model(network_for(train))
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            state = torch.load(Path(folder) / "state.pt", weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        train.load_state_dict(state["loader"])
    for epoch in range(train.epoch, config["epochs"]):
        for images, labels in train:
            loss = cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        accuracy, images_seen = validate(model, valid, device)
        report({"epoch": epoch, "accuracy": accuracy, "images": images_seen, "reader": repr(train)}, model, optimizer, train)


def report(metrics: dict[str, Any], model: nn.Module, optimizer: torch.optim.Optimizer, train: Loader) -> None:
    """Reports the metrics to Ray, and from rank 0 also a checkpoint of the model, the optimizer and the Loader."""
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = None
        if dist.get_rank() == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "loader": train.state_dict()}
            torch.save(state, Path(folder) / "state.pt")
            checkpoint = Checkpoint.from_directory(folder)
        ray.train.report(metrics, checkpoint=checkpoint)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64, help="of all workers together")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--gpu", action="store_true", help="a GPU for each worker")
    parser.add_argument("--storage", type=Path, default=Path.home() / "ray_results", help="where checkpoints go")
    args = parser.parse_args()
    config = {"folder": str(args.folder.resolve()), "epochs": args.epochs, "batch_size": args.batch_size, "size": args.size}
    trainer = ray.train.torch.TorchTrainer(
        work,
        train_loop_config=config,
        scaling_config=ScalingConfig(num_workers=args.workers, use_gpu=args.gpu),
        run_config=RunConfig(storage_path=str(args.storage.resolve())),
    )
    metrics = trainer.fit().metrics
    print(metrics["reader"])
    print(f"epoch {metrics['epoch']}: {metrics['accuracy']:.2%} of {metrics['images']} validation images")


if __name__ == "__main__":
    main()
