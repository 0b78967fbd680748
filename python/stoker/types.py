# SPDX-License-Identifier: Apache-2.0
"""Types, constants and small classes with DALI's names and values."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from stoker._elsewhere import no_attribute
from stoker._types import *  # noqa: F403
from stoker._types import (
    NUMBERS,
    BatchInfo,
    DALIDataType,
    DALIImageType,
    DALIInterpType,
    PipelineAPIType,
    SampleInfo,
    ScalarConstant,
    to_dtype,
)

if TYPE_CHECKING:
    from stoker.data_node import DataNode
    from stoker.tensors import TensorCPU as TensorCPU
    from stoker.tensors import TensorGPU as TensorGPU
    from stoker.tensors import TensorListCPU as TensorListCPU
    from stoker.tensors import TensorListGPU as TensorListGPU

for _kind in (DALIDataType, DALIImageType, DALIInterpType, PipelineAPIType, SampleInfo, BatchInfo, ScalarConstant):
    _kind.__module__ = __name__  # repr() and pickle use the module that users know


def Constant(
    value: Any,
    dtype: Any = None,
    shape: Sequence[int] | None = None,
    layout: str | None = None,
    device: str | None = None,
    **kwargs: Any,
) -> ScalarConstant | DataNode:
    """Returns a number with a type, for arithmetic with nodes (ScalarConstant). If shape, layout or device is given, or if the value is not a bool, int or
    float of Python, returns a node with the same value for each sample."""
    if shape is None and layout is None and device is None and isinstance(value, (bool, int, float)) and not isinstance(value, IntEnum):
        return ScalarConstant(value, None if dtype is None else to_dtype(dtype))
    from stoker.data_node import constant_node

    node = constant_node(value, dtype=None if dtype is None else to_dtype(dtype), shape=shape, layout=layout, **kwargs)
    return node.gpu() if device == "gpu" else node


def ConstantNode(
    device: str | None, value: Any, dtype: Any = None, shape: Sequence[int] | None = None, layout: str | None = None, **kwargs: Any
) -> DataNode:
    """Returns a node on the device that has the same value for each sample."""
    node: DataNode = Constant(value, dtype, shape, layout, device or "cpu", **kwargs)  # type: ignore[assignment]
    return node


class CUDAStream:
    """A CUDA stream. ptr: its handle as a number; 0 is the default stream."""

    def __init__(self, ptr: int = 0) -> None:
        self.ptr = ptr


to_dali_type = to_dtype
_all_types = tuple(t for t in NUMBERS if t is not DALIDataType.BFLOAT16)  # DALI's tests read this name
TensorLayout = str


def __getattr__(name: str) -> Any:
    if name in ("TensorListCPU", "TensorListGPU", "TensorCPU", "TensorGPU"):
        from stoker import tensors

        return getattr(tensors, name)
    raise no_attribute("stoker.types", name)
