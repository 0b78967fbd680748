# SPDX-License-Identifier: Apache-2.0
"""Finds out whether a batch that the user passes in is already on the pipeline's GPU. The library then reads it there, without a copy to host memory."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stoker.errors import InvalidArgumentError


@dataclass
class GpuSamples:
    """A batch as buffers with addresses on the GPU, which Python must not read. samples: a list with a buffer for each sample, or one buffer with the samples
    along its first axis."""

    samples: Any


class _Array:
    """Describes GPU memory to NumPy as if it were host memory. Keeps the owner of the memory alive."""

    def __init__(self, array: Any, description: dict[str, Any]) -> None:
        self._array = array
        self.__array_interface__ = {"version": 3, **{k: description[k] for k in ("shape", "typestr", "data")}}


def gpu_samples(batch: Any, limit: int, device_id: int, copy: bool) -> GpuSamples | None:
    """Returns the samples of a batch if all of them are on this GPU and can be read there without a copy; None otherwise, and for an empty batch. batch: a
    list, or an array with the samples along its first axis. limit: the largest number of samples; more raise InvalidArgumentError. copy: whether to return
    copies on the GPU. Waits until queued writes to the batch have ended."""
    if isinstance(batch, (list, tuple)):
        arrays = list(batch)
    elif hasattr(batch, "__len__"):
        arrays = [batch]
    else:
        return None
    if not arrays or not all(_is_on_gpu(a, device_id) for a in arrays):
        return None
    whole = arrays[0] is batch
    if len(batch) > limit:
        raise InvalidArgumentError(f"the source gave {len(batch)} samples, and the batch has room for {limit}")
    found = [_as_numpy(_copied(a) if copy else a) for a in arrays]
    _wait(arrays[0])
    if any(f is None for f in found) or (whole and not len(found[0])):
        return None
    return GpuSamples(found[0] if whole else found)


def _is_on_gpu(array: Any, device_id: int) -> bool:
    """Returns whether the array is torch's or CuPy's and is on that GPU, and its memory holds its values (a lazily conjugated or negated tensor's does not)."""
    kind = type(array).__module__.partition(".")[0]
    if kind == "torch":
        return bool(array.is_cuda and array.device.index == device_id and not array.is_conj() and not array.is_neg())
    device = getattr(array, "device", None)
    return hasattr(array, "__cuda_array_interface__") and hasattr(array, "get") and getattr(device, "id", None) == device_id


def _copied(array: Any) -> Any:
    return array.detach().clone() if hasattr(array, "detach") else array.copy()


def _as_numpy(array: Any) -> Any:
    """Returns a NumPy array over the same GPU addresses, whose elements Python must not read. Returns None if the library cannot read them without a
    copy: for strided or unaligned memory, and for types other than bool, integers and floats."""
    import numpy as np

    try:
        description = (array.detach() if hasattr(array, "detach") else array).__cuda_array_interface__
    except (AttributeError, KeyError, TypeError):
        return None  # the array has a type that the interface does not know, such as bfloat16
    strides, itemsize = description.get("strides"), np.dtype(description["typestr"]).itemsize
    if np.dtype(description["typestr"]).kind not in "biuf" or description["data"][0] % itemsize:
        return None
    if strides is not None and tuple(strides) != _dense(description["shape"], itemsize):
        return None
    if 0 in description["shape"]:
        return np.empty(description["shape"], description["typestr"])
    return np.asarray(_Array(array, {**description, "data": (description["data"][0], False)}))


def _dense(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    strides, step = [], itemsize
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def _wait(array: Any) -> None:
    """Waits for torch's or CuPy's current stream, in which the array and copies of it are written."""
    if type(array).__module__.partition(".")[0] == "torch":
        sys.modules["torch"].cuda.current_stream(array.device).synchronize()
    elif "cupy" in sys.modules:
        sys.modules["cupy"].cuda.get_current_stream().synchronize()
