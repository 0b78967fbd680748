# SPDX-License-Identifier: Apache-2.0
"""Copies trees of many small tensors and arrays between the cores and a GPU, packed into few large copies."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from stoker.errors import InvalidArgumentError

if TYPE_CHECKING:
    from concurrent.futures import Future

_CHUNK = 32 << 20  # bytes of one packed copy
_ALIGN = 16


class Copied:
    """A copy of a tree that is under way. Keep it until the copy has been taken with get()."""

    def __init__(self, made: Any, event: Any, buffers: list[Any], device: Any) -> None:
        self._made, self._event, self._buffers, self._device = made, event, buffers, device

    def ready(self) -> bool:
        """Returns whether the copy has ended."""
        return self._event is None or bool(self._event.query())

    def get(self) -> Any:
        """Waits for the copy, and returns the tree."""
        if self._event is not None:
            self._event.synchronize()
            self._event = None
            if self._device.type == "cuda":
                import torch

                stream = torch.cuda.current_stream(self._device)
                for buffer in self._buffers:
                    buffer.record_stream(stream)  # they may have been allocated on another stream
            self._buffers = []
        return self._made


class Started(Copied):
    """A copy that another thread packs."""

    def __init__(self, future: Future[Copied]) -> None:
        self._future = future

    def ready(self) -> bool:
        return self._future.done() and (self._future.exception() is not None or self._future.result().ready())

    def get(self) -> Any:
        return self._future.result().get()


def to_device(tree: Any, device: Any) -> Any:
    """Returns a copy of a tree with all tensors and arrays on a device: nested lists, tuples and dicts, of which the other values stay as they are.

        batch = stoker.to_device({"boxes": [a, b, c], "ids": ids}, "cuda")

    Many small tensors are packed into pinned memory and go up in one copy, instead of one copy and one wait for each. The copy is ordered like other work on
    the current stream, so that no call has to wait for it. NumPy's arrays become tensors. A tensor that is on the device already stays the same object, as with
    Tensor.to. Copies to the CPU are finished on return.
    """
    import torch

    copied = start(tree, torch.device(device))
    if copied._device.type != "cuda":
        return copied.get()
    return copied._made


_pool: Any = None
_streams: dict[Any, Any] = {}
_lock = threading.Lock()


def start_in_background(tree: Any, device: Any, **how: Any) -> Copied:
    """Starts a copy on a thread and a stream of its own. Later changes of the tree's tensors may or may not be seen."""
    import torch

    global _pool
    device = torch.device(device)
    if device.type != "cuda" or not torch.cuda.is_available():
        return start(tree, device, **how)
    with _lock:
        if _pool is None:
            from concurrent.futures import ThreadPoolExecutor

            _pool = ThreadPoolExecutor(1, "stoker-copy")
        if device not in _streams:
            _streams[device] = torch.cuda.Stream(device)
        stream = _streams[device]
    before = torch.cuda.Event()
    before.record(torch.cuda.current_stream(device))

    def run() -> Copied:
        with torch.cuda.stream(stream):
            stream.wait_event(before)
            return start(tree, device, **how)

    return Started(_pool.submit(run))


def start(tree: Any, device: Any, pinned: bool = True, pack: bool = True, align: int = _ALIGN, chunk: int = _CHUNK) -> Copied:
    """Starts a copy on the current stream.

    pinned: pack into pinned memory. pack: pack small tensors at all. align: the bytes to which each packed tensor is aligned. chunk: the most bytes of one
    packed copy; a tensor that is larger has a copy of its own.
    """
    import torch

    if align < 1 or align & (align - 1) or chunk < 1:
        raise InvalidArgumentError(
            f"to_device: tensors are aligned to a power of two, and chunks have 1 byte or more, not {align} and {chunk}"
        )
    leaves: list[Any] = []
    rebuild = _walk(tree, leaves, torch)
    device = torch.device(device)
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    packed: dict[Any, dict[tuple[Any, ...], list[int]]] = {}  # by source, then by type and shape
    made = list(leaves)
    cpu, plain, strided = torch.device("cpu"), torch.Tensor, torch.strided
    for k, leaf in enumerate(leaves):
        here = cpu if leaf.is_cpu else leaf.device
        if here == device:
            continue
        if pack and type(leaf) is plain and not leaf.requires_grad and leaf.layout is strided:
            groups = packed.get(here)
            if groups is None:
                groups = packed[here] = {}
            key = (leaf.dtype, leaf.shape)
            members = groups.get(key)
            if members is None:
                groups[key] = [k]
            else:
                members.append(k)
        else:
            made[k] = leaf.to(device, non_blocking=device.type == "cuda")
            if here.type == "cuda":
                packed.setdefault(here, {})
    sources = {here for here in packed if here.type == "cuda"}
    buffers = _copy_packed(leaves, made, packed, device, pinned, align, chunk, torch) if packed else []
    on = device if device.type == "cuda" else next(iter(sources), None)
    event = None
    if on is not None:
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(on))
        for other in sources - {on}:
            torch.cuda.current_stream(other).synchronize()
    return Copied(rebuild(iter(made)), event, buffers, device)


def _walk(tree: Any, leaves: list[Any], torch: Any) -> Callable[[Any], Any]:
    """Appends the tensors of a tree to `leaves`, and returns the function that builds the tree from an iterator over their copies."""
    array = _array_type()
    tensor = torch.Tensor

    def plan(node: Any) -> Any:
        kind = type(node)
        if isinstance(node, tensor):
            leaves.append(node)
            return _LEAF
        if array is not None and isinstance(node, array):
            leaves.append(_tensor_of(node, torch))
            return _LEAF
        if kind is list or kind is tuple:
            return kind, [plan(value) for value in node]
        if kind is dict:
            return list(node), [plan(value) for value in node.values()]
        if isinstance(node, tuple) and hasattr(node, "_fields"):
            return lambda values: kind(*values), [plan(value) for value in node]
        if isinstance(node, (list, tuple)):
            return kind, [plan(value) for value in node]
        if isinstance(node, Mapping):
            return _mapping_of(node), [plan(value) for value in node.values()]
        return _Same(node)

    def build(step: Any, made: Any) -> Any:
        if step is _LEAF:
            return next(made)
        if type(step) is _Same:
            return step.value
        kind, steps = step
        if kind is list:
            return [build(s, made) for s in steps]
        if type(kind) is list:
            return {key: build(s, made) for key, s in zip(kind, steps, strict=True)}
        return kind([build(s, made) for s in steps])

    root = plan(tree)
    return lambda made: build(root, made)


_LEAF = object()


class _Same:
    """A value that stays as it is."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _mapping_of(node: Any) -> Callable[[list[Any]], Any]:
    """Returns the function that makes a mapping of the same type with other values."""
    keys = list(node)

    def make(values: list[Any]) -> Any:
        import copy

        made = copy.copy(node)
        for key, value in zip(keys, values, strict=True):
            made[key] = value
        return made

    return make


def _array_type() -> Any:
    import sys

    numpy = sys.modules.get("numpy")
    return None if numpy is None else numpy.ndarray


def _tensor_of(array: Any, torch: Any) -> Any:
    """Returns an array as a tensor over the same memory, or over a copy where torch cannot share it."""
    if array.dtype.kind not in "biufc":
        raise InvalidArgumentError(
            f"to_device: an array of {array.dtype} has no form as a tensor: convert it to numbers, or leave it out of the tree"
        )
    if not array.flags.writeable or not array.dtype.isnative or any(s < 0 for s in array.strides):
        array = array.astype(array.dtype.newbyteorder("="), copy=True)
    return torch.from_numpy(array)


def _copy_packed(
    leaves: list[Any],
    made: list[Any],
    packed: dict[Any, dict[Any, list[int]]],
    device: Any,
    pinned: bool,
    align: int,
    chunk: int,
    torch: Any,
) -> list[Any]:
    """Copies tensors in groups of one type and shape. A group lies in one piece of a buffer, so that packing and taking apart are one call each."""
    buffers = []
    for source, by_shape in packed.items():
        groups: list[tuple[Any, Any, list[int], int, int]] = []  # type, shape, members, first byte, bytes of each
        used = 0
        for (dtype, shape), members in by_shape.items():
            size = shape.numel() * dtype.itemsize
            if not size or dtype in _quantized(torch):
                for k in members:
                    made[k] = leaves[k].to(device)
                continue
            stride = -(-size // align) * align if align > dtype.itemsize else size
            each = max(1, chunk // stride)
            for first in range(0, len(members), each):
                part = members[first : first + each]
                begin = -(-used // 64) * 64
                if groups and begin + stride * len(part) > chunk:
                    buffers.append(_copy_chunk(leaves, made, groups, source, device, pinned, torch))
                    groups, begin = [], 0
                groups.append((dtype, shape, part, begin, stride))
                used = begin + stride * len(part)
        if groups:
            buffers.append(_copy_chunk(leaves, made, groups, source, device, pinned, torch))
    return buffers


def _quantized(torch: Any) -> tuple[Any, ...]:
    return (torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4)


def _copy_chunk(leaves: list[Any], made: list[Any], groups: list[Any], source: Any, device: Any, pinned: bool, torch: Any) -> Any:
    *_, last, begin, stride = groups[-1]
    total = -(-(begin + stride * len(last)) // 64) * 64
    can_pin = pinned and torch.cuda.is_available()
    staged = torch.empty(total, dtype=torch.uint8, device=source, pin_memory=can_pin and source.type == "cpu")
    target = torch.empty(total, dtype=torch.uint8, device=device, pin_memory=can_pin and device.type == "cpu")
    sides: dict[Any, tuple[Any, Any]] = {}  # both buffers as arrays of a type
    places = []
    for dtype, shape, part, begin, stride in groups:
        if dtype not in sides:
            sides[dtype] = staged.view(dtype), target.view(dtype)
        steps, step = [], 1
        for n in reversed(shape):
            steps.append(step)
            step *= n
        item = dtype.itemsize
        place = (len(part), *shape), (stride // item, *reversed(steps)), begin // item
        places.append(place)
        torch.stack([leaves[k] for k in part], out=sides[dtype][0].as_strided(*place))
    target.copy_(staged, non_blocking=True)
    for (dtype, _, part, _, _), place in zip(groups, places, strict=True):
        for k, copy in zip(part, sides[dtype][1].as_strided(*place).unbind(0), strict=True):
            made[k] = copy
    return target
