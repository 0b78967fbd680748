# SPDX-License-Identifier: Apache-2.0
"""RaggedBatch: samples of unequal size in one padded tensor."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from ..errors import ShapeError
from . import _ops
from ._native import CODES, direct, has_tangent
from ._shapes import Layout, check_dim, filler_of, inspect_arity, require

Device = torch.device | str


def check_sizes(name: str, batch: Any, other_name: str, other: Any, enough: bool = False) -> None:
    """Raises ShapeError if both arguments are RaggedBatches whose samples differ in size: entries of one would meet padding of the other. enough: samples of
    `batch` may also be larger. Works only on the CPU: the check would wait for a GPU."""
    if not (isinstance(batch, RaggedBatch) and isinstance(other, RaggedBatch)) or batch._layout is other._layout:
        return
    a, b = batch.sample_sizes, other.sample_sizes
    if a is b or a.shape != b.shape or not (a.is_cpu and b.is_cpu and direct(a)):
        return
    if not ((a >= b).all() if enough else torch.equal(a, b)):
        raise ShapeError(
            f"{name} has sample sizes {a.tolist()}, {other_name} {b.tolist()}: they must be {'at least those' if enough else 'equal'}"
        )


def _overlaps(tensor: Tensor) -> bool:
    """Returns whether elements of a tensor may share memory, as after expand() or unfold(): a step along one dim does not go beyond all elements of the dims
    with smaller steps."""
    if tensor.is_contiguous() or tensor.numel() == 0:
        return False
    # Not by sorting, which torch.compile cannot do with extents that it does not know.
    dims = list(enumerate(zip(tensor.stride(), tensor.shape, strict=True)))
    return any(extent > 1 and step <= sum(s * (n - 1) for j, (s, n) in dims if j != k and s <= step) for k, (step, extent) in dims)


class RaggedBatch:
    """A batch of samples that differ in size along one dimension, the ragged dim.

    tensor: the data, (*batch_shape, ...). The ragged dim comes after the batch dims. Along it, each sample is padded at its end to the size of the largest
        one. The values of the padding are undefined.
    mask: bool, (*batch_shape, max_sample_size): True for entries of the sample, False for padding.
    sample_sizes: int64, (*batch_shape): the number of entries of each sample without the padding.
    non_uniform_dim: index of the ragged dim; by default the first one after the batch dims.

    One of mask and sample_sizes is enough: the other is computed when it is first read. If their values fit no batch, ShapeError is raised on the CPU. On CUDA
    these values are not checked, because a check would wait for the GPU. There the caller must make sure that sizes are from 0 to the tensor's extent: kernels
    cut other sizes, and averages divide by them as they are. Batches may share these tensors, so do not write to them.
    """

    __slots__ = ("__weakref__", "_layout", "_non_uniform_dim", "_tensor")

    def __init__(
        self, tensor: Tensor, mask: Tensor | None = None, sample_sizes: Tensor | None = None, non_uniform_dim: int | None = None
    ) -> None:
        for name, given in (("tensor", tensor), ("mask", mask), ("sample_sizes", sample_sizes)):
            if given is not None and not isinstance(given, Tensor):
                raise ShapeError(f"{name} is {type(given).__name__}: give a Tensor, as from torch.as_tensor({name})")
        layout = Layout(mask, sample_sizes)
        batch_dims = layout.batch_dims
        require(batch_dims > 0, "mask and sample_sizes describe no batch dim: mask needs at least 2 dims, sample_sizes 1")
        require(
            tensor.dim() > batch_dims,
            lambda: (
                f"tensor must have more dims than the {batch_dims} batch dims: its shape is {tuple(tensor.shape)}, that of "
                f"{layout.describe()}"
            ),
        )
        dim = batch_dims if non_uniform_dim is None else check_dim("non_uniform_dim", non_uniform_dim, batch_dims, tensor.dim())
        layout.check(tensor, dim)
        layout.check_values(tensor.shape[dim])
        self._tensor, self._layout, self._non_uniform_dim = tensor, layout, dim

    @staticmethod
    def _of(tensor: Tensor, layout: Layout, non_uniform_dim: int) -> RaggedBatch:
        """Makes a batch from a tensor and a layout, without checks. The layout (mask and sizes) may be shared by several batches."""
        batch = RaggedBatch.__new__(RaggedBatch)
        batch._tensor, batch._layout, batch._non_uniform_dim = tensor, layout, non_uniform_dim
        return batch

    # ---- other constructors ----

    @classmethod
    def FromOversizeTensor(
        cls, tensor: Tensor, mask: Tensor | None = None, sample_sizes: Tensor | None = None, non_uniform_dim: int | None = None
    ) -> RaggedBatch:
        """Makes a batch from a tensor with more padding than the largest sample needs, and cuts off the excess. Waits for the device once."""
        whole = cls(tensor, mask, sample_sizes, non_uniform_dim)
        sizes = whole.sample_sizes
        largest = int(sizes.max()) if sizes.numel() else 0
        mask = None if mask is None else mask.narrow(-1, 0, largest)
        return cls(tensor.narrow(whole._non_uniform_dim, 0, largest), mask, sizes, whole._non_uniform_dim)

    @classmethod
    def Empty(
        cls,
        num_dims: int,
        non_uniform_dim: int,
        device: Device,
        num_batch_dims: int | None = None,
        batch_shape: Sequence[int] | int | None = None,
    ) -> RaggedBatch:
        """Makes a float32 batch of empty samples, with extent 0 in all data dims. batch_shape: the extents of the batch dims. Without it there are
        num_batch_dims batch dims (default: one), all with extent 0."""
        require(num_batch_dims is None or batch_shape is None, "give num_batch_dims or batch_shape, not both")
        if isinstance(batch_shape, int):
            batch_shape = (batch_shape,)
        shape = (0,) * (1 if num_batch_dims is None else num_batch_dims) if batch_shape is None else tuple(batch_shape)
        require(0 < len(shape) < num_dims, lambda: f"batch_shape {shape} must have 1 to {num_dims - 1} dims, as num_dims is {num_dims}")
        tensor = torch.zeros((*shape, *(0,) * (num_dims - len(shape))), dtype=torch.float32, device=device)
        return cls(tensor, None, torch.zeros(shape, dtype=torch.int64, device=device), non_uniform_dim)

    @classmethod
    def FromFullTensor(cls, full_tensor: Tensor, non_uniform_dim: int = 1, num_batch_dims: int = 1) -> RaggedBatch:
        """Makes a batch without padding: each sample fills the tensor along the ragged dim."""
        require(
            0 < num_batch_dims < full_tensor.dim(),
            lambda: f"num_batch_dims is {num_batch_dims}, full_tensor has shape {tuple(full_tensor.shape)}",
        )
        dim = check_dim("non_uniform_dim", non_uniform_dim, num_batch_dims, full_tensor.dim())
        shape, extent = full_tensor.shape[:num_batch_dims], full_tensor.shape[dim]
        sizes = torch.full(shape, extent, dtype=torch.int64, device=full_tensor.device)
        mask = torch.ones((*shape, extent), dtype=torch.bool, device=full_tensor.device)
        return cls(full_tensor, mask, sizes, dim)

    def create_with_sample_sizes_like_self(
        self, tensor: Tensor, non_uniform_dim: int | None = None, device: Device | None = None
    ) -> RaggedBatch:
        """Makes a batch from `tensor` with the batch shape and sample sizes of this batch. The data dims, and the position of the ragged dim, may differ."""
        if device is not None:
            tensor = tensor.to(device)
        batch_dims = self.num_batch_dims
        dim = self._non_uniform_dim if non_uniform_dim is None else non_uniform_dim
        dim = check_dim("non_uniform_dim", dim, batch_dims, tensor.dim())
        require(
            tensor.shape[:batch_dims] == self.batch_shape and tensor.shape[dim] == self.max_sample_size,
            lambda: (
                f"tensor of shape {tuple(tensor.shape)} with non_uniform_dim {dim} does not fit: batch shape {tuple(self.batch_shape)} and "
                f"maximum sample size {self.max_sample_size} are expected"
            ),
        )
        return RaggedBatch._of(tensor, self._layout.to(tensor.device), dim)

    # ---- contents ----

    @property
    def tensor(self) -> Tensor:
        return self._tensor

    @property
    def mask(self) -> Tensor:
        return self._layout.mask_of(self._tensor.shape[self._non_uniform_dim])

    @property
    def sample_sizes(self) -> Tensor:
        return self._layout.sizes_of()

    @property
    def non_uniform_dim(self) -> int:
        return self._non_uniform_dim

    @property
    def num_batch_dims(self) -> int:
        return self._layout.batch_dims

    @property
    def batch_shape(self) -> torch.Size:
        return self._tensor.shape[: self._layout.batch_dims]

    @property
    def total_num_samples_in_batch(self) -> int:
        return prod(self.batch_shape)

    @property
    def total_num_entries(self) -> int:
        """Returns the number of entries of all samples, without padding. The first access waits for the device."""
        return self._layout.total()

    @property
    def max_sample_size(self) -> int:
        return self._tensor.shape[self._non_uniform_dim]

    @property
    def device(self) -> torch.device:
        return self._tensor.device

    @property
    def shape(self) -> torch.Size:
        return self._tensor.shape

    @property
    def dtype(self) -> torch.dtype:
        return self._tensor.dtype

    @property
    def requires_grad(self) -> builtins.bool:
        return self._tensor.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: builtins.bool) -> None:
        self._tensor.requires_grad = value

    @property
    def retains_grad(self) -> builtins.bool:
        return self._tensor.retains_grad

    def retain_grad(self) -> None:
        self._tensor.retain_grad()

    def size(self, *args: Any, **kwargs: Any) -> Any:
        return self._tensor.size(*args, **kwargs)

    def dim(self) -> builtins.int:
        return self._tensor.dim()

    def __len__(self) -> builtins.int:
        return self._tensor.shape[0]

    def __getitem__(self, item: Any) -> Tensor:
        """Returns self.tensor[item], padding included."""
        return self._tensor[item]

    def __setitem__(self, item: Any, value: Any) -> None:
        self._tensor[item] = value

    def __repr__(self) -> str:
        return (
            f"RaggedBatch(\n  tensor={self._tensor!r},\n  mask={self.mask!r},\n  sample_sizes={self.sample_sizes!r},\n"
            f"  non_uniform_dim={self._non_uniform_dim}, batch_shape={tuple(self.batch_shape)})"
        )

    def __getstate__(self) -> tuple[Any, ...]:
        return self._tensor, self._layout.mask, self._layout.sizes, self._non_uniform_dim

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    # ---- padding ----

    def get_existence_weights(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """Returns a tensor of the data's shape with 1 for entries and 0 for padding."""
        return self._spread_mask().to(dtype).expand(self._tensor.shape).contiguous()

    def _spread_mask(self) -> Tensor:
        """Returns the mask with a dim of 1 for each data dim, so that it broadcasts against the data."""
        shape = [1] * self._tensor.dim()
        shape[: self.num_batch_dims] = self.batch_shape
        shape[self._non_uniform_dim] = self.max_sample_size
        return self.mask.reshape(shape)

    def with_padded_set_to(self, value_to_set: builtins.float) -> RaggedBatch:
        """Returns a copy in which all padding has this value. No gradient flows into the padding."""
        data = self._tensor
        if data.dtype in CODES:
            filled = _ops.keep(data, self.sample_sizes, None, filler_of("value_to_set", value_to_set, data.dtype), self._non_uniform_dim)
        else:
            filled = data.masked_fill(~self._spread_mask(), value_to_set)
        return RaggedBatch._of(filled, self._layout, self._non_uniform_dim)

    def set_padded_to(self, value_to_set: builtins.float) -> None:
        """Writes the value into the padding. If the tensor cannot be written to, because it is a leaf that requires grad or its elements share memory, replaces
        it by a copy."""
        data = self._tensor
        grad = torch.is_grad_enabled() and data.requires_grad
        plain = direct(data) and data.is_contiguous() and data.dtype in CODES and not (data.is_neg() or data.is_conj())
        # torch.compile cannot trace _is_view(). It raises an error by itself when code writes to a view of a leaf.
        base = data._base if not torch.compiler.is_compiling() and data._is_view() else data
        if (grad and base is not None and base.is_leaf and base.requires_grad) or _overlaps(data):
            self._tensor = self.with_padded_set_to(value_to_set)._tensor
        elif plain and not grad and not has_tangent(data):
            _ops.keep_inplace(data, self.sample_sizes, filler_of("value_to_set", value_to_set, data.dtype), self._non_uniform_dim)
        else:
            data.masked_fill_(~self._spread_mask(), value_to_set)

    # ---- batch dims ----

    def _reshaped(self, tensor: Tensor, change: Callable[[Tensor, builtins.int], Tensor], shift: builtins.int) -> RaggedBatch:
        """Returns a batch with `tensor`, whose batch dims were changed. change(t, n): makes the same change to a tensor t (mask or sizes) that has n more dims
        after the batch dims. shift: the number of batch dims that the change added."""
        return RaggedBatch._of(tensor, self._layout.changed(change), self._non_uniform_dim + shift)

    def repeat_samples(self, num_repeats: builtins.int | Sequence[builtins.int], batch_dim: builtins.int | None = None) -> RaggedBatch:
        """Repeats the samples num_repeats times along one batch dim, by default the first. A sequence gives a number of repeats for each batch dim."""
        batch_dims = self.num_batch_dims
        if isinstance(num_repeats, int):
            dim = check_dim("batch_dim", 0 if batch_dim is None else batch_dim, 0, batch_dims)
            repeats = [1] * batch_dims
            repeats[dim] = num_repeats
        else:
            repeats = [int(n) for n in num_repeats]
            require(batch_dim is None, "batch_dim must be None when num_repeats is a sequence")
            require(
                len(repeats) == batch_dims,
                lambda: f"num_repeats {tuple(repeats)} must have one number for each of the {batch_dims} batch dims",
            )

        def repeat(t: Tensor, behind: builtins.int) -> Tensor:
            return t.repeat(*repeats, *(1,) * behind)

        return self._reshaped(repeat(self._tensor, self._tensor.dim() - batch_dims), repeat, 0)

    def unsqueeze_batch_dim(self, dim: builtins.int) -> RaggedBatch:
        require(0 <= dim <= self.num_batch_dims, lambda: f"dim {dim} must be in 0..{self.num_batch_dims}")
        return self._reshaped(self._tensor.unsqueeze(dim), lambda t, _: t.unsqueeze(dim), 1)

    def squeeze_batch_dim(self, batch_dim: builtins.int) -> RaggedBatch:
        dim = check_dim("batch_dim", batch_dim, 0, self.num_batch_dims)
        if self.batch_shape[dim] != 1:
            raise ValueError(
                f"batch_dim {dim} has size {self.batch_shape[dim]}, only size 1 can be squeezed; batch shape {tuple(self.batch_shape)}"
            )
        require(self.num_batch_dims > 1, lambda: f"the only batch dim cannot be squeezed; tensor has shape {tuple(self.shape)}")
        return self._reshaped(self._tensor.squeeze(dim), lambda t, _: t.squeeze(dim), -1)

    def reshape_batch_dims(self, new_batch_shape: builtins.int | Sequence[builtins.int]) -> RaggedBatch:
        new = (new_batch_shape,) if isinstance(new_batch_shape, int) else tuple(new_batch_shape)
        batch_dims = self.num_batch_dims
        if -1 in new:  # computed here, because torch cannot compute it if another extent is 0
            known = prod([n for n in new if n != -1])  # a list: torch.compile takes no generator here
            require(new.count(-1) == 1 and known > 0, lambda: f"new_batch_shape {new} may have one -1, and no 0 next to it")
            new = tuple(prod(self.batch_shape) // known if n == -1 else n for n in new)
        require(
            prod(new) == prod(self.batch_shape),
            lambda: f"new_batch_shape {new} does not hold the samples of batch shape {tuple(self.batch_shape)}",
        )

        def reshape(t: Tensor, _: builtins.int) -> Tensor:
            return t.reshape(*new, *t.shape[batch_dims:])

        return self._reshaped(reshape(self._tensor, 0), reshape, len(new) - batch_dims)

    def flatten_batch_dims(self) -> RaggedBatch:
        return self.reshape_batch_dims(prod(self.batch_shape))

    def broadcast_batch_dims_to_shape(self, new_batch_shape: Sequence[builtins.int]) -> RaggedBatch:
        """Repeats the samples along each batch dim until the batch has the new shape, whose extents must be multiples of the current ones."""
        new, old = tuple(int(n) for n in new_batch_shape), tuple(self.batch_shape)
        require(len(new) == len(old), lambda: f"new_batch_shape {new} and batch shape {old} must have the same number of dimensions")
        require(
            all(o == n or (o and n % o == 0) for n, o in zip(new, old, strict=False)),
            lambda: f"batch shape {old} cannot be broadcast to {new}",
        )
        if new == old:
            return self
        return self.repeat_samples([n // o if o else 1 for n, o in zip(new, old, strict=False)])

    @staticmethod
    def broadcast_batch_dims(data: Sequence[RaggedBatch]) -> list[RaggedBatch]:
        """Broadcasts all batches to one batch shape: in each dim, the largest extent of all batches."""
        shapes = [tuple(d.batch_shape) for d in data]
        require(
            len({len(s) for s in shapes}) <= 1, lambda: f"batch shapes {shapes} must have the same number of dimensions to be broadcast"
        )
        target = tuple(max(extents) for extents in zip(*shapes, strict=False))
        return [d.broadcast_batch_dims_to_shape(target) for d in data]

    # ---- data dims ----

    def get_non_uniform_dimension_transposed_to(self, dim: builtins.int) -> RaggedBatch:
        """Returns a batch whose ragged dim is swapped with `dim`; self if `dim` is the ragged dim already."""
        dim = check_dim("dim", dim, self.num_batch_dims, self.dim())
        if dim == self._non_uniform_dim:
            return self
        return RaggedBatch._of(self._tensor.transpose(self._non_uniform_dim, dim), self._layout, dim)

    def unsqueeze_data_dim(self, dim: builtins.int) -> RaggedBatch:
        dims = self.dim() + 1
        dim = check_dim("dim", dim, self.num_batch_dims, dims)
        return RaggedBatch._of(self._tensor.unsqueeze(dim), self._layout, self._non_uniform_dim + (dim <= self._non_uniform_dim))

    # ---- data ----

    def apply(self, proc_step: Callable[..., Tensor | tuple[Tensor, ...]]) -> RaggedBatch | tuple[RaggedBatch, ...]:
        """Calls proc_step with the tensor, the mask and the sample sizes, or only the first or the first two if it takes fewer arguments. Returns a batch made
        from the result, or a tuple of batches if the result is a tuple. Arguments of proc_step with a default are not passed, except the first one."""
        arguments = (lambda: self._tensor, lambda: self.mask, lambda: self.sample_sizes)
        result = proc_step(*(get() for get in arguments[: inspect_arity(proc_step)]))
        if isinstance(result, tuple):
            return tuple(self.create_with_sample_sizes_like_self(t) for t in result)
        return self.create_with_sample_sizes_like_self(result)

    def set_tensor(self, tensor: Tensor) -> None:
        require(
            tensor.dim() > self._non_uniform_dim
            and tensor.shape[: self.num_batch_dims] == self.batch_shape
            and tensor.shape[self._non_uniform_dim] == self.max_sample_size,
            lambda: (
                f"tensor of shape {tuple(tensor.shape)} cannot replace one of shape {tuple(self.shape)}: batch dims and the size of "
                f"non_uniform_dim {self._non_uniform_dim} must be equal"
            ),
        )
        require(tensor.device == self.device, lambda: f"tensor is on {tensor.device}, the batch on {self.device}")
        self._tensor = tensor

    def split(self) -> list[Any]:
        """Returns the samples without padding, in nested lists, one level for each batch dim. Waits for the device once."""
        batch_dims, dim = self.num_batch_dims, self._non_uniform_dim

        def take(tensor: Tensor, sizes: Any, depth: builtins.int) -> Any:
            if depth == batch_dims:
                return tensor.narrow(dim - batch_dims, 0, sizes)
            return [take(t, s, depth + 1) for t, s in zip(tensor.unbind(0), sizes, strict=False)]

        return take(self._tensor, self.sample_sizes.tolist(), 0)

    def as_self_with_cloned_data(self) -> RaggedBatch:
        return RaggedBatch._of(self._tensor.clone(), self._layout, self._non_uniform_dim)

    def _with(self, tensor: Tensor) -> RaggedBatch:
        return RaggedBatch._of(tensor, self._layout.to(tensor.device), self._non_uniform_dim)

    def detach(self) -> RaggedBatch:
        return self._with(self._tensor.detach())

    def to(self, *args: Any, **kwargs: Any) -> RaggedBatch:
        """Does the same as torch.Tensor.to for the data. Mask and sample sizes follow to another device, but keep their types."""
        return self._with(self._tensor.to(*args, **kwargs))

    def to_device(self, device: Device) -> RaggedBatch:
        return self._with(self._tensor.to(device=device))

    def cpu(self) -> RaggedBatch:
        return self._with(self._tensor.cpu())

    def cuda(self, device: Any | None = None) -> RaggedBatch:
        return self._with(self._tensor.cuda(device))

    def to_dtype(self, dtype: torch.dtype) -> RaggedBatch:
        return self._with(self._tensor.to(dtype=dtype))

    def int(self) -> RaggedBatch:
        return self._with(self._tensor.int())

    def long(self) -> RaggedBatch:
        return self._with(self._tensor.long())

    def bool(self) -> RaggedBatch:
        return self._with(self._tensor.bool())

    def half(self) -> RaggedBatch:
        return self._with(self._tensor.half())

    def bfloat16(self) -> RaggedBatch:
        return self._with(self._tensor.bfloat16())

    def float(self) -> RaggedBatch:
        return self._with(self._tensor.float())

    def double(self) -> RaggedBatch:
        return self._with(self._tensor.double())

    def cfloat(self) -> RaggedBatch:
        return self._with(self._tensor.to(torch.complex64))

    def cdouble(self) -> RaggedBatch:
        return self._with(self._tensor.to(torch.complex128))
