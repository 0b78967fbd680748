#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a network like StreamPETR on NuScenes: one process, or one for each GPU with torchrun.

    python examples/nuscenes/make_nuscenes.py /tmp/nuscenes        # or unpack NuScenes' v1.0-mini there
    python examples/streampetr/train.py /tmp/nuscenes --network tiny --queries 60 --size 128x352 --batch-size 2
    torchrun --nproc-per-node=8 examples/streampetr/train.py /data/nuscenes --version v1.0-trainval --batch-size 64 --checkpoint run.pt

Each slot of the batch reads one scene after the other. The checkpoint contains the network's memory of each slot's scene, so that a run can
continue in the middle of its scenes, on any number of ranks that divides the batch. --loader torch takes the batches from a PyTorch DataLoader.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import time
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import model
import pipeline
import reference
import torch
import torch.distributed as dist
from stoker.batching import RaggedBatch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

Batch = dict[str, Any]
SLOT = [field.name for field in fields(model.Memory)]


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
    """Joins the process group if torchrun started the process, and chooses the device."""
    gpu = name != "cpu" and torch.cuda.is_available()
    if name == "cuda" and not gpu:
        raise SystemExit("--device cuda: torch finds no GPU that it can use")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    if "WORLD_SIZE" in os.environ:
        dist.init_process_group("nccl" if gpu else "gloo")
        return Place(dist.get_rank(), dist.get_world_size(), device)
    return Place(0, 1, device)


def loader_of(args: argparse.Namespace, place: Place, state: str | None = None) -> Any:
    """Returns the endless Loader of this rank. state: the saved position in the scenes from which the Loader continues; None: the start."""
    config = reference.Config(hw=args.size)
    common: dict[str, Any] = {"state": state, "rank": place.rank, "world": place.world}
    if args.loader == "torch":
        return reference.Loader(args.folder, args.version, config, args.batch_size, args.seed, workers=args.workers, **common)
    common["video_root"] = args.video_root
    return pipeline.Loader(args.folder, args.version, config, args.batch_size, args.seed, device=place.device, **common)


def onto(value: Any, device: torch.device) -> Any:
    """Moves all tensors of a batch to the device."""
    if isinstance(value, dict):
        return {name: onto(inside, device) for name, inside in value.items()}
    if isinstance(value, list):
        return [onto(inside, device) for inside in value]
    return value.to(device, non_blocking=True) if isinstance(value, (Tensor, RaggedBatch)) else value


def gathered(memory: model.Memory, world: int) -> dict[str, Tensor]:
    """Gathers the memory of all ranks' slots, in the order of the slots. All ranks must call it."""
    whole = {}
    for name in SLOT:
        mine = getattr(memory, name).contiguous()
        parts = [torch.empty_like(mine) for _ in range(world)]
        if world > 1:
            dist.all_gather(parts, mine)
        whole[name] = torch.cat(parts) if world > 1 else mine
    return whole


class Trainer:
    """The training loop with its network, optimizer and Loader."""

    def __init__(self, args: argparse.Namespace, place: Place) -> None:
        self.args, self.place, self.step = args, place, 0
        torch.manual_seed(args.seed)
        sizes = model.TINY if args.network == "tiny" else model.Sizes(backbone=args.network)
        given = {name: value for name in ("queries", "propagated", "memory", "layers", "dim") if (value := getattr(args, name)) is not None}
        self.sizes = replace(sizes, **given)
        self.model = model.StreamPETR(self.sizes).to(place.device)
        slow = list(self.model.neck.fine.parameters()) + list(self.model.neck.coarse.parameters())
        others = [p for p in self.model.parameters() if not any(p is s for s in slow)]
        groups = [{"params": slow, "scale": 0.25}, {"params": others, "scale": 1.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=args.lr, weight_decay=0.01)
        self.memory = model.Memory.empty(args.batch_size // place.world, self.sizes, place.device)
        self.loaded: str | None = None  # the Loader's state in the checkpoint; None without a checkpoint
        if args.checkpoint and args.checkpoint.exists():
            self.load(args.checkpoint)
        self.loader = loader_of(args, place, self.loaded)
        self.batches, self.length = iter(self.loader), self.loader.epoch_length
        self.parallel: torch.nn.Module = self.model
        if place.world > 1:
            self.parallel = DistributedDataParallel(self.model, device_ids=[place.device.index] if place.device.type == "cuda" else None)

    def load(self, path: Path) -> None:
        state = torch.load(path, map_location=self.place.device, weights_only=True)
        slots = len(state["memory"]["time"])
        if slots != self.args.batch_size:
            raise SystemExit(
                f"{path} was saved with a batch of {slots}, and this run has {self.args.batch_size}: the slots would have other scenes"
            )
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        mine = slots // self.place.world
        own = slice(self.place.rank * mine, (self.place.rank + 1) * mine)
        self.memory = model.Memory(**{name: state["memory"][name][own] for name in SLOT})
        self.step, self.loaded = state["step"], state["loader"]

    def save(self, path: Path) -> None:
        """Writes the checkpoint atomically. All ranks must call it, since each holds the memory of its own slots."""
        memory = gathered(self.memory, self.place.world)
        if not self.place.leads:
            return
        state: dict[str, Any] = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "memory": memory}
        state |= {"step": self.step, "loader": self.loader.state()}
        partial = path.with_suffix(".partial")
        torch.save(state, partial)
        partial.replace(path)

    def learning_rate(self) -> float:
        """Returns the learning rate: a warm-up, then a cosine. It depends only on the step, so a checkpoint need not save it."""
        total = self.args.epochs * self.length
        warm = min(500.0, total / 10)
        if self.step < warm:
            return self.args.lr * (self.step + 1) / (warm + 1)
        return self.args.lr * 0.5 * (1 + math.cos(math.pi * (self.step - warm) / max(1.0, total - warm)))

    def train_step(self, batch: Batch) -> Tensor:
        rate = self.learning_rate()
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["scale"]
        with torch.autocast(self.place.device.type, torch.bfloat16, enabled=self.place.device.type == "cuda"):
            out, self.memory = self.parallel(batch, self.memory)
        loss = torch.stack(list(model.loss(out, batch).values())).sum()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 35.0)
        self.optimizer.step()
        return loss.detach()

    def run(self) -> None:
        args, end = self.args, self.args.epochs * self.length
        stop = end if args.max_steps is None else min(end, self.step + args.max_steps)
        total, seen, began = torch.zeros((), device=self.place.device), 0, time.perf_counter()
        while self.step < stop:
            total += self.train_step(onto(next(self.batches), self.place.device))  # no .item() in the loop, since it would wait for the GPU
            self.step, seen = self.step + 1, seen + 1
            if args.checkpoint and (self.step == stop or self.step % args.save_every == 0):
                self.save(args.checkpoint)
            if self.step % self.length == 0 or self.step == stop:
                if self.place.leads:
                    loss, seconds = float(total) / seen, time.perf_counter() - began
                    print(f"step {self.step} of {end}: loss {loss:.4f}, {seen * args.batch_size / seconds:.1f} samples/s", flush=True)
                total, seen, began = torch.zeros_like(total), 0, time.perf_counter()


def size(text: str) -> tuple[int, int]:
    height, width = map(int, text.split("x"))
    return height, width


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="holds NuScenes' samples/ and a folder of tables")
    parser.add_argument("--version", default="v1.0-mini", help="the folder of tables")
    parser.add_argument("--loader", choices=("stoker", "torch"), default="stoker")
    parser.add_argument("--workers", type=int, default=2, help="processes of --loader torch")
    parser.add_argument(
        "--video-root", type=Path, help="folder of `stoker pack-video`: reads the cameras from videos, with --loader stoker"
    )
    parser.add_argument("--network", choices=("resnet50", "resnet18", "tiny"), default="resnet50")
    for name in ("queries", "propagated", "memory", "layers", "dim"):
        parser.add_argument(f"--{name}", type=int, help="of the network; see Sizes in model.py")
    parser.add_argument("--size", type=size, default=(256, 704), help="height x width that the network sees")
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--batch-size", type=int, default=8, help="of all ranks together")
    parser.add_argument("--lr", type=float, default=4e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("auto", "cuda", "cpu"), default="auto")
    parser.add_argument("--checkpoint", type=Path, help="saved here, and resumed from where it exists")
    parser.add_argument("--save-every", type=int, default=1000, help="steps")
    parser.add_argument("--max-steps", type=int, help="stop after so many steps")
    parser.add_argument("--picture", type=Path, metavar="FILE.png", help="draw the first sample with its boxes, and end")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    args = parse(argv)
    place = join(args.device)
    with contextlib.ExitStack() as stack:
        if place.world > 1:
            stack.callback(dist.destroy_process_group)
        if args.picture:
            import picture

            picture.draw(next(iter(loader_of(args, place))), args.picture)
            return
        Trainer(args, place).run()


if __name__ == "__main__":
    main()
