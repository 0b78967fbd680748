# SPDX-License-Identifier: Apache-2.0
"""Calls libstoker for stoker.batching: a handle for each device, counters of refused indices, addresses and type codes."""

from __future__ import annotations

import importlib.util
import threading
from importlib.machinery import ExtensionFileLoader
from types import ModuleType
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.utils._python_dispatch import _disable_current_modes

from stoker import _core

from ..errors import ShapeError


def _load() -> ModuleType:
    """Returns the module stoker._batching, which is in the shared object of stoker._core, so that the package has libstoker only once."""
    loader = ExtensionFileLoader("stoker._batching", str(_core.__file__))
    spec = importlib.util.spec_from_file_location(loader.name, loader.path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


lib: Any = _load()

# The values of enum stk_dtype, and codes for two complex types, whose elements the functions of stoker.batching move but do not compute with.
CODES: dict[torch.dtype, int] = {
    torch.uint8: 0, torch.int8: 4, torch.int16: 5, torch.int32: 6, torch.int64: 7, torch.float16: 8, torch.float32: 9,
    torch.float64: 10, torch.bool: 11, torch.bfloat16: 12, torch.complex64: 100, torch.complex128: 101,
}  # fmt: skip
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)  # the types with which libstoker computes
INDEX_BYTES: dict[torch.dtype, int] = {torch.int32: 4, torch.int64: 8}

# The functions that count refused indices, in the order of their counters in Device.refused. UNCOUNTED: refused indices of the call are not counted.
# COUNT_OWN: the address of no counter, for which the call counts into a variable of its own and returns the number.
KINDS = (
    "batched_indexing_access", "batched_inverse_indexing_access", "batched_indexing_write", "batched_index_mapping",
    "get_mask_from_indices", "draw_heatmap", "linear_sum_assignment", "detection_cost",
)  # fmt: skip
ACCESS, INVERSE, WRITE, MAPPING, MASK, HEATMAP, ASSIGNMENT, COST = range(len(KINDS))
UNCOUNTED = -1
COUNT_OWN = -1


class Device:
    """State that all calls on a device share: libstoker's handle, and counters for check() in the device's memory."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.cuda = device.type == "cuda"
        if self.cuda:
            torch.cuda.init()
            self.index = torch.cuda.current_device() if device.index is None else device.index
            torch.zeros(1, dtype=torch.uint8, device=device)  # makes the device's primary context current on this thread
        else:
            self.index = -1
        self.handle = lib.open(self.index, torch.get_num_threads() if not self.cuda else 0)
        self.refused = torch.zeros(len(KINDS), dtype=torch.int64, device=device)
        self.counters = self.refused.data_ptr()

    def stream(self) -> int:
        return torch._C._cuda_getCurrentRawStream(self.index) if self.cuda else 0

    def counter(self, kind: int) -> int:
        """Returns where a call of function `kind` counts what it refuses. On the CPU each call has a counter of its own, because calls of other threads may run
        at the same time. Only refused assignment problems, which raise no error, are counted for check() there."""
        return self.shared_counter(kind) if self.cuda or kind in (ASSIGNMENT, UNCOUNTED) else COUNT_OWN

    def shared_counter(self, kind: int) -> int:
        """Returns the address of the counter that check() reads, or 0 for UNCOUNTED."""
        return 0 if kind == UNCOUNTED else self.counters + 8 * kind


def refuse(kind: int, count: int) -> None:
    """Raises IndexError if a call of function `kind` returned that it refused indices. A call on a CUDA device returns 0; check() reads its counter."""
    if count:
        raise IndexError(f"{KINDS[kind]}: {count} of the indices are out of range")


_devices: dict[torch.device, Device] = {}
_lock = threading.Lock()


def device_of(tensor: torch.Tensor) -> Device:
    found = _devices.get(tensor.device)
    return found if found is not None else _open(tensor.device)


def _open(device: torch.device) -> Device:
    if device.type not in ("cpu", "cuda"):
        raise ShapeError(f"stoker.batching works on CPU and CUDA tensors, not on {device}")
    # All later calls use these tensors. In a mode, such as that of fake tensors, they could not be used outside of it.
    with _lock, torch.inference_mode(False), _disable_current_modes():
        if device not in _devices:
            _devices[device] = Device(device)
        return _devices[device]


def check() -> None:
    """Raises IndexError if a function of stoker.batching has refused something since the last call of check(): an index out of range on a CUDA device (reads
    then return the filler value, and writes are left out), or an assignment problem without a solution. Resets the counters. Waits for all devices that were
    used."""
    lines = []
    for device in list(_devices.values()):
        seen = device.refused.clone()
        counts = seen.tolist()
        if any(counts):
            device.refused.sub_(seen)  # not zero_(), which would lose what another thread's call has counted since
            what = ", ".join(f"{KINDS[i]}: {n}" for i, n in enumerate(counts) if n)
            lines.append(f"{device.device}: {what}")
    if lines:
        raise IndexError(
            "refused since the last check (indices out of range, or assignment problems without a solution): " + "; ".join(lines)
        )


def code(tensor: torch.Tensor, name: str) -> int:
    found = CODES.get(tensor.dtype)
    if found is None:
        raise ShapeError(f"{name} has dtype {tensor.dtype}, which is not supported; supported are {', '.join(map(str, CODES))}")
    return found


def pointer(tensor: torch.Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


PLAIN: tuple[Any, ...] = (torch.Tensor, torch.nn.Parameter)  # types whose memory libstoker can read
_modes = torch._C._len_torch_dispatch_stack
_tracing = torch._C._is_tracing  # torch.jit.is_tracing() without the check for TorchScript, which cannot contain these functions
_transform = torch._C._functorch.maybe_current_level if hasattr(torch._C._functorch, "maybe_current_level") else (lambda: None)


def has_tangent(tensor: torch.Tensor) -> bool:
    """Returns whether the tensor has a tangent of forward-mode differentiation, which libstoker would lose."""
    if forward_ad._current_level < 0 or not (tensor.is_floating_point() or tensor.is_complex()):
        return False
    return forward_ad.unpack_dual(tensor).tangent is not None


def in_transform() -> bool:
    """Returns whether the code runs inside a transform of torch.func (grad, vjp, vmap, ...)."""
    return not torch.compiler.is_compiling() and _transform() is not None


def direct(tensor: torch.Tensor) -> bool:
    """Returns whether libstoker can be called directly. If not (torch.compile, export, torch.jit.trace, fake tensors, functorch), calls must go through
    torch's dispatcher: these record the operators that they see, or compute without values."""
    if torch.compiler.is_compiling():
        return False
    return type(tensor) in PLAIN and not _modes() and not _tracing() and _transform() is None
