# SPDX-License-Identifier: Apache-2.0
"""Lets Accelerate rebuild a stoker.DataLoader as a stoker.DataLoader.

Accelerate's prepare() replaces a DataLoader by a new one with the same arguments, for this rank's shard of the batches. The new one is always of the class that
accelerate.data_loader calls DataLoader, which is torch's. This module puts the class Rebuilt in its place, which makes a stoker.DataLoader if the old one was a
stoker.DataLoader.
"""

from __future__ import annotations

import itertools
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader as TorchDataLoader

from stoker.loader._callers import callers

# Loaders that were passed to Accelerate, and those that it made from them, in the order in which they were added. The values are the arguments own_data.
_known: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
_MOST_SAMPLERS = 8  # samplers inside samplers that are looked at


class _Thread(threading.local):
    """expected: a reference to the loader that prepare() is about to rebuild on this thread."""

    expected: weakref.ref[Any] | None = None


_thread = _Thread()


class _AnyDataLoader(type):
    """The metaclass of Rebuilt. It makes isinstance(loader, Rebuilt) true for every DataLoader of torch, since Rebuilt takes that class's place."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, TorchDataLoader)


class Rebuilt(metaclass=_AnyDataLoader):
    """Takes the place of torch's DataLoader in Accelerate's module. Calling it makes a stoker.DataLoader if Accelerate rebuilds a loader in _known, else torch's
    DataLoader."""

    def __new__(cls, dataset: Any, *arguments: Any, **named: Any) -> Any:
        reference, _thread.expected = _thread.expected, None
        expected = None if reference is None else reference()
        found = _originals(dataset, named, expected)
        if not found:
            return TorchDataLoader(dataset, *arguments, **named)
        # The state belongs to one loader: another one with the same samplers, such as the one that prepare() has already made of it, must not get it.
        is_expected = any(loader is expected for loader in found)
        original: Any = expected if is_expected else found[-1]
        return original._rebuilt(is_expected or len(found) == 1, dataset, *arguments, **named)


def _originals(dataset: Any, named: dict[str, Any], expected: Any) -> list[Any]:
    """Returns those loaders in _known from which Accelerate may have taken these arguments. Several loaders may have one data set, so their samplers are
    compared: Accelerate passes on the sampler itself, or its own sampler around it."""
    over = [loader for reference in _known.keyrefs() if (loader := reference()) is not None and loader.dataset is dataset]
    given = named.get("batch_sampler")
    given = named.get("sampler") if given is None else given
    for sampler in _inside(given):
        found = [loader for loader in over if sampler is (loader.sampler if loader.batch_sampler is None else loader.batch_sampler)]
        if found:
            return found
    if given is not None:
        return []
    # For an IterableDataset, and with batch_size=None, Accelerate gives no sampler.
    return [loader for loader in over if _known.get(loader) or (loader is expected and _has_arguments(loader, named))]


def _inside(sampler: Any) -> Iterator[Any]:
    """Yields a sampler and the batch samplers inside it, from the outermost to the innermost."""
    for _ in range(_MOST_SAMPLERS):
        if sampler is None:
            return
        yield sampler
        sampler = getattr(sampler, "batch_sampler", None)


def _has_arguments(loader: Any, named: dict[str, Any]) -> bool:
    """Returns whether a loader has these arguments, apart from samplers. batch_size is not compared, because prepare() may divide it by the number of ranks."""
    names = set(named) - {"batch_size", "batch_sampler", "sampler"}
    return all((own := getattr(loader, name, None)) is named[name] or own == named[name] for name in names)


def taken_for_step() -> int | None:
    """Returns how many batches Accelerate's DataLoaderDispatcher has taken for a step, if it asks the caller for a state; else None. It takes a batch for each
    process, and asks before each of them."""
    if "accelerate.data_loader" not in sys.modules:
        return None
    frames = list(itertools.islice(callers(sys._getframe(1)), 1, 3))
    if [frame.f_code.co_name for frame in frames] != ["_update_state_dict", "_fetch_batches"]:
        return None
    batches = frames[1].f_locals.get("batches")
    return len(batches) if isinstance(batches, list) else None


def know(loader: Any, own_data: bool = False) -> None:
    """Keeps a loader, weakly, because Accelerate may rebuild it, and prepares Accelerate's module if it is loaded. own_data: whether no other loader has the
    same data set."""
    module: Any = sys.modules.get("accelerate.data_loader")
    if module is None:
        return
    _known.pop(loader, None)
    _known[loader] = own_data
    if getattr(module, "DataLoader", None) is TorchDataLoader:
        module.DataLoader = Rebuilt


def expect(loader: Any) -> None:
    """Like know(). prepare() is about to rebuild this loader on this thread."""
    know(loader)
    _thread.expected = weakref.ref(loader)
