# SPDX-License-Identifier: Apache-2.0
"""torchvision's ImageFolder, and parts and sums of such: what they list is read here, and their Python is not called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stoker.errors import InvalidArgumentError


@dataclass
class Listed:
    """What data sets of images list: (path, target) of each sample, and the transform that all of them have."""

    samples: list[tuple[str, int]]
    transform: Any


def _is(source: Any, module: str, name: str) -> bool:
    """Whether a class of this name, from this module, says what source[i] is: a subclass with a __getitem__ of its own does not count."""
    for kind in type(source).__mro__:
        if kind.__name__ == name and kind.__module__ == module:
            return getattr(type(source), "__getitem__", None) is getattr(kind, "__getitem__", None)
    return False


def listed(source: Any) -> Listed | None:
    """Of an ImageFolder, a Subset (also of random_split) or a ConcatDataset of such; None: the source's own Python says what a sample is."""
    if _is(source, "torchvision.datasets.folder", "DatasetFolder"):
        return _of_folder(source)
    if _is(source, "torch.utils.data.dataset", "Subset"):
        whole = listed(source.dataset)
        return whole and Listed([whole.samples[i] for i in source.indices], whole.transform)
    if _is(source, "torch.utils.data.dataset", "ConcatDataset"):
        parts = [listed(part) for part in source.datasets]
        first = parts[0]
        if first is None or any(p is None or repr(p.transform) != repr(first.transform) for p in parts):
            return None
        return Listed([s for p in parts if p is not None for s in p.samples], first.transform)
    return None


def _of_folder(source: Any) -> Listed:
    if getattr(source, "target_transform", None) is not None:
        raise InvalidArgumentError("the dataset has a target_transform: apply it to the targets, and give Loader a list of (path, target)")
    reads = getattr(source.loader, "__name__", "")
    if reads not in ("default_loader", "pil_loader") or source.loader.__module__ != "torchvision.datasets.folder":
        raise InvalidArgumentError(f"the dataset reads its files with {reads or source.loader!r}: give Loader a Dataset that returns bytes")
    return Listed([(path, target) for path, target in source.samples], source.transform)
