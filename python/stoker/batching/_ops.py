# SPDX-License-Identifier: Apache-2.0
"""Primitives that move rows of data along one dim of a padded batch, with autograd.

Each primitive with a derivative has four parts. `_name_run` calls libstoker. A torch.autograd.Function serves eager code, because it costs less than a
custom operator. The operator torch.ops.stoker.name, with a fake implementation, serves torch.compile and other code that needs the dispatcher. A second
Function, which _transformed makes, serves the transforms of torch.func, because torch cannot transform the derivative of a custom operator. All have the same
derivative, which is written with these primitives, so that higher derivatives exist too.

The primitives are linear in their data and base, so their forward derivative is the primitive of the tangents with zeros as fillers.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, overload

import torch
from torch import Tensor
from torch.autograd import forward_ad

from ._native import CODES, INDEX_BYTES, UNCOUNTED, device_of, direct, has_tangent, in_transform, lib, pointer, refuse

_library = torch.library.Library("stoker", "FRAGMENT")


def _register(schema: str, run: Callable[..., Any], fake: Callable[..., Any]) -> None:
    name = schema.split("(", 1)[0]
    _library.define(schema, tags=(torch.Tag.needs_fixed_stride_order,) if hasattr(torch.Tag, "needs_fixed_stride_order") else ())
    for key in ("CPU", "CUDA"):
        _library.impl(name, run, key)
    torch.library.register_fake(f"stoker::{name}", fake, lib=_library)


def _derive(name: str, setup: Callable[..., None], backward: Callable[..., Any]) -> None:
    torch.library.register_autograd(f"stoker::{name}", backward, setup_context=setup, lib=_library)


def _transformed(name: str, setup: Callable[..., None], backward: Callable[..., Any]) -> Any:
    """Returns a torch.autograd.Function over the operator torch.ops.stoker.name, which grad, vjp, vmap and the other transforms of torch.func can transform."""
    operator = getattr(torch.ops.stoker, name)
    members = {"forward": operator, "setup_context": setup, "backward": backward}
    body = {key: staticmethod(value) for key, value in members.items()} | {"generate_vmap_rule": True}
    return type(f"_Transformed_{name}", (torch.autograd.Function,), body)


def _tangents(*tensors: Tensor | None) -> list[tuple[Any, Any]] | None:
    """Returns (value, tangent) for each tensor if one of them has a tangent of forward-mode differentiation, else None."""
    if forward_ad._current_level < 0 or torch.compiler.is_compiling() or not any(t is not None and has_tangent(t) for t in tensors):
        return None
    return [forward_ad.unpack_dual(t) if t is not None else (None, None) for t in tensors]


def _zeros_if_none(tangent: Tensor | None, value: Tensor) -> Tensor:
    return torch.zeros_like(value) if tangent is None else tangent


@overload
def _dense(tensor: Tensor) -> Tensor: ...
@overload
def _dense(tensor: None) -> None: ...
@overload
def _dense(tensor: Tensor | None) -> Tensor | None: ...
def _dense(tensor: Tensor | None) -> Tensor | None:
    """Returns the tensor, or a copy whose memory holds its elements in order. Some tensors are lazy: the memory of a conjugated or negated view holds other
    values, and the zeros that autograd makes as the derivative of a constant have no memory."""
    if tensor is None or (tensor.is_contiguous() and not tensor.is_neg() and not tensor.is_conj() and not tensor._is_zerotensor()):
        return tensor
    if tensor._is_zerotensor():
        return torch.zeros(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    return tensor.resolve_conj().resolve_neg().contiguous()


def _replaced(shape: torch.Size, dim: int, extent: int) -> tuple[int, ...]:
    return (*shape[:dim], extent, *shape[dim + 1 :])


def _index_args(index: Tensor | None, sizes: Tensor | None) -> tuple[int, int, int, int]:
    if index is None:
        return (0, 0, 0, 4)
    return (index.data_ptr(), pointer(sizes), index.shape[-1], INDEX_BYTES[index.dtype])


# ---- gather: out[b, j] = data[b, index[b, j]] ----


def _gather_run(
    data: Tensor, index: Tensor, index_sizes: Tensor | None, data_sizes: Tensor | None, winner: Tensor | None,
    base: Tensor | None, filler: float, dim: int, exact: bool, kind: int,
) -> Tensor:  # fmt: skip
    device = device_of(data)
    data, index = _dense(data), _dense(index)
    index_sizes, data_sizes, winner, base = _dense(index_sizes), _dense(data_sizes), _dense(winner), _dense(base)
    shape, batch_dims = data.shape, index.dim() - 1
    out = data.new_empty(_replaced(shape, dim, index.shape[-1]))
    refused = lib.gather(
        device.handle, device.stream(), prod(shape[:batch_dims]), prod(shape[batch_dims:dim]), prod(shape[dim + 1 :]), CODES[data.dtype],
        exact, data.data_ptr(), shape[dim], pointer(data_sizes), *_index_args(index, index_sizes), pointer(winner), pointer(base), filler,
        out.data_ptr(), device.counter(kind),
    )  # fmt: skip
    refuse(kind, refused)
    return out


def _gather_fake(data, index, index_sizes, data_sizes, winner, base, filler, dim, exact, kind):
    return data.new_empty(_replaced(data.shape, dim, index.shape[-1]))


def _gather_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    data, index, index_sizes, data_sizes, winner, base, _, dim, exact, _ = inputs
    ctx.save_for_backward(index, index_sizes, data_sizes, winner)
    ctx.items, ctx.dim, ctx.exact, ctx.has_base = data.shape[dim], dim, exact, base is not None


def _gather_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    index, index_sizes, data_sizes, winner = ctx.saved_tensors
    data_grad = base_grad = None
    if ctx.needs_input_grad[0]:
        if winner is not None:  # winner[b, i] is the only index j that read item i of the data, so nothing has to be summed
            data_grad = gather(grad, winner, None, None, None, None, 0.0, ctx.dim, True, UNCOUNTED)
        else:
            data_grad = scatter_add(grad, index, index_sizes, data_sizes, ctx.items, ctx.dim, ctx.exact)
    if ctx.has_base and ctx.needs_input_grad[5]:
        base_grad = keep(grad, None, index, 0.0, ctx.dim)
    return data_grad, None, None, None, None, base_grad, None, None, None, None


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        _gather_setup(ctx, inputs, inputs[0])
        return _gather_run(*inputs)

    backward = staticmethod(_gather_backward)


_register(
    "gather(Tensor data, Tensor index, Tensor? index_sizes, Tensor? data_sizes, Tensor? winner, Tensor? base, float filler, int dim, bool exact, "
    "int kind) -> Tensor",
    _gather_run,
    _gather_fake,
)
_derive("gather", _gather_setup, _gather_backward)
_TransformedGather = _transformed("gather", _gather_setup, _gather_backward)


def gather(
    data: Tensor, index: Tensor, index_sizes: Tensor | None, data_sizes: Tensor | None, winner: Tensor | None,
    base: Tensor | None, filler: float, dim: int, exact: bool, kind: int,
) -> Tensor:  # fmt: skip
    """Returns out[b, .., j, ..] = data[b, .., index[b, j], ..], where b stands for all batch dims and j is in dim `dim`. Items without an index get the value
    of base, or the filler if base is None. index_sizes, data_sizes: numbers of indices and of items in each sample; None: all. winner: for each item of the
    data the only j that may read it, or -1 (the gradient of scatter needs this); None: every j may. exact: negative and too large indices mean "no index";
    otherwise negative ones count from the end. kind: which counter of _native.KINDS counts indices out of range, or UNCOUNTED."""
    if dual := _tangents(data, base):
        (value, tangent), (base, base_tangent) = dual
        made = gather(value, index, index_sizes, data_sizes, winner, base, filler, dim, exact, kind)
        change = _zeros_if_none(tangent, value)
        return forward_ad.make_dual(made, gather(change, index, index_sizes, data_sizes, winner, base_tangent, 0.0, dim, exact, UNCOUNTED))
    if not direct(data):
        run = _TransformedGather.apply if in_transform() else torch.ops.stoker.gather
        return run(data, index, index_sizes, data_sizes, winner, base, filler, dim, exact, kind)
    if torch.is_grad_enabled() and (data.requires_grad or (base is not None and base.requires_grad)):
        return _Gather.apply(data, index, index_sizes, data_sizes, winner, base, filler, dim, exact, kind)
    return _gather_run(data, index, index_sizes, data_sizes, winner, base, filler, dim, exact, kind)


# ---- scatter_add, the adjoint of gather: out[b, index[b, j]] += data[b, j] ----


def _scatter_add_run(
    data: Tensor, index: Tensor, index_sizes: Tensor | None, out_sizes: Tensor | None, items: int, dim: int, exact: bool
) -> Tensor:
    if data.is_complex():  # a complex sum adds the real parts and the imaginary parts, which view_as_real puts into one more dim at the end
        parts = torch.view_as_real(data.resolve_conj())
        return torch.view_as_complex(_scatter_add_run(parts, index, index_sizes, out_sizes, items, dim, exact))
    device = device_of(data)
    data, index, index_sizes, out_sizes = _dense(data), _dense(index), _dense(index_sizes), _dense(out_sizes)
    shape, batch_dims = data.shape, index.dim() - 1
    out = data.new_empty(_replaced(shape, dim, items))
    lib.scatter_add(
        device.handle, device.stream(), prod(shape[:batch_dims]), prod(shape[batch_dims:dim]), prod(shape[dim + 1 :]), CODES[data.dtype],
        exact, data.data_ptr(), *_index_args(index, index_sizes), items, pointer(out_sizes), out.data_ptr(),
    )  # fmt: skip
    return out


def _scatter_add_fake(data, index, index_sizes, out_sizes, items, dim, exact):
    return data.new_empty(_replaced(data.shape, dim, items))


def _scatter_add_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, index, index_sizes, out_sizes, _, dim, exact = inputs
    ctx.save_for_backward(index, index_sizes, out_sizes)
    ctx.dim, ctx.exact = dim, exact


def _scatter_add_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    index, index_sizes, out_sizes = ctx.saved_tensors
    data_grad = None
    if ctx.needs_input_grad[0]:
        data_grad = gather(grad, index, index_sizes, out_sizes, None, None, 0.0, ctx.dim, ctx.exact, UNCOUNTED)
    return data_grad, None, None, None, None, None, None


class _ScatterAdd(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        _scatter_add_setup(ctx, inputs, inputs[0])
        return _scatter_add_run(*inputs)

    backward = staticmethod(_scatter_add_backward)


_register(
    "scatter_add(Tensor data, Tensor index, Tensor? index_sizes, Tensor? out_sizes, SymInt items, int dim, bool exact) -> Tensor",
    _scatter_add_run,
    _scatter_add_fake,
)
_derive("scatter_add", _scatter_add_setup, _scatter_add_backward)
_TransformedScatterAdd = _transformed("scatter_add", _scatter_add_setup, _scatter_add_backward)


def scatter_add(
    data: Tensor, index: Tensor, index_sizes: Tensor | None, out_sizes: Tensor | None, items: int, dim: int, exact: bool
) -> Tensor:
    """Returns a tensor with `items` items along `dim`: zeros, to which out[b, .., index[b, j], ..] += data[b, .., j, ..] was applied in the order of j."""
    if dual := _tangents(data):
        made, change = (scatter_add(t, index, index_sizes, out_sizes, items, dim, exact) for t in dual[0])
        return forward_ad.make_dual(made, change)
    if not direct(data):
        run = _TransformedScatterAdd.apply if in_transform() else torch.ops.stoker.scatter_add
        return run(data, index, index_sizes, out_sizes, items, dim, exact)
    if torch.is_grad_enabled() and data.requires_grad:
        return _ScatterAdd.apply(data, index, index_sizes, out_sizes, items, dim, exact)
    return _scatter_add_run(data, index, index_sizes, out_sizes, items, dim, exact)


# ---- scatter: a copy of base (or the filler) in which items are replaced by rows of the source; the last of several rows for one item wins ----


def _scatter_run(
    source: Tensor, target: Tensor, sizes: Tensor | None, source_sizes: Tensor | None, origin_index: Tensor | None,
    base: Tensor | None, filler: float, items: int, item_sizes: Tensor | None, dim: int, kind: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    device = device_of(source)
    source, target = _dense(source), _dense(target)
    sizes, source_sizes, origin_index, base, item_sizes = map(_dense, (sizes, source_sizes, origin_index, base, item_sizes))
    shape, batch_dims = source.shape, target.dim() - 1
    out = source.new_empty(_replaced(shape, dim, items))
    origin = torch.empty((*shape[:batch_dims], items), dtype=torch.int32, device=source.device)
    refused = lib.scatter(
        device.handle, device.stream(), prod(shape[:batch_dims]), prod(shape[batch_dims:dim]), prod(shape[dim + 1 :]), CODES[source.dtype],
        source.data_ptr(), shape[dim], pointer(source_sizes), *_index_args(target, sizes), *_index_args(origin_index, sizes), pointer(base),
        filler, items, pointer(item_sizes), out.data_ptr(), origin.data_ptr(), device.counter(kind),
    )  # fmt: skip
    refuse(kind, refused)
    return out, origin


def _scatter_fake(source, target, sizes, source_sizes, origin_index, base, filler, items, item_sizes, dim, kind):
    batch_dims = target.dim() - 1
    out = source.new_empty(_replaced(source.shape, dim, items))
    return out, source.new_empty((*source.shape[:batch_dims], items), dtype=torch.int32)


def _scatter_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    source, target, sizes, _, origin_index, base, _, _, item_sizes, dim, _ = inputs
    ctx.save_for_backward(target, sizes, item_sizes, output[1])
    ctx.items, ctx.dim, ctx.mapped, ctx.has_base = source.shape[dim], dim, origin_index is not None, base is not None
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _scatter_backward(ctx: Any, grad: Tensor | None, _: Any = None) -> tuple[Tensor | None, ...]:
    target, sizes, item_sizes, origin = ctx.saved_tensors
    source_grad = base_grad = None
    if grad is not None and ctx.needs_input_grad[0]:
        if ctx.mapped:
            source_grad = scatter_add(grad, origin, None, None, ctx.items, ctx.dim, True)
        else:
            source_grad = gather(grad, target, sizes, item_sizes, origin, None, 0.0, ctx.dim, False, UNCOUNTED)
    if grad is not None and ctx.has_base and ctx.needs_input_grad[5]:
        base_grad = keep(grad, None, origin, 0.0, ctx.dim)
    return source_grad, None, None, None, None, base_grad, None, None, None, None, None


class _Scatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        output = _scatter_run(*inputs)
        _scatter_setup(ctx, inputs, output)
        return output

    backward = staticmethod(_scatter_backward)


_register(
    "scatter(Tensor source, Tensor target, Tensor? sizes, Tensor? source_sizes, Tensor? origin_index, Tensor? base, float filler, SymInt items, "
    "Tensor? item_sizes, int dim, int kind) -> (Tensor, Tensor)",
    _scatter_run,
    _scatter_fake,
)
_derive("scatter", _scatter_setup, _scatter_backward)
_TransformedScatter = _transformed("scatter", _scatter_setup, _scatter_backward)


def scatter(
    source: Tensor, target: Tensor, sizes: Tensor | None, source_sizes: Tensor | None, origin_index: Tensor | None,
    base: Tensor | None, filler: float, items: int, item_sizes: Tensor | None, dim: int, kind: int,
) -> Tensor:  # fmt: skip
    """Returns `out`, a copy of base, or `items` items of the filler if base is None, in which out[b, .., target[b, j], ..] = source[b, .., i, ..]. i is
    origin_index[b, j], or j if origin_index is None. sizes: number of targets of each sample; None: all of them."""
    if dual := _tangents(source, base):
        (value, tangent), (base, base_tangent) = dual
        made = scatter(value, target, sizes, source_sizes, origin_index, base, filler, items, item_sizes, dim, kind)
        change = _zeros_if_none(tangent, value)
        rest = (items, item_sizes, dim, UNCOUNTED)
        return forward_ad.make_dual(made, scatter(change, target, sizes, source_sizes, origin_index, base_tangent, 0.0, *rest))
    if not direct(source):
        run = _TransformedScatter.apply if in_transform() else torch.ops.stoker.scatter
        return run(source, target, sizes, source_sizes, origin_index, base, filler, items, item_sizes, dim, kind)[0]
    if torch.is_grad_enabled() and (source.requires_grad or (base is not None and base.requires_grad)):
        return _Scatter.apply(source, target, sizes, source_sizes, origin_index, base, filler, items, item_sizes, dim, kind)[0]
    return _scatter_run(source, target, sizes, source_sizes, origin_index, base, filler, items, item_sizes, dim, kind)[0]


# ---- keep: a copy of the data with padding (or written items) replaced by a value ----


def _keep_run(data: Tensor, sizes: Tensor | None, origin: Tensor | None, filler: float, dim: int) -> Tensor:
    device = device_of(data)
    data, sizes, origin = _dense(data), _dense(sizes), _dense(origin)
    batch_dims = sizes.dim() if sizes is not None else origin.dim() - 1  # type: ignore[union-attr]
    shape = data.shape
    out = torch.empty_like(data)
    lib.keep(
        device.handle, device.stream(), prod(shape[:batch_dims]), prod(shape[batch_dims:dim]), shape[dim], prod(shape[dim + 1 :]),
        CODES[data.dtype], data.data_ptr(), pointer(sizes), pointer(origin), filler, out.data_ptr(),
    )  # fmt: skip
    return out


def keep_inplace(data: Tensor, sizes: Tensor, filler: float, dim: int) -> None:
    """Writes the filler into the padding of a contiguous tensor, in place. Only for tensors that do not require grad."""
    device, shape, batch_dims, sizes = device_of(data), data.shape, sizes.dim(), _dense(sizes)
    lib.keep(
        device.handle, device.stream(), prod(shape[:batch_dims]), prod(shape[batch_dims:dim]), shape[dim], prod(shape[dim + 1 :]),
        CODES[data.dtype], data.data_ptr(), sizes.data_ptr(), 0, filler, data.data_ptr(),
    )  # fmt: skip
    torch.autograd.graph.increment_version(data)


def _keep_fake(data, sizes, origin, filler, dim):
    return data.new_empty(data.shape)


def _keep_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1], inputs[2])
    ctx.dim = inputs[4]


def _keep_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    sizes, origin = ctx.saved_tensors
    return keep(grad, sizes, origin, 0.0, ctx.dim) if ctx.needs_input_grad[0] else None, None, None, None, None


class _Keep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        _keep_setup(ctx, inputs, inputs[0])
        return _keep_run(*inputs)

    backward = staticmethod(_keep_backward)


_register("keep(Tensor data, Tensor? sizes, Tensor? origin, float filler, int dim) -> Tensor", _keep_run, _keep_fake)
_derive("keep", _keep_setup, _keep_backward)
_TransformedKeep = _transformed("keep", _keep_setup, _keep_backward)


def keep(data: Tensor, sizes: Tensor | None, origin: Tensor | None, filler: float, dim: int) -> Tensor:
    """Returns data[b, .., n, ..] where n < sizes[b] and origin[b, n] < 0, and the filler elsewhere. If sizes or origin is None, its condition counts as
    true."""
    if dual := _tangents(data):
        value, tangent = dual[0]
        return forward_ad.make_dual(keep(value, sizes, origin, filler, dim), keep(tangent, sizes, origin, 0.0, dim))
    if not direct(data):
        run = _TransformedKeep.apply if in_transform() else torch.ops.stoker.keep
        return run(data, sizes, origin, filler, dim)
    if torch.is_grad_enabled() and data.requires_grad:
        return _Keep.apply(data, sizes, origin, filler, dim)
    return _keep_run(data, sizes, origin, filler, dim)


# ---- masks ----


def _mask_to_index_run(mask: Tensor, sizes: Tensor | None) -> tuple[Tensor, Tensor]:
    device, mask, sizes = device_of(mask), _dense(mask), _dense(sizes)
    index = torch.empty(mask.shape, dtype=torch.int64, device=mask.device)
    count = torch.empty(mask.shape[:-1], dtype=torch.int64, device=mask.device)
    lib.mask_to_index(
        device.handle, device.stream(), prod(mask.shape[:-1]), mask.shape[-1], mask.data_ptr(), pointer(sizes), index.data_ptr(),
        count.data_ptr(), 0,
    )  # fmt: skip
    return index, count


def _mask_to_index_fake(mask, sizes):
    return mask.new_empty(mask.shape, dtype=torch.int64), mask.new_empty(mask.shape[:-1], dtype=torch.int64)


_register("mask_to_index(Tensor mask, Tensor? sizes) -> (Tensor, Tensor)", _mask_to_index_run, _mask_to_index_fake)


def mask_to_index(mask: Tensor, sizes: Tensor | None) -> tuple[Tensor, Tensor]:
    """Returns (index, count), both int64: for each sample the indices of the True entries, padded with 0, and the number of True entries. sizes: number of
    entries of each sample that count; None: all."""
    return _mask_to_index_run(mask, sizes) if direct(mask) else torch.ops.stoker.mask_to_index(mask, sizes)


def _mask_to_rank_run(mask: Tensor, sizes: Tensor | None) -> tuple[Tensor, Tensor]:
    device, mask, sizes = device_of(mask), _dense(mask), _dense(sizes)
    rank = torch.empty(mask.shape, dtype=torch.int32, device=mask.device)
    count = torch.empty(mask.shape[:-1], dtype=torch.int64, device=mask.device)
    lib.mask_to_index(
        device.handle, device.stream(), prod(mask.shape[:-1]), mask.shape[-1], mask.data_ptr(), pointer(sizes), 0, count.data_ptr(),
        rank.data_ptr(),
    )  # fmt: skip
    return rank, count


def _mask_to_rank_fake(mask, sizes):
    return mask.new_empty(mask.shape, dtype=torch.int32), mask.new_empty(mask.shape[:-1], dtype=torch.int64)


_register("mask_to_rank(Tensor mask, Tensor? sizes) -> (Tensor, Tensor)", _mask_to_rank_run, _mask_to_rank_fake)


def mask_to_rank(mask: Tensor, sizes: Tensor | None) -> tuple[Tensor, Tensor]:
    """Returns (rank, count). rank: an int32 tensor of the mask's shape, with the number of True entries before each True entry in its sample, and -1 for a False
    entry. count: int64, the number of True entries of each sample."""
    return _mask_to_rank_run(mask, sizes) if direct(mask) else torch.ops.stoker.mask_to_rank(mask, sizes)


def _index_to_mask_run(index: Tensor, sizes: Tensor | None, items: int, kind: int) -> Tensor:
    device, index, sizes = device_of(index), _dense(index), _dense(sizes)
    mask = torch.empty((*index.shape[:-1], items), dtype=torch.bool, device=index.device)
    refused = lib.index_to_mask(
        device.handle, device.stream(), prod(index.shape[:-1]), items, *_index_args(index, sizes), mask.data_ptr(), device.counter(kind)
    )
    refuse(kind, refused)
    return mask


def _index_to_mask_fake(index, sizes, items, kind):
    return index.new_empty((*index.shape[:-1], items), dtype=torch.bool)


_register("index_to_mask(Tensor index, Tensor? sizes, SymInt items, int kind) -> Tensor", _index_to_mask_run, _index_to_mask_fake)


def index_to_mask(index: Tensor, sizes: Tensor | None, items: int, kind: int) -> Tensor:
    """Returns a bool mask with `items` entries for each sample, True at the sample's indices."""
    if direct(index):
        return _index_to_mask_run(index, sizes, items, kind)
    return torch.ops.stoker.index_to_mask(index, sizes, items, kind)
