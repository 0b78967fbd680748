# SPDX-License-Identifier: Apache-2.0
"""Reports to Accelerate which loader is iterated, as Accelerate's own loaders do.

Accelerate asks the loader that is iterated whether a batch is the epoch's last one (gradients are then synchronised), and how many samples of the last step
count (`remainder`), so that gather_for_metrics drops the repeats of last_batch="pad".
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Protocol


class AcceleratorAnswers(Protocol):
    """The object that Accelerate asks: it reads these attributes."""

    end_of_dataloader: bool
    remainder: int


class Counting(Protocol):
    """The part of a Loader from which `reported` takes the values of end_of_dataloader and remainder."""

    def _at_last(self) -> bool: ...
    def _samples_of_last_step(self) -> int: ...


def reported(asked: AcceleratorAnswers, loader: Counting, epoch: Iterator[Any]) -> Iterator[Any]:
    """Returns an iterator over the epoch. If the program has made an Accelerator, the iterator registers `asked` with Accelerate and keeps its attributes up to
    date; otherwise it is `epoch` itself."""
    state = getattr(sys.modules.get("accelerate.state"), "GradientState", None)
    return epoch if state is None or not state._shared_state else _reporting(state(), asked, loader, epoch)


def _reporting(state: Any, asked: AcceleratorAnswers, loader: Counting, epoch: Iterator[Any]) -> Iterator[Any]:
    asked.end_of_dataloader, asked.remainder = False, loader._samples_of_last_step()
    state._add_dataloader(asked)
    try:
        for batch in epoch:
            asked.end_of_dataloader = loader._at_last()
            yield batch
    finally:
        state._remove_dataloader(asked)
