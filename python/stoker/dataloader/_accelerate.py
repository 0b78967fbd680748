# SPDX-License-Identifier: Apache-2.0
"""Lets Accelerate rebuild a stoker.DataLoader as a stoker.DataLoader.

prepare() makes another DataLoader, for this rank's shard of the batches, from the arguments of the DataLoader that it gets. It always takes torch's class, by
the name DataLoader in accelerate.data_loader. This module replaces the class of this name by Rebuilt, which makes a stoker.DataLoader for the Datasets of
stoker.DataLoaders.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

from torch.utils.data import DataLoader as TorchDataLoader

_known: weakref.WeakSet[Any] = weakref.WeakSet()  # loaders that were passed to Accelerate, and those that it made from them


class _AnyDataLoader(type):
    """The metaclass of Rebuilt. It makes isinstance(loader, Rebuilt) true for every DataLoader of torch, since Rebuilt takes that class's place."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, TorchDataLoader)


class Rebuilt(metaclass=_AnyDataLoader):
    """Stands for torch's DataLoader in Accelerate's module. Makes a stoker.DataLoader for the Dataset of a loader in _known, else torch's."""

    def __new__(cls, dataset: Any, *arguments: Any, **named: Any) -> Any:
        known = next((loader for loader in _known if loader.dataset is dataset), None)
        if known is None:
            return TorchDataLoader(dataset, *arguments, **named)
        made = known._rebuilt(dataset, *arguments, **named)
        _known.add(made)
        return made


def expect(loader: Any) -> None:
    """Prepares Accelerate's module, if it is loaded, for a loader that Accelerate is about to rebuild."""
    module: Any = sys.modules.get("accelerate.data_loader")
    if module is None:
        return
    _known.add(loader)
    if getattr(module, "DataLoader", None) is TorchDataLoader:
        module.DataLoader = Rebuilt
