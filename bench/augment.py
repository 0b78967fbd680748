#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decode + RandomResizedCrop(224) + flip + automatic augmentation + normalise + RandomErasing, beside torchvision on PIL images and on tensors.

usage: augment.py DIR [--policy NAME] [--interpolation NAME] [--peer pil|tensor] [--threads N] [--batch N] [--images N] [--rounds N]
policies: RandAugment TrivialAugmentWide AutoAugment AugMix none. Slices are interleaved, and the figure is the median of the ratios of images a CPU-second.
Each side's output is checked: pixel statistics have to agree.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import measure
import peers
from compare import check_statistics

POLICIES = ("RandAugment", "TrivialAugmentWide", "AutoAugment", "AugMix", "none")


def steps(module: Any, policy: str, interpolation: str, to_tensor: list[Any]) -> list[Any]:
    """The same list by torchvision's v1 or v2 or stoker's transforms."""
    mode = module.InterpolationMode(interpolation)
    augmentation = [] if policy == "none" else [getattr(module, policy)(interpolation=mode)]
    return [
        module.RandomResizedCrop(224),
        module.RandomHorizontalFlip(),
        *augmentation,
        *to_tensor,
        module.Normalize(peers.MEAN, peers.STD),
        module.RandomErasing(0.25),
    ]


def load_pil(policy: str, interpolation: str) -> Callable[[bytes], Any]:
    from PIL import Image

    transforms = peers.import_torchvision().transforms
    apply = transforms.Compose(steps(transforms, policy, interpolation, [transforms.ToTensor()]))
    return lambda data: apply(Image.open(io.BytesIO(data)).convert("RGB"))


def load_tensor(policy: str, interpolation: str) -> Callable[[bytes], Any]:
    import simplejpeg
    import torch

    peers.import_torchvision()
    from torchvision.transforms import v2

    apply = v2.Compose(steps(v2, policy, interpolation, [v2.ToDtype(torch.float32, scale=True)]))
    return lambda data: apply(torch.from_numpy(simplejpeg.decode_jpeg(data, colorspace="RGB")).permute(2, 0, 1))


def stoker_loader(files: list[Path], options: argparse.Namespace) -> Any:
    from stoker import Loader, transforms

    samples = [(str(f), i) for i, f in enumerate(files)]
    chain = steps(transforms, options.policy, options.interpolation, [transforms.ToTensor()])
    loader = Loader(samples, options.batch, shuffle=True, transforms=chain, num_threads=options.threads, seed=1, last_batch="keep")
    next(iter(loader))
    if "python_function" in loader.pipeline.explain():
        raise SystemExit("a transform runs in Python")
    return loader


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--policy", choices=POLICIES, default="RandAugment")
    parser.add_argument("--interpolation", choices=("nearest", "bilinear"), default="nearest")
    parser.add_argument("--peer", choices=("pil", "tensor"), default="pil")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()

    files = peers.list_files(options.folder)
    load = (load_pil if options.peer == "pil" else load_tensor)(options.policy, options.interpolation)
    made = peers.torch_loader(files, load, options.batch, options.threads)
    theirs = peers.endless(lambda: (batch[0] for batch in made))
    next(theirs)  # forks its workers before stoker starts threads
    loader = stoker_loader(files, options)
    ours = peers.endless(lambda: (batch[0] for batch in loader))
    statistics = check_statistics(ours, theirs, max(4, 1024 // options.batch))
    takes = [peers.taker(side, len) for side in (ours, theirs)]
    measure.wait_idle()
    result = measure.compare(f"torchvision on {options.peer}", takes[0], takes[1], options.images, options.rounds).summary()
    asked = {name: getattr(options, name) for name in ("policy", "interpolation", "threads", "batch")}
    measure.emit({"name": "augment", **asked, "output": statistics, **result})


if __name__ == "__main__":
    main()
