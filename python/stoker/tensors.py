# SPDX-License-Identifier: Apache-2.0
"""What a pipeline delivers: a list of tensors for each output, over the pipeline's own memory.

The memory is reused when the list and everything made from it is gone: nothing is copied on the way to NumPy or torch, and nothing changes under
your hands. It is yours to write to.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from stoker import _core
from stoker.types import DALIDataType

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class TensorCPU(_core.Tensor):
    """One sample, or a dense batch as a whole. Takes part in DLPack, the buffer protocol and NumPy's array interface."""

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

    def as_cpu(self) -> TensorCPU:
        """Itself."""
        return self

    def source_info(self) -> str:
        """The file or object of the sample; "" where there is none or for a batch as a whole."""
        return "" if self._index < 0 else self._batch.sample(self._index)[3]

    def get_property(self, key: str) -> Any:
        """A property of the sample: "source_info", "layout", and ours "epoch", "position", "index", "padded", "replaced"."""
        if key == "layout":
            return self.layout()
        names = ("epoch", "position", "index", "source_info", "padded", "replaced")
        if key not in names or self._index < 0:
            return None
        return self._batch.sample(self._index)[names.index(key)]

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

    def __repr__(self) -> str:
        return f'TensorCPU(dtype={self.dtype!r}, layout="{self.layout()}", shape={self.shape()})'


class TensorListCPU:
    """One output of a batch: as many tensors as there are samples, of equal shape (dense) or not."""

    __slots__ = ("_about", "_batch", "_output")

    def __init__(self, batch: _core.Batch, output: int) -> None:
        self._batch = batch
        self._output = output
        self._about = batch.describe(output)

    def __len__(self) -> int:
        return self._about[0]

    def __getitem__(self, i: int) -> TensorCPU:
        index = i + len(self) if i < 0 else i
        if not 0 <= index < len(self):
            raise IndexError(f"sample {i} of {len(self)}")
        sample: TensorCPU = TensorCPU(self._batch, self._output, index)
        return sample

    def __iter__(self) -> Iterator[TensorCPU]:
        return (TensorCPU(self._batch, self._output, i) for i in range(len(self)))

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

    def as_tensor(self) -> TensorCPU:
        """The batch as one tensor, samples first; an error that names two samples where their shapes differ."""
        whole: TensorCPU = TensorCPU(self._batch, self._output, -1)
        return whole

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

    def data_ptr(self) -> int:
        """Address of a dense batch."""
        return self.as_tensor().data_ptr()

    def copy_to_external(self, ptr: Any, *_: Any, **__: Any) -> None:
        """Copies a dense batch to an address."""
        self.as_tensor().copy_to_external(ptr)

    def source_info(self) -> list[str]:
        """The file or object of each sample."""
        return [self._batch.sample(i)[3] for i in range(len(self))]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self.as_tensor().__array__(dtype, copy)

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.as_tensor().__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __repr__(self) -> str:
        return (
            f'TensorListCPU(dtype={self.dtype!r}, layout="{self.layout()}", device="cpu", num_samples={len(self)}, '
            f"dense={self.is_dense_tensor()}, shape={self.shape()})"
        )


class TensorGPU(TensorCPU):
    """A tensor on a GPU, for isinstance: not made yet."""

    __slots__ = ()


class TensorListGPU(TensorListCPU):
    """A list of tensors on a GPU, for isinstance: not made yet."""

    __slots__ = ()
