# SPDX-License-Identifier: Apache-2.0
"""The outputs of a pipeline: a list of tensors for each output. The tensors lie in the pipeline's memory, on the host or on a GPU.

NumPy, torch and CuPy read this memory without a copy. You may write to it, and it is reused only after the list and all objects made from it are gone. A
list keeps only the memory of its own output from being reused. Data on a GPU is complete when it is delivered. If a stream reads the data through DLPack,
the memory is not written again before that stream's work has ended, even if the tensor is freed earlier; for other streams call use_stream.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from stoker import _core
from stoker._arrays import as_buffer
from stoker._elsewhere import instead, no_attribute, no_member
from stoker._signatures import hint_for
from stoker._types import DALIDataType, to_numpy_type
from stoker.errors import ArgumentError, InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_PROPERTIES = ("epoch", "position", "index", "source_info", "padded", "replaced")


def _writable(value: Any) -> Any:
    """Returns a writable buffer over the value's memory, or over a copy if that memory is read-only or the tensor cannot use it."""
    buffer = as_buffer(value)
    return as_buffer(buffer, True) if memoryview(buffer).readonly else buffer


def _wrap(samples: Sequence[Any], layout: str | None) -> _core.Batch:
    """Makes a batch over samples in host memory, without a copy. Raises ArgumentError if the library cannot take them."""
    try:
        return _core.wrap(samples, layout or "")
    except (TypeError, ValueError) as e:
        raise ArgumentError(str(e)) from None


class _Tensor(_core.Tensor):
    __slots__ = ()

    @property
    def dtype(self) -> DALIDataType:
        """Returns the type of the elements."""
        return DALIDataType(self._dtype)

    def shape(self) -> list[int]:  # type: ignore[override]
        """Returns the extents, one for each axis."""
        return list(super().shape())

    def ndim(self) -> int:
        """Returns the number of dimensions."""
        return len(super().shape())

    def show(self, **options: Any) -> Any:
        """Returns a picture of an image, or of a batch of images. options: as for stoker.view."""
        from stoker._sheet import view

        return view(self, **options)

    def layout(self) -> str:
        """Returns the names of the axes ("HWC"), or ""."""
        return self._layout

    def source_info(self) -> str:
        """Returns the path or URI of the sample; "" if it has none, or if this tensor is a whole batch."""
        return "" if self._index < 0 else self._batch.sample(self._index)[3]

    def get_property(self, key: str) -> Any:
        """Returns a property of the sample: "source_info", "layout", and those that DALI lacks: "epoch", "position", "index", "padded", "replaced". None for
        other keys; if this tensor is a whole batch, None for all but "layout"."""
        if key == "layout":
            return self.layout()
        if key not in _PROPERTIES or self._index < 0:
            return None
        return self._batch.sample(self._index)[_PROPERTIES.index(key)]

    def __reduce__(self) -> Any:
        return self._batch.__reduce__()

    def __repr__(self) -> str:
        return f'{type(self).__name__}(dtype={self.dtype!r}, layout="{self.layout()}", shape={self.shape()})'


class TensorCPU(_Tensor):
    """One sample, or a whole dense batch, in host memory. Supports DLPack, the buffer protocol and NumPy's array interface.

    TensorCPU(array, layout=None) makes a tensor over the memory of an array, a torch tensor, or another object with a buffer or DLPack.
    """

    __slots__ = ()

    @classmethod
    def _over(
        cls, object: Any = None, layout: str | None = None, is_pinned: bool = False, *, b: Any = None
    ) -> tuple[_core.Batch, int, int]:
        """Returns (batch, output, index) for the constructor's arguments. The C module calls this if the first argument is not a Batch. Raises ArgumentError
        for a list, a tuple or a str. is_pinned has no effect."""
        object = b if object is None else object
        if isinstance(object, (list, tuple, str)):
            raise ArgumentError(f"TensorCPU takes an array or a tensor, not {type(object).__name__}: convert it with np.asarray")
        return _wrap([_writable(object)], layout), 0, 0

    def _use_memory(self, array: npt.NDArray[Any], layout: str) -> None:
        """Replaces this tensor's shape, type and memory by those of `array`, a view of its present memory."""
        self._become(TensorCPU(array, layout))

    def _array(self) -> npt.NDArray[Any]:
        """Returns the elements as an array that refers to a second tensor. If it referred to this tensor, _use_memory() would make a reference cycle."""
        import numpy as np

        return np.asarray(TensorCPU(self._batch, self._output, self._index))

    def squeeze(self, dim: int | None = None) -> bool:
        """Removes all axes of extent 1, or only axis `dim` if its extent is 1; dim may be negative. Returns whether an axis was removed. Raises
        InvalidArgumentError if dim is out of range."""
        shape = self.shape()
        if dim is not None and not -len(shape) <= dim < len(shape):
            raise InvalidArgumentError(f"squeeze: there is no axis {dim}: the tensor has {len(shape)} dimensions")
        axes = range(len(shape)) if dim is None else [dim % len(shape)]
        removed = [d for d in axes if shape[d] == 1]
        layout = "".join(letter for d, letter in enumerate(self.layout()) if d not in removed)
        if removed:
            self._use_memory(self._array().squeeze(tuple(removed)), layout)
        return bool(removed)

    def set_layout(self, layout: str | None) -> None:
        """Sets the names of the axes, such as "HWC"; None removes them."""
        self._use_memory(self._array(), layout or "")

    def reinterpret(self, dtype: DALIDataType) -> None:
        """Reads the same bytes as elements of another type, without a copy. Raises InvalidArgumentError if the sizes of the types differ."""
        array, kind = self._array(), to_numpy_type(dtype)
        if array.dtype.itemsize != kind().itemsize:
            raise InvalidArgumentError(f"reinterpret: {self.dtype!r} and {DALIDataType(dtype)!r} differ in size")
        self._use_memory(array.view(kind), self.layout())

    def as_cpu(self) -> TensorCPU:
        """Returns itself."""
        return self

    def copy_to_external(self, ptr: Any, *_: Any, **__: Any) -> None:
        """Copies all elements to an address in host memory (an int or a ctypes pointer)."""
        import ctypes

        with memoryview(self) as view:
            if view.nbytes:
                ctypes.memmove(_address(ptr), self.data_ptr(), view.nbytes)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        import numpy as np

        array = np.asarray(memoryview(self))
        if dtype is not None and np.dtype(dtype) != array.dtype:
            return array.astype(dtype)
        return array.copy() if copy else array


def _address(ptr: Any) -> int:
    """Returns the address that an int or a ctypes pointer holds. Raises InvalidArgumentError for a null pointer."""
    import ctypes

    address = ptr if isinstance(ptr, int) else ctypes.cast(ptr, ctypes.c_void_p).value
    if not address:
        raise InvalidArgumentError("copy_to_external: the address is a null pointer")
    return int(address)


class TensorGPU(_Tensor):
    """One sample, or a whole dense batch, on a GPU. Supports DLPack and the CUDA array interface; as_cpu() copies it to host memory."""

    __slots__ = ()

    @classmethod
    def _over(cls, *_: Any, **__: Any) -> NoReturn:
        raise UnsupportedError("TensorGPU is made only by pipelines: hand torch's or CuPy's tensors to external_source as they are")

    def device_id(self) -> int:
        """Returns the number of the GPU."""
        return self.__dlpack_device__()[1]

    def as_cpu(self) -> TensorCPU:
        """Copies the tensor to host memory, and waits until the copy is complete."""
        copy: TensorCPU = TensorCPU(self._batch.to_host(self._output, self._index), 0, min(self._index, 0))
        return copy

    def use_stream(self, stream: Any) -> None:
        """Notes that a stream reads the tensor, so that its memory is not written again before the stream's work has ended. See TensorListGPU.use_stream."""
        self._batch.use_stream(stream_handle(stream))

    def copy_to_external(self, ptr: Any, cuda_stream: Any = None, *_: Any, **__: Any) -> None:
        """Copies the elements to an address in host memory (an int or a ctypes pointer). To copy to GPU memory, use DLPack."""
        if 0 in self.shape():
            return
        try:
            self._batch.copy(self._output, self._index, _address(ptr))
        except InvalidArgumentError as e:
            raise InvalidArgumentError(
                f"copy_to_external: {e}; for a copy on the GPU hand the tensor over by DLPack, as in x.copy_(torch.from_dlpack(tensor)), or call "
                "stoker.plugin.pytorch.feed_ndarray(tensor, x)"
            ) from None

    def __getattr__(self, name: str) -> NoReturn:
        if name == "__array_interface__":  # the C type has no such attribute on a GPU, so Python calls this
            raise AttributeError("a tensor on a GPU has no __array_interface__: use .as_cpu()")
        raise no_member("stoker.tensors.TensorGPU", name)

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("the tensor lies on a GPU: NumPy reads tensor.as_cpu()")


_T = TypeVar("_T", TensorCPU, TensorGPU)


class _TensorList(Generic[_T]):
    # _about is the result of Batch.describe: (count, dense, dtype, shape of a sample, layout, device_id). An extent that differs between samples is -1, and
    # so is device_id for host memory.
    __slots__ = ("_about", "_batch", "_output")
    _tensor: type[_T]
    _device: str

    def __init__(self, batch: _core.Batch, output: int, about: tuple[int, bool, int, tuple[int, ...], str, int] | None = None) -> None:
        self._batch = batch.only(output)  # a batch with only this output, so that the memory of other outputs can be reused
        self._output = output
        self._about = about or batch.describe(output)

    def __len__(self) -> int:
        return self._about[0]

    def __getitem__(self, i: int) -> _T:
        try:
            index = i + len(self) if i < 0 else i
        except TypeError:
            raise self._no_number(i) from None
        if not 0 <= index < len(self):
            raise IndexError(f"there is no sample {i}: the batch has {len(self)}")
        sample: _T = self._tensor(self._batch, self._output, index)
        return sample

    def _no_number(self, i: Any) -> TypeError:
        if not isinstance(i, slice):
            return TypeError(f"a batch gives its samples by number, not by {type(i).__name__}")
        shown = f"{'' if i.start is None else i.start}:{'' if i.stop is None else i.stop}" + ("" if i.step is None else f":{i.step}")
        array = "as_array()" if self._device == "cpu" else "as_cpu().as_array()"
        return TypeError(
            f"a batch gives one sample at a time, not [{shown}]: list(outputs)[{shown}] is a list of samples; for samples of one shape, "
            f"outputs.{array}[{shown}] is an array"
        )

    def __iter__(self) -> Iterator[_T]:
        return (self._tensor(self._batch, self._output, i) for i in range(len(self)))

    def show(self, images: int = 16, **options: Any) -> Any:
        """Returns a contact sheet of the first images. options: as for stoker.view."""
        from stoker._sheet import view

        return view(self, images, **options)

    @property
    def dtype(self) -> DALIDataType:
        """Returns the type of the elements."""
        return DALIDataType(self._about[2])

    def is_dense_tensor(self) -> bool:
        """Returns whether all samples have the same shape and are adjacent in memory, in order."""
        return self._about[1]

    def shape(self) -> list[tuple[int, ...]]:
        """Returns the shape of each sample."""
        return self._batch.shapes(self._output)

    def ndim(self) -> int:
        """Returns the number of dimensions of a sample."""
        return len(self._about[3])

    def layout(self) -> str:
        """Returns the names of a sample's axes ("HWC"), or ""."""
        return self._about[4]

    def as_tensor(self) -> _T:
        """Returns the batch as one tensor whose first axis counts the samples. If their shapes differ, raises an error that names two samples."""
        whole: _T = self._tensor(self._batch, self._output, -1)
        return whole

    def data_ptr(self) -> int:
        """Returns the address of the first element. Raises an error if the batch is not dense."""
        return self.as_tensor().data_ptr()

    def copy_to_external(self, ptr: Any, *_: Any, **__: Any) -> None:
        """Copies all samples to an address in host memory (an int or a ctypes pointer). Raises an error if the batch is not dense."""
        self.as_tensor().copy_to_external(ptr)

    def source_info(self) -> list[str]:
        """Returns the path or URI of each sample."""
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
    """One output of a batch in host memory: one tensor for each sample. The output is dense if all samples have the same shape.

    TensorListCPU(array, layout=None) uses the memory of an array whose first axis counts the samples. TensorListCPU(list, layout=None) copies tensors or
    arrays, and the copy is dense if their shapes are equal; with contiguous=False it uses their memory.
    """

    __slots__ = ()
    _tensor = TensorCPU
    _device = "cpu"

    def __init__(
        self,
        batch: Any = None,
        output: Any = None,
        about: Any = None,
        *,
        layout: str | None = None,
        contiguous: bool = True,
        is_pinned: bool = False,
        **named: Any,
    ) -> None:
        if not isinstance(batch, _core.Batch):
            for name in ("object", "b", "tl", "list_of_tensors"):  # DALI's names for the first argument
                batch = named.pop(name, batch)
            if named:
                hint = hint_for(next(iter(named)), ("batch", "output", "layout", "contiguous", "is_pinned"))
                raise ArgumentError(f"TensorListCPU: there is no argument '{next(iter(named))}'; {hint}")
            axes = layout if layout is not None else output if isinstance(output, str) else None
            batch, output, about = _batch_over(batch, axes, contiguous), 0, None
        super().__init__(batch, output, about)

    @classmethod
    def broadcast(cls, tensor: Any, num_samples: int) -> TensorListCPU:
        """Returns a list that has the same tensor num_samples times."""
        return cls([tensor] * num_samples, getattr(tensor, "_layout", None))

    @classmethod
    def from_dlpack_list(cls, list_of_objects: Sequence[Any], layout: str | None = None, contiguous: bool = True) -> TensorListCPU:
        """Makes a TensorListCPU from objects that support DLPack. The arguments are those of the constructor."""
        return cls(list(list_of_objects), layout, contiguous=contiguous)

    def reset(self) -> None:
        """Releases the memory. The list is empty afterwards."""
        self._use_memory([], "")

    def _use_memory(self, samples: Sequence[Any], layout: str) -> None:
        TensorListCPU.__init__(self, _wrap(samples, layout), 0)

    def _arrays(self) -> list[npt.NDArray[Any]]:
        import numpy as np

        return [np.asarray(TensorCPU(self._batch, self._output, i)) for i in range(len(self))]

    def set_layout(self, layout: str | None) -> None:
        """Sets the names of the axes of each sample, such as "HWC"."""
        self._use_memory(self._arrays(), layout or "")

    def reinterpret(self, dtype: DALIDataType) -> None:
        """Reads the same bytes as elements of another type. Raises InvalidArgumentError if the sizes of the types differ."""
        if self.dtype != dtype and len(self) and to_numpy_type(self.dtype)().itemsize != to_numpy_type(dtype)().itemsize:
            raise InvalidArgumentError(f"reinterpret: {self.dtype!r} and {DALIDataType(dtype)!r} differ in size")
        self._use_memory([a.view(to_numpy_type(dtype)) for a in self._arrays()], self.layout())

    def as_reshaped_tensor(self, shape: Sequence[int]) -> TensorCPU:
        """Returns the batch as one tensor of another shape, over the same memory, or over a copy if the batch is not dense. Raises InvalidArgumentError
        if the numbers of elements differ."""
        import numpy as np

        whole = self.as_array() if self.is_dense_tensor() else np.concatenate([a.ravel() for a in self._arrays()] or [np.empty(0)])
        if whole.size != math.prod(shape):
            raise InvalidArgumentError(f"as_reshaped_tensor: {whole.size} elements do not make the shape {list(shape)}")
        tensor: TensorCPU = TensorCPU(whole.reshape(shape))
        return tensor

    def as_array(self) -> npt.NDArray[Any]:
        """Returns the batch as a NumPy array over the same memory. Raises an error if the batch is not dense."""
        import numpy as np

        return np.asarray(self.as_tensor())

    def as_cpu(self) -> TensorListCPU:
        """Returns itself."""
        return self

    def at(self, i: int) -> npt.NDArray[Any]:
        """Returns sample i as a NumPy array over the same memory."""
        import numpy as np

        return np.asarray(self[i])

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self.as_tensor().__array__(dtype, copy)


def _batch_over(given: Any, layout: str | None, contiguous: bool) -> _core.Batch:
    if isinstance(given, TensorListCPU):
        return _wrap(given._arrays(), given.layout() if layout is None else layout)
    if isinstance(given, (list, tuple)):
        layouts = {getattr(sample, "_layout", "") for sample in given}
        if layout is None and len(layouts) > 1:
            raise ArgumentError(f"TensorListCPU: tensors of one layout are needed, not of {', '.join(map(repr, sorted(layouts)))}")
        layout = next(iter(layouts), None) if layout is None else layout
        samples = [_writable(sample) for sample in given]
        return _wrap(_joined(samples) if contiguous else samples, layout)
    whole = _writable(given)
    if memoryview(whole).ndim == 0:
        raise ArgumentError("TensorListCPU takes an array whose first axis counts the samples, or a list, not one number")
    return _wrap([whole[i : i + 1].reshape(whole.shape[1:]) for i in range(len(whole))], layout)


def _joined(samples: Sequence[Any]) -> Sequence[Any]:
    """Returns a copy of each sample. If types and shapes are equal, the copies follow each other in memory."""
    import numpy as np

    arrays = [np.asarray(s) for s in samples]
    if any(a.shape != arrays[0].shape or a.dtype != arrays[0].dtype for a in arrays):
        return [a.copy() for a in arrays]
    whole = np.stack(arrays) if arrays else np.empty((0,))
    return [whole[i : i + 1].reshape(whole.shape[1:]) for i in range(len(arrays))]


class TensorListGPU(_TensorList[TensorGPU]):
    """One output of a batch on a GPU: one tensor for each sample. The output is dense if all samples have the same shape."""

    __slots__ = ()
    _tensor = TensorGPU
    _device = "gpu"

    def device_id(self) -> int:
        """Returns the number of the GPU."""
        return self._about[5]

    def as_cpu(self) -> TensorListCPU:
        """Copies the batch to host memory, and waits until the copy is complete. Samples may differ in shape."""
        return TensorListCPU(self._batch.to_host(self._output), 0)

    def at(self, i: int) -> TensorGPU:
        """Returns sample i."""
        return self[i]

    def use_stream(self, stream: Any) -> None:
        """Notes that a stream (torch's, CuPy's or a handle) reads the batch. After the last tensor of the batch is gone, the batch's memory is reused only when
        the work that the stream has at that moment is done. DLPack notes the stream for which it exports a tensor; call this method for other streams."""
        self._batch.use_stream(stream_handle(stream))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.as_tensor().__cuda_array_interface__

    def __getattr__(self, name: str) -> NoReturn:
        missing = no_member("stoker.tensors.TensorListGPU", name)
        if name.startswith("_") or not hasattr(TensorListCPU, name) or instead(f"stoker.tensors.TensorListGPU.{name}"):
            raise missing
        raise AttributeError(
            f"{missing}: outputs.as_cpu().{name} is that of a copy in host memory; torch.from_dlpack(outputs.as_tensor()) is a tensor on the GPU, without "
            "a copy"
        )

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("the batch lies on a GPU: NumPy reads outputs.as_cpu()")


TensorList = TensorListCPU | TensorListGPU


def tensor_list(batch: _core.Batch, output: int) -> TensorList:
    """Makes the tensor list of an output: a TensorListCPU or a TensorListGPU."""
    about = batch.describe(output)
    return TensorListCPU(batch, output, about) if about[5] < 0 else TensorListGPU(batch, output, about)


def stream_handle(stream: Any) -> int:
    """Returns the handle of a stream as a number. stream: a number, or an object with __cuda_stream__ (CUDA), cuda_stream (torch), ptr (CuPy) or value
    (ctypes). 0 is the legacy default stream."""
    if hasattr(stream, "__cuda_stream__"):
        version_and_handle = stream.__cuda_stream__
        return int((version_and_handle() if callable(version_and_handle) else version_and_handle)[1])
    for name in ("cuda_stream", "ptr", "value"):
        if hasattr(stream, name):
            return int(getattr(stream, name) or 0)
    return int(stream)


def __getattr__(name: str) -> NoReturn:
    raise no_attribute(__name__, name)
