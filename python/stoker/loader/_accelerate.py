# SPDX-License-Identifier: Apache-2.0
"""Reports to Accelerate which loader is iterated, as Accelerate's own loaders do.

Accelerate reads two attributes of that loader. end_of_dataloader: whether the loop has received the epoch's last batch; gradients are then synchronised.
remainder: the number of samples in the epoch's last step over all ranks, not counting the repeats of last_batch="pad"; gather_for_metrics drops these repeats.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Iterator
from types import FrameType
from typing import Any, Protocol

from stoker.loader._callers import callers


class AcceleratorAnswers(Protocol):
    """A loader with the attributes that Accelerate reads."""

    end_of_dataloader: bool
    remainder: int


class Batches(Iterator[Any], Protocol):
    """An iterator over the batches of an epoch, with a length."""

    def __len__(self) -> int: ...


class Counting(Protocol):
    """The methods of a Loader that return the values of end_of_dataloader and remainder."""

    def _at_last(self) -> bool: ...
    def _samples_of_last_step(self) -> int: ...


def refuse_skipping(name: str, reader: FrameType | None) -> None:
    """Raises TypeError if skip_first_batches() reads an attribute that a Loader does not have. Accelerate would use torch's default in place of it, and make a
    DataLoader without batches. reader: the frame that reads the attribute."""
    asker = next(callers(reader), None)
    if asker is not None and asker.f_code.co_name == "skip_first_batches":
        raise TypeError(
            f"a Loader has no {name}, and Accelerate's skip_first_batches makes a torch DataLoader of it: give loader.as_dataloader() to the Trainer or to "
            "prepare(), whose batches can be skipped"
        )


def reported(answers: AcceleratorAnswers, loader: Counting, epoch: Batches) -> Batches:
    """Returns an iterator over the epoch. If the program has made an Accelerator, the iterator registers `answers` with Accelerate and sets its attributes;
    otherwise it is `epoch` itself."""
    state = getattr(sys.modules.get("accelerate.state"), "GradientState", None)
    return epoch if state is None or not state._shared_state else _Reporting(state(), answers, loader, epoch)


class _Reporting:
    """Iterates over an epoch, and is registered with Accelerate from the first batch until the epoch ends or the program drops the iterator. A generator could
    not do this: an error would end it, and a second thread would get Python's message about generators instead of the Loader's."""

    def __init__(self, state: Any, answers: AcceleratorAnswers, loader: Counting, epoch: Batches) -> None:
        self._state, self._asked, self._counting, self._epoch = state, answers, loader, epoch
        self._lock = threading.Lock()
        self._remove: weakref.finalize[Any, Any] | None = None

    def __iter__(self) -> _Reporting:
        return self

    def __next__(self) -> Any:
        with self._lock:
            if self._remove is None:
                self._asked.end_of_dataloader, self._asked.remainder = False, self._counting._samples_of_last_step()
                self._state._add_dataloader(self._asked)
                self._remove = weakref.finalize(self, self._state._remove_dataloader, self._asked)
                self._remove.atexit = False
        try:
            batch = next(self._epoch)
        except StopIteration:
            self._remove()
            raise
        self._asked.end_of_dataloader = self._counting._at_last()
        return batch

    def __len__(self) -> int:
        return len(self._epoch)
