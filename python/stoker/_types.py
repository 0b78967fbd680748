# SPDX-License-Identifier: Apache-2.0
"""Types of elements and images, and the arguments of callable sources: the part of stoker.types that does not import the rest of the package."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

CPU_ONLY_DEVICE_ID = -99999


class DALIDataType(IntEnum):
    """Type of an element. STRING is only for fields of stoker.structured, whose texts are bytes (UINT8) in a pipeline. DATA_TYPE, IMAGE_TYPE and INTERP_TYPE
    are the types of constants that random.choice draws from a list; cast converts them to numbers."""

    STRING = -2
    NO_TYPE = -1
    UINT8 = 0
    UINT16 = 1
    UINT32 = 2
    UINT64 = 3
    INT8 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    FLOAT16 = 8
    FLOAT = 9
    FLOAT64 = 10
    BOOL = 11
    BFLOAT16 = 12
    IMAGE_TYPE = 20
    DATA_TYPE = 21
    INTERP_TYPE = 22

    def __repr__(self) -> str:
        return f"DALIDataType.{self.name}"

    __str__ = __repr__


class DALIImageType(IntEnum):
    """Kinds and orders of an image's channels."""

    RGB = 0
    BGR = 1
    GRAY = 2
    YCbCr = 3
    ANY_DATA = 4

    def __repr__(self) -> str:
        return f"DALIImageType.{self.name}"

    __str__ = __repr__


class DALIInterpType(IntEnum):
    """Methods of interpolation for resizing and warping images."""

    INTERP_NN = 0
    INTERP_LINEAR = 1
    INTERP_CUBIC = 2
    INTERP_LANCZOS3 = 3
    INTERP_TRIANGULAR = 4
    INTERP_GAUSSIAN = 5

    def __repr__(self) -> str:
        return f"DALIInterpType.{self.name}"

    __str__ = __repr__


class PipelineAPIType(Enum):
    """Ways to take batches from a pipeline of DALI. Has no effect; exists for programs that were written for DALI."""

    BASIC = 0
    ITERATOR = 1
    SCHEDULED = 2


STRING = DALIDataType.STRING
NO_TYPE = DALIDataType.NO_TYPE
UINT8 = DALIDataType.UINT8
UINT16 = DALIDataType.UINT16
UINT32 = DALIDataType.UINT32
UINT64 = DALIDataType.UINT64
INT8 = DALIDataType.INT8
INT16 = DALIDataType.INT16
INT32 = DALIDataType.INT32
INT64 = DALIDataType.INT64
FLOAT16 = DALIDataType.FLOAT16
FLOAT = DALIDataType.FLOAT
FLOAT64 = DALIDataType.FLOAT64
BOOL = DALIDataType.BOOL
BFLOAT16 = DALIDataType.BFLOAT16
IMAGE_TYPE = DALIDataType.IMAGE_TYPE
DATA_TYPE = DALIDataType.DATA_TYPE
INTERP_TYPE = DALIDataType.INTERP_TYPE

RGB = DALIImageType.RGB
BGR = DALIImageType.BGR
GRAY = DALIImageType.GRAY
YCbCr = DALIImageType.YCbCr
ANY_DATA = DALIImageType.ANY_DATA

INTERP_NN = DALIInterpType.INTERP_NN
INTERP_LINEAR = DALIInterpType.INTERP_LINEAR
INTERP_CUBIC = DALIInterpType.INTERP_CUBIC
INTERP_LANCZOS3 = DALIInterpType.INTERP_LANCZOS3
INTERP_TRIANGULAR = DALIInterpType.INTERP_TRIANGULAR
INTERP_GAUSSIAN = DALIInterpType.INTERP_GAUSSIAN

NHWC, NCHW, NFHWC, NFCHW = "HWC", "CHW", "FHWC", "FCHW"

# Names of types in NumPy and torch, and other common ones.
_DTYPE_NAMES = {
    "uint8": UINT8,
    "uint16": UINT16,
    "uint32": UINT32,
    "uint64": UINT64,
    "int8": INT8,
    "int16": INT16,
    "short": INT16,
    "int32": INT32,
    "int64": INT64,
    "long": INT64,
    "float16": FLOAT16,
    "half": FLOAT16,
    "float": FLOAT,
    "float32": FLOAT,
    "float64": FLOAT64,
    "double": FLOAT64,
    "bool": BOOL,
    "bool_": BOOL,
    "bfloat16": BFLOAT16,
}


@dataclass(frozen=True)
class SampleInfo:
    """Identifies the sample that a callable source has to return."""

    idx_in_epoch: int
    idx_in_batch: int
    iteration: int
    epoch_idx: int


@dataclass(frozen=True)
class BatchInfo:
    """Identifies the batch that a callable source with batch_info=True has to return."""

    iteration: int
    epoch_idx: int


class ScalarConstant:
    """A number with a type, for arithmetic with DataNodes: types.Constant(1).float32()."""

    def __init__(self, value: bool | int | float, dtype: DALIDataType | None = None) -> None:
        self.value = value
        if dtype is None:
            dtype = BOOL if isinstance(value, bool) else INT32 if isinstance(value, int) else FLOAT
        self.dtype = DALIDataType(dtype)

    def _as(self, dtype: DALIDataType) -> ScalarConstant:
        return ScalarConstant(self.value, dtype)

    def bool(self) -> ScalarConstant:
        return self._as(BOOL)

    def uint8(self) -> ScalarConstant:
        return self._as(UINT8)

    def uint16(self) -> ScalarConstant:
        return self._as(UINT16)

    def uint32(self) -> ScalarConstant:
        return self._as(UINT32)

    def uint64(self) -> ScalarConstant:
        return self._as(UINT64)

    def int8(self) -> ScalarConstant:
        return self._as(INT8)

    def int16(self) -> ScalarConstant:
        return self._as(INT16)

    def int32(self) -> ScalarConstant:
        return self._as(INT32)

    def int64(self) -> ScalarConstant:
        return self._as(INT64)

    def float16(self) -> ScalarConstant:
        return self._as(FLOAT16)

    def float32(self) -> ScalarConstant:
        return self._as(FLOAT)

    def float64(self) -> ScalarConstant:
        return self._as(FLOAT64)

    def __float__(self) -> float:
        return float(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __repr__(self) -> str:
        return f"{self.value}:{self.dtype!r}"


NUMBERS = tuple(t for t in DALIDataType if t not in (STRING, NO_TYPE, IMAGE_TYPE, DATA_TYPE, INTERP_TYPE))


def to_dtype(value: Any) -> DALIDataType:
    """Converts types.X, a torch or NumPy dtype, a Python type or a name to a type of the library. Raises ValueError for an unknown number, and
    TypeError for other values."""
    if isinstance(value, int) and not isinstance(value, bool):
        return DALIDataType(value)
    name = value if isinstance(value, str) else getattr(value, "name", None) or getattr(value, "__name__", None) or str(value)
    name = {"int": "int32"}.get(name, name) if isinstance(value, type) else name
    found = _DTYPE_NAMES.get(str(name).removeprefix("torch.").lower())
    if found is None:
        raise TypeError(f"{value!r} is not a type of elements: use types.FLOAT, torch.float32, np.float32 or 'float32'")
    return found


def dtype_name(dtype: int) -> str:
    """Returns the name that NumPy and torch give to a type, such as "float32"."""
    return {FLOAT: "float32"}.get(DALIDataType(dtype), DALIDataType(dtype).name.lower())


def to_numpy_type(dali_type: DALIDataType) -> type[np.generic]:
    """Returns NumPy's type for a type of the library. Raises TypeError if NumPy has none."""
    import numpy as np

    if dali_type not in NUMBERS or dali_type == BFLOAT16:
        raise TypeError(f"NumPy has no type for {DALIDataType(dali_type)!r}")
    name = dtype_name(dali_type)
    return getattr(np, "bool_" if name == "bool" else name)
