# SPDX-License-Identifier: Apache-2.0
"""Converts the samples that users pass in to buffers that the library can read."""

from __future__ import annotations

import sys
from typing import Any

from stoker import _types as types
from stoker.errors import ArgumentError, InvalidArgumentError

TORCH = {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)} | {"bool", "float16", "float32", "float64"}


def refuse_masked(value: Any) -> None:
    """Raises ArgumentError for one of NumPy's masked arrays, or a list of them, that has masked values: a conversion to an array would turn them into the
    numbers under the mask."""
    ma: Any = sys.modules.get("numpy.ma")
    if ma is None:
        return
    for item in value if isinstance(value, (list, tuple)) else (value,):
        if isinstance(item, ma.MaskedArray) and ma.is_masked(item):
            raise ArgumentError(
                f"{ma.count_masked(item)} of {item.size} values of a numpy.ma.MaskedArray are masked, and a tensor has no mask: give numbers in their "
                "place, as by .filled(0), and the mask on its own if it is needed, as by numpy.ma.getmaskarray(array)"
            )


def as_buffer(value: Any, copy: bool = False) -> Any:
    """Returns a C-contiguous buffer with the contents of an array, a tensor, bytes or a number. copy: whether it must be a copy that no other code can change;
    otherwise data is copied only if necessary."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and type(value) is numpy.ndarray:  # the most frequent type, checked first for speed
        return _array_buffer(value, copy)
    if isinstance(value, bytes):
        return value
    refuse_masked(value)
    if type(value).__name__ == "PyCapsule":
        value = _Capsule(value)
    if isinstance(value, (bytearray, memoryview)):
        return _copied_view(value) if copy else value
    if hasattr(value, "as_cpu"):  # a tensor of another pipeline
        host = value.as_cpu()
        value, copy = host, copy and host is value
    elif hasattr(value, "__cuda_array_interface__") and hasattr(value, "get"):  # an array of CuPy
        value, copy = value.get(), False
    if type(value).__module__.partition(".")[0] == "torch":
        host = value.detach().resolve_conj().resolve_neg().cpu().contiguous()
        if str(host.dtype).removeprefix("torch.") not in TORCH:
            raise ArgumentError(f"tensors of type {host.dtype} are not taken: convert them first, as with .float()")
        value, copy = host.numpy(), copy and host.data_ptr() == value.data_ptr()
    if hasattr(value, "__array_interface__") and hasattr(value, "flags"):
        return _array_buffer(value, copy)
    if value is None or isinstance(value, (str, dict, set)):
        raise ArgumentError(f"a sample is an array, bytes or numbers, not {type(value).__name__}")
    import numpy as np

    if hasattr(value, "__dlpack__"):
        shared = np.from_dlpack(value)
        return shared.copy(order="C") if copy else np.ascontiguousarray(shared)
    array = np.array(value, order="C") if copy else np.asarray(value)
    if array.dtype == object:
        raise ArgumentError(f"a sample is an array, bytes or numbers, not {type(value).__name__} of unlike things")
    # A Python number becomes an array of the type that NumPy chooses, as in DALI.
    return np.ascontiguousarray(array) if array.ndim else array


def _array_buffer(array: Any, copy: bool) -> Any:
    dtype, flags = array.dtype, array.flags
    if dtype.kind not in "biuf":
        raise ArgumentError(f"arrays of type {dtype} cannot be used: a sample is an array of numbers, bytes or a number")
    if dtype.byteorder == ">":
        array, copy = array.astype(dtype.newbyteorder("=")), False
    if copy or not flags.c_contiguous:
        return array.copy(order="C")
    return array if flags.writeable else memoryview(array)


class _Capsule:
    """Wraps a bare DLPack capsule, of host memory, in an object with DLPack's methods. __dlpack__ may be called once."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def bytes_of(value: Any) -> int:
    """Returns the size in bytes of an array, a tensor or bytes; for a str, its number of characters; 0 for other values."""
    return value.nbytes if hasattr(value, "nbytes") else len(value) if isinstance(value, (str, bytes, bytearray)) else 0


def infinite_in(given: Any, made: Any) -> Any:
    """Returns a bool array that is True where a finite value of `given` is infinite in `made`, its copy in a narrower type; None if there are no such
    values."""
    import numpy as np

    infinite = np.isinf(made)
    if not infinite.any():
        return None
    over = infinite & np.isfinite(given)
    return over if over.any() else None


def narrowed(given: Any, dtype: Any) -> Any:
    """Converts an array of numbers to a type of floats. Raises OverflowError if a finite value would become infinite."""
    import numpy as np

    with np.errstate(over="ignore"):
        made = given.astype(dtype, copy=False)
    if made is not given and (over := infinite_in(given, made)) is not None:
        raise OverflowError(f"floats are {made.dtype}, and {given[over].ravel()[0]!s} does not fit")
    return made


def wait_for(stream: Any, data: Any) -> None:
    """Waits until a CUDA stream has finished its work, if the data is on a GPU. stream: an object with synchronize(); None: does not wait."""
    first = data[0] if isinstance(data, (list, tuple)) and data else data
    if stream is None or not hasattr(first, "__cuda_array_interface__"):
        return
    if not hasattr(stream, "synchronize"):
        raise ArgumentError(f"cuda_stream is a stream of torch's or CuPy's, with synchronize(), not {type(stream).__name__}")
    stream.synchronize()


def _copied_view(value: bytearray | memoryview) -> Any:
    """Returns a copy of the buffer with its elements' type and shape."""
    import numpy as np

    return bytes(value) if isinstance(value, bytearray) else np.array(value, order="C")


# Names of types for the format characters of the module struct.
_FORMATS = {"B": "uint8", "H": "uint16", "I": "uint32", "L": "uint64", "Q": "uint64", "b": "int8", "h": "int16", "i": "int32", "l": "int64"}
_FORMATS |= {"q": "int64", "e": "float16", "f": "float32", "d": "float64", "?": "bool"}


def with_dtype(value: Any, dtype: int | None) -> Any:
    """Checks that the elements of the buffer `value` have the declared type, and returns the buffer. Raises ArgumentError if not. dtype: the declared type;
    None: any type is accepted."""
    if dtype is None:
        return value
    name = value.dtype.name if hasattr(value, "dtype") else _FORMATS.get(memoryview(value).format[-1:], "?")
    if types.to_dtype(name) != dtype:
        raise ArgumentError(f"declared with dtype={types.DALIDataType(dtype)!r}, but the source gave {name}")
    return value


def layout_of(data: Any) -> str:
    """Returns the names of the axes of a pipeline's tensor, or of the first tensor in a list; "" for other data."""
    if isinstance(data, (list, tuple)) and data:
        data = data[0]
    layout = getattr(data, "layout", None)  # an attribute of torch's tensors, not a method
    return str(layout()) if callable(layout) else ""


def samples_of(batch: Any, limit: int, copy: bool = False) -> Any:
    """Converts a batch, which is a list of samples or one array with the samples along its first axis, to a list of buffers or one buffer. Raises an error for
    more samples than `limit`, and for an empty batch. copy: as for as_buffer."""
    if hasattr(batch, "__dlpack__") and not hasattr(batch, "__len__"):  # a dense tensor of another pipeline
        batch = as_buffer(batch)
    if isinstance(batch, (bytes, str)) or not hasattr(batch, "__len__"):
        raise ArgumentError(
            f"external_source: a batch is a list of samples or one array, not {type(batch).__name__}; a source of single samples takes batch=False"
        )
    if len(batch) > limit:
        raise InvalidArgumentError(f"the source gave {len(batch)} samples, and the batch has room for {limit}")
    if len(batch) == 0:
        raise InvalidArgumentError("the source gave an empty batch; to end the epoch raise StopIteration")
    return as_buffer(batch, copy) if _is_one_buffer(batch) else [as_buffer(batch[i], copy) for i in range(len(batch))]


def _is_one_buffer(batch: Any) -> bool:
    """Returns whether a batch is a numpy.ndarray of numbers or a torch tensor, in host memory and contiguous."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and type(batch) is numpy.ndarray:
        return bool(batch.dtype.kind in "biuf" and batch.flags.c_contiguous)
    of_torch = type(batch).__module__.partition(".")[0] == "torch" and hasattr(batch, "is_contiguous")
    return of_torch and batch.device.type == "cpu" and bool(batch.is_contiguous())
