# SPDX-License-Identifier: Apache-2.0
"""A torch DataLoader around a Loader, for frameworks that ask for one (Accelerate, Lightning, Ray Train)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Protocol

from torch.utils.data import DataLoader, IterableDataset


class Loading(Protocol):
    """What is asked of a Loader here."""

    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...
    def _at_last(self) -> bool: ...
    def _samples_of_last_step(self) -> int: ...


class _Batches(IterableDataset[Any]):
    """The Loader's batches as an IterableDataset that is batched already."""

    def __init__(self, loader: Loading) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[Any]:
        return iter(self.loader)

    def __len__(self) -> int:
        return len(self.loader)


class StokerDataLoader(DataLoader[Any]):
    """Iterates a Loader in this process; ranks, order and batches are the Loader's. Its state is the Loader's.

    Accelerate's prepare() hands it back as it is: batches are divided among the ranks already, and lie where the Loader was told to put them. It learns what it
    asks of its own loaders: whether a batch is the epoch's last one (gradients are then synchronised), and with last_batch="pad" how many of the last step's
    samples count, so that gather_for_metrics is exact.
    """

    end_of_dataloader = False
    remainder = -1
    _is_accelerate_prepared = True

    def __init__(self, loader: Loading) -> None:
        super().__init__(_Batches(loader), batch_size=None, num_workers=0)
        self.loader = loader

    def __iter__(self) -> Any:
        state = getattr(sys.modules.get("accelerate.state"), "GradientState", None)
        return iter(self.loader) if state is None or not state._shared_state else self._for_accelerate(state())

    def _for_accelerate(self, state: Any) -> Iterator[Any]:
        self.end_of_dataloader, self.remainder = False, self.loader._samples_of_last_step()
        state._add_dataloader(self)
        try:
            for batch in self.loader:
                self.end_of_dataloader = self.loader._at_last()
                yield batch
        finally:
            state._remove_dataloader(self)

    def __len__(self) -> int:
        return len(self.loader)

    def state_dict(self) -> dict[str, Any]:
        return self.loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.loader.load_state_dict(state)


def wrap(loader: Loading) -> StokerDataLoader:
    return StokerDataLoader(loader)
