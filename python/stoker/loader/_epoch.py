# SPDX-License-Identifier: Apache-2.0
"""One iteration over a Loader."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from stoker.loader._batch import Batch

END = object()  # in a batch's place behind the last one; None may be what a collate_fn makes of one


class Taking(Protocol):
    """What is asked of a Loader here."""

    def _take(self, generation: int) -> Any: ...
    def __len__(self) -> int: ...


class Epoch:
    """The iterator of a Loader's epoch."""

    def __init__(self, loader: Taking, generation: int) -> None:
        self._loader, self._generation = loader, generation
        self._done = False

    def __iter__(self) -> Epoch:
        return self

    def __next__(self) -> Batch:
        batch: Any = END if self._done else self._loader._take(self._generation)
        if batch is END:
            self._done = True
            raise StopIteration
        return cast("Batch", batch)

    def __len__(self) -> int:
        return len(self._loader)


def call(what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function of the user's makes of a batch. A StopIteration out of it would look like the epoch's end."""
    try:
        return function(*arguments)
    except StopIteration as e:
        raise RuntimeError(f"{what} raised StopIteration, which would end the epoch: next(iterator, default) does not") from e
