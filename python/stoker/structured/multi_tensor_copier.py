# SPDX-License-Identifier: Apache-2.0
"""Copies nested structures of tensors to a device, with the names of NVIDIA ACCV-Lab's multi_tensor_copier. stoker.to_device does the same in one call."""

from __future__ import annotations

from typing import Any

from stoker._to_device import Copied as AsyncCopyHandle
from stoker._to_device import start, start_in_background

__all__ = ["AsyncCopyHandle", "start_copy"]


def start_copy(
    data: Any,
    device: Any,
    *,
    use_pinned_staging: bool = True,
    pack_cpu_tensors: bool = True,
    min_packed_alignment_bytes: int = 16,
    max_packed_chunk_bytes: int = 32 << 20,
    use_background_thread: bool = True,
) -> AsyncCopyHandle:
    """Starts to copy all tensors and arrays of nested lists, tuples and dicts to a device. Returns a handle: ready() returns whether the copy is complete,
    get() waits for it and returns the same structure with the tensors on the device.
    Tensors are packed into blocks, so that one call copies many of them (pack_cpu_tensors=False: each is copied separately). use_pinned_staging: the blocks
    lie in pinned memory. min_packed_alignment_bytes: the alignment of each tensor in a block. max_packed_chunk_bytes: the largest size of a block; a larger
    tensor is copied separately. use_background_thread: for a GPU, another thread packs, and copies on its own CUDA stream; do not change the tensors until
    get() has returned.
    """
    begin = start_in_background if use_background_thread else start
    return begin(
        data, device, pinned=use_pinned_staging, pack=pack_cpu_tensors, align=min_packed_alignment_bytes, chunk=max_packed_chunk_bytes
    )
