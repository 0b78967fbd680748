# SPDX-License-Identifier: Apache-2.0
"""A torch DataLoader around a Loader, for frameworks that ask for one (Accelerate, Lightning, Ray Train)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from torch.utils.data import IterableDataset

from stoker._where import notice
from stoker.dataloader import _accelerate
from stoker.dataloader.dataloader import DataLoader
from stoker.errors import InvalidArgumentError
from stoker.loader import _lightning
from stoker.loader._accelerate import Batches, reported
from stoker.loader._options import ARGUMENTS
from stoker.loader._refused import OF_DATALOADERS, OF_DATASETS, read_once


class Loading(Protocol):
    """The parts of a Loader that are used here."""

    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...
    def _begin(self) -> Batches: ...
    def _at_last(self) -> bool: ...
    def _reorders(self) -> bool: ...
    def _samples_of_last_step(self) -> int: ...
    def set_epoch(self, epoch: int) -> None: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def dataset(self) -> Any: ...
    @property
    def drop_last(self) -> bool: ...
    @property
    def sampler(self) -> Any: ...


class _Samples(IterableDataset[Any]):
    """Stands for the Loader's data set: has the data set's length and attributes, and iterating over it yields the Loader's batches. As this is an
    IterableDataset, frameworks do not change the order or divide the samples among ranks, which the Loader does itself."""

    def __init__(self, loader: Loading) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[Any]:
        return iter(self.loader)

    def __len__(self) -> int:
        return len(self.loader.dataset)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "loader" not in vars(self):
            raise AttributeError(name)
        return getattr(self.loader.dataset, name)

    if not TYPE_CHECKING:  # type checkers would take any name for an attribute

        def __setattr__(self, name: str, value: Any) -> None:
            """Sets transforms on the Loader's data set itself, which raises an error now, or when the next epoch begins."""
            if name in OF_DATASETS:
                setattr(self.loader.dataset, name, value)
            else:
                super().__setattr__(name, value)


class StokerDataLoader(DataLoader[Any]):
    """A torch DataLoader that iterates over a Loader, in this process. Its batches, their order, the division among ranks and the state are the Loader's.

    Accelerate's prepare() returns this object unchanged, because the Loader divides batches among the ranks and puts them on its device. Accelerate's
    skip_first_batches() makes another object of this class, and drops its first batches. For predict() and overfit_batches, Lightning makes another object of
    this class with the arguments of this one; because the data set is an IterableDataset, Lightning passes None for the samplers.
    """

    end_of_dataloader = False
    remainder = -1

    def __init__(self, loader: Loading, dataset: Any = None, batch_sampler: None = None, sampler: None = None) -> None:
        if batch_sampler is not None or sampler is not None:
            raise InvalidArgumentError(
                "a DataLoader from Loader.as_dataloader() takes no other sampler: give it to the Loader (sampler=, batch_sampler=, shuffle=)"
            )
        if dataset is not None and loader._reorders():
            notice(
                "the DataLoader from Loader.as_dataloader() was made again, and keeps the Loader's order, which differs from epoch to epoch; "
                "overfit_batches needs a Loader with shuffle=False"
            )
        super().__init__(_Samples(loader), batch_size=None, num_workers=0)
        self.loader = loader
        # DataLoader.__setattr__ refuses these names, because torch's iterators depend on them. No such iterator runs here, but frameworks read the attributes.
        vars(self).update(batch_size=loader.batch_size, drop_last=loader.drop_last, sampler=loader.sampler)
        _accelerate.know(self, own_data=True)

    @property
    def _is_accelerate_prepared(self) -> bool:
        """Returns True, so that Accelerate's prepare() returns this object unchanged. prepare() reads this attribute, and sets it."""
        _accelerate.know(self, own_data=True)
        return True

    @_is_accelerate_prepared.setter
    def _is_accelerate_prepared(self, _: bool) -> None: ...

    if not TYPE_CHECKING:  # type checkers would take any name for an attribute

        def __setattr__(self, name: str, value: Any) -> None:
            if name in ARGUMENTS and name not in OF_DATALOADERS and "loader" in vars(self):
                raise read_once("the DataLoader from Loader.as_dataloader()", name)
            super().__setattr__(name, value)

    def _rebuilt(self, *_: Any, **__: Any) -> Any:
        """Makes another object of this class for the same Loader. Accelerate's skip_first_batches() calls this. A plain DataLoader would join several samples
        of the data set, which are whole batches here, to a batch of batches."""
        return type(self)(self.loader)

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next iteration. Trainers call this when they continue a run in a later epoch."""
        self.loader.set_epoch(epoch)

    def __iter__(self) -> Any:
        return reported(self, self.loader, _lightning.begun(self.loader, self.loader._begin))

    def __len__(self) -> int:
        _accelerate.know(self, own_data=True)
        return len(self.loader)

    def explain(self) -> str:
        """Returns the Loader's description."""
        return repr(self.loader)

    def state_dict(self) -> dict[str, Any]:
        return self.loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.loader.load_state_dict(state)


def wrap(loader: Loading) -> StokerDataLoader:
    return StokerDataLoader(loader)
