#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares decode + RandomResizedCrop(224) + flip + automatic augmentation + normalise + RandomErasing with torchvision on PIL images or on tensors, or with
the same pipeline without augmentation and erasing.

usage: augment.py DIR [--policy NAME] [--interpolation NAME] [--peer pil|tensor|plain] [--device cpu|cuda] [--threads N] [--batch N] [--images N] [--rounds N]
policies: RandAugment TrivialAugmentWide AutoAugment AugMix none. Slices of both sides alternate. Against torchvision the figure is the median ratio of images
per CPU-second, and the pixel statistics of both sides have to agree. Against the plain pipeline the figure is the median ratio of images per second, measured
after the batches that were ready when a slice began have been used up.
"""

from __future__ import annotations

import argparse
import functools
import io
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import measure
import peers
from compare import check_statistics

SETTLE = 0.5  # seconds at the start of a slice that are not timed, in which ready batches are used up
POLICIES = ("RandAugment", "TrivialAugmentWide", "AutoAugment", "AugMix", "none")


def steps(module: Any, policy: str, interpolation: str, to_tensor: list[Any]) -> list[Any]:
    """Returns the list of transforms that `module` provides: torchvision's v1, its v2, or stoker.transforms."""
    mode = module.InterpolationMode(interpolation)
    augmentation = [] if policy == "none" else [getattr(module, policy)(interpolation=mode)]
    return [*plain_steps(module, augmentation, to_tensor), module.RandomErasing(0.25)]


def plain_steps(module: Any, augmentation: list[Any], to_tensor: list[Any]) -> list[Any]:
    return [
        module.RandomResizedCrop(224),
        module.RandomHorizontalFlip(),
        *augmentation,
        *to_tensor,
        module.Normalize(peers.MEAN, peers.STD),
    ]


def load_pil(policy: str, interpolation: str) -> Callable[[bytes], Any]:
    from PIL import Image

    transforms = peers.import_torchvision().transforms
    apply = transforms.Compose(steps(transforms, policy, interpolation, [transforms.ToTensor()]))
    return lambda data: apply(Image.open(io.BytesIO(data)).convert("RGB"))


def load_tensor(policy: str, interpolation: str) -> Callable[[bytes], Any]:
    import torch

    peers.import_torchvision()
    from torchvision.transforms import v2

    decode = decoder()

    apply = v2.Compose(steps(v2, policy, interpolation, [v2.ToDtype(torch.float32, scale=True)]))
    return lambda data: apply(decode(data))


def decoder() -> Callable[[bytes], Any]:
    """Returns a function that decodes a file's bytes to a tensor (C, H, W): with simplejpeg, the fastest decoder, or else with torchvision."""
    import torch

    try:
        import simplejpeg
    except ImportError:
        from torchvision.io import ImageReadMode, decode_jpeg

        return lambda data: decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8), ImageReadMode.RGB)
    return lambda data: torch.from_numpy(simplejpeg.decode_jpeg(data, colorspace="RGB")).permute(2, 0, 1)


def stoker_loader(files: list[Path], options: argparse.Namespace, *, plain: bool = False) -> Any:
    from stoker import Loader, transforms

    samples = [(str(f), i) for i, f in enumerate(files)]
    made = [transforms.ToTensor()]
    chain = plain_steps(transforms, [], made) if plain else steps(transforms, options.policy, options.interpolation, made)
    last = "drop" if options.device == "cuda" else "keep"
    loader = Loader(
        samples, options.batch, shuffle=True, transforms=chain, num_threads=options.threads, seed=1, last_batch=last, device=options.device
    )
    next(iter(loader))
    if "python_function" in loader.pipeline.explain():
        raise SystemExit("a transform runs in Python")
    return loader


def images_of(loader: Any) -> Iterator[Any]:
    return (batch[0] for batch in loader)


def pace(batches: Iterator[Any], images: int) -> float:
    """Returns images per second, measured after SETTLE seconds."""
    began, settled, taken = time.perf_counter(), 0.0, 0
    while not settled or taken < images:
        count = len(next(batches))
        now = time.perf_counter()
        if settled:
            taken += count
        elif now - began > SETTLE:
            settled = now
    return taken / (now - settled)


def beside_plain(files: list[Path], options: argparse.Namespace) -> dict[str, Any]:
    loaders = {name: stoker_loader(files, options, plain=name == "plain") for name in ("augmented", "plain")}
    batches = {name: peers.endless(functools.partial(images_of, loader)) for name, loader in loaders.items()}
    rates: dict[str, list[float]] = {name: [] for name in loaders}
    for turn in range(options.rounds + 1):
        for name in sorted(loaders, reverse=turn % 2 == 1):
            rate = pace(batches[name], options.images)
            if turn > 0:  # the first round only warms up
                rates[name].append(rate)
    counters = loaders["augmented"].pipeline.counters()
    ratios = [a / p for a, p in zip(rates["augmented"], rates["plain"], strict=True)]
    return {
        "peer": "plain",
        **{f"{name}_images_per_s": round(statistics.median(found)) for name, found in rates.items()},
        "ratio": round(statistics.median(ratios), 3),
        "spread": [round(min(ratios), 3), round(max(ratios), 3)],
        "slices": len(ratios),
        "user_calls": counters["user_calls"],
        "gpu_refused": counters.get("gpu_refused", 0),
    }


def beside_torchvision(files: list[Path], options: argparse.Namespace) -> dict[str, Any]:
    load = (load_pil if options.peer == "pil" else load_tensor)(options.policy, options.interpolation)
    made = peers.torch_loader(files, load, options.batch, options.threads)
    theirs = peers.endless(lambda: (batch[0] for batch in made))
    next(theirs)  # forks the DataLoader's workers before Stoker starts threads
    loader = stoker_loader(files, options)
    ours = peers.endless(lambda: (batch[0] for batch in loader))
    seen = check_statistics(ours, theirs, max(4, 4096 // options.batch))  # 4096 images, because a mean over 1024 is uncertain by 0.03
    takes = [peers.taker(side, len) for side in (ours, theirs)]
    measure.wait_idle()
    result = measure.compare(f"torchvision on {options.peer}", takes[0], takes[1], options.images, options.rounds).summary()
    return {"output": seen, **result}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--policy", choices=POLICIES, default="RandAugment")
    parser.add_argument("--interpolation", choices=("nearest", "bilinear"), default="nearest")
    parser.add_argument("--peer", choices=("pil", "tensor", "plain"), default="pil")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()

    files = peers.list_files(options.folder)
    if options.device == "cuda" and options.peer != "plain":
        parser.error("on the GPU the peer is the plain pipeline: --peer plain")
    result = (beside_plain if options.peer == "plain" else beside_torchvision)(files, options)
    asked = {name: getattr(options, name) for name in ("policy", "interpolation", "threads", "batch", "device")}
    measure.emit({"name": "augment", **asked, **result})


if __name__ == "__main__":
    main()
