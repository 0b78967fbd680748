# SPDX-License-Identifier: Apache-2.0
"""Reads and writes entries of each sample by index. Samples may have different numbers of indices."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import ShapeError
from . import _ops
from ._native import ACCESS, INDEX_BYTES, INVERSE, MAPPING, MASK, WRITE, code
from ._shapes import check_dim, filler_of, require
from .ragged_batch import RaggedBatch, check_sizes

Data = Tensor | RaggedBatch


def _check_indices(name: str, indices: RaggedBatch) -> None:
    if not isinstance(indices, RaggedBatch):
        raise ShapeError(f"{name} must be a RaggedBatch, not {type(indices).__name__}")
    if indices.dtype not in INDEX_BYTES:
        raise ShapeError(f"{name} must be int32 or int64, not {indices.dtype}")
    if indices.dim() != indices.num_batch_dims + 1:
        raise ShapeError(f"{name} has shape {tuple(indices.shape)}: one dim after the batch dims {tuple(indices.batch_shape)} is expected")


def _check_data(name: str, data: Tensor, indices_name: str, indices: RaggedBatch) -> None:
    batch_dims = indices.num_batch_dims
    if data.shape[:batch_dims] != indices.batch_shape or data.dim() <= batch_dims:
        raise ShapeError(f"{name} has shape {tuple(data.shape)}, {indices_name} {tuple(indices.shape)}: the batch dims must be equal")
    if data.device != indices.device:
        raise ShapeError(f"{name} is on {data.device}, {indices_name} on {indices.device}")
    code(data, name)


def _tensor(data: Data) -> Tensor:
    return data.tensor if isinstance(data, RaggedBatch) else data


def _sizes_in(data: Data, dim: int) -> Tensor | None:
    """Returns the sizes of the samples along dim; None if the data is not ragged along dim."""
    return data.sample_sizes if isinstance(data, RaggedBatch) and data.non_uniform_dim == dim else None


def _check_like(name: str, data: Tensor, other_name: str, other: Tensor, dim: int) -> None:
    """Raises ShapeError unless both tensors have the same dtype, and the same shape except along dim."""
    a, b = data.shape, other.shape
    if len(a) != len(b):
        raise ShapeError(f"{name} {tuple(a)} and {other_name} {tuple(b)} must have the same number of dimensions")
    if a[:dim] != b[:dim] or a[dim + 1 :] != b[dim + 1 :]:
        raise ShapeError(f"{name} {tuple(a)} and {other_name} {tuple(b)} must have the same shape but for dim {dim}")
    if data.dtype != other.dtype:
        raise ShapeError(f"{name} is {data.dtype}, {other_name} is {other.dtype}")


def batched_indexing_access(
    input_data: Data, input_indices: RaggedBatch, filler_value: float = 0.0, dim_to_index_in: int | None = None
) -> RaggedBatch:
    """Returns result[i, j] = input_data[i, input_indices[i, j]] as a RaggedBatch with the sizes of input_indices.

    input_data: (*batch, ..). If it is ragged in the indexed dim, indices must be below their sample's size.
    input_indices: (*batch, max_indices), int32 or int64. Negative indices count from the end of the sample.
    filler_value: value of the result's padding, and on CUDA also for an index that is out of range. On the CPU such an index raises IndexError.
    dim_to_index_in: the dim to index; by default the first one after the batch dims.
    The gradient of an entry that is read several times is the sum of those reads' gradients, added in a fixed order.
    """
    _check_indices("input_indices", input_indices)
    data = _tensor(input_data)
    _check_data("input_data", data, "input_indices", input_indices)
    batch_dims = input_indices.num_batch_dims
    dim = batch_dims if dim_to_index_in is None else check_dim("dim_to_index_in", dim_to_index_in, batch_dims, data.dim())
    out = _ops.gather(
        data,
        input_indices.tensor,
        input_indices.sample_sizes,
        _sizes_in(input_data, dim),
        None,
        None,
        filler_of("filler_value", filler_value, data.dtype),
        dim,
        False,
        ACCESS,
    )
    return RaggedBatch._of(out, input_indices._layout, dim)


def batched_inverse_indexing_access(
    input_data: Data,
    output_indices: RaggedBatch,
    output_num_targets: int,
    filler_value: float = 0.0,
    dim_to_index_in: int | None = None,
) -> Tensor:
    """Returns a tensor with result[i, output_indices[i, j]] = input_data[i, j], and filler_value in all other entries. Of several equal indices, the last one
    counts. An index that is out of range raises IndexError on the CPU; on CUDA, its entry is left out. output_num_targets: the result's extent along
    dim_to_index_in, which is by default the first dim after the batch dims."""
    _check_indices("output_indices", output_indices)
    data = _tensor(input_data)
    _check_data("input_data", data, "output_indices", output_indices)
    batch_dims = output_indices.num_batch_dims
    dim = batch_dims if dim_to_index_in is None else check_dim("dim_to_index_in", dim_to_index_in, batch_dims, data.dim())
    _check_rows("input_data", input_data, "output_indices", output_indices, dim)
    require(output_num_targets >= 0, lambda: f"output_num_targets is {output_num_targets}")
    return _ops.scatter(
        data,
        output_indices.tensor,
        output_indices.sample_sizes,
        None,
        None,
        None,
        filler_of("filler_value", filler_value, data.dtype),
        output_num_targets,
        None,
        dim,
        INVERSE,
    )


def _check_rows(name: str, data: Data, indices_name: str, indices: RaggedBatch, dim: int) -> None:
    """Raises ShapeError if a sample has more indices than the data has entries along dim."""
    if data.shape[dim] < indices.max_sample_size:
        raise ShapeError(
            f"{name} {tuple(data.shape)} has {data.shape[dim]} entries in dim {dim}, {indices_name} {tuple(indices.shape)} writes up to "
            f"{indices.max_sample_size}"
        )
    if isinstance(data, RaggedBatch) and data.non_uniform_dim == dim:
        check_sizes(name, data, indices_name, indices, enough=True)


def batched_indexing_write(to_write: Data, output_indices: RaggedBatch, to_write_into: Data, dim_to_index_in: int | None = None) -> Data:
    """Returns a copy of to_write_into with result[i, output_indices[i, j]] = to_write[i, j]. The last of several equal indices counts. An index that is out of
    range raises IndexError on the CPU; on CUDA, its entry is left out.
    dim_to_index_in: by default the first dim after the batch dims.
    The gradient flows to the entries of to_write_into that were not replaced, and to the entries of to_write that were used.
    """
    _check_indices("output_indices", output_indices)
    data, base = _tensor(to_write), _tensor(to_write_into)
    _check_data("to_write", data, "output_indices", output_indices)
    _check_data("to_write_into", base, "output_indices", output_indices)
    batch_dims = output_indices.num_batch_dims
    dim = batch_dims if dim_to_index_in is None else check_dim("dim_to_index_in", dim_to_index_in, batch_dims, base.dim())
    _check_like("to_write", data, "to_write_into", base, dim)
    _check_rows("to_write", to_write, "output_indices", output_indices, dim)
    out = _ops.scatter(
        data,
        output_indices.tensor,
        output_indices.sample_sizes,
        None,
        None,
        base,
        0.0,
        base.shape[dim],
        _sizes_in(to_write_into, dim),
        dim,
        WRITE,
    )
    if isinstance(to_write_into, RaggedBatch):
        return RaggedBatch._of(out, to_write_into._layout, to_write_into.non_uniform_dim)
    return out


def batched_index_mapping(source_data: Data, source_indices: RaggedBatch, target_indices: RaggedBatch, target_data: Data) -> Data:
    """Returns a copy of target_data with result[i, target_indices[i, j]] = source_data[i, source_indices[i, j]].

    A tensor is indexed in the first dim after the batch dims, a RaggedBatch in its ragged dim. If one index of a pair is out of range, the call raises
    IndexError on the CPU; on CUDA, nothing is copied for the pair.
    """
    _check_indices("source_indices", source_indices)
    _check_indices("target_indices", target_indices)
    if source_indices.shape != target_indices.shape:
        raise ShapeError(
            f"source_indices {tuple(source_indices.shape)} and target_indices {tuple(target_indices.shape)} must have the same shape"
        )
    if source_indices.dtype != target_indices.dtype:
        raise ShapeError(f"source_indices is {source_indices.dtype}, target_indices is {target_indices.dtype}: they must be equal")
    check_sizes("source_indices", source_indices, "target_indices", target_indices)
    batch_dims = target_indices.num_batch_dims
    source_dim = source_data.non_uniform_dim if isinstance(source_data, RaggedBatch) else batch_dims
    dim = target_data.non_uniform_dim if isinstance(target_data, RaggedBatch) else batch_dims
    data, base = _tensor(source_data), _tensor(target_data)
    _check_data("source_data", data, "source_indices", source_indices)
    _check_data("target_data", base, "target_indices", target_indices)
    if source_dim != dim:
        require(
            max(source_dim, dim) < data.dim(),
            lambda: f"source_data {tuple(data.shape)} and target_data {tuple(base.shape)} must have the same number of dimensions",
        )
        data = data.transpose(source_dim, dim)
    _check_like("source_data", data, "target_data", base, dim)
    out = _ops.scatter(
        data, target_indices.tensor, target_indices.sample_sizes, _sizes_in(source_data, source_dim), source_indices.tensor, base, 0.0,
        base.shape[dim], _sizes_in(target_data, dim), dim, MAPPING,
    )  # fmt: skip
    if isinstance(target_data, RaggedBatch):
        return RaggedBatch._of(out, target_data._layout, dim)
    return out


def get_mask_from_indices(mask_num_targets: int, indices: RaggedBatch) -> Tensor:
    """Returns a bool mask (*batch, mask_num_targets) that is True at each sample's indices. An index that is out of range raises IndexError on the CPU, and is
    left out on CUDA."""
    _check_indices("indices", indices)
    return _ops.index_to_mask(indices.tensor, indices.sample_sizes, mask_num_targets, MASK)


def get_indices_from_mask(mask: Data) -> RaggedBatch:
    """Returns for each sample the indices at which the mask is True, in ascending order. They are int64 and padded to the mask's width, so that the call does
    not wait for a GPU."""
    tensor, sizes = (mask.tensor, mask.sample_sizes) if isinstance(mask, RaggedBatch) else (mask, None)
    require(tensor.dtype == torch.bool, lambda: f"mask must be bool, not {tensor.dtype}")
    dims = mask.num_batch_dims + 1 if isinstance(mask, RaggedBatch) else max(2, tensor.dim())
    require(
        tensor.dim() == dims,
        lambda: (
            f"mask must have batch dims and one more, the places; its shape is {tuple(tensor.shape)}"
            + (f", with {dims - 1} batch dims" if isinstance(mask, RaggedBatch) else "")
        ),
    )
    index, count = _ops.mask_to_index(tensor, sizes)
    return RaggedBatch(index, sample_sizes=count)
