# SPDX-License-Identifier: Apache-2.0
"""What a pipeline delivers: a list of tensors for each output, over the pipeline's own memory, on the cores' side or on a GPU.

The memory is reused when the list and everything made from it is gone: nothing is copied on the way to NumPy, torch or CuPy, and nothing changes
under your hands. It is yours to write to and to keep; each output holds its own memory alone. What lies on a GPU is complete when it is delivered. Work
on a stream that read it through DLPack ends before the memory is written again, whenever the tensor dies; for other streams call use_stream.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from stoker import _core
from stoker._types import DALIDataType

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_PROPERTIES = ("epoch", "position", "index", "source_info", "padded", "replaced")


class _Tensor(_core.Tensor):
    """What tensors of both kinds know of themselves."""

    __slots__ = ()

    @property
    def dtype(self) -> DALIDataType:
        """Type of the elements."""
        return DALIDataType(self._dtype)

    def shape(self) -> list[int]:  # type: ignore[override]
        """Extents."""
        return list(super().shape())

    def ndim(self) -> int:
        """Number of dimensions."""
        return len(super().shape())

    def layout(self) -> str:
        """Names of the axes ("HWC"), or ""."""
        return self._layout

    def source_info(self) -> str:
        """The file or object of the sample; "" where there is none or for a batch as a whole."""
        return "" if self._index < 0 else self._batch.sample(self._index)[3]

    def get_property(self, key: str) -> Any:
        """A property of the sample: "source_info", "layout", and ours "epoch", "position", "index", "padded", "replaced"."""
        if key == "layout":
            return self.layout()
        if key not in _PROPERTIES or self._index < 0:
            return None
        return self._batch.sample(self._index)[_PROPERTIES.index(key)]

    def __repr__(self) -> str:
        return f'{type(self).__name__}(dtype={self.dtype!r}, layout="{self.layout()}", shape={self.shape()})'


class TensorCPU(_Tensor):
    """One sample, or a dense batch as a whole. Takes part in DLPack, the buffer protocol and NumPy's array interface."""

    __slots__ = ()

    def as_cpu(self) -> TensorCPU:
        """Itself."""
        return self

    def copy_to_external(self, ptr: Any, *_: Any, **__: Any) -> None:
        """Copies the elements to an address (an int or a ctypes pointer)."""
        address = ptr if isinstance(ptr, int) else ctypes.cast(ptr, ctypes.c_void_p).value
        with memoryview(self) as view:
            ctypes.memmove(address or 0, self.data_ptr(), view.nbytes)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        import numpy as np

        array = np.asarray(memoryview(self))
        if dtype is not None and np.dtype(dtype) != array.dtype:
            return array.astype(dtype)
        return array.copy() if copy else array


class TensorGPU(_Tensor):
    """One sample, or a dense batch as a whole, on a GPU. Takes part in DLPack and the CUDA array interface; as_cpu() copies it to host memory."""

    __slots__ = ()

    def device_id(self) -> int:
        """Number of the GPU."""
        return self.__dlpack_device__()[1]

    def as_cpu(self) -> TensorCPU:
        """A copy in host memory; waits for it."""
        copy: TensorCPU = TensorCPU(self._batch.to_host(self._output, self._index), 0, min(self._index, 0))
        return copy

    def use_stream(self, stream: Any) -> None:
        """See TensorListGPU.use_stream."""
        self._batch.use_stream(stream_handle(stream))

    def copy_to_external(self, ptr: Any, cuda_stream: Any = None, *_: Any, **__: Any) -> None:
        """Copies the elements to host memory at an address (an int or a ctypes pointer). For memory of a GPU use DLPack."""
        self.as_cpu().copy_to_external(ptr)

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("the tensor lies on a GPU: NumPy reads tensor.as_cpu()")


_T = TypeVar("_T", TensorCPU, TensorGPU)


class _TensorList(Generic[_T]):
    """What lists of both kinds know of themselves."""

    __slots__ = ("_about", "_batch", "_output")
    _tensor: type[_T]
    _device: str

    def __init__(self, batch: _core.Batch, output: int, about: tuple[int, bool, int, tuple[int, ...], str, int] | None = None) -> None:
        self._batch = batch.only(output)  # others that it came with are not kept for it
        self._output = output
        self._about = about or batch.describe(output)

    def __len__(self) -> int:
        return self._about[0]

    def __getitem__(self, i: int) -> _T:
        index = i + len(self) if i < 0 else i
        if not 0 <= index < len(self):
            raise IndexError(f"sample {i} of {len(self)}")
        sample: _T = self._tensor(self._batch, self._output, index)
        return sample

    def __iter__(self) -> Iterator[_T]:
        return (self._tensor(self._batch, self._output, i) for i in range(len(self)))

    @property
    def dtype(self) -> DALIDataType:
        """Type of the elements."""
        return DALIDataType(self._about[2])

    def is_dense_tensor(self) -> bool:
        """Whether all samples have one shape and lie behind each other."""
        return self._about[1]

    def shape(self) -> list[tuple[int, ...]]:
        """Shapes of the samples."""
        return self._batch.shapes(self._output)

    def ndim(self) -> int:
        """Number of dimensions of a sample."""
        return len(self._about[3])

    def layout(self) -> str:
        """Names of a sample's axes ("HWC"), or ""."""
        return self._about[4]

    def as_tensor(self) -> _T:
        """The batch as one tensor, samples first; an error that names two samples where their shapes differ."""
        whole: _T = self._tensor(self._batch, self._output, -1)
        return whole

    def data_ptr(self) -> int:
        """Address of a dense batch."""
        return self.as_tensor().data_ptr()

    def copy_to_external(self, ptr: Any, *_: Any, **__: Any) -> None:
        """Copies a dense batch to an address in host memory."""
        self.as_tensor().copy_to_external(ptr)

    def source_info(self) -> list[str]:
        """The file or object of each sample."""
        return [self._batch.sample(i)[3] for i in range(len(self))]

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.as_tensor().__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0) if self._about[5] < 0 else (2, self._about[5])

    def __repr__(self) -> str:
        return (
            f'{type(self).__name__}(dtype={self.dtype!r}, layout="{self.layout()}", device="{self._device}", num_samples={len(self)}, '
            f"dense={self.is_dense_tensor()}, shape={self.shape()})"
        )


class TensorListCPU(_TensorList[TensorCPU]):
    """One output of a batch: as many tensors as there are samples, of equal shape (dense) or not."""

    __slots__ = ()
    _tensor = TensorCPU
    _device = "cpu"

    def as_reshaped_tensor(self, shape: list[int]) -> npt.NDArray[Any]:
        """The batch as one array of another shape."""
        return self.as_array().reshape(shape)

    def as_array(self) -> npt.NDArray[Any]:
        """The batch as a NumPy array over the same memory."""
        import numpy as np

        return np.asarray(self.as_tensor())

    def as_cpu(self) -> TensorListCPU:
        """Itself."""
        return self

    def at(self, i: int) -> npt.NDArray[Any]:
        """Sample i as a NumPy array over the same memory."""
        import numpy as np

        return np.asarray(self[i])

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self.as_tensor().__array__(dtype, copy)


class TensorListGPU(_TensorList[TensorGPU]):
    """One output of a batch on a GPU: as many tensors as there are samples, of equal shape (dense) or not."""

    __slots__ = ()
    _tensor = TensorGPU
    _device = "gpu"

    def device_id(self) -> int:
        """Number of the GPU."""
        return self._about[5]

    def as_cpu(self) -> TensorListCPU:
        """A copy in host memory, of unequal samples too; waits for it. The batch's memory is not held by it."""
        return TensorListCPU(self._batch.to_host(self._output), 0)

    def at(self, i: int) -> TensorGPU:
        """Sample i."""
        return self[i]

    def use_stream(self, stream: Any) -> None:
        """Says that a stream (torch's, CuPy's or a handle) reads the batch: its memory is not written again before that stream's work up to the death
        of the batch's last tensor has ended. DLPack says so of the stream that a tensor is made for; other streams that read it are told here."""
        self._batch.use_stream(stream_handle(stream))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.as_tensor().__cuda_array_interface__

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("the batch lies on a GPU: NumPy reads outputs.as_cpu()")


TensorList = TensorListCPU | TensorListGPU


def tensor_list(batch: _core.Batch, output: int) -> TensorList:
    """An output of a batch, of the kind that it is."""
    about = batch.describe(output)
    return TensorListCPU(batch, output, about) if about[5] < 0 else TensorListGPU(batch, output, about)


def stream_handle(stream: Any) -> int:
    """The number of a stream: torch's cuda_stream, CuPy's ptr, CUDA's __cuda_stream__, or a number. 0 is the legacy default stream."""
    if hasattr(stream, "__cuda_stream__"):
        version_and_handle = stream.__cuda_stream__
        return int((version_and_handle() if callable(version_and_handle) else version_and_handle)[1])
    for name in ("cuda_stream", "ptr", "value"):
        if hasattr(stream, name):
            return int(getattr(stream, name) or 0)
    return int(stream)
