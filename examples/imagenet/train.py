#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a classifier on folders of images: one process, or one for each GPU with torchrun.

    python examples/imagenet/make_images.py /tmp/images                      # or ImageNet's train/ and val/ with a folder for each class
    python examples/imagenet/train.py /tmp/images --epochs 3 --model resnet50
    torchrun --nproc-per-node=8 examples/imagenet/train.py /data/imagenet --checkpoint run.pt

The Loader delivers bf16 in channels_last, so the loop converts nothing. An interrupted run continues from --checkpoint in the middle of the epoch with the
samples not seen yet, on any number of ranks that divides the batch. Validation counts each image once on any number of ranks.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import models
import torch
import torch.distributed as dist
from stoker import Loader, advise
from stoker import transforms as T
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass
class Place:
    """Rank, number of ranks, and device of this process."""

    rank: int
    world: int
    device: torch.device

    @property
    def leads(self) -> bool:
        return self.rank == 0


def join(name: str) -> Place:
    """Joins the process group, if torchrun started several ranks, and chooses the device. Call this before making Loaders: they read the rank from the
    group."""
    gpu = name != "cpu" and torch.cuda.is_available()
    if name == "cuda" and not gpu:
        raise SystemExit("--device cuda: torch finds no GPU that it can use")
    local = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
        torch.cuda.set_stream(torch.cuda.Stream(priority=-1))  # if both have work, the step's kernels run before the Loader's
        torch.backends.cudnn.benchmark = True
    if "WORLD_SIZE" in os.environ:
        dist.init_process_group("nccl" if gpu else "gloo")
        return Place(dist.get_rank(), dist.get_world_size(), device)
    return Place(0, 1, device)


def loaders(args: argparse.Namespace, place: Place) -> tuple[Loader, Loader]:
    """Returns Loaders for training and validation. The batch size is that of all ranks together, so that any number of ranks trains on the same batches."""
    common: dict[str, Any] = {
        "global_batch_size": args.batch_size,
        "device": str(place.device),
        "dtype": torch.bfloat16,
        "memory_format": torch.channels_last,
    }
    train = Loader(
        args.folder / "train",
        shuffle=True,
        seed=args.seed,
        transforms=[T.RandomResizedCrop(args.size), T.RandomHorizontalFlip(), T.Normalize(MEAN, STD)],
        on_error="replace",
        **common,
    )
    valid = Loader(
        args.folder / "val",
        last_batch="pad",  # all ranks get full batches; `valid` marks the samples that count
        transforms=[T.Resize(args.size * 8 // 7), T.CenterCrop(args.size), T.Normalize(MEAN, STD)],
        **common,
    )
    if train.classes != valid.classes:
        raise SystemExit(f"{args.folder}: train and val have other classes: {sorted(set(train.classes) ^ set(valid.classes))[:5]}")
    return train, valid


def learning_rate(args: argparse.Namespace, progress: float) -> float:
    """Returns the learning rate: a warm-up, then a cosine. progress: number of epochs so far, with fractions. The rate depends on nothing else, so a checkpoint
    need not save it."""
    full = args.lr * args.batch_size / 256
    warm = min(5.0, args.epochs / 10)
    if progress < warm:
        return full * progress / warm
    return full * 0.5 * (1 + math.cos(math.pi * (progress - warm) / (args.epochs - warm)))


def optimizer_of(model: torch.nn.Module, device: torch.device) -> torch.optim.SGD:
    """Returns SGD without weight decay on biases and normalisation."""
    plain = [p for p in model.parameters() if p.ndim == 1]
    decayed = [p for p in model.parameters() if p.ndim > 1]
    groups = [{"params": decayed, "weight_decay": 5e-5}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.SGD(groups, lr=0.0, momentum=0.9, nesterov=True, fused=device.type == "cuda")


@torch.no_grad()
def validate(model: torch.nn.Module, loader: Loader, place: Place) -> tuple[float, int]:
    """Returns the accuracy on the images of all ranks, and their number."""
    model.eval()
    counts = torch.zeros(2, dtype=torch.float64, device=place.device)
    for images, labels, valid in loader:
        with torch.autocast(place.device.type, torch.bfloat16):
            right = model(images).argmax(1) == labels
        valid = valid.to(place.device)
        counts += torch.stack([(right & valid).sum(), valid.sum()])
    if place.world > 1:
        dist.all_reduce(counts)
    model.train()
    return float(counts[0] / counts[1]), int(counts[1])


def save(path: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, train: Loader) -> None:
    """Writes the checkpoint atomically. Only one rank needs to call this, since the Loader's state is the same on all ranks."""
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "loader": train.state_dict()}
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    partial.replace(path)


class Trainer:
    """The training loop with its network, optimizer and Loaders."""

    def __init__(self, args: argparse.Namespace, place: Place) -> None:
        self.args, self.place = args, place
        torch.manual_seed(args.seed)
        self.train, self.valid = loaders(args, place)
        self.model = models.make(args.model, len(self.train.classes)).to(place.device, memory_format=torch.channels_last)
        self.optimizer = optimizer_of(self.model, place.device)
        if args.checkpoint and args.checkpoint.exists():
            state = torch.load(args.checkpoint, map_location=place.device, weights_only=True)
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.train.load_state_dict(state["loader"])
        self.parallel: torch.nn.Module = self.model
        if place.world > 1:
            self.parallel = DistributedDataParallel(self.model, device_ids=[place.device.index] if place.device.type == "cuda" else None)
        self.steps = 0  # number of steps in this process, without those before the checkpoint
        self.length = len(self.train)

    def step(self, images: torch.Tensor, labels: torch.Tensor, progress: float) -> torch.Tensor:
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.args, progress)
        with torch.autocast(self.place.device.type, torch.bfloat16):
            loss = cross_entropy(self.parallel(images), labels, label_smoothing=0.1)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def epoch(self, batches: Any, epoch: int) -> bool:
        """Trains until the epoch ends. Returns False if --max-steps has ended the training."""
        done = self.train.step  # not 0 if the epoch was resumed
        total, seen, start = torch.zeros((), device=self.place.device), 0, time.perf_counter()
        for images, labels in batches:
            total += self.step(images, labels, epoch + done / self.length)  # no .item() in the loop, since it would wait for the GPU
            done, seen, self.steps = done + 1, seen + 1, self.steps + 1
            stop = self.steps == self.args.max_steps
            if self.args.checkpoint and (stop or self.steps % self.args.save_every == 0) and self.place.leads:
                save(self.args.checkpoint, self.model, self.optimizer, self.train)
            if stop:
                return False
        loss = float(total) / max(1, seen)
        if self.place.leads:
            rate = seen * self.args.batch_size / (time.perf_counter() - start)
            print(f"epoch {epoch}: loss {loss:.4f}, {rate:.0f} images/s", flush=True)
        return True

    def run(self) -> None:
        train = advise(self.train) if self.args.advise else self.train
        for epoch in range(self.train.epoch, self.args.epochs):
            if not self.epoch(train, epoch):
                break
            accuracy, images = validate(self.model, self.valid, self.place)
            if self.place.leads:
                print(f"epoch {epoch}: {accuracy:.2%} of {images} validation images", flush=True)
                if self.args.checkpoint:
                    save(self.args.checkpoint, self.model, self.optimizer, self.train)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="holds train/ and val/, each with a folder for each class")
    parser.add_argument("--model", default="resnet50", help="resnet18, resnet50, mobilenet_v3_small, tiny, or another of torchvision's")
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--batch-size", type=int, default=256, help="of all ranks together")
    parser.add_argument("--size", type=int, default=224, help="pixels that the network sees, each way")
    parser.add_argument("--lr", type=float, default=0.5, help="for a batch of 256")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("auto", "cuda", "cpu"), default="auto")
    parser.add_argument("--checkpoint", type=Path, help="saved here, and resumed from where it exists")
    parser.add_argument("--save-every", type=int, default=1000, help="steps")
    parser.add_argument("--max-steps", type=int, help="stop after so many steps")
    parser.add_argument(
        "--advise", action="store_true", help="find out what the data costs this loop (a trial: it trains on some batches again and again)"
    )
    args = parser.parse_args()
    place = join(args.device)
    with contextlib.ExitStack() as stack:
        if place.world > 1:
            stack.callback(dist.destroy_process_group)
        trainer = Trainer(args, place)
        stack.enter_context(trainer.train)
        stack.enter_context(trainer.valid)
        if place.leads:
            print(trainer.train, flush=True)
        trainer.run()


if __name__ == "__main__":
    main()
