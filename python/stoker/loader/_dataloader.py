# SPDX-License-Identifier: Apache-2.0
"""A torch DataLoader around a Loader, for frameworks that ask for one (Accelerate, Lightning, Ray Train)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader, IterableDataset

if TYPE_CHECKING:
    from stoker.loader.loader import Loader


class _Batches(IterableDataset[Any]):
    """The Loader's batches as an IterableDataset that is batched already."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[Any]:
        return iter(self.loader)

    def __len__(self) -> int:
        return len(self.loader)


class StokerDataLoader(DataLoader[Any]):
    """Iterates a Loader in this process; ranks, order and batches are the Loader's. Its state is the Loader's."""

    def __init__(self, loader: Loader) -> None:
        super().__init__(_Batches(loader), batch_size=None, num_workers=0)
        self.loader = loader

    def __iter__(self) -> Any:
        return iter(self.loader)

    def __len__(self) -> int:
        return len(self.loader)

    def state_dict(self) -> dict[str, Any]:
        return self.loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.loader.load_state_dict(state)


def wrap(loader: Loader) -> StokerDataLoader:
    return StokerDataLoader(loader)
