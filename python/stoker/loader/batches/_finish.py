# SPDX-License-Identifier: Apache-2.0
"""Makes the fields of a batch from a pipeline's outputs: decodes strings, looks up targets, moves boxes, makes lists and ragged batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stoker.errors import InvalidArgumentError
from stoker.loader._coordinates import Move, follow, kept

if TYPE_CHECKING:
    import torch


@dataclass
class Outputs:
    """All outputs of one batch."""

    values: list[Any]  # for each output a tensor, or a list of tensors if samples differ in shape
    device: str | None  # torch's name of the batch's GPU; None for the CPU
    kept: dict[int, Any] = field(default_factory=dict)  # index of an output with boxes -> which of its boxes remain, as Keep found


Finish = Callable[[Outputs, int], Any]  # makes a field of the batch from the output with this index


def by_value(function: Callable[[Any], Any]) -> Finish:
    """Makes a Finish from a function of one output."""
    return lambda outputs, number: function(outputs.values[number])


def padded(fill: float) -> Finish:
    """Returns a Finish that pads tensors of one dimension at the end to the longest in the batch, and stacks them on the batch's device."""

    def finish(outputs: Outputs, number: int) -> Any:
        from torch.nn.utils.rnn import pad_sequence

        samples = list(outputs.values[number])
        if outputs.device is not None and samples:
            samples = _upload(samples, outputs.device)
        if not samples:
            return outputs.values[number]
        if float(fill) == fill or samples[0].is_floating_point():
            return pad_sequence(samples, batch_first=True, padding_value=fill)
        made = samples[0].new_full((len(samples), max(map(len, samples))), fill)  # pad_sequence would round `fill` to a float
        for row, sample in zip(made, samples, strict=True):
            row[: len(sample)] = sample
        return made

    return finish


@dataclass
class Keep:
    """Finds the boxes that remain after the moves of the image."""

    boxes: int  # index of the output with the boxes
    format: str  # the boxes' format, such as "XYXY"
    moves: Sequence[Move]
    numbers: int  # index of the output with the numbers of the moves, such as the window of a crop

    def __call__(self, outputs: Outputs) -> list[torch.Tensor]:
        """Returns a bool tensor for each sample: True for the boxes that remain."""
        if self.boxes not in outputs.kept:
            boxes = list(outputs.values[self.boxes])
            outputs.kept[self.boxes] = kept(boxes, outputs.values[self.numbers], self.moves, self.format) if boxes else []
        found: list[torch.Tensor] = outputs.kept[self.boxes]
        return found


@dataclass
class Lists:
    """Makes a list with a tensor for each sample, or if `ragged` a RaggedBatch, on the batch's device."""

    ragged: bool
    moves: Sequence[Move] = ()  # the moves of the image
    format: str = ""  # format of the boxes or points
    numbers: int | None = None  # index of the output with the numbers of the moves; None: the field does not move
    keep: Keep | None = None  # finds the rows that remain, if the field has a row for each box; None: all remain
    what: str = ""  # the field's name in messages

    def __call__(self, outputs: Outputs, number: int) -> Any:
        samples = list(outputs.values[number])
        if self.keep is not None:
            samples = [self._rows(s, rows) for s, rows in zip(samples, self.keep(outputs), strict=True)]
        if self.numbers is not None and samples:
            samples = follow(samples, outputs.values[self.numbers], self.moves, self.format)
        if self.ragged and samples:
            from stoker.batching import combine_data

            return combine_data(samples, device=outputs.device or "cpu")
        return samples if outputs.device is None or not samples else _upload(samples, outputs.device)

    def _rows(self, sample: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        if sample.shape[:1] != rows.shape:
            raise ValueError(
                f"{self.what!r} has the shape {tuple(sample.shape)} in a sample of {len(rows)} boxes: a transform removes boxes and the rows of this field, "
                "so it has one for each box; labels_getter of SanitizeBoundingBoxes names such fields"
            )
        return sample[rows.to(sample.device)]


def _upload(samples: list[torch.Tensor], device: str) -> list[torch.Tensor]:
    """Copies the tensors of all samples to the GPU in one copy, from pinned memory, without waiting for earlier work on the GPU."""
    import torch

    flat = torch.cat([s.reshape(-1) for s in samples]).pin_memory().to(device, non_blocking=True)
    return [part.reshape(s.shape) for part, s in zip(flat.split([s.numel() for s in samples]), samples, strict=True)]


@dataclass
class Planes:
    """Converts masks from (N, H, W, masks) to (N, masks, H, W), or if `listed` to a list of tensors (masks, H, W)."""

    listed: bool = False
    numbers: int = 0  # index of the output that has the number of masks of each sample
    column: int = 0  # the column of output `numbers` that has the number of masks
    keep: Keep | None = None  # finds the masks that remain, if each box has one; None: all remain

    def __call__(self, outputs: Outputs, number: int) -> Any:
        value = outputs.values[number]
        counts = [int(row[self.column]) for row in outputs.values[self.numbers]]
        if not self.listed and hasattr(value, "movedim") and all(counts):
            return value.movedim(-1, -3)
        if not self.listed:
            raise InvalidArgumentError(
                f"samples of one batch have {min(counts)} and {max(counts)} masks: with fields={{..., 'masks': ('Mask', list)}} a batch has a list of tensors"
            )
        planes = [v.movedim(-1, -3)[:n] for v, n in zip(value, counts, strict=True)]
        if self.keep is None:
            return planes
        # As in torchvision, all masks remain if their number differs from the number of boxes.
        return [p[rows.to(p.device)] if len(p) == len(rows) else p for p, rows in zip(planes, self.keep(outputs), strict=True)]


@dataclass
class Finishing:
    """Describes how the fields of a batch are made from the outputs of a source's pipeline."""

    finish: Mapping[str, Finish] = field(default_factory=dict)  # field -> the conversion of its output; fields that need none are missing
    needed: Sequence[int] = ()  # indices of outputs that are not fields, but that conversions read
    uneven: bool = True  # whether a field may be a tensor in one batch and a list in the next
    # Advice for an error message on how to get a field as a list. {0!r} is the field's name.
    as_list: str = "with fields={{..., {0!r}: list}} each batch has a list, with ragged=({0!r},) one RaggedBatch"
    vectors: bool = True  # whether samples of shape (1,), such as labels, become a vector (N) instead of (N, 1)
    images: Sequence[int] = ()  # indices of the outputs that are further images, or maps of floats with channels
    image: bool = True  # whether output 0 is an image
