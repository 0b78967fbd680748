# SPDX-License-Identifier: Apache-2.0
"""Keeps a few batches, to measure how fast the loop is if no batch has to be made."""

from __future__ import annotations

import sys
from typing import Any

_MOST_BYTES = 2 << 30


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def copied(value: Any) -> tuple[Any, int]:
    """Copies the tensors and arrays of a batch, and returns the copy and its number of bytes. Device and pinning stay the same. Other values are not copied."""
    if _is_tensor(value):
        clone = value.detach().clone()
        if value.device.type == "cpu" and value.is_pinned():
            clone = clone.pin_memory()
        return clone, clone.numel() * clone.element_size()
    if hasattr(value, "__array_interface__") and hasattr(value, "copy"):
        return value.copy(), value.nbytes
    if isinstance(value, dict):
        pairs = {k: copied(v) for k, v in value.items()}
        return {k: v for k, (v, _) in pairs.items()}, sum(n for _, n in pairs.values())
    if isinstance(value, (list, tuple)):
        parts = [copied(v) for v in value]
        size = sum(n for _, n in parts)
        if hasattr(value, "_make"):
            return value._make(v for v, _ in parts), size
        return type(value)(v for v, _ in parts), size
    return value, 0


class Cache:
    """Copies of the first few batches. next() returns them in turn, and begins again after the last one."""

    def __init__(self, most: int) -> None:
        self.most, self.bytes, self._batches, self._at = most, 0, [], 0  # type: ignore[var-annotated]

    def offer(self, batch: Any) -> None:
        """Stores a copy of the batch if there are fewer than `most`. Reduces `most` if one more copy of this size would exceed _MOST_BYTES."""
        if len(self._batches) >= self.most:
            return
        kept, size = copied(batch)
        self._batches.append(kept)
        self.bytes += size
        if self.bytes + size > _MOST_BYTES:
            self.most = len(self._batches)

    def next(self) -> Any:
        batch = self._batches[self._at % len(self._batches)]
        self._at += 1
        return batch

    def __len__(self) -> int:
        return len(self._batches)

    def clear(self) -> None:
        self._batches = []
