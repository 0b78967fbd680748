# SPDX-License-Identifier: Apache-2.0
"""imread and imdecode, which return one image as an array."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from stoker import _core, _needs
from stoker._files import path_of
from stoker._signatures import suggests
from stoker._types import DALIDataType, DALIImageType, to_dtype
from stoker.errors import ArgumentError, ShapeError

if TYPE_CHECKING:
    import numpy.typing as npt


class _Decoders(threading.local):
    """This thread's decoder, which is reused for the next image. `free` is None while the decoder works, so that a signal handler that calls imread meanwhile
    gets another decoder."""

    free: _core.ImageDecoder | None = None


_decoders = _Decoders()
_DTYPES = {
    int(DALIDataType.UINT8): "uint8",
    int(DALIDataType.UINT16): "uint16",
    int(DALIDataType.INT16): "int16",
    int(DALIDataType.FLOAT): "float32",
}
_KEEPS_CHANNELS, _KEEPS_DTYPE = 1, 2
_TYPES = {member.name.upper(): int(member) for member in DALIImageType}


def _memory(out: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Returns the caller's array or tensor as memory for an image. Raises an error unless it has this shape and dtype and is C-contiguous in host memory."""
    array = out.numpy() if type(out).__module__.partition(".")[0] == "torch" else out
    if str(getattr(array, "dtype", None)) != dtype or not hasattr(array, "flags"):
        raise ArgumentError(
            f"out is an array or a tensor of {dtype} in host memory, not {type(out).__name__} of {getattr(out, 'dtype', 'another type')}"
        )
    if tuple(array.shape) != shape or not array.flags.c_contiguous:
        raise ShapeError(f"out has the shape {tuple(array.shape)}; it must be C-contiguous with shape {shape}")
    return array


def _number(dtype: Any) -> int:
    """Returns the library's number for a type of pixels; -1 for "stored", the file's own type. Raises ArgumentError for other types."""
    if isinstance(dtype, str) and dtype == "stored":
        return -1
    try:
        number = int(to_dtype(dtype))
    except (TypeError, ValueError):
        number = -2
    if number not in _DTYPES:
        raise ArgumentError(f"dtype is {', '.join(_DTYPES.values())}, or 'stored' for the file's own, not {dtype!r}")
    return number


def _decode(who: str, path: Any, data: Any, out: Any, output_type: Any, dtype: Any, adjust_orientation: bool, strict: bool) -> Any:
    if out is None:
        _needs.numpy(who)
    keeps = (_KEEPS_CHANNELS if output_type is None else 0) | (_KEEPS_DTYPE if dtype is None else 0)
    output_type = DALIImageType.RGB if output_type is None else output_type
    kind = _TYPES.get(output_type.upper()) if isinstance(output_type, str) else int(output_type)
    if kind is None:
        raise ArgumentError(f"output_type is one of {', '.join(m.name for m in DALIImageType)}, not {output_type!r}")
    number = int(DALIDataType.UINT8) if dtype is None else _number(dtype)
    decoder, _decoders.free = _decoders.free or _core.ImageDecoder(), None
    try:
        *extent, made_of = decoder.open(path, data, kind, number, keeps, not adjust_orientation, strict)
        shape = tuple(extent)
        if out is None:
            import numpy as np

            made = np.empty(shape, _DTYPES[made_of])
            decoder.read(made)
            return made
        decoder.read(_memory(out, shape, _DTYPES[made_of]))
        return out
    finally:
        _decoders.free = decoder


@suggests
def imread(
    path: str | os.PathLike[str],
    out: Any = None,
    *,
    output_type: DALIImageType | str | None = None,
    dtype: Any = None,
    adjust_orientation: bool = True,
    strict: bool = True,
) -> npt.NDArray[Any]:
    """Returns the image in a file as an array (height, width, channels).

    out: an array or a torch tensor of the image's shape and type. The image is decoded into `out`, which is then returned.
    output_type: types.RGB, BGR, GRAY, YCbCr, or ANY_DATA for the channels of the file; also as a str. The default is RGB, but for a file that is not a
    picture (a TIFF of floats, of signed numbers, or of bands that are not colours) it is ANY_DATA.
    dtype: uint8, uint16, int16 or float32, by name or as a type of NumPy or torch. Values are scaled to its range, floats to 0..1. "stored": the type and the
    values of the file. The default is uint8, but "stored" for a file that is not a picture.
    adjust_orientation: whether the image is turned and mirrored as its EXIF data says.
    strict: a truncated file, and damage about which libjpeg-turbo only warns, raise an error. With strict=False such a file is decoded as far as possible;
    missing rows of a JPEG are gray.

    The format is recognised by the contents of the file, not by its name. Decoding releases the GIL, so that several threads can decode at once.
    """
    return _decode("imread", path_of(path, "imdecode"), None, out, output_type, dtype, adjust_orientation, strict)


@suggests
def imdecode(
    data: Any,
    out: Any = None,
    *,
    output_type: DALIImageType | str | None = None,
    dtype: Any = None,
    adjust_orientation: bool = True,
    strict: bool = True,
) -> npt.NDArray[Any]:
    """Decodes an image from the bytes of a file: bytes, or an array or tensor of uint8. Returns the same array as imread, which describes the arguments."""
    if type(data).__module__.partition(".")[0] == "torch":
        data = data.numpy()
    if isinstance(data, (str, os.PathLike)):
        raise TypeError("imdecode takes the bytes of a file, not a path: imread(path) reads a file")
    kind, dims = getattr(data, "dtype", None), getattr(data, "ndim", 1)
    if kind is not None and (kind.itemsize != 1 or dims > 2):  # cv2.imencode gives two dims
        raise ArgumentError(
            f"imdecode takes the bytes of a file, as an array of uint8 of one dim; an array of {kind} of {dims} dims holds pixels already"
        )
    return _decode("imdecode", None, data, out, output_type, dtype, adjust_orientation, strict)
