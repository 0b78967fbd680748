# SPDX-License-Identifier: Apache-2.0
"""PyTorch iterators with DALI's names. Batches are tensors over the pipeline's memory, without a copy.

Outputs on a GPU are tensors on that GPU. Data is complete for work on the stream that is current when the iterator returns it. The pipeline reuses a batch's
memory after the last tensor over it is freed and the work that this stream had at that moment is done. If another stream reads a tensor too, keep the tensor
until that stream's work is done, as with any tensor of torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch.utils.dlpack import from_dlpack

from stoker import types
from stoker._classes import PythonFunction
from stoker._elsewhere import no_attribute
from stoker.errors import InvalidArgumentError
from stoker.pipeline import Pipeline
from stoker.plugin._handover import AS_IT_LIES, CHANNELS_FIRST, Handover
from stoker.plugin.base_iterator import EpochIterator, LastBatchPolicy, Taken
from stoker.plugin.pytorch import fn
from stoker.tensors import TensorCPU, TensorGPU, TensorList, TensorListCPU, TensorListGPU, stream_handle, tensor_list

__all__ = [
    "ClassificationIterator",
    "DALIClassificationIterator",
    "DALIGenericIterator",
    "DALIRaggedIterator",
    "GenericIterator",
    "LastBatchPolicy",
    "RaggedIterator",
    "TorchPythonFunction",
    "feed_ndarray",
    "fn",
    "to_torch_type",
]

# Maps the members of stoker.types.DALIDataType to torch's dtypes; has no entry for types that this version of torch lacks.
to_torch_type = {d: getattr(torch, types.dtype_name(d)) for d in types.DALIDataType if d >= 0 and hasattr(torch, types.dtype_name(d))}


class TorchPythonFunction(PythonFunction):
    """The class form of fn.torch_python_function: calls a Python function with torch tensors."""

    _call = staticmethod(fn.torch_python_function)


def dense_tensor(data: TensorList, channels_last: bool = False) -> torch.Tensor:
    """Returns a dense output as one torch tensor over the same memory. channels_last: images of layout HWC become (N,C,H,W) in torch's channels_last
    format, and sequences of layout FHWC become (N,F,C,H,W)."""
    tensor = from_dlpack(data.as_tensor())
    if channels_last and data.layout() in ("HWC", "FHWC"):
        tensor = tensor.movedim(-1, -3)
    return tensor


def feed_ndarray(dali_tensor: TensorCPU | TensorGPU | TensorList, arr: torch.Tensor, cuda_stream: Any = None) -> torch.Tensor:
    """Copies a tensor of a batch, or a list whose samples have one shape, into a torch tensor of the same shape and type, and returns that tensor. A copy to a
    GPU runs on cuda_stream, or on the current stream if it is None."""
    tensor = dali_tensor.as_tensor() if isinstance(dali_tensor, (TensorListCPU, TensorListGPU)) else dali_tensor
    if list(arr.shape) != tensor.shape():
        raise InvalidArgumentError(f"feed_ndarray: shapes differ: {tensor.shape()} and {list(arr.shape)}")
    if to_torch_type[tensor.dtype] != arr.dtype:
        raise InvalidArgumentError(f"feed_ndarray: types differ: {tensor.dtype!r} and {arr.dtype}")
    if cuda_stream is None or not arr.is_cuda:
        arr.copy_(from_dlpack(tensor))
    else:
        with torch.cuda.stream(torch.cuda.ExternalStream(stream_handle(cuda_stream), arr.device)):
            arr.copy_(from_dlpack(tensor))
    return arr


class _TorchIterator(EpochIterator):
    """Base class of the iterators of this module."""

    _dense = True  # whether each output is returned as one tensor

    def __init__(
        self, pipelines: Pipeline | Sequence[Pipeline], output_map: Sequence[str], channels_last: bool = False, **kwargs: Any
    ) -> None:
        self.output_map = list(output_map)
        if len(set(self.output_map)) != len(self.output_map):
            raise InvalidArgumentError(f"the names in output_map must differ: {self.output_map}")
        self._channels_last = channels_last
        self._hand_overs: list[Handover] = []  # one for each pipeline; made at the first step
        super().__init__(pipelines, **kwargs)
        for pipe in self._pipes:
            if pipe.num_outputs != len(self.output_map):
                raise InvalidArgumentError(f"output_map has {len(self.output_map)} names, the pipeline {pipe.num_outputs} outputs")

    def _convert(self, data: TensorList, position: int, valid: int) -> Any:
        tensor = dense_tensor(data, self._channels_last)
        return tensor if valid == len(data) else tensor[:valid]

    def _dict(self, taken: Taken, hand_over: Handover) -> dict[str, Any]:
        if taken.valid < len(taken.batch) or not self._dense:
            return {name: self._convert(tensor_list(taken.batch, i), i, taken.valid) for i, name in enumerate(self.output_map)}
        step: dict[str, Any] = {}
        tensors = hand_over.tensors(taken.batch)
        for i, name in enumerate(self.output_map):
            tensor = tensors[i]
            step[name] = self._convert(tensor_list(taken.batch, i), i, taken.valid) if tensor is None else tensor
        return step

    def __next__(self) -> list[dict[str, Any]]:
        return self._give(self._tensors)

    def _tensors(self, step: list[Taken]) -> list[dict[str, Any]]:
        if not self._hand_overs:
            views = [CHANNELS_FIRST if self._channels_last else AS_IT_LIES] * len(self.output_map)
            self._hand_overs = [Handover(views, t.batch) for t in step]
        return list(map(self._dict, step, self._hand_overs))

    next = __next__


class DALIGenericIterator(_TorchIterator):
    """Iterates over pipelines. A step is a list with one dict for each pipeline, from the names in output_map to tensors.

    An epoch ends after `size` samples, or with the epoch of the reader whose `name` is reader_name. last_batch_policy: what the epoch's last batch contains;
    see LastBatchPolicy. After StopIteration, reset() begins the next epoch; with auto_reset=True it is called for you. channels_last (only in Stoker): images
    of the layout HWC are returned as (N,C,H,W) in torch's channels_last format. prepare_first_batch: whether the pipelines begin to work in the constructor.
    fill_last_batch: DALI's older form of last_batch_policy, which overrides it: True means FILL, False PARTIAL. dynamic_shape has no effect.
    """

    def __init__(
        self,
        pipelines: Pipeline | Sequence[Pipeline],
        output_map: Sequence[str],
        size: int = -1,
        reader_name: str | None = None,
        auto_reset: str | bool | None = False,
        fill_last_batch: bool | None = None,
        dynamic_shape: bool | None = False,
        last_batch_padded: bool = False,
        last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL,
        prepare_first_batch: bool = True,
        channels_last: bool = False,
    ) -> None:
        super().__init__(
            pipelines,
            output_map,
            channels_last,
            size=size,
            reader_name=reader_name,
            auto_reset=auto_reset,
            fill_last_batch=fill_last_batch,
            last_batch_padded=last_batch_padded,
            last_batch_policy=last_batch_policy,
            prepare_first_batch=prepare_first_batch,
        )


class DALIClassificationIterator(DALIGenericIterator):
    """A DALIGenericIterator whose outputs are named data and label."""

    def __init__(
        self,
        pipelines: Pipeline | Sequence[Pipeline],
        size: int = -1,
        reader_name: str | None = None,
        auto_reset: str | bool | None = False,
        fill_last_batch: bool | None = None,
        dynamic_shape: bool | None = False,
        last_batch_padded: bool = False,
        last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL,
        prepare_first_batch: bool = True,
        channels_last: bool = False,
    ) -> None:
        super().__init__(
            pipelines,
            ["data", "label"],
            size,
            reader_name,
            auto_reset,
            fill_last_batch,
            dynamic_shape,
            last_batch_padded,
            last_batch_policy,
            prepare_first_batch,
            channels_last,
        )


class DALIRaggedIterator(_TorchIterator):
    """An iterator for outputs whose samples differ in shape. output_types: for each output, whether it is returned as one tensor (DENSE_TAG), as a list of
    tensors (SPARSE_LIST_TAG) or as a sparse COO tensor (SPARSE_COO_TAG); None: all as one tensor. The other arguments: see DALIGenericIterator."""

    DENSE_TAG = "dense"
    SPARSE_LIST_TAG = "sparse_list"
    SPARSE_COO_TAG = "sparse_coo"

    def __init__(
        self,
        pipelines: Pipeline | Sequence[Pipeline],
        output_map: Sequence[str],
        size: int = -1,
        reader_name: str | None = None,
        output_types: Sequence[str] | None = None,
        auto_reset: str | bool | None = False,
        fill_last_batch: bool | None = None,
        dynamic_shape: bool | None = False,
        last_batch_padded: bool = False,
        last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL,
        prepare_first_batch: bool = True,
    ) -> None:
        tags = [self.DENSE_TAG] * len(output_map) if output_types is None else list(output_types)
        if len(tags) != len(output_map):
            raise InvalidArgumentError(f"output_types has {len(tags)} entries, output_map {len(output_map)}")
        known = (self.DENSE_TAG, self.SPARSE_LIST_TAG, self.SPARSE_COO_TAG)
        if any(t not in known for t in tags):
            raise InvalidArgumentError("output_types holds DENSE_TAG, SPARSE_LIST_TAG or SPARSE_COO_TAG of DALIRaggedIterator")
        self.output_types = tags
        self._dense = all(t == self.DENSE_TAG for t in tags)
        super().__init__(
            pipelines,
            output_map,
            size=size,
            reader_name=reader_name,
            auto_reset=auto_reset,
            fill_last_batch=fill_last_batch,
            last_batch_padded=last_batch_padded,
            last_batch_policy=last_batch_policy,
            prepare_first_batch=prepare_first_batch,
        )

    def _convert(self, data: TensorList, position: int, valid: int) -> Any:
        tag = self.output_types[position]
        if tag == self.DENSE_TAG:
            return super()._convert(data, position, valid)
        samples = [from_dlpack(data[i]) for i in range(valid)]
        return samples if tag == self.SPARSE_LIST_TAG else _sparse_coo(samples)


def _sparse_coo(samples: list[torch.Tensor]) -> torch.Tensor:
    """Returns samples of different extents as one sparse tensor, whose first dimension counts the samples, and whose other extents are the largest of all
    samples. Raises InvalidArgumentError without samples."""
    if not samples:
        raise InvalidArgumentError("a sparse tensor of no samples")
    extents = [max(s.shape[d] for s in samples) for d in range(samples[0].dim())]
    device = samples[0].device
    indices, values = [], []
    for i, sample in enumerate(samples):
        # The indices of all elements are made without nonzero(), which would wait for the GPU.
        axes = [torch.full((1,), i, dtype=torch.int64, device=device), *(torch.arange(n, device=device) for n in sample.shape)]
        indices.append(torch.stack([a.flatten() for a in torch.meshgrid(*axes, indexing="ij")]))
        values.append(sample.flatten())
    return torch.sparse_coo_tensor(torch.cat(indices, 1), torch.cat(values), [len(samples), *extents], device=device)


GenericIterator = DALIGenericIterator
ClassificationIterator = DALIClassificationIterator
RaggedIterator = DALIRaggedIterator


def __getattr__(name: str) -> NoReturn:
    raise no_attribute(__name__, name)
