# SPDX-License-Identifier: Apache-2.0
"""Copies trees of many small tensors and arrays between the CPU and a GPU. The tensors are packed into few large copies."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from stoker import _core, _numbers
from stoker._signatures import suggests
from stoker.errors import InvalidArgumentError

if TYPE_CHECKING:
    from concurrent.futures import Future

_CHUNK = 32 << 20  # default limit of the bytes in one packed copy
_ALIGN = 16
_MOST_ALIGN = 1 << 20
# to_device aligns tensors from this size in bytes on. Kernels read large tensors faster if they are aligned, while the padding of each small one takes as long as
# its copy.
_LEAST_ALIGNED = 1024


class Copied:
    """A copy of a tree, which may still be in progress. Keep this object until get() has returned, because it owns the buffers of the copy."""

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
                    buffer.record_stream(stream)  # the buffers may have been allocated on another stream
            self._buffers = []
        return self._made


class Started(Copied):
    """A copy that another thread starts, after it has packed the tensors."""

    def __init__(self, future: Future[Copied]) -> None:
        self._future = future

    def ready(self) -> bool:
        return self._future.done() and (self._future.exception() is not None or self._future.result().ready())

    def get(self) -> Any:
        return self._future.result().get()


@suggests
def to_device(tree: Any, device: Any) -> Any:
    """Returns a copy of a tree in which all tensors and arrays are on a device. A tree consists of lists, tuples, dicts, RaggedBatches and SampleDataGroups.
    Other values are not changed.

        batch = stoker.to_device({"boxes": [a, b, c], "ids": ids}, "cuda")

    Many small tensors are packed into pinned memory and sent to the GPU in few large copies, instead of one copy and one wait for each tensor. The copy is
    ordered like other work on the current stream, so that no call has to wait for it. NumPy arrays become tensors. A tensor that is already on the device is
    not copied, as with Tensor.to. A copy to the CPU is complete when the function returns.

    Tensors that were packed share a block of memory, which is freed with the last of them. Those of at least 1 KiB begin at multiples of 16 bytes, others at
    multiples of their elements' size. torch.save writes the whole block, and an operation that resizes a tensor, as out= may, can write over its neighbours.
    tensor.clone() has memory of its own.
    """
    import torch

    copied = start(tree, torch.device(device), least=_LEAST_ALIGNED)
    if copied._device.type != "cuda":
        return copied.get()
    return copied._made


_pool: Any = None
_streams: dict[Any, Any] = {}
_lock = threading.Lock()


def start_in_background(tree: Any, device: Any, **how: Any) -> Copied:
    """Starts a copy to a GPU on another thread and stream. Do not change the tree's tensors before the copy has ended: it may or may not contain the change.
    Without CUDA, or for another device, starts the copy on this thread. how: further arguments of start()."""
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


def start(
    tree: Any, device: Any, pinned: bool = True, pack: bool = True, align: int = _ALIGN, chunk: int = _CHUNK, least: int = 0
) -> Copied:
    """Starts a copy on the current stream.

    pack: whether to pack small tensors. pinned: whether to pack them into pinned memory. align: number of bytes to which each packed tensor is aligned, a power
    of two. chunk: the most bytes of one packed copy; a larger tensor is copied by itself. least: the size in bytes from which on tensors are aligned; smaller
    ones begin at multiples of their elements' size.
    """
    import torch

    align = _numbers.whole("to_device: the alignment of packed tensors", align, 1, _MOST_ALIGN)
    chunk = _numbers.whole("to_device: the size of a packed block", chunk, 1, _numbers.INT64_MAX)
    if align & (align - 1):
        raise InvalidArgumentError(f"to_device: tensors are aligned to a power of two, not {align}")
    leaves, parts = _core.tree_take_apart(tree, torch.Tensor, _take_apart_other)
    device = torch.device(device)
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    made = list(leaves)
    buffers: list[Any] = []
    sources: set[Any] = set()
    rest: Any = range(len(leaves))
    if pack:
        buffers, sources, rest = _copy_packed(leaves, made, Packing(device, pinned, align, chunk, least))
    for k in rest:
        source = leaves[k].device
        if source != device:
            made[k] = leaves[k].to(device, non_blocking=device.type == "cuda")
            sources.add(source)
    gpus = {source for source in sources if source.type == "cuda"}
    on = device if device.type == "cuda" else next(iter(gpus), None)
    event = None
    if on is not None and sources:
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(on))
        for other in gpus - {on}:
            torch.cuda.current_stream(other).synchronize()
    return Copied(_core.tree_put_together(parts, made), event, buffers, device)


def _take_apart_other(node: Any) -> tuple[Any, Any] | None:
    """Splits a value whose type is not exactly torch.Tensor, list, tuple or dict. Returns (None, tensor) for an array or a tensor of a subclass, (constructor,
    children) for a container, and None for any other value, which is not copied."""
    import torch

    if isinstance(node, torch.Tensor):
        return None, node
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(node, numpy.ndarray):
        return None, _tensor_of(node, torch)
    kind = type(node)
    if isinstance(node, tuple) and hasattr(node, "_fields"):
        return lambda values: kind(*values), list(node)
    if isinstance(node, (list, tuple)):
        return kind, list(node)
    if isinstance(node, Mapping):
        return _mapping_of(node), list(node.values())
    return _of_stoker(node)


def _of_stoker(node: Any) -> tuple[Any, Any] | None:
    """Splits a RaggedBatch or a SampleDataGroup, as _take_apart_other does; None for other values. A value of these types exists only if its module has been
    imported."""
    ragged, trees = (sys.modules.get(name) for name in ("stoker.batching.ragged_batch", "stoker.structured.pipeline.sample_data_group"))
    if ragged is not None and isinstance(node, ragged.RaggedBatch):
        dim = node.non_uniform_dim
        return lambda values: ragged.RaggedBatch._of(values[0], ragged.Layout(None, values[1]), dim), [node.tensor, node.sample_sizes]
    if trees is not None and isinstance(node, trees.SampleDataGroup):
        made = node.get_empty_like_self()

        def fill(values: list[Any]) -> Any:
            made.set_data(values)
            return made

        return fill, node.get_data(as_list_type=True)
    return None


def _holds(made: Any, keys: list[Any], values: list[Any]) -> bool:
    return list(made) == keys and all(made[key] is value for key, value in zip(keys, values, strict=True))


def _equal(a: Any, b: Any) -> bool:
    """Returns whether two containers are equal. Returns False for containers whose values cannot be compared, such as those with arrays."""
    try:
        return type(a) is type(b) and isinstance(a, (list, dict, set)) and bool(a == b)
    except Exception:  # a user's class may raise anything
        return False


def _is_setting(held: Any, depth: int = 4) -> bool:
    """Returns whether a value consists only of texts, numbers, functions and the like, and so holds no tensors. depth: how deep it looks into the value."""
    if held is None or isinstance(held, (str, bytes, int, float, complex)) or callable(held):
        return True
    if isinstance(held, Mapping):
        parts = [*held, *held.values()]
    elif isinstance(held, (list, tuple, set, frozenset)):
        parts = list(held)
    else:
        parts = list(getattr(held, "__dict__", {}).values())
        if not parts:
            return False
    return depth > 0 and all(_is_setting(part, depth - 1) for part in parts)


def _carry_over(node: Any, made: Any, keys: list[Any], values: list[Any]) -> None:
    """Gives a mapping the attributes of the mapping that it replaces, except for those that hold the items. A container that the constructor has made equal
    stays, because both mappings would otherwise share one. Raises TypeError for a setting, such as a prefix of the keys, that changes the items. keys and
    values: the items of `made`."""
    right = _holds(made, keys, values)
    for name, held in getattr(node, "__dict__", {}).items():
        own = vars(made)
        missing, before = name not in own, own.get(name)
        if _equal(before, held):
            continue
        setattr(made, name, held)
        if not right or _holds(made, keys, values):
            continue
        if _is_setting(held):
            raise TypeError(f"its attribute {name} changes the items of a mapping made of pairs of keys and values")
        if missing:
            delattr(made, name)
        else:
            setattr(made, name, before)


def _mapping_of(node: Any) -> Callable[[list[Any]], Any]:
    """Returns a function from a list of values to a mapping of the node's type with the node's keys and these values. The function raises
    InvalidArgumentError if it cannot make such a mapping."""
    keys, kind = list(node), type(node)

    def make(values: list[Any]) -> Any:
        import copy

        try:
            if issubclass(kind, dict) or hasattr(kind, "__copy__"):
                made = copy.copy(node)
                for key, value in zip(keys, values, strict=True):
                    made[key] = value
            else:  # copy.copy would share a dict inside the mapping, and the copy's new values would also be in the mapping that was given
                made = kind(zip(keys, values, strict=True))
                _carry_over(node, made, keys, values)
                if not _holds(made, keys, values):
                    raise TypeError("its constructor does not take pairs of keys and values")
        except Exception as e:  # the type is the user's, so its methods may raise anything
            raise InvalidArgumentError(
                f"to_device: the tree holds a {kind.__name__}, which takes no other values ({e}): give it as a dict"
            ) from e
        return made

    return make


def _tensor_of(array: Any, torch: Any) -> Any:
    """Returns a tensor over an array's memory, or over a copy if torch cannot share it. Raises InvalidArgumentError if the array is masked or does not hold
    numbers."""
    if hasattr(array, "mask") and isinstance(array, sys.modules["numpy"].ma.MaskedArray):
        raise InvalidArgumentError(
            "to_device: a tensor has no mask, and the tree holds a masked array: fill it, as by array.filled(0), and give array.mask as an array of its own"
        )
    if array.dtype.kind not in "biufc":
        raise InvalidArgumentError(
            f"to_device: an array of {array.dtype} has no form as a tensor: convert it to numbers, or leave it out of the tree"
        )
    if not array.flags.writeable or not array.dtype.isnative or any(s < 0 for s in array.strides):
        array = array.astype(array.dtype.newbyteorder("="), copy=True)
    return torch.from_numpy(array)


class Packing(NamedTuple):
    """How tensors are packed for a copy. device: where the copies go. The others are arguments of `start`."""

    device: Any
    pinned: bool
    align: int
    chunk: int
    least: int


def _copy_packed(leaves: list[Any], made: list[Any], packing: Packing) -> tuple[list[Any], set[Any], list[int]]:
    """Copies tensors in few copies, and stores the results in `made`. A tensor that is on the device already stays. Returns the buffers of the copies, the
    devices that they were copied from, and the indexes of the tensors that cannot be packed.

    The tensors of a group are adjacent in a buffer, so that one torch.cat packs them, and one unsafe_split_with_sizes returns views of their copies.
    Tensors without dimensions use torch.stack and unbind.
    """
    import torch

    groups, rest = _core.tree_groups(leaves, torch.Tensor, packing.align, packing.least)
    by_source: dict[Any, list[Any]] = {}
    for group in groups:
        source = group[0][0].device
        if source != packing.device:
            by_source.setdefault(source, []).append(group)
    buffers: list[Any] = []
    try:
        for source, members in by_source.items():
            buffers += [_copy_pieces(made, pieces, source, packing) for pieces in _chunks(members, packing)]
    except (RuntimeError, NotImplementedError):
        # torch.cat refuses tensors that need a gradient, are sparse or quantized. Tensors are checked for these properties only now, because a check of
        # hundreds of them takes time.
        unpackable = {
            k
            for k in {*range(len(leaves))}.difference(rest)
            if leaves[k].requires_grad or leaves[k].layout is not torch.strided or leaves[k].is_quantized
        }
        if not unpackable:
            raise
    else:
        return buffers, {*by_source}, rest
    packable = [None if k in unpackable else leaf for k, leaf in enumerate(leaves)]
    return _copy_packed(packable, made, packing)


class _Piece:
    """Tensors of one dtype that are adjacent in a buffer, or `step` bytes apart if they have no dimensions."""

    __slots__ = ("begin", "dtype", "members", "numbers", "rows", "shape", "size", "step", "tensors")

    def __init__(self, tensors: list[Any], rows: list[int], members: list[int], like: Any, align: int) -> None:
        self.tensors, self.rows, self.members = tensors, rows, members
        self.dtype, self.numbers = like.dtype, like.ndim == 0
        self.shape = (sum(rows), *like.shape[1:])
        self.step = max(align, self.dtype.itemsize)
        self.begin = 0
        self.size = len(tensors) * self.step if self.numbers else math.prod(self.shape) * self.dtype.itemsize

    def view_in(self, buffer: Any) -> Any:
        """Returns the part of a buffer of bytes that holds this piece, as one tensor with the rows of all of the piece's tensors."""
        strides = [self.step // self.dtype.itemsize] if self.numbers else [math.prod(self.shape[k:]) for k in range(1, len(self.shape) + 1)]
        return buffer.view(self.dtype).as_strided(self.shape, strides, self.begin // self.dtype.itemsize)


_paddings: dict[Any, list[Any]] = {}  # (device, dtype, shape of a row, step): tensors of 0, 1, ..., step - 1 rows of zeros


def _padding(like: Any, step: int, torch: Any) -> list[Any]:
    key = like.device, like.dtype, like.shape[1:], step
    made = _paddings.get(key)
    if made is None:
        if len(_paddings) >= 64:
            _paddings.clear()
        zeros = torch.zeros((step, *like.shape[1:]), dtype=like.dtype, device=like.device)
        made = _paddings[key] = [zeros[:rows] for rows in range(step)]
    return made


def _chunks(groups: list[Any], packing: Packing) -> Any:
    """Yields lists of pieces, one list for each packed copy. The pieces of a list have at most `packing.chunk` bytes together, unless one tensor is larger:
    then it is the only one in its list."""
    import torch

    align, chunk = packing.align, packing.chunk
    part: list[_Piece] = []
    used, unit = 0, max(64, align)
    for tensors, rows, members, padding, step in groups:
        like = tensors[0]
        if padding:
            blanks = _padding(like, step, torch)
            for at in padding:
                tensors[at] = blanks[tensors[at]]
        whole = _Piece(tensors, rows, members, like, align)
        for piece in [whole] if whole.size <= chunk else _cut(whole, like, chunk, align):
            begin = -(-used // unit) * unit
            if part and begin + piece.size > chunk:
                yield part
                part, begin = [], 0
            piece.begin = begin
            part.append(piece)
            used = begin + piece.size
    if part:
        yield part


def _cut(whole: _Piece, like: Any, chunk: int, align: int) -> Any:
    """Splits a piece into pieces of at most `chunk` bytes. A larger tensor, with its padding, is a piece by itself. like, align: as for _Piece."""
    row = max(1, whole.size // max(1, sum(whole.rows)))
    first, used = 0, 0
    for k, rows in enumerate(whole.rows):
        if whole.members[k] >= 0 and k > first and used + rows * row > chunk:
            yield _Piece(whole.tensors[first:k], whole.rows[first:k], whole.members[first:k], like, align)
            first, used = k, 0
        used += rows * row
    yield _Piece(whole.tensors[first:], whole.rows[first:], whole.members[first:], like, align)


def _numbers_of(view: Any, torch: Any) -> Any:
    """Returns the elements of a tensor with one dimension. Unlike the results of unbind, they do not know that they are parts of one tensor: then a change in
    place of one would count as a change of all, and be refused if it needs a gradient. unsafe_split_with_sizes does the same for tensors with dimensions."""
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)):
        return view.unbind(0)


def _copy_pieces(made: list[Any], pieces: list[_Piece], source: Any, packing: Packing) -> Any:
    import torch

    device = packing.device
    total = -(-(pieces[-1].begin + pieces[-1].size) // 64) * 64
    can_pin = packing.pinned and torch.cuda.is_available()
    staged = torch.empty(total, dtype=torch.uint8, device=source, pin_memory=can_pin and source.type == "cpu")
    target = torch.empty(total, dtype=torch.uint8, device=device, pin_memory=can_pin and device.type == "cpu")
    for piece in pieces:
        (torch.stack if piece.numbers else torch.cat)(piece.tensors, out=piece.view_in(staged))
    target.copy_(staged, non_blocking=True)
    for piece in pieces:
        view = piece.view_in(target)
        _core.tree_assign(made, piece.members, _numbers_of(view, torch) if piece.numbers else view.unsafe_split_with_sizes(piece.rows))
    return target
