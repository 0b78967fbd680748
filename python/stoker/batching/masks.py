# SPDX-License-Identifier: Apache-2.0
"""Reads and writes entries of samples by bool masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import ShapeError
from . import _ops
from ._native import UNCOUNTED, direct
from ._shapes import Layout, require
from .ragged_batch import RaggedBatch

Data = Tensor | RaggedBatch


def _checked_mask(name: str, data: Data, mask_name: str, mask: Data) -> tuple[int, Tensor, Tensor | None]:
    """Returns (dim, mask, sizes). dim: the dim of the data along which the mask selects entries. mask: a bool tensor. sizes: the sizes of the samples, or
    None if there is no padding; entries of the mask in the padding are to be ignored. Raises ShapeError if the mask does not fit the data."""
    batch_dims = next((d.num_batch_dims for d in (data, mask) if isinstance(d, RaggedBatch)), None)
    flags = mask.tensor if isinstance(mask, RaggedBatch) else mask
    batch_dims = flags.dim() - 1 if batch_dims is None else batch_dims
    dim = data.non_uniform_dim if isinstance(data, RaggedBatch) else batch_dims
    require(flags.dtype == torch.bool, lambda: f"{mask_name} must be bool, not {flags.dtype}")
    if batch_dims < 1 or tuple(flags.shape) != (*data.shape[:batch_dims], data.shape[dim] if dim < data.dim() else None):
        raise ShapeError(
            f"{mask_name} {tuple(flags.shape)} does not fit {name} {tuple(data.shape)}: batch dims and the size of dim {dim} must be equal"
        )
    require(flags.device == data.device, lambda: f"{mask_name} is on {flags.device}, {name} on {data.device}")
    if isinstance(data, RaggedBatch) and isinstance(mask, RaggedBatch):
        _check_selected(name, data, mask_name, mask)
    ragged = mask if isinstance(mask, RaggedBatch) else data
    return dim, flags, ragged.sample_sizes if isinstance(ragged, RaggedBatch) else None


def _check_selected(name: str, data: RaggedBatch, mask_name: str, mask: RaggedBatch) -> None:
    """Raises ShapeError if a mask with sizes of its own selects padding of the data. Works only on the CPU: the check would wait for a GPU."""
    flags = mask.tensor
    if data._layout is mask._layout or not flags.is_cpu or not direct(flags):
        return
    count = int((flags & mask.mask & ~data.mask).sum())
    if count:
        raise ShapeError(
            f"{mask_name} with sample sizes {mask.sample_sizes.tolist()} selects {count} entries in the padding of {name}, whose samples have the sizes "
            f"{data.sample_sizes.tolist()}"
        )


def batched_bool_indexing(input_data: Data, input_mask: Data) -> RaggedBatch:
    """Returns the entries of each sample for which the mask is True, in order. Waits for the device once, to read the largest number of entries."""
    dim, mask, sizes = _checked_mask("input_data", input_data, "input_mask", input_mask)
    index, count = _ops.mask_to_index(mask, sizes)
    largest = int(count.max()) if count.numel() else 0
    data = input_data.tensor if isinstance(input_data, RaggedBatch) else input_data
    out = _ops.gather(data, index[..., :largest], count, None, None, None, 0.0, dim, False, UNCOUNTED)
    return RaggedBatch._of(out, Layout(None, count), dim)


def batched_bool_indexing_write(to_write: RaggedBatch, output_mask: Data, to_write_into: Data) -> Data:
    """Returns a copy of to_write_into in which each sample's entries with a True mask are replaced, in order, by the sample's entries of to_write. The reverse
    of batched_bool_indexing. Each sample of to_write has one entry for each True. On the CPU, other sizes raise ShapeError. On CUDA a check would wait for the
    GPU; there further entries are left out, and where entries are missing, to_write_into keeps its values."""
    if not isinstance(to_write, RaggedBatch):
        raise ShapeError(f"to_write must be a RaggedBatch, not {type(to_write).__name__}")
    dim, mask, sizes = _checked_mask("to_write_into", to_write_into, "output_mask", output_mask)
    base = to_write_into.tensor if isinstance(to_write_into, RaggedBatch) else to_write_into
    data = to_write.get_non_uniform_dimension_transposed_to(dim).tensor if to_write.dim() == base.dim() else to_write.tensor
    if data.dim() != base.dim():
        raise ShapeError(f"to_write {tuple(data.shape)} and to_write_into {tuple(base.shape)} must have the same number of dimensions")
    if data.shape[:dim] != base.shape[:dim] or data.shape[dim + 1 :] != base.shape[dim + 1 :]:
        raise ShapeError(f"to_write {tuple(data.shape)} and to_write_into {tuple(base.shape)} must have the same shape but for dim {dim}")
    require(data.dtype == base.dtype, lambda: f"to_write is {data.dtype}, to_write_into is {base.dtype}")
    require(data.device == base.device, lambda: f"to_write is on {data.device}, to_write_into on {base.device}")
    require(
        to_write.num_batch_dims == mask.dim() - 1,
        lambda: f"to_write has {to_write.num_batch_dims} batch dims, output_mask {mask.dim() - 1}: they must be equal",
    )
    rank, count = _ops.mask_to_rank(mask, sizes)
    if mask.is_cpu and direct(mask) and not torch.equal(count, to_write.sample_sizes):
        raise ShapeError(
            f"to_write has sample sizes {to_write.sample_sizes.tolist()}, output_mask has {count.tolist()} True entries: they must be equal"
        )
    out = _ops.gather(data, rank, None, to_write.sample_sizes, None, base, 0.0, dim, True, UNCOUNTED)
    if isinstance(to_write_into, RaggedBatch):
        return RaggedBatch._of(out, to_write_into._layout, to_write_into.non_uniform_dim)
    return out


def get_compact_lists(mask: Tensor, data: Sequence[Any]) -> list[Any]:
    """Returns for each tensor (batch, items, ..) of `data` a RaggedBatch of the items for which the mask (batch, items) is True. All results share one layout.
    Returns other values of `data` unchanged. Waits for the device once."""
    mask = mask if mask.dtype == torch.bool else mask.bool()
    require(mask.dim() == 2, lambda: f"mask must have shape (batch, items), not {tuple(mask.shape)}")
    tensors = [el for el in data if isinstance(el, Tensor)]
    for i, el in enumerate(data):
        if isinstance(el, Tensor) and el.shape[:2] != mask.shape:
            raise ShapeError(f"data[{i}] has shape {tuple(el.shape)}, mask {tuple(mask.shape)}: the first two dims must be equal")
    if not tensors:
        return list(data)
    index, count = _ops.mask_to_index(mask, None)
    index = index[:, : int(count.max()) if count.numel() else 0].contiguous()
    layout = Layout(None, count)

    def compact(el: Any) -> Any:
        if not isinstance(el, Tensor):
            return el
        return RaggedBatch._of(_ops.gather(el, index, count, None, None, None, 0.0, 1, False, UNCOUNTED), layout, 1)

    return [compact(el) for el in data]


def get_compact_from_named_tuple(mask: Tensor, data: Any) -> Any:
    """Applies get_compact_lists to the fields of a named tuple, and returns a named tuple of the same type."""
    return type(data)(*get_compact_lists(mask, data))
