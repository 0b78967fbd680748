# SPDX-License-Identifier: Apache-2.0
"""Batches as the user gets them: torch tensors in a NamedTuple."""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.dlpack import from_dlpack

from stoker import _core, types
from stoker.errors import InvalidArgumentError
from stoker.plugin.pytorch import dense_tensor, to_torch_type
from stoker.tensors import TensorList, tensor_list

FROM_SAMPLES = ("path", "index", "valid")  # fields that come from what is known of a sample, not from an output


@functools.cache
def batch_type(fields: tuple[str, ...]) -> Any:
    """The NamedTuple of these fields."""
    return namedtuple("Batch", fields)


def check_fields(fields: Sequence[str], outputs: int) -> None:
    """The fields that are outputs must be as many as there are."""
    wanted = [f for f in fields if f not in FROM_SAMPLES]
    if len(wanted) > outputs:
        raise InvalidArgumentError(
            f"fields: {', '.join(wanted)} are {len(wanted)} outputs; the source gives {outputs} (path, index and valid come extra)"
        )
    if len(set(fields)) != len(fields):
        raise InvalidArgumentError(f"fields: the names must differ: {', '.join(fields)}")


def _empty(output: int, descs: Sequence[tuple[int, list[int], str]], device: str | None) -> torch.Tensor:
    """No samples: where the data did not suffice for all ranks."""
    dtype, shape, layout = descs[output]
    if output > 0:
        return torch.empty(0, dtype=torch.int64, device=device)
    tensor = torch.empty([0, *(max(n, 0) for n in shape)], dtype=to_torch_type[types.DALIDataType(dtype)], device=device)
    return tensor.movedim(-1, -3) if layout == "HWC" else tensor


def _target(data: TensorList) -> Any:
    """Targets of one number as a vector of int64 or of their floating type, others as they are; unequal ones as a list."""
    if not data.is_dense_tensor():
        return [from_dlpack(t) for t in data]
    tensor = from_dlpack(data.as_tensor())
    if tensor[0:1].numel() <= 1:
        tensor = tensor.reshape(len(data))
        return tensor if tensor.is_floating_point() else tensor.to(torch.int64)
    return tensor


def _from_sample(field: str, batch: _core.Batch, device: str | None, padded: Sequence[bool] | None, ids: Sequence[int] | None) -> Any:
    if field == "valid":
        valid = torch.tensor([not p for p in padded] if padded is not None else [not batch.sample(i)[4] for i in range(len(batch))])
        # It masks what is on the device. Pinned, so that the copy does not wait for the work before it.
        return valid if device is None else valid.pin_memory().to(device, non_blocking=True)
    if field == "index":
        return torch.tensor(list(ids) if ids is not None else [batch.sample(i)[2] for i in range(len(batch))])
    return [batch.sample(i)[3] for i in range(len(batch))]


def to_tuple(
    batch: _core.Batch,
    fields: tuple[str, ...],
    descs: Sequence[tuple[int, list[int], str]],
    device: str | None = None,
    padded: Sequence[bool] | None = None,
    ids: Sequence[int] | None = None,
) -> Any:
    """A batch in the order of the fields. descs: of the outputs. device: torch's name of the GPU that they are on. padded and ids: of a
    Dataset, where the library does not know them."""
    values: list[Any] = []
    output = 0
    for field in fields:
        if field in FROM_SAMPLES:
            values.append(_from_sample(field, batch, device, padded, ids))
            continue
        if len(batch) == 0:
            values.append(_empty(output, descs, device))
            output += 1
            continue
        data = tensor_list(batch, output)
        # channels_last is how the memory lies: HWC images are shown as (N, C, H, W).
        values.append(dense_tensor(data, channels_last=True) if output == 0 else _target(data))
        output += 1
    return batch_type(fields)._make(values)
