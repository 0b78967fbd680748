# SPDX-License-Identifier: Apache-2.0
"""torch_python_function: an operator that calls a Python function with torch tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from stoker._function import Given, Side, add_function
from stoker._types import DALIDataType, dtype_name


def _as_tensor(given: Given) -> torch.Tensor:
    """Returns a tensor over a sample's bytes."""
    data, dtype, shape = given
    kind = getattr(torch, dtype_name(DALIDataType(dtype)))
    return torch.frombuffer(data, dtype=kind).reshape(shape) if data else torch.empty(shape, dtype=kind, device="cpu")


def _on_gpu(device_id: int) -> Side:
    device = torch.device("cuda", device_id)
    return Side(lambda given: _as_tensor(given).to(device), lambda: torch.cuda.device(device))


def torch_python_function(
    *inputs: Any,
    function: Callable[..., Any],
    num_outputs: int = 1,
    device: str | None = None,
    batch_processing: bool = False,
    output_layouts: str | Sequence[str] | None = None,
    **kwargs: Any,
) -> Any:
    """Does the same as fn.python_function for a function that takes and returns torch tensors. With device="gpu" these are CUDA tensors."""
    return add_function(
        "torch_python_function",
        inputs,
        function,
        num_outputs,
        device,
        batch_processing,
        output_layouts,
        Side(_as_tensor),
        _on_gpu,
        **kwargs,
    )
