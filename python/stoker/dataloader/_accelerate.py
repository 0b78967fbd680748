# SPDX-License-Identifier: Apache-2.0
"""Lets Accelerate rebuild a stoker.DataLoader as a stoker.DataLoader.

Accelerate's prepare() replaces a DataLoader by a new one with the same arguments, for this rank's shard of the batches. The new one is always of the class that
accelerate.data_loader calls DataLoader, which is torch's. This module puts the class Rebuilt in its place, which makes a stoker.DataLoader if the old one was a
stoker.DataLoader.
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
    """Takes the place of torch's DataLoader in Accelerate's module. Calling it makes a stoker.DataLoader if the Dataset is that of a loader in _known, else
    torch's DataLoader."""

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
