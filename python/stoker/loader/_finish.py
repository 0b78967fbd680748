# SPDX-License-Identifier: Apache-2.0
"""What becomes of a pipeline's outputs before the user sees them: texts, tables of targets, boxes that follow, lists and ragged batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stoker.loader._coordinates import Move, follow

if TYPE_CHECKING:
    import torch


@dataclass
class Outputs:
    """All outputs of one batch: tensors, or lists of tensors where samples differ in shape. device: torch's name of the GPU that the batch is made on."""

    values: list[Any]
    device: str | None


Finish = Callable[[Outputs, int], Any]  # makes what the user gets of an output, by its number


def by_value(function: Callable[[Any], Any]) -> Finish:
    """A function of the output alone."""
    return lambda outputs, number: function(outputs.values[number])


@dataclass
class Lists:
    """A list of tensors, one a sample, or one ragged batch. numbers: the output that says where an image's pixels went; None: they did not move."""

    ragged: bool
    moves: Sequence[Move] = ()
    format: str = ""
    numbers: int | None = None

    def __call__(self, outputs: Outputs, number: int) -> Any:
        samples = list(outputs.values[number])
        if self.numbers is not None and samples:
            samples = follow(samples, outputs.values[self.numbers], self.moves, self.format)
        if self.ragged and samples:
            from stoker.batching import combine_data

            return combine_data(samples, device=outputs.device or "cpu")
        return samples if outputs.device is None or not samples else _upload(samples, outputs.device)


def _upload(samples: list[torch.Tensor], device: str) -> list[torch.Tensor]:
    """Each sample's tensor where the batch is, by one copy. Pinned, so that it waits for no work before it."""
    import torch

    flat = torch.cat([s.reshape(-1) for s in samples]).pin_memory().to(device, non_blocking=True)
    return [part.reshape(s.shape) for part, s in zip(flat.split([s.numel() for s in samples]), samples, strict=True)]


@dataclass
class Planes:
    """Masks that lie as (N, H, W, masks), as (N, masks, H, W). numbers, column: where it stands how many masks a sample has."""

    numbers: int = 0
    column: int = 0

    def __call__(self, outputs: Outputs, number: int) -> Any:
        value = outputs.values[number]
        counts = [int(row[self.column]) for row in outputs.values[self.numbers]]
        if hasattr(value, "movedim") and all(counts):
            return value.movedim(-1, -3)
        return [v.movedim(-1, -3)[:n] for v, n in zip(value, counts, strict=True)]


@dataclass
class Finishing:
    """What a source wants done. finish: by field. needed: outputs that this looks at and no field shows. uneven: whether a field may be a tensor in one batch
    and a list in the next. vectors: whether samples of one number are shown as a vector where they have dims too, as labels of readers have one."""

    finish: Mapping[str, Finish] = field(default_factory=dict)
    needed: Sequence[int] = ()
    uneven: bool = True
    vectors: bool = True
