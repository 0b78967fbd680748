# SPDX-License-Identifier: Apache-2.0
"""The iterator over one epoch of a Loader or a mixture."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from stoker._at_exit import end_loop
from stoker.errors import StateError
from stoker.loader._refused import not_copied

if TYPE_CHECKING:
    from stoker.loader.batches._batch import Batch

END = object()  # marks the end of the epoch; None cannot mark it, because a collate_fn may return None for a batch


class Taking(Protocol):
    """The part of a Loader that Epoch uses."""

    def _take(self, generation: int) -> Any: ...
    def __len__(self) -> int: ...


class Epoch:
    def __init__(self, loader: Taking, generation: int) -> None:
        self._taking, self._generation = loader, generation
        self._done = False

    def __iter__(self) -> Epoch:
        return self

    def __next__(self) -> Batch:
        try:
            batch: Any = END if self._done else self._taking._take(self._generation)
        except StateError:
            end_loop()
            raise
        if batch is END:
            self._done = True
            raise StopIteration
        taken: Batch = batch
        return taken  # without a call, at whose end an interrupt could come

    def __len__(self) -> int:
        return len(self._taking)

    def __getstate__(self) -> Any:
        raise not_copied("an iterator over a Loader", "the Loader")


def call(what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function that the user gave. Turns StopIteration into RuntimeError, because a StopIteration would look like the end of the epoch. what: the
    function's name in the message."""
    try:
        return function(*arguments)
    except StopIteration as e:
        raise RuntimeError(f"{what} raised StopIteration, which would end the epoch: next(iterator, default) does not") from e
