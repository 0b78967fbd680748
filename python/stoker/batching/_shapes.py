# SPDX-License-Identifier: Apache-2.0
"""The class Layout, which holds the mask and the sample sizes of a ragged batch, and functions that check arguments."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch import Tensor

from ..errors import InvalidArgumentError, ShapeError
from ._native import direct


def require(condition: bool, text: str | Callable[[], str]) -> None:
    """Raises ShapeError unless the condition is true. text: the message, or a function that makes it if it is needed."""
    if not condition:
        raise ShapeError(text if isinstance(text, str) else text())


def check_dim(name: str, dim: int, low: int, dims: int) -> int:
    """Returns dim, or dim + dims if it is negative. Raises ShapeError if the result is not in low..dims-1."""
    found = dim + dims if dim < 0 else dim
    if not low <= found < dims:
        raise ShapeError(f"{name} is {dim}, but must be in {low}..{dims - 1}")
    return found


def value_outside(values: Tensor, limit: int) -> int | None:
    """Returns a value that is not in 0..limit. Returns None if all values are, and for tensors whose values cannot be read without a wait, such as those on a
    GPU."""
    if not values.is_cpu or values.numel() == 0 or not direct(values):
        return None
    low, high = (int(v) for v in values.aminmax())
    return low if low < 0 else high if high > limit else None


def filler_of(name: str, value: Any, dtype: torch.dtype) -> float:
    """Returns the value that fills entries of a tensor, as a float. Raises InvalidArgumentError if the tensor's type or a float cannot represent it: a
    conversion would wrap it around, round it, or make infinity of it. The fraction of a filler of whole numbers is cut, as by torch."""
    filler = float(value)
    if filler == 0 or dtype == torch.bool:
        return filler
    whole = not (dtype.is_floating_point or dtype.is_complex)
    limits: Any = torch.iinfo(dtype) if whole else torch.finfo(dtype)
    if not limits.min <= filler <= limits.max and (whole or math.isfinite(filler)):
        raise InvalidArgumentError(f"{name} is {value}, which {dtype} cannot represent: its values go from {limits.min} to {limits.max}")
    if whole and isinstance(value, int) and int(filler) != value:
        raise InvalidArgumentError(
            f"{name} is {value}, which a double cannot represent: fillers are passed as doubles; {int(filler)} is the nearest"
        )
    return filler


def _count_arguments(function: Callable[..., Any]) -> tuple[int, int, bool]:
    """Returns (number of positional arguments, number of those without a default, whether there is *args) of a callable; (1, 1, False) for builtins, and if the
    signature cannot be read."""
    # torch.compile can trace a code object, but not inspect.signature of a function that was made in the graph, or of a builtin such as torch.relu.
    if isinstance(function, FunctionType):
        code = function.__code__
        return code.co_argcount, code.co_argcount - len(function.__defaults__ or ()), bool(code.co_flags & inspect.CO_VARARGS)
    if isinstance(function, BuiltinFunctionType):
        return 1, 1, False
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1, 1, False
    kinds = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(kinds), sum(p.default is p.empty for p in kinds), any(p.kind is p.VAR_POSITIONAL for p in parameters)


def inspect_arity(function: Callable[..., Any]) -> int:
    """Returns how many of (tensor, mask, sample_sizes) to pass to a callable: as many as it has arguments without a default, at least 1. Raises ValueError if
    it has no *args and takes no argument, or needs more than three."""
    count, required, any_number = _count_arguments(function)
    if not any_number and (count == 0 or required > 3):
        raise ValueError(f"proc_step {function!r} takes {count} positional arguments; 1, 2 or 3 are passed: tensor, mask, sample_sizes")
    return max(1, required)


class Layout:
    """The mask and the sample sizes of a ragged batch. If one is missing, it is computed from the other when it is first needed. A batch that is made from
    another with the same sample sizes shares its Layout, so that the missing one is computed once."""

    __slots__ = ("_total", "batch_dims", "mask", "sizes")

    def __init__(self, mask: Tensor | None, sizes: Tensor | None) -> None:
        require(mask is not None or sizes is not None, "mask or sample_sizes must be given")
        if mask is not None and mask.dtype != torch.bool:
            raise ShapeError(f"mask must be bool, not {mask.dtype}")
        if sizes is not None and sizes.dtype != torch.int64:
            if sizes.dtype.is_floating_point or sizes.dtype == torch.bool:
                raise ShapeError(f"sample_sizes must be int64, not {sizes.dtype}")
            sizes = sizes.long()
        self.mask, self.sizes = mask, sizes
        self._total: int | None = None
        self.batch_dims: int = sizes.dim() if sizes is not None else mask.dim() - 1  # type: ignore[union-attr]

    def describe(self) -> str:
        known = [f"mask {tuple(self.mask.shape)}"] if self.mask is not None else []
        return " and ".join(known + ([f"sample_sizes {tuple(self.sizes.shape)}"] if self.sizes is not None else []))

    def check(self, tensor: Tensor, dim: int) -> None:
        batch = tensor.shape[: self.batch_dims]
        for name, own, want in (("sample_sizes", self.sizes, tuple(batch)), ("mask", self.mask, (*batch, tensor.shape[dim]))):
            if own is not None and tuple(own.shape) != want:
                raise ShapeError(
                    f"{name} has shape {tuple(own.shape)}, tensor {tuple(tensor.shape)} with non_uniform_dim {dim} needs {want}"
                )
            if own is not None and own.device != tensor.device:
                raise ShapeError(f"{name} is on {own.device}, tensor on {tensor.device}")

    def check_values(self, extent: int) -> None:
        """Raises ShapeError if a size is not in 0..extent, if an entry of the mask follows padding, or if mask and sizes disagree. Works only on the CPU: the
        check would wait for a GPU."""
        known = self.sizes if self.sizes is not None else self.mask
        if not known.is_cpu or known.numel() == 0 or not direct(known):  # type: ignore[union-attr,arg-type]
            return
        wrong = None if self.sizes is None else value_outside(self.sizes, extent)
        if wrong is not None:
            raise ShapeError(f"sample_sizes holds {wrong}: the samples of the tensor have room for 0 to {extent} entries")
        if self.mask is not None and not torch.equal(
            self.mask, torch.arange(extent, device=self.mask.device) < self.sizes_of().unsqueeze(-1)
        ):
            raise ShapeError(
                "mask has True after False in a sample, or sample_sizes differs from its number of True: padding is at the end of each sample; "
                "batched_bool_indexing(tensor, mask) moves entries to the front"
            )

    def mask_of(self, extent: int) -> Tensor:
        """Returns the mask, which is computed from the sizes if it is missing. extent: the mask's last extent in that case."""
        if self.mask is None:
            places = torch.arange(extent, device=self.sizes.device)  # type: ignore[union-attr]
            self.mask = places < self.sizes.unsqueeze(-1)  # type: ignore[union-attr]
        return self.mask

    def sizes_of(self) -> Tensor:
        if self.sizes is None:
            self.sizes = self.mask.sum(-1)  # type: ignore[union-attr]
        return self.sizes

    def total(self) -> int:
        """Returns the sum of the sizes. The first call waits for the GPU if the sizes are on one."""
        if self._total is None:
            self._total = int(self.sizes_of().sum())
        return self._total

    def to(self, device: torch.device) -> Layout:
        known = self.sizes if self.sizes is not None else self.mask
        if known.device == device:  # type: ignore[union-attr]
            return self
        return self.changed(lambda t, _: t.to(device))

    def changed(self, change: Callable[[Tensor, int], Tensor]) -> Layout:
        """Returns a Layout with change(mask, 1) and change(sizes, 0). The second argument is the number of dims after the batch dims."""
        return Layout(None if self.mask is None else change(self.mask, 1), None if self.sizes is None else change(self.sizes, 0))
