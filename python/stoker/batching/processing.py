# SPDX-License-Identifier: Apache-2.0
"""Sums and means over the ragged dim, masks for tensors, and ragged batches from lists of samples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from ..errors import ShapeError
from . import _ops
from ._native import UNCOUNTED, device_of, direct, has_tangent, lib
from ._shapes import Layout, check_dim, require
from .ragged_batch import RaggedBatch, check_sizes


def sum_over_targets(data: RaggedBatch) -> Tensor:
    """Returns each sample's sum over the ragged dim, without the padding: 0 for an empty sample. Bools are summed as int64."""
    dtype = torch.int64 if data.dtype == torch.bool else data.dtype
    return data.with_padded_set_to(0.0).tensor.sum(data.non_uniform_dim, dtype=dtype)


def average_over_targets(data: RaggedBatch, nans_to_zero: bool = True) -> Tensor:
    """Returns each sample's mean over the ragged dim, without the padding. nans_to_zero: NaN, such as the mean of an empty sample, becomes 0. Integers and
    bools give float32."""
    if not (data.dtype.is_floating_point or data.dtype.is_complex):
        data = data.to_dtype(torch.float32)
    total = sum_over_targets(data)
    sizes = (
        data.sample_sizes.clamp(min=1) if nans_to_zero else data.sample_sizes
    )  # an empty sample is divided by 1, so that its derivative is not NaN either
    mean = total / sizes.reshape(*data.batch_shape, *(1,) * (total.dim() - data.num_batch_dims))
    if not nans_to_zero:
        return mean
    if mean.is_complex():
        return torch.where(mean.isnan(), torch.zeros_like(mean), mean)
    return mean.nan_to_num(nan=0.0, posinf=math.inf, neginf=-math.inf)


def apply_mask_to_tensor(data: Tensor, mask: Tensor, value_to_set: float = 0.0) -> Tensor:
    """Returns a copy of data with value_to_set where the mask is False. The extents of the mask are those of the data's first dims, or 1. Raises ShapeError
    for other masks."""
    require(mask.dtype == torch.bool, lambda: f"mask must be bool, not {mask.dtype}")
    if mask.dim() > data.dim() or any(m not in (1, d) for m, d in zip(mask.shape, data.shape, strict=False)):
        raise ShapeError(f"mask {tuple(mask.shape)} does not cover the first dims of data {tuple(data.shape)}")
    return data.masked_fill(~mask.reshape(*mask.shape, *(1,) * (data.dim() - mask.dim())), value_to_set)


def squeeze_except_batch_and_sample(data: Tensor | RaggedBatch) -> Tensor | RaggedBatch:
    """Removes dims of size 1. Keeps the batch dims and the ragged dim of a RaggedBatch, and the first two dims of a Tensor."""
    if not isinstance(data, RaggedBatch):
        return data.squeeze(tuple(range(2, data.dim())))
    ragged = data.non_uniform_dim
    dims = tuple(d for d in range(data.num_batch_dims, data.dim()) if d != ragged and data.shape[d] == 1)
    return RaggedBatch._of(data.tensor.squeeze(dims), data._layout, ragged - sum(d < ragged for d in dims))


def stack(batches: Sequence[RaggedBatch], dim: int = 0) -> RaggedBatch:
    """Joins batches along a new batch dim at position `dim`, as torch.stack does. Pads batches to the largest sample of all."""
    dim = check_dim("dim", dim, 0, batches[0].num_batch_dims + 1)
    return cat([b.unsqueeze_batch_dim(dim) for b in batches], dim)


def cat(batches: Sequence[RaggedBatch], dim: int = 0) -> RaggedBatch:
    """Joins batches along the existing batch dim `dim`, as torch.cat does. Pads batches to the largest sample of all. Raises ShapeError if they do not fit."""
    first = batches[0]
    ragged, batch_dims = first.non_uniform_dim, first.num_batch_dims
    dim = check_dim("dim", dim, 0, batch_dims)
    largest = max(b.max_sample_size for b in batches)
    tensors = []
    for i, b in enumerate(batches):
        fits = b.non_uniform_dim == ragged and b.num_batch_dims == batch_dims and b.dim() == first.dim()
        if not fits or any(x != y for d, (x, y) in enumerate(zip(b.shape, first.shape, strict=False)) if d not in (dim, ragged)):
            raise ShapeError(
                f"batches[{i}] has shape {tuple(b.shape)} and non_uniform_dim {b.non_uniform_dim}, batches[0] {tuple(first.shape)} and "
                f"{ragged}: all but batch dim {dim} and the ragged dim must be equal"
            )
        missing = largest - b.max_sample_size
        padding = (0, 0) * (b.dim() - 1 - ragged) + (0, missing)
        tensors.append(torch.nn.functional.pad(b.tensor, padding) if missing else b.tensor)
    return RaggedBatch._of(torch.cat(tensors, dim), Layout(None, torch.cat([b.sample_sizes for b in batches], dim)), ragged)


def _walk(data: Any, name: str = "data_list") -> Iterator[Tensor]:
    """Yields the tensors in nested lists, depth first. Raises ShapeError for other values and empty lists. name: the name of `data` in messages."""
    if isinstance(data, Tensor):
        yield data
        return
    if not isinstance(data, (list, tuple)):
        raise ShapeError(f"{name} is {type(data).__name__}: data_list holds tensors, one a sample, and lists or tuples of them")
    if not data:
        raise ShapeError(f"{name} is empty: data_list holds tensors, one a sample; an empty sample is a tensor of shape (0, ...)")
    for i, el in enumerate(data):
        yield from _walk(el, f"{name}[{i}]")


def _nested_shape(data: Any) -> tuple[int, ...]:
    """Returns the batch shape of nested lists. Raises ShapeError if lists at one depth differ in length."""
    if isinstance(data, Tensor):
        return ()
    inner = {_nested_shape(el) for el in data}
    if len(inner) > 1:
        raise ShapeError(f"data_list nests lists of unequal length ({sorted(map(str, inner))}); flatten_batch_dims=True takes that")
    return (len(data), *(inner.pop() if inner else ()))


def _check_samples(samples: list[Tensor]) -> list[Tensor]:
    """Returns the samples. Raises ShapeError if one is a scalar, or if they differ in type or in more than the extent of dim 0. Converts a sample of shape
    (0,), such as torch.tensor([]), to an empty sample of the others' shape and type."""
    first = next((s for s in samples if tuple(s.shape) != (0,)), samples[0])
    alike = []
    for i, s in enumerate(samples):
        empty = tuple(s.shape) == (0,) and first.dim() > 0
        if not empty and (s.dim() == 0 or s.shape[1:] != first.shape[1:] or s.dtype != first.dtype):
            raise ShapeError(
                f"data_list: sample {i} has shape {tuple(s.shape)} and {s.dtype}, another one {tuple(first.shape)} and {first.dtype}: only dim 0 may differ"
            )
        alike.append(s.reshape(0, *first.shape[1:]).to(first.dtype) if empty else s)
    return alike


def combine_data(
    data_list: Sequence[Any],
    other_with_same_sample_sizes: RaggedBatch | None = None,
    device: torch.device | str | None = None,
    flatten_batch_dims: bool = True,
) -> RaggedBatch:
    """Makes a RaggedBatch from a list of tensors, or from nested lists. Each tensor is a sample; they may differ only in the extent of dim 0. An empty sample
    may have the shape (0,).

    other_with_same_sample_sizes: a batch whose mask and sizes the result shares. device: the result's device; by default the first tensor's.
    flatten_batch_dims: whether nested lists give one batch dim, in depth-first order, or one batch dim for each level.

    Samples on the CPU, and their sizes, are copied to a CUDA device in one copy from pinned memory. The call does not wait for the copy. Samples on the CPU
    that require a gradient are padded there first, and the call waits for their copy.
    """
    require(not isinstance(data_list, Tensor), "data_list is a Tensor: it holds one a sample; RaggedBatch.FromFullTensor takes all in one")
    samples = list(_walk(data_list))
    batch_shape = (len(samples),) if flatten_batch_dims else _nested_shape(data_list)
    samples = _check_samples(samples)
    target = samples[0].device if device is None else torch.device(device)
    where = {s.device for s in samples}
    if len(where) > 1:
        samples = [s.to(target, non_blocking=True) for s in samples]
    if samples[0].device.type == "cpu" and direct(samples[0]) and not any(s.requires_grad or has_tangent(s) for s in samples):
        tensor, sizes = _pack(samples, target)
    else:
        tensor, sizes = _pad(samples, target)
    batch = RaggedBatch._of(tensor, Layout(None, sizes), 1)
    if other_with_same_sample_sizes is not None:
        other = other_with_same_sample_sizes
        check_sizes("data_list", batch, "other_with_same_sample_sizes", other.flatten_batch_dims())
        flat = tensor.reshape(*other.batch_shape, *tensor.shape[1:]) if prod(other.batch_shape) == len(samples) else tensor
        return other.create_with_sample_sizes_like_self(flat, other.num_batch_dims)
    return batch if flatten_batch_dims else batch.reshape_batch_dims(batch_shape)


def _pack(samples: list[Tensor], target: torch.device) -> tuple[Tensor, Tensor]:
    """Packs samples on the CPU into one block, the padded data and then the sizes, and copies the block to the device. Returns (data, sizes)."""
    dense = [_ops._dense(s) for s in samples]
    counts = [s.shape[0] for s in dense]
    shape = (len(dense), max(counts), *dense[0].shape[1:])
    element = dense[0].element_size()
    data_bytes = prod(shape) * element
    sizes_at = (data_bytes + 7) // 8 * 8
    cuda = target.type == "cuda"
    block = torch.empty(sizes_at + 8 * len(dense), dtype=torch.uint8, device="cpu", pin_memory=cuda)
    lib.pack(device_of(dense[0]).handle, [s.data_ptr() for s in dense], counts, shape[1], prod(shape[2:]) * element, block.data_ptr())
    block[sizes_at:].view(torch.int64).copy_(torch.tensor(counts, dtype=torch.int64, device="cpu"))
    if cuda:
        block = block.to(target, non_blocking=True)
    # .data makes tensors that do not know the block: otherwise a change of the data in place would count as a change of the sizes, which autograd saves.
    data = block[:data_bytes].view(dense[0].dtype).view(shape).data
    sizes = block[sizes_at:].view(torch.int64).data
    return data.to(target), sizes.to(target)


def _pad(samples: list[Tensor], target: torch.device) -> tuple[Tensor, Tensor]:
    """Pads samples by one concatenation and one gather. Returns (data, sizes). Unlike _pack, supports gradients and samples on a GPU."""
    counts = torch.tensor([s.shape[0] for s in samples], dtype=torch.int64, device="cpu")
    largest = max(s.shape[0] for s in samples)
    places = torch.arange(largest, device="cpu")
    index = torch.where(places < counts[:, None], (counts.cumsum(0) - counts)[:, None] + places, -1)
    source = samples[0].device
    block = torch.cat([index.reshape(-1), counts])
    if source.type == "cuda":
        # torch.compile cannot trace pin_memory.
        block = block.to(source) if torch.compiler.is_compiling() else block.pin_memory().to(source, non_blocking=True)
    index, sizes = block[: index.numel()], block[index.numel() :]
    flat = torch.cat(samples).unsqueeze(0)
    out = _ops.gather(flat, index.reshape(1, -1), None, None, None, None, 0.0, 1, True, UNCOUNTED)
    return out.reshape(len(samples), largest, *samples[0].shape[1:]).to(target), sizes.to(target)
