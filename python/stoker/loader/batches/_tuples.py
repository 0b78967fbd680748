# SPDX-License-Identifier: Apache-2.0
"""Makes the batches that a Loader returns: NamedTuples of torch tensors."""

from __future__ import annotations

import copyreg
import functools
from collections import namedtuple
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch.utils.dlpack import from_dlpack

from stoker import _core, _html, _sheet
from stoker.errors import InvalidArgumentError, ShapeError
from stoker.loader._not_images import SOUNDS
from stoker.loader.batches._finish import Finishing, Lists, Outputs
from stoker.plugin._handover import AS_IT_LIES, CHANNELS_FIRST, NUMBERS, Handover
from stoker.plugin.pytorch import dense_tensor
from stoker.tensors import TensorList, tensor_list


def _from_sample(field: str, batch: _core.Batch, device: str | None, padded: Sequence[bool] | None, ids: Sequence[int] | None) -> Any:
    if field == "valid":
        is_valid = [not p for p in padded] if padded is not None else [not batch.sample(i)[4] for i in range(len(batch))]
        valid = torch.tensor(is_valid, dtype=torch.bool, device="cpu")
        # The copy to the batch's device starts from pinned memory, so that this thread does not wait for earlier work on the GPU.
        return valid if device is None else valid.pin_memory().to(device, non_blocking=True)
    if field == "index":
        numbers = list(ids) if ids is not None else [batch.sample(i)[2] for i in range(len(batch))]
        return torch.tensor(numbers, dtype=torch.int64, device="cpu")
    return [batch.sample(i)[3] for i in range(len(batch))]


@functools.cache
def batch_type(fields: tuple[str, ...]) -> Any:
    """Returns a NamedTuple class with these fields. Its objects are pickled as (fields, values), because pickle cannot find the class in a module."""
    made = _named(fields)
    made.__getattr__, made.__getitem__ = _no_field, _item
    made._repr_html_ = _html.of_batch  # notebooks show the images instead of their numbers
    if "show" not in fields:
        made.show = _sheet.view
    copyreg.pickle(made, lambda batch: (_batch_of, (fields, tuple(batch))))
    return made


def _no_field(batch: Any, name: str) -> Any:
    """Raises AttributeError with the batch's fields. Python calls this for a missing attribute."""
    raise AttributeError(f"the batch has no {name!r}; its fields are {', '.join(batch._fields)}", name=name, obj=batch)


def _item(batch: Any, at: Any) -> Any:
    """Returns batch[at] for an index or a slice. Raises TypeError for a str, because a NamedTuple does not give its fields as batch["image"]."""
    if isinstance(at, str):
        raise TypeError(
            f"a batch is a NamedTuple, whose fields are {', '.join(batch._fields)}: read one as batch.{batch._fields[0]}; "
            "collate_fn=lambda batch: batch._asdict() makes dicts of batches"
        )
    return tuple.__getitem__(batch, at)


def _named(fields: tuple[str, ...]) -> Any:
    return namedtuple("Batch", fields)


def _batch_of(fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return batch_type(fields)._make(values)


class Batches:
    """Makes the Loader's batches from the pipeline's batches.

    fields: maps the NamedTuple's fields, in order, to indices of outputs; None for a field that comes from metadata of samples. batch: the pipeline's first
    batch. device: torch's name of the GPU with the batches; None: the CPU. finishing: conversions of outputs to fields. views: indices of the outputs that form
    the field "image", which is then a list; None: the field is output 0. pin: copies the tensors to pinned memory. lists: names of fields that are
    lists of tensors even if all samples have one size. main: the user's name for the field "image".
    """

    def __init__(
        self,
        fields: Mapping[str, int | None],
        batch: _core.Batch,
        device: str | None,
        finishing: Finishing,
        views: Sequence[int] | None,
        pin: bool = False,
        lists: Collection[str] = (),
        main: str = "image",
    ) -> None:
        self._as_tuple = batch_type(tuple(main if f == "image" else f for f in fields))._make
        self._device, self._pin = device, pin
        shown = [(f, output) for f, output in fields.items() if output is not None]
        self._names = {output: main if f == "image" else f for f, output in shown}
        self._outputs = [output for _, output in shown]
        self._finish = [(at, output, finishing.finish[f]) for at, (f, output) in enumerate(shown) if f in finishing.finish]
        self._from_samples = [(at, f) for at, (f, output) in enumerate(fields.items()) if output is None]
        self._views = views if "image" in fields else None
        images = {0, *(self._views or ()), *finishing.images} if finishing.image else set()
        count = max([*self._outputs, *finishing.needed, *(self._views or ())], default=-1) + 1
        self._in_order = self._outputs == list(range(count))
        # HWC images are shown as (N, C, H, W), in torch's memory format channels_last, without a copy.
        as_they_lie = {output for _, output, finish in self._finish if isinstance(finish, Lists)} | {*finishing.needed}
        others = NUMBERS if finishing.vectors else AS_IT_LIES
        self._hand_over = Handover(
            [CHANNELS_FIRST if k in images else AS_IT_LIES if k in as_they_lie else others for k in range(count)], batch
        )
        self._images = images
        self._may_change, self._as_list = finishing.uneven, finishing.as_list
        self._settled = {output for _, output, _ in self._finish}
        # Outputs that are lists of tensors: the user asked for that, or samples have differed in shape in an earlier batch.
        self._lists = {output for f, output in shown if f in lists and output not in self._settled} | (
            images if "image" in lists else set()
        )

    def make(self, batch: _core.Batch, padded: Sequence[bool] | None = None, ids: Sequence[int] | None = None) -> Any:
        """Returns the NamedTuple of a batch. padded, ids: given only for a Dataset: for each sample, whether it is a repeat that fills the batch, and its index
        in the Dataset. For other sources, the library knows both."""
        values: list[Any] = self._hand_over.tensors(batch)
        for output, tensor in enumerate(values):
            if tensor is None:
                values[output] = self._uneven(batch, output)
            elif output in self._lists:
                values[output] = list(tensor)
            elif output not in self._images and tensor.dtype is not torch.int64:
                values[output] = _target(tensor)
        shown = values if self._in_order else [values[output] for output in self._outputs]
        if self._finish:
            outputs, shown = Outputs(values, self._device), list(shown)
            for at, output, finish in self._finish:
                shown[at] = finish(outputs, output)
        if self._views is not None:
            shown = [[values[view] for view in self._views] if output == 0 else v for output, v in zip(self._outputs, shown, strict=True)]
        values = shown
        if self._pin:
            values = [_pinned(v) for v in values]
        for at, field in self._from_samples:
            values.insert(at, _from_sample(field, batch, self._device, padded, ids))
        return self._as_tuple(values)

    def list_images(self, lists: Collection[str], names: Mapping[str, int | None]) -> None:
        """Makes images, and the other fields in `lists`, lists of tensors in each later batch. names: maps fields to indices of outputs."""
        self._lists |= self._images | {
            output for f, output in names.items() if f in lists and output is not None and output not in self._settled
        }

    def _uneven(self, batch: _core.Batch, output: int) -> Any:
        """Returns the tensors of an output whose samples differ in shape, as a list. If the user did not ask for a list, this is an error for images, and for a
        target unless Finishing.uneven is True; the target then becomes a list in all later batches too."""
        data = tensor_list(batch, output)
        if output in self._images:
            shown = self._in_order or output in self._outputs
            if shown and output not in self._lists:
                return _dense(data)
            channels_last = data.layout() == "HWC"
            return [from_dlpack(t).movedim(-1, -3) if channels_last else from_dlpack(t) for t in data]
        samples = [from_dlpack(t) for t in data]
        if output not in self._settled:
            if output not in self._lists and not self._may_change:
                name = self._names.get(output, "?")
                first = samples[0].shape
                other = next(k for k, sample in enumerate(samples) if sample.shape != first)
                raise InvalidArgumentError(
                    f"the samples of a batch differ in the shape of {name!r}: sample {other} of the batch has {tuple(samples[other].shape)}, the first one "
                    f"{tuple(first)}, so that they are no tensor: {self._as_list.format(name)}"
                )
            self._lists.add(output)
        return samples


def _dense(data: TensorList) -> torch.Tensor:
    try:
        return dense_tensor(data)
    except ShapeError as e:
        if len(data) and 1 in (from_dlpack(data[0]).shape[:2] if data.layout() == "HWC" else from_dlpack(data[0]).shape[-2:]):
            raise ShapeError(f"{e}. These images have one row or one column, as waveforms have: {SOUNDS}") from None
        if len(data) and from_dlpack(data[0]).ndim > 3:
            raise ShapeError(f"{e}; transforms=[T.Resize((224, 224))] makes clips of one size, and pad='zeros' one tensor") from None
        raise ShapeError(
            f"{e}; with fields={{'image': list, ...}} the images of a batch are a list, each of its own size, and with pad='zeros' one tensor; "
            "bucket_by='size' puts images of similar sizes into one batch, so that little is padded"
        ) from None


def _pinned(value: Any) -> Any:
    if isinstance(value, list):
        return [_pinned(v) for v in value]
    return value.pin_memory() if isinstance(value, torch.Tensor) else value


def _target(tensor: torch.Tensor) -> torch.Tensor:
    """Converts whole numbers, one for each sample, to int64. Returns other targets unchanged."""
    return tensor if tensor.ndim > 1 or tensor.is_floating_point() else tensor.to(torch.int64)
